"""Specs: all that a run depends on, as data, and the key that names it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from engram.core.code import hash_code, is_outside
from engram.core.functions import hash_function
from engram.core.messages import unknown
from engram.core.registry import AUGMENTATIONS, METHODS, METRICS, NETS, SCENARIOS
from engram.core.userfile import told_fault
from engram.data.catalog import images
from engram.data.images import Images
from engram.learning.combine import combine
from engram.learning.evaluate import Evaluation
from engram.learning.learner import Training
from engram.learning.method import Method
from engram.nets._start import Start, StartedNet
from engram.nets.mlp import MLP
from engram.nets.net import Net
from engram.runs.defaults import Protocol, default_setting
from engram.runs.records import Record, canonical
from engram.runs.setting import OWN_CODE, Setting, metric_json, setting_of_record
from engram.scenarios.create import load_images
from engram.scenarios.names import ScenarioName, datasets_of, parse_name
from engram.scenarios.scenario import Scenario, freeze

PROTOCOL = 1
"""Raised by hand when the same spec gives other results than before."""
COMBINED = 2
"""The same for combined methods alone. 2: their gradients are adjusted by stage, not in the order they are named."""
TRAINING_OF_01 = frozenset(
    {"epochs", "steps", "batch", "optimizer", "lr", "momentum", "weight_decay", "drop_last", "reset_optimizer"}
)
"""Fields of the training that every record states."""
EVALUATION_OF_02 = frozenset({"give_task_identity", "keep"})
"""Fields of the evaluation that 0.1 did not have: only what was chosen is stated."""
MOST_THREADS = 512
"""No machine has more cores that would speed a run up, and with far more OpenMP ends the process."""


class SpecError(ValueError):
    """A spec that cannot be read."""


@dataclass(frozen=True, eq=False)
class Spec:
    """One run: a scenario, a method, a network, how it is trained and looked at, and a seed."""

    scenario: Scenario
    method: Method
    net: Net = field(default_factory=MLP)
    training: Training = field(default_factory=Training)
    evaluation: Evaluation = field(default_factory=Evaluation)
    seed: int = 0
    threads: int = 1
    """Of the run; bits depend on it."""
    device: str = "cpu"
    start: Start = field(default_factory=Start)
    """Weights that the network begins with, and what of it is frozen."""
    metrics: tuple[Any, ...] = ()
    """Metrics on logits (`engram.Metric`) that are measured besides. They are in the key, with their code: a run that
    was not measured by these is another run."""

    def __post_init__(self) -> None:
        if not isinstance(self.seed, int):
            raise SpecError(f"seed {self.seed!r} is not a whole number")
        if isinstance(self.threads, bool) or not isinstance(self.threads, int) or not 1 <= self.threads <= MOST_THREADS:
            raise SpecError(f"threads {self.threads} is out of range; give 1 to {MOST_THREADS}")
        if not isinstance(self.device, str):
            raise SpecError(f"device {self.device!r} is not a device name such as cpu or cuda:0")

    def __str__(self) -> str:
        return f"{self.scenario_name} {self.method_name} seed {self.seed}"

    @property
    def scenario_name(self) -> str:
        maker = SCENARIOS.name_of(self.scenario)
        return str(ScenarioName(maker, "+".join(one.name for one in self.scenario.images), self.scenario.kind))

    @property
    def method_name(self) -> str:
        return "+".join(METHODS.name_of(member) for member in self.method.members())

    @property
    def network(self) -> Net:
        """The recipe of what is trained: the network, begun as `start` says."""
        return self.net if self.start == Start() else StartedNet(self.net, self.start)

    @property
    def setting(self) -> Setting:
        """All of it but the seed."""
        empty = Record("", self.scenario_name, self.method_name, self.seed, self.to_json(), "done")
        return setting_of_record(empty)

    def to_json(self) -> dict[str, Any]:
        """Every value, so that the record can be read and repeated by itself."""
        scenario = {f.name: getattr(self.scenario, f.name) for f in fields(self.scenario) if f.name != "images"}
        return {
            "scenario": {
                "make": make_of(type(self.scenario)),
                "images": {one.name: one.fingerprint for one in self.scenario.images},
                **jsonable(scenario),
                **own_code(self.scenario, OWN_CODE),
            },
            "method": [
                {"name": METHODS.name_of(member), **jsonable(values_of(member)), **own_code(member, OWN_CODE)}
                for member in self.method.members()
            ],
            "net": {"name": NETS.name_of(self.net), **jsonable(values_of(self.net)), **own_code(self.net, OWN_CODE)},
            "training": training_json(self.training) | augment_code(self.training, OWN_CODE),
            "evaluation": evaluation_json(self.evaluation),
            "seed": self.seed,
            "threads": self.threads,
            "device": self.device,
            **({"start": start_json(self.start)} if self.start != Start() else {}),
            **({"metrics": [metric_json(metric) for metric in self.metrics]} if self.metrics else {}),
        }

    @property
    def key(self) -> str:
        """Hashes what differs from the defaults, so that a new field with a neutral default moves no key.

        Code from outside the package counts, and so does the content of all arrays.
        """
        named = {
            "protocol": PROTOCOL,
            **({"combined": COMBINED} if len(self.method.members()) > 1 else {}),
            "make": make_of(type(self.scenario)),
            "images": [one.fingerprint for one in self.scenario.images],
            "scenario": changed_values(self.scenario) | own_code(self.scenario),
            "method": [
                [METHODS.name_of(member), changed_values(member) | own_code(member)] for member in self.method.members()
            ],
            "net": [NETS.name_of(self.net), changed_values(self.net) | own_code(self.net)],
            "training": changed_values(self.training) | augment_code(self.training),
            "evaluation": changed_values(self.evaluation),
            "run": {k: v for k, v in (("threads", self.threads), ("device", self.device)) if v not in (1, "cpu")},
            "seed": self.seed,
            **({"start": [self.start.content, self.start.freeze]} if self.start != Start() else {}),
            **({"metrics": sorted(map(json.dumps, map(metric_json, self.metrics)))} if self.metrics else {}),
        }
        return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:16]


def evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    """Every value; of those that 0.1 did not have, only what was chosen: else its records and today's, of one setting,
    would be told apart."""
    values = jsonable(asdict(evaluation))
    return {k: v for k, v in values.items() if v or k not in EVALUATION_OF_02}


def training_json(training: Training) -> dict[str, Any]:
    """Every value; of those that 0.1 did not have, only what was chosen, as with the evaluation."""
    chosen = changed_values(training)
    return {k: v for k, v in jsonable(asdict(training)).items() if k in TRAINING_OF_01 or k in chosen}


def start_json(start: Start) -> dict[str, str]:
    """The file by its full path, so that a worker finds it, and by its content."""
    path = str(Path(start.weights).resolve()) if start.weights else ""
    return {"weights": path, "content": start.content, "freeze": start.freeze}


def start_from_json(values: Mapping[str, Any]) -> Start:
    """What `start_json` wrote; refused if the file has another content now."""
    start = Start(**{name: value for name, value in values.items() if name != "content"})
    if start.content != values.get("content", ""):
        raise SpecError(f"weights {start.weights} are {start.content} here, the spec was made with {values['content']}")
    return start


def from_json(values: dict[str, Any], given: Mapping[str, Images] | None = None) -> Spec:
    """The spec that `to_json` wrote; its datasets are those given by content, else loaded, and must be the same."""
    try:
        scenario = without_code(values["scenario"])
        make, names = scenario.pop("make"), scenario.pop("images")
        loaded = tuple(
            (given or {}).get(fingerprint) or images_of(name, fingerprint) for name, fingerprint in names.items()
        )
        members = []
        for method in values["method"]:
            member = without_code(method)
            members.append(find_class(METHODS, member.pop("name"))(**freeze_values(member)))
        net = without_code(values["net"])
        return Spec(
            scenario=scenario_by_make(make)(images=loaded, **freeze_values(scenario)),
            method=combine(members),
            net=new_net(find_class(NETS, net.pop("name")), net),
            training=Training(**freeze_values(without_code(values["training"]))),
            evaluation=Evaluation(**freeze_values(values["evaluation"])),
            **{name: values[name] for name in ("seed", "threads", "device")},
            start=start_from_json(values.get("start", {})),
            metrics=tuple(map(metric_from_json, values.get("metrics", []))),
        )
    except KeyError as error:
        raise SpecError(f"not a spec of a run: it has no {error}") from error
    except (TypeError, AttributeError) as error:
        raise SpecError(f"not a spec of a run: {error}") from error


def metric_from_json(values: Mapping[str, Any]) -> Any:
    """What `metric_json` wrote; refused if the code is another one now."""
    fields_of = without_code(values)
    metric = find_class(METRICS, fields_of.pop("name"))(**freeze_values(fields_of))
    if metric_json(metric).get(OWN_CODE) != values.get(OWN_CODE):
        raise SpecError(f"metric {values['name']} has other code here than the spec was made with")
    return metric


def spec_of_setting(setting: Setting, seed: int = 0) -> Spec:
    """The run of a setting with this seed."""
    groups: dict[str, dict[str, Any]] = {
        group: {} for group in ("scenario", "method", "net", "training", "evaluation", "start")
    }
    for name, value in setting.values.items():
        group, _, rest = name.partition(".")
        if rest != OWN_CODE and not rest.endswith(f".{OWN_CODE}"):
            groups[group][rest] = freeze(value)
    stated = parse_name(setting.scenario)
    members = []
    for member in setting.members:
        prefix = "" if len(setting.members) == 1 else f"{member}."
        fields_of = {k.removeprefix(prefix): v for k, v in groups["method"].items() if k.startswith(prefix)}
        members.append(made_of(find_class(METHODS, member), fields_of))
    net = groups["net"]
    return Spec(
        scenario=made_of(
            SCENARIOS[stated.maker],
            {"images": tuple(map(load_images, datasets_of(stated))), "kind": stated.kind, **groups["scenario"]},
        ),
        method=combine(members),
        net=new_net(find_class(NETS, net.pop("name", "mlp")), net),
        training=Training(**groups["training"]),
        evaluation=Evaluation(**groups["evaluation"]),
        seed=seed,
        start=start_from_json(groups["start"]),
    )


def default_spec(scenario: str, method: str, seed: int = 0, protocol: Protocol = "own", net: str = "mlp") -> Spec:
    """The run of a named scenario and a method, with their defaults."""
    return spec_of_setting(default_setting(scenario, method, protocol, net), seed)


def made_of(cls: Any, values: Mapping[str, Any]) -> Any:
    """An object of a class; a fault in a user's constructor refuses the spec, and is told with its place."""
    try:
        return cls(**values)
    except ValueError:
        raise
    except Exception as error:
        if not is_outside(cls):
            raise
        raise SpecError(told_fault(error)) from error


def find_class(registry: Any, name: str) -> Any:
    """An entry of a registry; one that is missing may be in a file that was not given."""
    if name not in registry:
        raise SpecError(
            f"{unknown(registry.what, name, registry, nearest=2)}; if it is your own, give its file: --file"
        )
    return registry[name]


def scenario_by_make(make: str) -> type[Scenario]:
    """The recipe that specs call so; version 0.1 called one of them by another name."""
    names = {make_of(SCENARIOS[name]): name for name in SCENARIOS}
    if make not in names:
        raise SpecError(unknown("make", make, names))
    found: type[Scenario] = SCENARIOS[names[make]]
    return found


def make_of(cls: type[Scenario]) -> str:
    """What specs and keys call a recipe; one that states neither `name` nor `make` is not the one it inherits from."""
    return str(vars(cls).get("make") or SCENARIOS.name_of(cls))


def values_of(recipe: Any) -> dict[str, Any]:
    """The values of a recipe's fields (not its state)."""
    return {f.name: getattr(recipe, f.name) for f in fields(recipe)} if is_dataclass(recipe) else {}


def own_code(recipe: Any, name: str = "source") -> dict[str, str]:
    """A hash of the code of a recipe from outside the package: edited code gets other keys."""
    cls: type = type(recipe)
    hashed = hash_code(cls)
    return {name: hashed} if hashed else {}


def augment_code(training: Training, name: str = "source") -> dict[str, str]:
    """A hash of the code of augmentations from outside the package; nothing if there are none."""
    codes = [hash_code(AUGMENTATIONS.added[one]) for one in training.augment if one in AUGMENTATIONS.added]
    return {name: " ".join(codes)} if codes else {}


def without_code(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if name != OWN_CODE}


def images_of(name: str, fingerprint: str) -> Images:
    """An image set by name, refused where its content is not the one that a spec names."""
    found = images(name)
    if found.fingerprint != fingerprint:
        raise SpecError(f"dataset {name} here has content {found.fingerprint}, the spec was made with {fingerprint}")
    return found


def new_net(cls: type[Net], values: dict[str, Any]) -> Net:
    """A network's recipe from the values of its fields; `hidden` is given size by size."""
    values = dict(values)
    return cls(*values.pop("hidden", ()), **values)


def freeze_values(values: dict[str, Any]) -> dict[str, Any]:
    return {name: freeze(value) for name, value in values.items()}


def jsonable(value: Any) -> Any:
    """As JSON gives it back: tuples as lists, arrays as a hash of their content."""
    return json.loads(json.dumps(value, default=content_hash))


def content_hash(value: Any) -> str:
    """Names the content of an array or the code of a function; anything else cannot be part of a spec."""
    if isinstance(value, Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray | np.generic):
        array = np.ascontiguousarray(value, dtype=value.dtype.newbyteorder("<"))
        digest = hashlib.sha256(repr((array.shape, str(array.dtype))).encode() + array.tobytes())
        return f"sha256:{digest.hexdigest()[:16]}"
    if isinstance(value, Images):
        return value.fingerprint
    if callable(value):
        return hash_function(value)
    raise SpecError(
        f"{type(value).__name__} {value!r:.60} cannot be part of a spec; give numbers, words, arrays or tuples of them"
    )


def changed_values(instance: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults, as they are hashed."""
    found = {}
    for f in fields(instance) if is_dataclass(instance) else ():
        value, default = getattr(instance, f.name), default_of(f)
        if f.name != "images" and not same_value(value, default):
            found[f.name] = canonical(jsonable(value))
    return found


def same_value(value: Any, default: Any) -> bool:
    """Whether a field has its default; arrays never do, nor does NaN."""
    if isinstance(value, np.ndarray | Tensor) or isinstance(default, np.ndarray | Tensor):
        return False
    if isinstance(value, float) and math.isnan(value):
        return False
    return bool(value == default)


def default_of(f: Field[Any]) -> Any:
    return f.default_factory() if f.default_factory is not MISSING else f.default
