"""Limits that the system sets to a process."""

from __future__ import annotations


def allow_open_files(wanted: int) -> int:
    """Let this process open so many files at a time if it may; how many it can open now."""
    try:
        import resource  # POSIX only
    except ImportError:
        return wanted
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY:
        return wanted
    reachable = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    if soft < reachable:
        resource.setrlimit(resource.RLIMIT_NOFILE, (reachable, hard))
    return max(soft, reachable)
