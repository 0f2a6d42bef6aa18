"""The local engine: workers that die cost their run a retry, and nothing else."""

import os
import signal
import threading
from contextlib import closing
from dataclasses import replace

import pytest
from helpers import blobs
from sweep_helpers import Sweep, ended

import engram as eg
from engram.core.registry import METHODS, load_file
from engram.engines import local
from engram.engines.driver import Job, run_jobs
from engram.engines.local import Local
from engram.runs.spec import Spec


def test_workers_that_die_cost_their_run_a_retry_and_the_sweep_goes_on(sweep: Sweep) -> None:
    """Seed 0 is killed once from outside, seed 1 dies whenever it is tried, seed 3 crashes the interpreter."""
    hold, kill, crash = sweep.tell("hold", 0), sweep.tell("kill", 1), sweep.tell("crash", 3)
    killed = []

    def killer() -> None:
        killed.append(sweep.pid_at(0))
        os.kill(killed[0], signal.SIGKILL)
        hold.unlink()

    threading.Thread(target=killer).start()
    said: list[str] = []
    with closing(Local(2)) as engine:
        done = {
            job.spec.seed: record for job, record in run_jobs(sweep.jobs(4), sweep.out, engine=engine, say=said.append)
        }
        assert all(ended(pid) for pid in killed)
        assert {seed: record.status for seed, record in done.items()} == {
            0: "done",
            1: "failed",
            2: "done",
            3: "failed",
        }
        assert done[0].environment["resumed_after_task"] == 1  # by its second worker, from the checkpoint of the first
        assert done[1].error == "its process was killed by SIGKILL (the system does this if memory runs out)"
        why, *trace = done[3].error.splitlines()
        assert why == "its process was killed by SIGSEGV"
        assert any("held.py" in line and "in obey" in line for line in trace)
        assert sum("killed by SIGKILL" in text and "trying again" in text for text in said) == 2
        assert sum("killed by SIGSEGV" in text and "trying again" in text for text in said) == 1
        assert [record.status for record in sweep.found()].count("failed") == 2

        kill.unlink()
        crash.unlink()
        again = {job.spec.seed: record for job, record in run_jobs(sweep.jobs(4), sweep.out, engine=engine)}
        assert {seed for seed, record in again.items() if record.reused} == {0, 2}
        assert [again[seed].environment["resumed_after_task"] for seed in (1, 3)] == [1, 1]
    sweep.check(4)


def test_a_sweep_that_is_left_ends_its_workers_at_once(sweep: Sweep) -> None:
    """As Ctrl-C does: run 1 is held for ever, and the consumer of the records goes away."""
    sweep.tell("hold", 1)
    with closing(Local(2)) as engine:
        runs = run_jobs(sweep.jobs(2), sweep.out, engine=engine)
        job, _ = next(runs)
        assert job.spec.seed == 0
        pid = sweep.pid_at(1)
        runs.close()
        assert ended(pid)
        assert all(worker.ready and worker.job is None for worker in engine.workers)  # an idle one may stay
    (left,) = (sweep.out / "checkpoints").rglob("*.pt")
    assert left.parent.name == sweep.job(1).key
    (sweep.folder / "hold-1").unlink()
    list(run_jobs(sweep.jobs(2), sweep.out))
    sweep.check(2)


def test_a_method_that_is_in_no_file_is_a_failed_run_where_it_cannot_be_had(sweep: Sweep) -> None:
    """It is a class of this test, which no other process knows."""
    jobs = sweep.jobs(2)
    other = type(jobs[0].spec.method)

    class Nowhere(other):
        pass

    jobs = [Job(replace(job.spec, method=Nowhere())) for job in jobs]
    done = [record for _, record in run_jobs(jobs, sweep.out)]
    assert [record.status for record in done] == ["failed"] * 2
    assert all("'nowhere' is unknown" in record.error for record in done)


@pytest.mark.parametrize("seeds", [1, 3])
def test_what_is_recorded_starts_no_process(sweep: Sweep, seeds: int) -> None:
    for seed in range(seeds):
        list(run_jobs([sweep.job(seed)], sweep.out))

    class Never:
        def open(self, runs: int, say: object) -> int:
            raise AssertionError("nothing is to be run")

    assert len(list(run_jobs(sweep.jobs(seeds), sweep.out, engine=Never()))) == seeds
    sweep.check(seeds)


def test_a_method_file_that_is_edited_during_a_sweep_changes_nothing_of_it(tmp_path, monkeypatch) -> None:
    """Workers that start later run the text that the driver has loaded."""
    monkeypatch.setattr(METHODS, "added", {})
    monkeypatch.setattr("engram.core.userfile._LOADED", {})
    file = tmp_path / "edited.py"
    file.write_text("import engram as eg\n\n\nclass Edited(eg.Method):\n    ...\n")
    load_file(file)
    file.write_text("nothing that Python could read")
    jobs = [
        Job(Spec(eg.split(blobs(4), kind="class"), METHODS["edited"](), eg.MLP(5), eg.Training(epochs=1), seed=seed))
        for seed in range(2)
    ]
    with closing(Local(2)) as engine:
        found = [record for _, record in run_jobs(jobs, tmp_path / "out", engine=engine)]
    assert [(record.status, record.error) for record in found] == [("done", None)] * 2


@pytest.mark.parametrize(
    ("workers", "threads", "slots"), [(None, 1, 8), (None, 3, 2), (None, 9, 1), (5, 3, 5), (None, 2, 4)]
)
def test_there_are_as_many_workers_as_cores_have_room_for(monkeypatch, workers, threads, slots):
    monkeypatch.setattr(local, "count_cores", lambda: 8)
    assert Local(workers, threads).open(20, lambda _: None) == slots


def test_without_an_engine_the_threads_of_the_runs_count(monkeypatch, sweep: Sweep) -> None:
    """Runs of four threads each leave room for two at once on eight cores."""
    asked = []

    class Watched(Local):
        def open(self, runs, say):
            asked.append(self.most)
            return super().open(runs, say)

    monkeypatch.setattr(local, "count_cores", lambda: 8)
    monkeypatch.setattr(local, "Local", Watched)
    (job,) = sweep.jobs(1)
    ((_, record),) = run_jobs([replace(job, spec=replace(job.spec, threads=4))], sweep.out)
    assert (record.status, asked) == ("done", [2])
