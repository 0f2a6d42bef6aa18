"""Trackers: log runs to TensorBoard, MLflow or Weights & Biases. They only write local files."""

from __future__ import annotations

import importlib.util
import os
import statistics
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, ClassVar, Literal

from engram.core.messages import Say, tell
from engram.core.registry import TRACKERS
from engram.engines.driver import At
from engram.learning.train import Progress
from engram.runs.records import Record
from engram.runs.spec import Spec

LogAxis = Literal["step", "task"]
"""What values are plotted against: gradient steps, or tasks learned."""
PROJECT = "engram"


class Tracker(ABC):
    """One run in one tracker."""

    name: ClassVar[str]
    package: ClassVar[str]
    """The package that the tracker needs."""

    @abstractmethod
    def __init__(self, folder: Path, key: str, name: str, values: dict[str, Any]) -> None:
        """Open the run `key`, shown as `name`, with the spec `values`."""

    @abstractmethod
    def log(self, numbers: dict[str, float], axis: LogAxis, at: int) -> None: ...

    @abstractmethod
    def close(self, summary: dict[str, float], status: str) -> None: ...

    @staticmethod
    @abstractmethod
    def has(folder: Path, key: str) -> bool:
        """Whether the run has been logged before."""


class TensorBoard(Tracker):
    """One folder per run; show them with `tensorboard --logdir DIR/tensorboard`."""

    name = "tensorboard"
    package = "tensorboard"

    def __init__(self, folder: Path, key: str, name: str, values: dict[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer: Any = SummaryWriter(str(folder / f"{name.replace(' ', '-')}-{key}"))
        self.values = {k: v if isinstance(v, bool | int | float | str) else str(v) for k, v in values.items()}

    def log(self, numbers: dict[str, float], axis: LogAxis, at: int) -> None:
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, at)

    def close(self, summary: dict[str, float], status: str) -> None:
        final = {f"final/{name}": value for name, value in summary.items()}
        self.writer.add_hparams({**self.values, "status": status}, final, run_name=".")
        self.writer.close()

    @staticmethod
    def has(folder: Path, key: str) -> bool:
        return any(folder.glob(f"**/*-{key}"))


class MLflow(Tracker):
    """One folder; show it with `MLFLOW_ALLOW_FILE_STORE=true mlflow ui --backend-store-uri DIR/mlflow`."""

    name = "mlflow"
    package = "mlflow"

    def __init__(self, folder: Path, key: str, name: str, values: dict[str, Any]) -> None:
        self.client = self.open_client(folder)
        experiment = self.client.get_experiment_by_name(PROJECT)
        number = experiment.experiment_id if experiment else self.client.create_experiment(PROJECT)
        self.run = self.client.create_run(number, run_name=name, tags={"engram.key": key}).info.run_id
        for field, value in values.items():
            self.client.log_param(self.run, field, value)

    @staticmethod
    def open_client(folder: Path) -> Any:
        os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"
        os.environ["MLFLOW_ALLOW_FILE_STORE"] = "true"  # a database would need the full MLflow package
        from mlflow.tracking import MlflowClient

        return MlflowClient(tracking_uri=folder.absolute().as_uri())

    def log(self, numbers: dict[str, float], axis: LogAxis, at: int) -> None:
        for name, value in numbers.items():
            self.client.log_metric(self.run, name, value, step=at)

    def close(self, summary: dict[str, float], status: str) -> None:
        self.log({f"final/{name}": value for name, value in summary.items()}, "step", 0)
        self.client.set_tag(self.run, "engram.status", status)
        self.client.set_terminated(self.run, "FINISHED" if status == "done" else "FAILED")

    @staticmethod
    def has(folder: Path, key: str) -> bool:
        if not folder.exists():
            return False
        client = MLflow.open_client(folder)
        experiment = client.get_experiment_by_name(PROJECT)
        return bool(experiment and client.search_runs([experiment.experiment_id], f"tags.`engram.key` = '{key}'"))


class WandB(Tracker):
    """An offline run; `wandb sync` uploads it."""

    name = "wandb"
    package = "wandb"

    def __init__(self, folder: Path, key: str, name: str, values: dict[str, Any]) -> None:
        os.environ["WANDB_ERROR_REPORTING"] = "false"
        import wandb

        folder.mkdir(parents=True, exist_ok=True)
        quiet = wandb.Settings(silent=True, console="off", x_disable_stats=True, disable_git=True, save_code=False)
        self.run: Any = wandb.init(
            mode="offline", dir=str(folder), project=PROJECT, id=key, name=name, config=values,
            settings=quiet, reinit="create_new",
        )  # fmt: skip
        for metric in ("accuracy/*", "average_accuracy", "task_loss"):
            self.run.define_metric(metric, step_metric="task")
        for metric in ("loss", "within/*"):
            self.run.define_metric(metric, step_metric="step")

    def log(self, numbers: dict[str, float], axis: LogAxis, at: int) -> None:
        self.run.log({**numbers, axis: at})

    def close(self, summary: dict[str, float], status: str) -> None:
        self.run.summary.update({**{f"final/{name}": value for name, value in summary.items()}, "status": status})
        self.run.finish(exit_code=0 if status == "done" else 1)

    @staticmethod
    def has(folder: Path, key: str) -> bool:
        return any(folder.glob(f"wandb/offline-run-*-{key}"))


class Tracking:
    """The trackers of one command. Runs are logged live if their progress is reported, else from their records."""

    def __init__(self, names: Iterable[str], out: Path, say: Say = tell) -> None:
        """Raise if a tracker is not installed."""
        self.names, self.out, self.say = tuple(dict.fromkeys(names)), out, say
        self.live: dict[str, dict[str, Tracker]] = {}
        self.seen: set[tuple[str, int]] = set()
        for name in self.names:
            package = TRACKERS.find(name).package
            if importlib.util.find_spec(package) is None:
                how = "pip install -e '.[track]' in engram's checkout"
                raise ValueError(f"track {name} needs the package {package}: {how}")

    def watch(self, event: At) -> None:
        """Log the progress of a run; a run that only starts, or is read from its record, opens no tracker."""
        if event.progress:
            self.follow(event.job.spec, event.progress)

    def follow(self, spec: Spec, at: Progress) -> None:
        if spec.key not in self.live:
            self.live[spec.key] = self.open_trackers(self.names, spec.key, str(spec), flatten_spec(spec.to_json()))
        trackers = self.live[spec.key]
        if at.accuracy:
            self.log(trackers, task_accuracies(at.accuracy), "task", at.task)
            self.seen.add((spec.key, at.task))
        else:
            self.log(trackers, {"loss": at.loss}, "step", at.step)

    def finish(self, record: Record) -> None:
        """Close a run, after logging what its record has and was not logged live."""
        trackers = self.live.pop(record.key, None)
        if trackers is None:
            new = [n for n in self.names if not (record.reused and TRACKERS[n].has(self.out / n, record.key))]
            name = f"{record.scenario} {record.method} seed {record.seed}"
            trackers = self.open_trackers(new, record.key, name, flatten_spec(record.spec))
        for task, row in enumerate(record.accuracy, 1):
            if (record.key, task) not in self.seen:  # it ran in another process, or before an interruption
                self.log(trackers, task_accuracies(row), "task", task)
        for task, loss in enumerate(record.losses, 1):
            self.log(trackers, {"task_loss": loss}, "task", task)
        for at in record.curve:
            inside = {f"within/{which}": at[which] for which in ("current", "first")}
            self.log(trackers, inside, "step", int(at["step"]))
        for name, tracker in trackers.items():
            self.attempt(name, lambda tracker=tracker: tracker.close(summarize_record(record), record.status))  # type: ignore[misc]

    def open_trackers(self, names: Iterable[str], key: str, name: str, values: dict[str, Any]) -> dict[str, Tracker]:
        opened: dict[str, Tracker] = {}
        for n in names:
            self.attempt(n, lambda n=n: opened.update({n: TRACKERS[n](self.out / n, key, name, values)}))  # type: ignore[misc]
        return opened

    def log(self, trackers: dict[str, Tracker], numbers: dict[str, float], axis: LogAxis, at: int) -> None:
        for name, tracker in list(trackers.items()):
            if not self.attempt(name, lambda tracker=tracker: tracker.log(numbers, axis, at)):  # type: ignore[misc]
                del trackers[name]

    def attempt(self, name: str, act: Callable[[], None]) -> bool:
        """Call a tracker; if it fails, report that and continue without it."""
        try:
            act()
        except Exception as error:
            self.say(f"tracker {name} stopped: {type(error).__name__}: {error}")
            return False
        return True


def task_accuracies(accuracy: list[float]) -> dict[str, float]:
    """The accuracy on each task so far, and their mean."""
    each = {f"accuracy/task_{j}": value for j, value in enumerate(accuracy, 1)}
    return {**each, "average_accuracy": statistics.fmean(accuracy)}


def summarize_record(record: Record) -> dict[str, float]:
    """The numbers of a finished run."""
    metrics = ("average_accuracy", "forgetting", "backward_transfer", "forward_transfer", "seconds", "steps")
    numbers = {name: value for name in metrics if (value := getattr(record, name)) is not None}
    return {**numbers, "kept_bytes": sum(record.memory.get("kept", {}).values())}


def flatten_spec(spec: dict[str, Any]) -> dict[str, Any]:
    """Flatten a spec to names such as `training.lr`; the fields of a method become `ewc.coef`."""
    values: dict[str, Any] = {"method": "+".join(member["name"] for member in spec["method"])}
    for member in spec["method"]:
        values |= {f"{member['name']}.{field}": value for field, value in member.items() if field != "name"}
    for group, fields in spec.items():
        if isinstance(fields, dict):
            values |= {f"{group}.{field}": value for field, value in fields.items()}
        elif group != "method":
            values[group] = fields
    return values
