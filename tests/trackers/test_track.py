"""Trackers write what the record says, read back from their own files."""

import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest
from helpers import blobs

import engram as eg
from engram.core.registry import TRACKERS
from engram.engines.driver import Job, run_jobs
from engram.runs.records import Record
from engram.runs.spec import Spec
from engram.trackers import tracking as track
from engram.trackers.tracking import Tracking, flatten_spec

SPEC = Spec(
    eg.split(blobs(noise=150.0), kind="task"),
    eg.OnlineEWC(coef=3.0),
    eg.MLP(8),
    eg.Training(epochs=10, batch=8, lr=0.01),
    eg.Evaluation(evaluate_every=40),
    seed=5,
)


@pytest.fixture
def no_network(monkeypatch):
    """Any connection to another machine fails the test."""
    connect = socket.socket.connect

    def local(self, address):
        if self.family != socket.AF_UNIX and address[0] not in ("127.0.0.1", "::1", "localhost"):
            raise AssertionError(f"{address} was called")
        return connect(self, address)

    monkeypatch.setattr(socket.socket, "connect", local)


def tracked(names: list[str], out: Path) -> Record:
    """A run that is followed live."""
    tracking = Tracking(names, out, say=lambda text: pytest.fail(text))
    ((_, record),) = run_jobs([Job(SPEC)], out, watch=tracking.watch)
    tracking.finish(record)
    return record


def check(scalars: dict[str, list[tuple[int, float]]], record: Record, live: bool) -> None:
    """Every value at its place, up to the single precision that trackers keep."""
    rows = [dict(enumerate(row, 1)) for row in record.accuracy]
    assert 0 < record.average_accuracy < 100
    expected = {
        "accuracy/task_1": [(1, rows[0][1]), (2, rows[1][1])],
        "accuracy/task_2": [(2, rows[1][2])],
        "average_accuracy": [(1, rows[0][1]), (2, record.average_accuracy)],
        "task_loss": [(1, record.losses[0]), (2, record.losses[1])],
        "within/first": [(at["step"], at["first"]) for at in record.curve],
        "final/forgetting": [(0, record.forgetting)],
        "final/kept_bytes": [(0, 8 * sum((36 * 8 + 8, 8 * 4 + 4)))],  # two floats for each parameter
    }
    for name, values in expected.items():
        assert [step for step, _ in scalars[name]] == [step for step, _ in values], name
        assert [v for _, v in scalars[name]] == pytest.approx([v for _, v in values], rel=1e-6), name
    assert ([step for step, _ in scalars["loss"]] == [50, 100, 150, 200]) if live else "loss" not in scalars


def tensorboard_scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    (run,) = {path.parent for path in folder.rglob("events*")}
    events = EventAccumulator(str(run))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_tensorboard_has_the_numbers_of_the_record(tmp_path, no_network):
    record = tracked(["tensorboard"], tmp_path)
    check(tensorboard_scalars(tmp_path / "tensorboard"), record, live=True)


def test_what_ran_elsewhere_is_told_from_its_record_once(tmp_path, no_network):
    ((_, record),) = run_jobs([Job(SPEC)], tmp_path)
    record.reused = True
    for _ in range(2):
        Tracking(["tensorboard"], tmp_path).finish(record)
    check(tensorboard_scalars(tmp_path / "tensorboard"), record, live=False)


def test_mlflow_has_the_numbers_and_the_spec(tmp_path, no_network):
    record = tracked(["mlflow"], tmp_path)
    client = TRACKERS["mlflow"].open_client(tmp_path / "mlflow")
    (run,) = client.search_runs([client.get_experiment_by_name("engram").experiment_id])
    history = {
        name: [(m.step, m.value) for m in client.get_metric_history(run.info.run_id, name)] for name in run.data.metrics
    }
    check(history, record, live=True)
    assert run.data.params["online-ewc.coef"] == "3.0"
    assert run.data.params["training.lr"] == "0.01"
    assert run.data.tags["engram.key"] == record.key
    assert run.info.status == "FINISHED"
    assert TRACKERS["mlflow"].has(tmp_path / "mlflow", record.key)
    assert not TRACKERS["mlflow"].has(tmp_path / "mlflow", "another")


def logged(file: bytes) -> Iterator[bytes]:
    """The messages of a file in LevelDB's log format: blocks of 32768 bytes, pieces with checksum, length and type."""
    at, message = 7, b""
    while at + 7 <= len(file):
        left = 32768 - at % 32768
        if left < 7:
            at += left
            continue
        length, kind = struct.unpack_from("<HB", file, at + 4)
        message += file[at + 7 : at + 7 + length]
        at += 7 + length
        if kind in (1, 4):  # whole, or the last piece
            yield message
            message = b""


@pytest.mark.slow
def test_wandb_writes_an_offline_run(tmp_path, no_network):
    import wandb
    from wandb.proto.wandb_internal_pb2 import Record as Message

    record = tracked(["wandb"], tmp_path)
    wandb.teardown()  # waits until all is on the disk
    assert TRACKERS["wandb"].has(tmp_path / "wandb", record.key)
    (file,) = (tmp_path / "wandb").rglob(f"run-{record.key}.wandb")
    scalars: dict[str, list[tuple[int, float]]] = {}
    for data in logged(file.read_bytes()):
        message = Message()
        message.ParseFromString(data)
        row = {item.key or "/".join(item.nested_key): item.value_json for item in message.history.item}
        at = int(row.pop("task", None) or row.pop("step", 0))
        for name, value in row.items():
            scalars.setdefault(name, []).append((at, float(value)))
        for item in message.summary.update:
            if item.key.startswith("final/"):
                scalars[item.key] = [(0, float(item.value_json))]
    check(scalars, record, live=True)


def test_a_tracker_that_fails_is_reported_and_the_run_goes_on(tmp_path, monkeypatch):
    said = []

    def full(*_):
        raise OSError("no space left")

    monkeypatch.setattr(track.TensorBoard, "log", full)
    tracking = Tracking(["tensorboard"], tmp_path, say=said.append)
    ((_, record),) = run_jobs([Job(SPEC)], tmp_path, watch=tracking.watch)
    tracking.finish(record)
    assert record.status == "done"
    assert said == ["tracker tensorboard stopped: OSError: no space left"]


def test_a_tracker_that_is_not_installed_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(track.TensorBoard, "package", "not_installed")
    with pytest.raises(
        ValueError,
        match=r"track tensorboard needs the package not_installed: pip install -e '.\[track\]'",
    ):
        Tracking(["tensorboard"], tmp_path)


def test_the_spec_of_a_combination_is_flat():
    combined = Spec(SPEC.scenario, eg.learning.combine.combine([eg.Rehearsal(capacity=7), eg.SI()]))
    values = flatten_spec(combined.to_json())
    assert values["method"] == "rehearsal+si"
    assert values["rehearsal.capacity"] == 7
    assert values["scenario.kind"] == "task"
    assert values["seed"] == 0
