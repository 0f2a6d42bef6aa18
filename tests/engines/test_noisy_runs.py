"""Dropout, batch norm and augmentation: the same bits alone, in workers, on Ray, and after SIGKILL."""

import os
import sys
from contextlib import closing
from pathlib import Path

import pytest
from helpers import blobs

import engram as eg
from engram.core.registry import METHODS, NETS, load_file
from engram.engines.driver import Job, run_jobs
from engram.engines.local import Local
from engram.runs.records import Record
from engram.runs.run import compute
from engram.runs.spec import Spec

NOISY = Path(__file__).with_name("noisy.py")


@pytest.fixture
def spec(monkeypatch: pytest.MonkeyPatch) -> Spec:
    monkeypatch.setattr(METHODS, "added", {})
    monkeypatch.setattr(NETS, "added", {})
    load_file(NOISY)
    scenario = eg.split(blobs(6, train=20, test=6), kind="class")
    return Spec(scenario, METHODS["noisy"](), NETS["noisy"](), eg.Training(epochs=2, batch=16))


def measured(record: Record) -> tuple[object, ...]:
    assert record.status == "done", record.error
    return record.key, record.accuracy, record.losses, record.steps


def test_two_workers_and_a_killed_one_give_the_bits_of_this_process(spec, tmp_path, monkeypatch):
    here = {seed: measured(compute(Spec(**{**vars(spec), "seed": seed}))) for seed in range(3)}
    marker = tmp_path / "kill"
    marker.touch()
    monkeypatch.setenv("NOISY_KILL", str(marker))
    said: list[str] = []
    jobs = [Job(Spec(**{**vars(spec), "seed": seed})) for seed in range(3)]
    with closing(Local(2)) as engine:
        done = list(run_jobs(jobs, tmp_path / "out", engine=engine, say=said.append))
    assert len(said) == 1  # one run was killed in its third task, and went on from its second
    assert "SIGKILL" in said[0]
    assert {record.seed: measured(record) for _, record in done} == here
    assert sorted(record.environment["resumed_after_task"] for _, record in done) == [0, 0, 2]
    assert here[0][2] != here[1][2]


@pytest.mark.slow
def test_ray_gives_the_bits_of_this_process(spec, tmp_path, monkeypatch):
    ray = pytest.importorskip("ray", reason="the extra ray is not installed")
    from ray.cluster_utils import Cluster

    from engram.engines.ray import OnRay

    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    here = measured(compute(spec))
    small = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
    cluster = Cluster(initialize_head=True, head_node_args=small)
    try:
        with closing(OnRay(cluster.address, 1)) as engine:
            ((_, record),) = run_jobs([Job(spec)], tmp_path, engine=engine)
    finally:
        ray.shutdown()
        cluster.shutdown()
    assert measured(record) == here
