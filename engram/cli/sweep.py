"""Sweeps on the command line: where runs are computed, what is seen of them meanwhile, how they are stopped."""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from engram.cli import StoppedError, WrongCallError
from engram.cli.options import EngineOptions
from engram.cli.screen import ERR
from engram.core.messages import duration
from engram.engines.driver import At, Engine, EngineError, Job, run_jobs
from engram.engines.local import Local
from engram.runs.records import Record, UnwritableError
from engram.runs.run import keep_freed_memory
from engram.runs.store import RECORDS, Store


def engine_of(options: EngineOptions, threads: int = 1) -> Engine:
    """The engine that the flags name, for runs of so many threads; to be closed."""
    if options.workers is not None and options.workers < 1:
        raise ValueError(f"workers {options.workers} is out of range; give 1 or more")
    if options.address is not None and options.engine != "ray":
        raise ValueError(f"address {options.address} is a Ray cluster's; give --engine ray with it")
    if options.stall_timeout is not None and not options.stall_timeout > 0:
        raise ValueError(f"stall_timeout {options.stall_timeout:g} is out of range; give seconds, more than 0")
    if options.engine == "local":
        keep_freed_memory()  # a single run is computed in this process
        return Local(options.workers, threads, options.stall_timeout)
    from engram.engines.ray import OnRay

    return OnRay(options.address, options.workers, options.gpu_share, stall_timeout=options.stall_timeout)


def sweep(
    jobs: Sequence[Job],
    out: Path,
    engine: Engine,
    each: Callable[[Job, Record], str | None],
    *,
    file: str = RECORDS,
    watch: Callable[[At], None] = lambda _: None,
) -> list[tuple[Job, Record]]:
    """Runs the jobs, shows how far they are, and calls `each` with what ends; what that returns is shown as a line."""
    found: list[tuple[Job, Record]] = []
    display = Display(jobs)

    def seen(event: At) -> None:
        display.at(event)
        watch(event)

    try:
        with display:
            for job, record in run_jobs(jobs, out, file=file, engine=engine, watch=seen, say=display.say):
                found.append((job, record))
                display.ended(job, record)
                if text := each(job, record):
                    ERR.print(f"{len(found)}/{len(jobs)}  {text}{display.rest()}")
    except (KeyboardInterrupt, EngineError, UnwritableError) as error:
        recorded = Store(out, lambda _: None).finished()
        print(
            f"\n{sum(job.key in recorded for job in jobs)} of {len(jobs)} runs are recorded in {out}", file=sys.stderr
        )
        if isinstance(error, KeyboardInterrupt):
            raise
        nothing_ran = isinstance(error, EngineError) and all(record.reused for _, record in found)
        raise (WrongCallError if nothing_ran else StoppedError)(str(error)) from error
    return found


class Display:
    """How far a sweep is: live on a terminal; elsewhere a line per task of a single run, or a line per run."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.cells = {job: (job.spec.method_name, job.spec.scenario_name) for job in jobs}
        self.records: dict[Job, Record] = {}
        self.running: dict[Job, At] = {}
        self.start = time.monotonic()
        self.live = Live(
            console=ERR,
            get_renderable=self.render,
            refresh_per_second=2,
            transient=True,
            redirect_stdout=sys.stdout.isatty(),  # records that go to a file stay out of this
        )

    def __enter__(self) -> Display:
        if ERR.is_terminal:
            self.live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.live.stop()

    def say(self, text: str) -> None:
        ERR.print(escape(text))

    def at(self, event: At) -> None:
        self.running[event.job] = event
        at = event.progress
        if at and at.accuracy and len(self.cells) == 1 and not ERR.is_terminal:
            seen = " ".join(f"{a:.1f}" for a in at.accuracy[-20:])  # what fits into a line
            ERR.print(f"seed {event.job.spec.seed}  task {at.task}/{at.tasks}  accuracy {seen}")

    def ended(self, job: Job, record: Record) -> None:
        self.records[job] = record
        self.running.pop(job, None)

    def rest(self) -> str:
        """What a line says of the others."""
        if len(self.records) == len(self.cells) or ERR.is_terminal:
            return ""
        return f"  ({', '.join(self.state())})"

    def state(self) -> list[str]:
        wrong = sum(record.status != "done" for record in self.records.values())
        left = self.seconds_left()
        return [
            f"{len(self.running)} running" if self.running or self.records else "starting",
            *([f"{wrong} failed"] if wrong else []),
            *([f"about {duration(left)} left"] if left is not None else []),
        ]

    def seconds_left(self) -> float | None:
        """By what was computed so far; None if that is next to nothing."""
        computed = sum(not record.reused for record in self.records.values())
        at = [event.progress for event in self.running.values() if event.progress]
        done = computed + sum(p.step / max(p.steps, p.step, 1) for p in at)
        left = len(self.cells) - len(self.records) - (done - computed)
        return (time.monotonic() - self.start) * left / done if done > 0.05 else None

    def render(self) -> RenderableType:
        done = f"{len(self.records)} of {len(self.cells)} runs done"
        lines = [Text(", ".join([done, *self.state()]), style="bold")]
        for job, event in self.running.items():
            at = event.progress
            far = f"task {at.task}/{at.tasks}, step {at.step}/{at.steps}, loss {at.loss:.3f}" if at else "starting"
            lines.append(Text(f"  {event.where}: {job}, {far}", style="dim"))
        return Group(*lines, self.table()) if len(self.cells) > 1 else Group(*lines)

    def table(self) -> Table:
        """Mean average accuracy of each method on each scenario, and how many runs that is."""
        columns = list(dict.fromkeys(scenario for _, scenario in self.cells.values()))
        table = Table(box=None, padding=(0, 2))
        table.add_column("")
        for column in columns:
            table.add_column(column, justify="right")
        for row in dict.fromkeys(method for method, _ in self.cells.values()):
            table.add_row(row, *(self.cell((row, column)) for column in columns))
        return table

    def cell(self, cell: tuple[str, str]) -> str:
        jobs = [job for job, its in self.cells.items() if its == cell]
        ended = [self.records[job] for job in jobs if job in self.records]
        values = [record.average_accuracy for record in ended if record.average_accuracy is not None]
        mean = f"{statistics.fmean(values):.2f} " if values else ""
        return f"{mean}({len(ended)}/{len(jobs)})" if jobs else ""
