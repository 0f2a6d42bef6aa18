"""What callers hand to `eg.run`, checked before anything runs: each mistake gets a message that says what to do."""

from __future__ import annotations

from collections.abc import Sequence
from types import FunctionType
from typing import Any

from torch import nn

from engram.core.registry import METHODS, METRICS, NETS
from engram.data.images import Images
from engram.learning.combine import combine
from engram.learning.evaluate import Evaluation
from engram.learning.learner import Training
from engram.learning.method import Method
from engram.nets._module import recipe_class
from engram.nets.net import Net
from engram.scenarios.scenario import Scenario
from engram.scenarios.task import Task, Tasks


def check_scenario_argument(value: Any) -> Scenario:
    if isinstance(value, Scenario):
        return value
    if isinstance(value, str):
        hint = f'a scenario by name is engram.scenario("{value}")'
    elif isinstance(value, type):
        hint = f"{value.__name__} is a class; give an instance, as engram.split(images, kind='class') makes one"
    elif isinstance(value, Tasks | Task):
        hint = "these are tasks that a seed has drawn; give the scenario that they came from, and the seed as seed=…"
    elif isinstance(value, Images):
        hint = "this is a dataset; make a scenario of it: engram.split(images, kind='class')"
    else:
        hint = "give what engram.split, engram.permute, engram.queue or engram.scenario returns"
    raise TypeError(f"scenario {value!r:.60} is not a scenario: {hint}")


def check_method_argument(value: Any) -> Method:
    if isinstance(value, Method):
        return value
    if isinstance(value, str):
        known = f"engram.{METHODS[value].__name__}()" if value in METHODS else "an instance, as in engram.EWC(coef=100)"
        raise TypeError(f"method {value!r} is a name; give {known}")
    if isinstance(value, type):
        raise TypeError(f"method {value.__name__} is a class; give an instance: {value.__name__}()")
    if isinstance(value, Sequence) and value and all(isinstance(one, Method | type | str) for one in value):
        return combine([check_method_argument(one) for one in value])
    raise TypeError(
        f"method {value!r:.60} is not a method: give an instance, as in engram.EWC(coef=100), or a list of them"
    )


def check_net_argument(value: Any) -> Net:
    if isinstance(value, Net):
        return value
    if isinstance(value, str):
        known = f"engram.{NETS[value].__name__}()" if value in NETS else "a recipe, as in engram.MLP(400, 400)"
        raise TypeError(f"net {value!r} is a name; give {known}")
    if isinstance(value, type) and issubclass(value, Net):
        raise TypeError(f"net {value.__name__} is a class; give an instance: {value.__name__}()")
    if isinstance(value, FunctionType) or (isinstance(value, type) and issubclass(value, nn.Module)):
        return recipe_class(value)()
    if isinstance(value, nn.Module):
        raise TypeError(
            f"net {type(value).__name__} is a module that was built already, and every run needs a fresh one; give its "
            "class, or a function of (shape, outputs) that returns it"
        )
    raise TypeError(
        f"net {value!r:.60} is not a recipe of a network: give one, as in engram.MLP(400, 400), an nn.Module class "
        "with a constructor (shape, outputs), or a function of these two that returns a module"
    )


def check_metrics_argument(values: Any) -> tuple[Any, ...]:
    """Names, metrics and functions as metrics on logits, each once."""
    base = METRICS.base_class()
    if isinstance(values, str | FunctionType | base) or not isinstance(values, Sequence):
        raise TypeError(f"metrics {values!r:.60} is not a list; give a list, as in metrics=[my_metric]")
    found: list[Any] = []
    for value in values:
        if isinstance(value, str):
            metric = METRICS.find(value)()
        elif isinstance(value, type) and issubclass(value, base):
            raise TypeError(f"metric {value.__name__} is a class; give an instance: {value.__name__}()")
        elif isinstance(value, base):
            metric = value
        elif isinstance(value, FunctionType):
            metric = base.from_function(value)
        else:
            raise TypeError(
                f"metric {value!r:.60} is none: give a name, an instance of engram.Metric, or a function of "
                "(logits, targets, active)"
            )
        if not metric.is_measured:
            raise ValueError(f"metric {METRICS.name_of(metric)} is computed from every record: you need not ask for it")
        found.append(metric)
    names = [METRICS.name_of(metric) for metric in found]
    for name, metric in zip(names, found, strict=True):
        if names.count(name) > 1:
            raise ValueError(f"metric {name} is given twice; give each once, and metrics of your own different names")
        if name in METRICS.built_in and type(metric) is not METRICS[name]:
            raise ValueError(f"there is a metric {name} already; give yours another name")
    return tuple(found)


def check_keep(values: Any) -> tuple[Any, ...]:
    """`keep=`: one word or several."""
    return (values,) if isinstance(values, str) else tuple(values)


def check_part(name: str, value: Any, cls: type[Any]) -> Any:
    """`training=` and `evaluation=`: dictionaries and classes are the usual mistakes."""
    if isinstance(value, cls):
        return value
    if isinstance(value, dict):
        given = ", ".join(f"{key}={one!r}" for key, one in value.items())
        raise TypeError(f"{name} is a dictionary; give engram.{cls.__name__}({given})")
    raise TypeError(f"{name} {value!r:.60} is not one; give engram.{cls.__name__}(…)")


def check_training(value: Any) -> Training:
    found: Training = check_part("training", value, Training)
    return found


def check_evaluation(value: Any) -> Evaluation:
    found: Evaluation = check_part("evaluation", value, Evaluation)
    return found
