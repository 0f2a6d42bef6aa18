"""Engines: many runs, on the processes of this machine."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engram.experiments.records import Record
from engram.experiments.run import RECORDS, run_or_fail
from engram.experiments.spec import Spec, from_json
from engram.learning.train import Progress
from engram.methods import load_file, loaded_files


@dataclass(frozen=True)
class Job:
    """A run, the preset that it is, and its part in a search."""

    spec: Spec
    preset: str | None = None
    search: dict[str, Any] | None = None
    """What the record says of it; see `Record.search`."""


def workers_for(jobs: int, asked: int | None) -> int:
    """As many processes as asked for, or as there are cores; never more than runs."""
    return max(1, min(jobs, asked or os.cpu_count() or 1))


def run_jobs(
    jobs: Sequence[Job],
    out: Path,
    *,
    file: str = RECORDS,
    workers: int | None = None,
    watch: Callable[[Spec], Callable[[Progress], None]] = lambda _: lambda _: None,
) -> Iterator[tuple[Job, Record]]:
    """Runs the jobs and gives each with its record as it ends; what is recorded already comes at once.

    One job, or one worker, runs in this process and can be watched; more run in processes of their own, each started
    once and fed with runs.
    """
    count = workers_for(len(jobs), workers)
    if count == 1:
        for job in jobs:
            yield (
                job,
                run_or_fail(job.spec, out, file=file, preset=job.preset, search=job.search, watch=watch(job.spec)),
            )
        return
    context = multiprocessing.get_context("spawn")  # forked threads of torch may hang
    with ProcessPoolExecutor(count, mp_context=context, initializer=prepare, initargs=(loaded_files(),)) as pool:
        futures = {pool.submit(work, job.spec.to_json(), str(out), file, job.preset, job.search): job for job in jobs}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def prepare(method_files: list[str]) -> None:
    """Makes a worker know the methods that this process has loaded."""
    for path in method_files:
        load_file(Path(path))


def work(spec: dict[str, Any], out: str, file: str, preset: str | None, search: dict[str, Any] | None) -> Record:
    """One run in a worker."""
    return run_or_fail(from_json(spec), Path(out), file=file, preset=preset, search=search)
