"""The Ray engine: two nodes on this machine, one of which is lost in mid-sweep."""

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sweep_helpers import Sweep, bits, ended, until

from engram.engines.driver import run_jobs
from engram.engines.local import Local
from engram.engines.ray import OnRay

ray = pytest.importorskip("ray", reason="the extra ray is not installed")


@pytest.fixture
def cluster(sweep: Sweep, monkeypatch: pytest.MonkeyPatch) -> Iterator[object]:
    """A head and another node, a run each at a time."""
    from ray.cluster_utils import Cluster

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    small = {"num_cpus": 1, "object_store_memory": 80 * 2**20}
    found = Cluster(initialize_head=True, head_node_args={**small, "include_dashboard": False})
    found.second = found.add_node(**small)
    yield found
    ray.shutdown()
    found.shutdown()


@pytest.mark.slow
def test_a_node_that_is_lost_costs_its_run_a_retry(sweep: Sweep, cluster: object) -> None:
    """All runs are held after their first task, two of four at a time; then the node of one of the two is lost."""
    holds = [sweep.tell("hold", seed) for seed in range(4)]
    lost: list[int] = []

    def lose_a_node() -> None:
        until(lambda: len(list(sweep.folder.glob("at-?"))) == 2)
        until(lambda: len(list(sweep.out.glob("checkpoints/*/task-1.pt"))) == 2)  # they have come to the driver
        raylet = cluster.second.all_processes["raylet"][0].process.pid
        there = {int(path.name[3:]): int(path.read_text()) for path in sweep.folder.glob("at-?")}
        lost.extend(seed for seed, pid in there.items() if parent(pid) == raylet)
        cluster.remove_node(cluster.second, allow_graceful=False)
        until(lambda: all(ended(there[seed]) for seed in lost))  # its worker outlives the node for a moment
        for hold in holds:
            hold.unlink()

    threading.Thread(target=lose_a_node).start()
    said: list[str] = []
    seen = []
    with closing(OnRay(cluster.address, checkpoint_every=0)) as engine:
        done = list(run_jobs(sweep.jobs(4), sweep.out, engine=engine, watch=seen.append, say=said.append))
    assert len(lost) == 1
    (text,) = said
    assert f"seed {lost[0]}: " in text
    assert text.endswith("trying again")
    by_ray = {job.spec.seed: record for job, record in done}
    assert by_ray[lost[0]].environment["resumed_after_task"] == 1
    assert {event.job.spec.seed for event in seen if event.progress} == set(range(4))
    sweep.check(4)

    with closing(Local(2)) as local:
        here = run_jobs(sweep.jobs(4), sweep.out.with_name("local"), engine=local)
        by_processes = {job.spec.seed: record for job, record in here}
    assert {seed: bits(r) for seed, r in by_ray.items()} == {seed: bits(r) for seed, r in by_processes.items()}


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"address": "ray://head:10001"}, "client cannot stream"),
        ({"address": "127.0.0.1:1"}, "no Ray cluster can be reached at 127.0.0.1:1: .*refused"),
        ({"gpu_share": 0.0}, "gpu_share 0.0 is out of range"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        OnRay(**options)
