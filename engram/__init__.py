"""engram evaluates continual learning: scenarios from any dataset, methods under one protocol, checked numbers.

    import engram as eg

Names are loaded when they are first used, so that the command line can answer without PyTorch.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from engram.core.version import VERSION

__version__ = VERSION

if TYPE_CHECKING:
    from engram.analysis.metrics import Metric as Metric
    from engram.checks.contract import check as check
    from engram.core.ranges import Each as Each
    from engram.core.ranges import Log as Log
    from engram.data.arrays import Arrays as Arrays
    from engram.data.catalog import images as images
    from engram.data.images import Images as Images
    from engram.learning.budget import fit_budget as fit_budget
    from engram.learning.buffer import Buffer as Buffer
    from engram.learning.evaluate import Evaluation as Evaluation
    from engram.learning.learner import Learner as Learner
    from engram.learning.learner import Params as Params
    from engram.learning.learner import Training as Training
    from engram.learning.method import Method as Method
    from engram.methods._penalty import QuadraticPenalty as QuadraticPenalty
    from engram.methods.a_gem import AGEM as AGEM
    from engram.methods.adagrad import Adagrad as Adagrad
    from engram.methods.adam import Adam as Adam
    from engram.methods.bi_r import BIR as BIR
    from engram.methods.der import DER as DER
    from engram.methods.der_pp import DERpp as DERpp
    from engram.methods.dgr import DGR as DGR
    from engram.methods.er import ER as ER
    from engram.methods.er_ace import ERACE as ERACE
    from engram.methods.ewc import EWC as EWC
    from engram.methods.fdr import FDR as FDR
    from engram.methods.fromp import FROMP as FROMP
    from engram.methods.gdumb import GDumb as GDumb
    from engram.methods.gem import GEM as GEM
    from engram.methods.gem_textbook import GEMTextbook as GEMTextbook
    from engram.methods.generative_classifier import GenerativeClassifier as GenerativeClassifier
    from engram.methods.gss import GSS as GSS
    from engram.methods.hal import HAL as HAL
    from engram.methods.hat import HAT as HAT
    from engram.methods.icarl import ICaRL as ICaRL
    from engram.methods.l2 import L2 as L2
    from engram.methods.lwf import LwF as LwF
    from engram.methods.mas import MAS as MAS
    from engram.methods.mer import MER as MER
    from engram.methods.mir import MIR as MIR
    from engram.methods.ncm import NCM as NCM
    from engram.methods.offline import Offline as Offline
    from engram.methods.online_ewc import OnlineEWC as OnlineEWC
    from engram.methods.packnet import PackNet as PackNet
    from engram.methods.ranpac import RanPAC as RanPAC
    from engram.methods.rehearsal import Rehearsal as Rehearsal
    from engram.methods.rehearsal_c import RehearsalC as RehearsalC
    from engram.methods.rtf import RtF as RtF
    from engram.methods.separate import Separate as Separate
    from engram.methods.sgd import SGD as SGD
    from engram.methods.si import SI as SI
    from engram.methods.slda import SLDA as SLDA
    from engram.methods.xdg import XdG as XdG
    from engram.nets.cnn import CNN as CNN
    from engram.nets.convnet import ConvNet as ConvNet
    from engram.nets.linear import Linear as Linear
    from engram.nets.mlp import MLP as MLP
    from engram.nets.net import Net as Net
    from engram.nets.resnet18 import ResNet18 as ResNet18
    from engram.runs.loop import Loop as Loop
    from engram.runs.records import Record as Record
    from engram.runs.run import run as run
    from engram.runs.spec import Spec as Spec
    from engram.scenarios.blend import blend as blend
    from engram.scenarios.categorize import categorize as categorize
    from engram.scenarios.create import scenario as scenario
    from engram.scenarios.mnist360 import mnist360 as mnist360
    from engram.scenarios.permute import permute as permute
    from engram.scenarios.queue import queue as queue
    from engram.scenarios.repeat import repeat as repeat
    from engram.scenarios.rotate import rotate as rotate
    from engram.scenarios.scenario import Scenario as Scenario
    from engram.scenarios.sequence import sequence as sequence
    from engram.scenarios.split import split as split
    from engram.scenarios.task import Batch as Batch
    from engram.scenarios.task import Data as Data
    from engram.scenarios.task import Task as Task
    from engram.scenarios.task import Tasks as Tasks
    from engram.scenarios.transform import transform as transform
    from engram.workbench import compare as compare
    from engram.workbench import load as load
    from engram.workbench import read as read
    from engram.workbench import search as search
    from engram.workbench import study as study
    from engram.workbench import table as table


def _homes() -> dict[str, str]:
    """name → module, read from the imports above: a public name is listed once."""
    from engram.core.facts import parse_module

    return {name: module for name, (module, _) in parse_module("engram").typed.items()}


def __getattr__(name: str) -> Any:
    if not name.startswith("_") and (home := _homes().get(name)):
        return getattr(importlib.import_module(home), name)
    raise AttributeError(f"module 'engram' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_homes(), "__version__"])
