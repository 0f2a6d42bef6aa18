"""Specs: all that a run depends on, as data, and the key that names it."""

from __future__ import annotations

import hashlib
import inspect
import json
import sys
from collections.abc import Mapping
from dataclasses import MISSING, Field, asdict, dataclass, field, fields
from functools import cache
from types import CodeType
from typing import Any, TypeVar

from engram.data import Images, images
from engram.runs.records import canonical
from engram.learning.combine import combine
from engram.learning.evaluate import Evaluation, check_needs
from engram.learning.learner import Training
from engram.learning.method import Method
from engram.methods import SOURCE, method_class, name_of
from engram.nets.cnn import CNN
from engram.nets.mlp import MLP
from engram.nets.net import Net
from engram.scenarios.names import MAKERS, Name
from engram.scenarios.scenario import Scenario, fixed

T = TypeVar("T")
PROTOCOL = 1
"""Raised by hand when the same spec gives other results than before."""
COMBINED = 2
"""The same, of combined methods alone. 2: their gradients are adjusted by stage, not in the order they are named."""
SCRIPTS = ("__main__", "__mp_main__")
"""The script that is run, here and in a process that it started."""
OWN_CODE = "own code"
"""What a spec has beside the fields of a method from outside the package: a hash of its code. No field is called so."""
NETS: dict[str, type[Net]] = {"mlp": MLP, "cnn": CNN}


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

    def __post_init__(self) -> None:
        if not isinstance(self.seed, int):
            raise SpecError(f"seed {self.seed!r} is no whole number")
        if isinstance(self.threads, bool) or not isinstance(self.threads, int) or not 1 <= self.threads <= MOST_THREADS:
            raise SpecError(f"threads {self.threads} is out of range; give 1 to {MOST_THREADS}")
        if not isinstance(self.device, str):
            raise SpecError(f"device {self.device!r} is no name of one, as cpu or cuda:0")
        check_needs(self.method, self.scenario.kind, self.evaluation)

    def __str__(self) -> str:
        return f"{self.scenario_name} {self.method_name} seed {self.seed}"

    @property
    def scenario_name(self) -> str:
        maker = next((name for name, cls in MAKERS.items() if cls is type(self.scenario)), type(self.scenario).make)
        return str(Name(maker, "+".join(images.name for images in self.scenario.images), self.scenario.kind))

    @property
    def method_name(self) -> str:
        return "+".join(name_of(member) for member in self.method.members())

    def to_json(self) -> dict[str, Any]:
        """Every value, so that the record can be read and repeated by itself."""
        scenario = {f.name: getattr(self.scenario, f.name) for f in fields(self.scenario) if f.name != "images"}
        return {
            "scenario": {
                "make": type(self.scenario).make,
                "images": {images.name: images.fingerprint for images in self.scenario.images},
                **jsonable(scenario),
            },
            "method": [
                {"name": name_of(member), **jsonable(values_of(member)), **own_source(member, OWN_CODE)}
                for member in self.method.members()
            ],
            "net": {"name": net_name(self.net), **jsonable(asdict(self.net))},
            "training": asdict(self.training),
            "evaluation": evaluation_json(self.evaluation),
            "seed": self.seed,
            "threads": self.threads,
            "device": self.device,
        }

    @property
    def key(self) -> str:
        """Hashes what differs from the defaults, so that a new field with a neutral default moves no key."""
        named = {
            "protocol": PROTOCOL,
            **({"combined": COMBINED} if len(self.method.members()) > 1 else {}),
            "make": type(self.scenario).make,
            "images": [images.fingerprint for images in self.scenario.images],
            "scenario": {k: v for k, v in changed(self.scenario).items() if k != "images"},
            "method": [[name_of(member), changed(member) | own_source(member)] for member in self.method.members()],
            "net": [net_name(self.net), changed(self.net)],
            "training": changed(self.training),
            "evaluation": changed(self.evaluation),
            "run": {k: v for k, v in (("threads", self.threads), ("device", self.device)) if v not in (1, "cpu")},
            "seed": self.seed,
        }
        return hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()[:16]


def evaluation_json(evaluation: Evaluation) -> dict[str, Any]:
    """Every value; of those that 0.1 did not have, only what was chosen: else its records and today's, of one setting,
    would be told apart."""
    values = asdict(evaluation)
    return values if values["give_task_identity"] else {k: v for k, v in values.items() if k != "give_task_identity"}


def from_json(values: dict[str, Any], given: Mapping[str, Images] | None = None) -> Spec:
    """The spec that `to_json` wrote; its image sets are those given by content, else loaded, and must be the same."""
    try:
        scenario = dict(values["scenario"])
        make, names = scenario.pop("make"), scenario.pop("images")
        cls = known("make", make, {cls.make: cls for cls in MAKERS.values()})
        loaded = tuple(
            (given or {}).get(fingerprint) or images_of(name, fingerprint) for name, fingerprint in names.items()
        )
        members = [
            method_class(method["name"])(**{k: fixed(v) for k, v in method.items() if k not in ("name", OWN_CODE)})
            for method in values["method"]
        ]
        net = dict(values["net"])
        net_cls = known("net", net.pop("name"), NETS)
        return Spec(
            scenario=cls(images=loaded, **fixed_values(scenario)),
            method=combine(members),
            net=new_net(net_cls, net),
            training=Training(**values["training"]),
            evaluation=Evaluation(**values["evaluation"]),
            **{name: values[name] for name in ("seed", "threads", "device")},
        )
    except KeyError as error:
        raise SpecError(f"not a spec of a run: it has no {error}") from error
    except (TypeError, AttributeError) as error:
        raise SpecError(f"not a spec of a run: {error}") from error


def known(what: str, name: str, choices: dict[str, T]) -> T:
    if name not in choices:
        raise SpecError(f"{what} {name!r} is unknown; choose from {', '.join(choices)}")
    return choices[name]


def values_of(method: Method) -> dict[str, Any]:
    """The values of a method's fields (not its state)."""
    return {f.name: getattr(method, f.name) for f in fields(method)}


def own_source(method: Method, name: str = "source") -> dict[str, str]:
    """A hash of the code of a method from outside the package: who edits it gets other keys."""
    cls: type = type(method)
    hashed = source_hash(cls)
    return {name: hashed} if hashed else {}


@cache
def source_hash(cls: type) -> str:
    """Of the modules of a class and of those that it inherits from; as they are when it is first asked for: this
    process goes on with the code that it has."""
    texts = []
    for base in cls.__mro__:
        if base is object or base.__module__.partition(".")[0] in ("engram", *sys.stdlib_module_names):
            continue
        try:
            texts.append(module_text(base.__module__) or inspect.getsource(base))
        except (OSError, TypeError):  # typed in at a prompt, or a notebook's
            texts.append(compiled(base))
    return hashlib.sha256("".join(dict.fromkeys(texts)).encode()).hexdigest()[:16] if texts else ""


def compiled(cls: type) -> str:
    """What a class without a text is made of: the code of its functions, and the defaults of its fields."""
    plain = {name: value for name, value in vars(cls).items() if not name.startswith("__")}
    parts = {n: f"{v!r}" for n, v in plain.items() if isinstance(v, int | float | str | tuple | list | dict | None)}
    for name, value in vars(cls).items():
        functions = [getattr(value, part, None) for part in ("__func__", "fget", "fset")] + [value]
        parts |= {
            f"{name}() {i}": f"{code_text(f.__code__)} {f.__defaults__} {f.__kwdefaults__}"
            for i, f in enumerate(functions)
            if inspect.isfunction(f)
        }
    return json.dumps([cls.__name__, parts], sort_keys=True)


def code_text(code: CodeType) -> str:
    """Bytes, names and constants; a set of constants in an order of its own."""
    constants = [
        code_text(c) if isinstance(c, CodeType) else str(sorted(map(repr, c))) if isinstance(c, frozenset) else repr(c)
        for c in code.co_consts
    ]
    return " ".join([code.co_code.hex(), *code.co_names, *code.co_varnames, *code.co_freevars, *constants])


def module_text(name: str) -> str:
    """All of a module, since what stands beside a class changes results too; nothing where it is no file, or the
    script that is run, whose calls are no part of a method."""
    module = sys.modules.get(name)
    if loaded := getattr(module, SOURCE, None):  # by `load_file`
        return str(loaded)
    try:
        return "" if module is None or name in SCRIPTS else inspect.getsource(module)
    except (OSError, TypeError):
        return ""


def images_of(name: str, fingerprint: str) -> Images:
    """An image set by name, refused where its content is not the one that a spec names."""
    found = images(name)
    if found.fingerprint != fingerprint:
        raise SpecError(f"image set {name} here is {found.fingerprint}, the spec was made with {fingerprint}")
    return found


def new_net(cls: type[Net], values: dict[str, Any]) -> Net:
    """A network's recipe from the values of its fields; `hidden` is given size by size."""
    values = dict(values)
    return cls(*values.pop("hidden", ()), **values)


def net_name(net: Net) -> str:
    return next((name for name, cls in NETS.items() if cls is type(net)), type(net).__name__)


def fixed_values(values: dict[str, Any]) -> dict[str, Any]:
    return {name: fixed(value) for name, value in values.items()}


def jsonable(value: Any) -> Any:
    """As JSON will give it back: tuples as lists."""
    return json.loads(json.dumps(value))


def changed(instance: Any) -> dict[str, Any]:
    """The fields of a dataclass that differ from their defaults."""
    values = {f.name: (getattr(instance, f.name), default_of(f)) for f in fields(instance) if f.name != "images"}
    return {name: canonical(value) for name, (value, default) in values.items() if value != default}


def default_of(f: Field[Any]) -> Any:
    return f.default_factory() if f.default_factory is not MISSING else f.default
