"""engram evaluates continual learning: scenarios from any image set, methods under one protocol, checked numbers.

    import engram as eg

Names are loaded when they are first used, so that the command line can answer without PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from engram.data import Images, images
    from engram.experiments.records import Record
    from engram.experiments.run import run
    from engram.learning.evaluate import Evaluation
    from engram.learning.learner import Learner, Training
    from engram.learning.method import Method
    from engram.methods.adagrad import Adagrad
    from engram.methods.adam import Adam
    from engram.methods.offline import Offline
    from engram.methods.sgd import SGD
    from engram.nets.mlp import MLP
    from engram.scenarios.categorize import categorize
    from engram.scenarios.named import scenario
    from engram.scenarios.permute import permute
    from engram.scenarios.split import split

_HOMES = {
    "Images": "data",
    "images": "data",
    "Record": "experiments.records",
    "run": "experiments.run",
    "Evaluation": "learning.evaluate",
    "Learner": "learning.learner",
    "Training": "learning.learner",
    "Method": "learning.method",
    "Adagrad": "methods.adagrad",
    "Adam": "methods.adam",
    "Offline": "methods.offline",
    "SGD": "methods.sgd",
    "MLP": "nets.mlp",
    "categorize": "scenarios.categorize",
    "scenario": "scenarios.named",
    "permute": "scenarios.permute",
    "split": "scenarios.split",
}
__all__ = [
    "MLP",
    "SGD",
    "Adagrad",
    "Adam",
    "Evaluation",
    "Images",
    "Learner",
    "Method",
    "Offline",
    "Record",
    "Training",
    "categorize",
    "images",
    "permute",
    "run",
    "scenario",
    "split",
]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(f"engram.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'engram' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
