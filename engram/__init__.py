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
    from engram.learning.evaluate import Evaluation
    from engram.learning.learner import Learner, Params, Training
    from engram.learning.method import Method
    from engram.methods._penalty import QuadraticPenalty
    from engram.methods.adagrad import Adagrad
    from engram.methods.adam import Adam
    from engram.methods.dgr import DGR
    from engram.methods.ewc import EWC
    from engram.methods.gem import GEM
    from engram.methods.gem_textbook import GEMTextbook
    from engram.methods.l2 import L2
    from engram.methods.lwf import LwF
    from engram.methods.mas import MAS
    from engram.methods.offline import Offline
    from engram.methods.online_ewc import OnlineEWC
    from engram.methods.rehearsal import Rehearsal
    from engram.methods.rehearsal_c import RehearsalC
    from engram.methods.rtf import RtF
    from engram.methods.sgd import SGD
    from engram.methods.si import SI
    from engram.nets.cnn import CNN
    from engram.nets.mlp import MLP
    from engram.runs.records import Record
    from engram.runs.run import run
    from engram.scenarios.categorize import categorize
    from engram.scenarios.create import scenario
    from engram.scenarios.permute import permute
    from engram.scenarios.queue import queue
    from engram.scenarios.split import split
    from engram.scenarios.task import Batch, Data, Task, Tasks

_HOMES = {
    "Images": "data",
    "images": "data",
    "Record": "runs.records",
    "run": "runs.run",
    "Evaluation": "learning.evaluate",
    "Learner": "learning.learner",
    "Training": "learning.learner",
    "Method": "learning.method",
    "Params": "learning.learner",
    "QuadraticPenalty": "methods._penalty",
    "Batch": "scenarios.task",
    "Data": "scenarios.task",
    "Task": "scenarios.task",
    "Tasks": "scenarios.task",
    "Adagrad": "methods.adagrad",
    "Adam": "methods.adam",
    "Offline": "methods.offline",
    "DGR": "methods.dgr",
    "EWC": "methods.ewc",
    "GEM": "methods.gem",
    "GEMTextbook": "methods.gem_textbook",
    "L2": "methods.l2",
    "LwF": "methods.lwf",
    "MAS": "methods.mas",
    "OnlineEWC": "methods.online_ewc",
    "Rehearsal": "methods.rehearsal",
    "RehearsalC": "methods.rehearsal_c",
    "RtF": "methods.rtf",
    "SI": "methods.si",
    "SGD": "methods.sgd",
    "CNN": "nets.cnn",
    "MLP": "nets.mlp",
    "categorize": "scenarios.categorize",
    "scenario": "scenarios.create",
    "permute": "scenarios.permute",
    "queue": "scenarios.queue",
    "split": "scenarios.split",
}
__all__ = [
    "CNN",
    "DGR",
    "EWC",
    "GEM",
    "L2",
    "MAS",
    "MLP",
    "SGD",
    "SI",
    "Adagrad",
    "Adam",
    "Batch",
    "Data",
    "Evaluation",
    "GEMTextbook",
    "Images",
    "Learner",
    "LwF",
    "Method",
    "Offline",
    "OnlineEWC",
    "Params",
    "QuadraticPenalty",
    "Record",
    "Rehearsal",
    "RehearsalC",
    "RtF",
    "Task",
    "Tasks",
    "Training",
    "categorize",
    "images",
    "permute",
    "queue",
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
