"""What is measured on a task's test data beyond its score: metrics on logits, and what is kept of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor

from engram.learning.evaluate import Evaluation, Scored, in_evaluation, known_task, score_task
from engram.learning.learner import Learner
from engram.learning.method import Method
from engram.scenarios.task import Tasks


class LogitMetric(Protocol):
    """What a metric on logits is asked for; see `engram.Metric`."""

    when: str
    needs_logits: bool
    targets: tuple[str, ...]

    def measure(self, logits: Tensor, targets: Tensor, active: slice) -> Any: ...


def check_metrics(metrics: Mapping[str, LogitMetric], method: Method) -> None:
    """Refuses a metric of probabilities if the method predicts by something else."""
    own = [m for m in method.members() if type(m).scores is not Method.scores]
    for name, metric in metrics.items():
        if metric.needs_logits and own:
            raise ValueError(
                f"metric {name} takes the softmax of logits, and {type(own[0]).__name__} predicts by other scores; "
                "leave the metric out"
            )


def score_tasks(
    learner: Learner,
    tasks: Tasks,
    seen: int,
    evaluation: Evaluation,
    method: Method,
    metrics: Mapping[str, LogitMetric],
    extra: dict[str, list[list[Any]]],
    kept: dict[str, Any],
    last: bool,
) -> list[Scored]:
    """Scores the first `seen` tasks.

    What the metrics find goes into `extra`, by name: entry [i][j] on task j after task i. What the run is to leave goes
    into `kept`: the state of the `net` at the end, `logits` [i][j] with their `targets` [j] and `active` outputs
    [i][j], `features` [j] at the end.
    """
    asked = {name: metric for name, metric in metrics.items() if last or metric.when != "end"}
    whole = bool(asked) or "logits" in evaluation.keep
    scored = [score_task(learner, task, evaluation, method, logits=whole) for task in tasks[:seen]]
    for name, metric in asked.items():
        extra.setdefault(name, []).append([measure(name, metric, one) for one in scored])
    if "logits" in evaluation.keep:
        kept.setdefault("logits", []).append([one.logits for one in scored])
        kept.setdefault("active", []).append([(one.active.start, one.active.stop) for one in scored])
        kept["targets"] = [one.targets for one in scored]
        kept["kinds of targets"] = [one.what for one in scored]
    if last and "features" in evaluation.keep:
        kept["features"] = [features_of(learner, task, evaluation) for task in tasks[:seen]]
    if last and "net" in evaluation.keep:
        kept["net"] = {name: value.detach().cpu().clone() for name, value in learner.net.state_dict().items()}
    return scored


def measure(name: str, metric: LogitMetric, scored: Scored) -> Any:
    """What a metric says of a task; None if it is not for such targets."""
    if scored.what not in metric.targets:
        return None
    assert scored.logits is not None
    assert scored.targets is not None
    with torch.no_grad():
        # copies: one metric may write into them, and the next, or what is kept, must not have that
        found = metric.measure(scored.logits.clone(), scored.targets.clone(), scored.active)
    return plain_value(name, found)


def plain_value(name: str, value: Any) -> Any:
    """As JSON has it: numbers and lists of them; None for NaN and infinity."""
    if hasattr(value, "tolist"):  # tensors, arrays and their scalars
        value = value.tolist()
    if isinstance(value, list | tuple):
        return [plain_value(name, one) for one in value]
    if isinstance(value, bool | int):
        return int(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None:
        return None
    raise TypeError(f"metric {name} returned a {type(value).__name__}; return a number, or a list of numbers")


@torch.no_grad()
def features_of(learner: Learner, task: Any, evaluation: Evaluation) -> Tensor:
    """(n, width): the input of the output layer for a task's test data."""
    parts: list[Tensor] = []
    with in_evaluation(learner, task):
        for batch in task.test.chunks():
            t = batch.t if known_task(learner, evaluation) else None
            parts.append(learner.features(batch.x, t).cpu())
    return torch.cat(parts)


def pooled_accuracy(scored: Sequence[Scored]) -> float | None:
    """Percent over all test data together; None if some are not scored by right and wrong."""
    if any(one.right is None for one in scored):
        return None
    return 100 * sum(one.right or 0 for one in scored) / sum(one.n for one in scored)
