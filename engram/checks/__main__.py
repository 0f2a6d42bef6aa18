"""Prints the names of everything that can be checked, one per line: `python -m engram.checks`."""

from engram.core.registry import METHODS, NETS, SCENARIOS

print("\n".join([*METHODS, *NETS, *SCENARIOS]))
