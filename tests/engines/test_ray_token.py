"""Whoever talks to a Ray cluster of ours has to know its token."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from engram.engines.ray import require_token


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_AUTH_TOKEN_PATH"):
        monkeypatch.setenv(name, "")  # so that it is taken back at the end
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))


def test_a_cluster_of_ours_gets_a_token_of_its_own() -> None:
    require_token()
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64


def test_the_users_own_token_counts(tmp_path: Path) -> None:
    (tmp_path / ".ray").mkdir()
    (tmp_path / ".ray/auth_token").write_text("mine")
    require_token()
    assert os.environ["RAY_AUTH_MODE"] == "token"
    assert "RAY_AUTH_TOKEN" not in os.environ


def test_it_can_be_turned_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    require_token()
    assert "RAY_AUTH_TOKEN" not in os.environ


RUN_WITH_A_TOKEN = """
import json, sys
from contextlib import closing
from pathlib import Path

import numpy as np

import engram as eg
from engram.engines.driver import Job, run_jobs
from engram.engines.ray import OnRay, require_token
from engram.runs.run import compute
from engram.runs.spec import Spec

require_token()
from ray.cluster_utils import Cluster

y = np.arange(40) % 4
x = (np.random.default_rng(0).integers(0, 60, (40, 4, 4)) + 40 * y[:, None, None]).astype(np.uint8)
spec = Spec(eg.split(eg.Images(x, y, x, y), kind="class"), eg.Adam(), eg.MLP(8), eg.Training(epochs=1, batch=8))
small = {"num_cpus": 1, "object_store_memory": 80 * 2**20, "include_dashboard": False}
cluster = Cluster(initialize_head=True, head_node_args=small)
with closing(OnRay(cluster.address, 1)) as engine:
    ((_, record),) = run_jobs([Job(spec)], Path(sys.argv[1]), engine=engine)
cluster.shutdown()
Path(sys.argv[2]).write_text(json.dumps([record.status, record.accuracy == compute(spec).accuracy]))
"""


@pytest.mark.slow
def test_a_run_on_a_cluster_with_a_token_gives_the_record_of_this_machine(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="the extra ray is not installed")
    done = tmp_path / "done.json"
    with (tmp_path / "log").open("w") as log:  # not a pipe: what Ray leaves running would hold it open
        subprocess.run(
            [sys.executable, "-c", RUN_WITH_A_TOKEN, str(tmp_path / "out"), str(done)],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
            stdout=log,
            stderr=log,
            check=False,
            timeout=200,
        )
    assert done.is_file(), (tmp_path / "log").read_text()[-2000:]
    assert json.loads(done.read_text()) == ["done", True]
