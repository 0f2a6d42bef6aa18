"""What is seen of a sweep: how far it is, what runs where, the table as it fills."""

import io
import sys
from collections.abc import Callable
from dataclasses import replace

import pytest
from cli_helpers import Answer, arrays
from rich.console import Console

import engram as eg
from engram.cli import sweep
from engram.cli.sweep import Display
from engram.engines.driver import At, Job
from engram.learning.train import Progress
from engram.runs.records import Record
from engram.runs.spec import Spec


@pytest.fixture
def jobs() -> list[Job]:
    """Two seeds of two methods."""
    images = eg.Images(**arrays(), name="tiny")
    specs = [Spec(eg.split(images, kind="class"), method) for method in (eg.Adam(), eg.SGD())]
    return [Job(replace(spec, seed=seed)) for seed in range(2) for spec in specs]


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Its only item is the time."""
    now = [100.0]
    monkeypatch.setattr(sweep.time, "monotonic", lambda: now[0])
    return now


def record(job: Job, status: str = "done", accuracy: float | None = None, reused: bool = False) -> Record:
    spec = job.spec
    return Record(
        job.key, spec.scenario_name, spec.method_name, spec.seed, {}, status, average_accuracy=accuracy, reused=reused
    )


def seen(display: Display) -> list[str]:
    """Its lines, without what aligns them."""
    console = Console(width=100, record=True, file=io.StringIO())
    console.print(display.render())
    return [" ".join(line.split()) for line in console.export_text().splitlines()]


def test_the_display_says_how_far_a_sweep_is(jobs: list[Job], clock: list[float]) -> None:
    display = Display(jobs)
    adam, sgd, more_adam, more_sgd = jobs
    assert seen(display)[0] == "0 of 4 runs done, starting"
    display.ended(adam, record(adam, accuracy=90.0, reused=True))
    display.at(At(more_adam, "worker 1"))
    display.at(At(sgd, "worker 2", Progress(task=1, tasks=2, step=5, steps=10, loss=0.5)))
    clock[0] += 60
    state, first, second, columns, *rows = seen(display)
    assert state == "1 of 4 runs done, 2 running, about 5 min left"  # half a run in a minute, 2.5 to go
    assert first == "worker 1: split-tiny/class adam seed 1, starting"
    assert second == "worker 2: split-tiny/class sgd seed 0, task 1/2, step 5/10, loss 0.500"
    assert columns == "split-tiny/class"
    assert rows == ["adam 90.00 (1/2)", "sgd (0/2)"]

    display.ended(sgd, record(sgd, "failed"))
    display.ended(more_adam, record(more_adam, accuracy=80.0))
    clock[0] += 60
    state, *_, adams, sgds = seen(display)
    assert state == "3 of 4 runs done, 0 running, 1 failed, about 60 s left"
    assert adams == "adam 85.00 (2/2)"
    assert sgds == "sgd (1/2)"
    assert display.rest() == "  (0 running, 1 failed, about 60 s left)"
    display.ended(more_sgd, record(more_sgd, "diverged"))
    assert display.rest() == ""


def test_without_ray_the_call_is_refused(
    engram: Callable[..., Answer], data: object, work: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    answer = engram("run", "split-tiny/class", "adam", "--engine", "ray")
    assert answer.status == 2
    assert (
        answer.err.splitlines()[-1]
        == "engram: engine ray needs the package ray: pip install -e '.[ray]' in engram's checkout"
    )
