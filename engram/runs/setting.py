"""Settings: everything that a run depends on but its seed, as plain data. No torch.

Values have flat names: `scenario.pad`, `method.coef` (`method.si.coef` if methods are combined), `net.name`,
`net.hidden`, `training.lr`. A setting holds the values that differ from the classes' defaults, so that a field added
later with a neutral default changes no setting.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, cached_property
from typing import Any

from engram.core.code import hash_code
from engram.core.facts import COMPUTED, class_facts
from engram.core.registry import AUGMENTATIONS, METHODS, METRICS, NETS, SCENARIOS
from engram.runs.records import Record, canonical, supersedes
from engram.scenarios.names import maker_of

OWN_CODE = "own code"
"""What a spec states beside the fields of a part from outside the package: a hash of its code."""
COUNTED_EVALUATION = frozenset({"give_task_identity"})
"""Fields of the evaluation that change what is learned or scored; the others decide only what is measured besides."""
UNCHANGED_IN_JSON = (str, int, float)
OMITTED = frozenset({"name", "make", "images", "kind", "data"})
"""Parts of a spec that the names of scenario and method state already."""


@dataclass(frozen=True)
class Setting:
    """A scenario, a method, and all values that differ from the defaults of their classes."""

    scenario: str
    method: str
    values: Mapping[str, Any] = field(default_factory=dict)
    sources: Mapping[str, str] = field(default_factory=dict, compare=False)
    """Where values come from, if that is known."""

    @cached_property
    def id(self) -> str:
        """Equal for equal settings."""
        return json.dumps([self.scenario, self.method, canonical(dict(self.values))], sort_keys=True)

    def __hash__(self) -> int:
        return hash(self.id)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Setting) and self.id == other.id

    @property
    def members(self) -> list[str]:
        return self.method.split("+")

    def value(self, name: str) -> Any:
        """A value, or the default that stands for it."""
        if name in self.values:
            return self.values[name]
        return self.defaults().get(name)

    def defaults(self) -> dict[str, Any]:
        """The defaults of all classes that the setting consists of."""
        return class_defaults(maker_of(self.scenario), self.members, str(self.values.get("net.name", "mlp")))

    def with_values(self, changes: Mapping[str, Any], sources: Mapping[str, str] | None = None) -> Setting:
        """The setting with other values; a value that is a default is left out."""
        merged = {**self.values, **changes}
        net = str(merged.get("net.name", "mlp"))
        usual = class_defaults(maker_of(self.scenario), self.members, net)
        kept = {name: value for name, value in merged.items() if differs(value, usual.get(name, COMPUTED))}
        if net != self.values.get("net.name", "mlp"):  # another network has other fields
            kept = {n: v for n, v in kept.items() if not n.startswith("net.") or n in usual or n == "net.name"}
        return Setting(self.scenario, self.method, kept, {**self.sources, **(sources or {})})

    def counted(self) -> Setting:
        """The setting without what is only measured besides, such as kept logits: records are grouped by it."""
        besides = self.besides()
        values = {name: value for name, value in self.values.items() if name not in besides}
        return Setting(self.scenario, self.method, values, self.sources)

    def besides(self) -> dict[str, Any]:
        """What is only measured besides."""
        return {name: v for name, v in self.values.items() if is_measured_besides(*name.partition(".")[::2])}

    def with_own_code(self) -> Setting:
        """The setting with a hash of all its parts that come from files: edited code is another setting."""
        parts = [("scenario", SCENARIOS, maker_of(self.scenario)), ("net", NETS, str(self.value("net.name")))]
        parts += [("method" if len(self.members) == 1 else f"method.{m}", METHODS, m) for m in self.members]
        own: dict[str, Any] = {group: cls for group, registry, name in parts if (cls := registry.own_class(name))}
        hashes = {f"{group}.{OWN_CODE}": code for group, entry in own.items() if (code := hash_code(entry))}
        used = [AUGMENTATIONS.added[one] for one in self.value("training.augment") or () if one in AUGMENTATIONS.added]
        if used:
            hashes[f"training.{OWN_CODE}"] = " ".join(map(hash_code, used))
        return Setting(self.scenario, self.method, {**self.values, **hashes}, self.sources) if hashes else self


def is_measured_besides(group: str, name: str) -> bool:
    """Whether a value decides nothing about what is learned or scored."""
    return group == "evaluation" and name not in COUNTED_EVALUATION


def differs(value: Any, default: Any) -> bool:
    if default is COMPUTED:
        return True
    if isinstance(value, UNCHANGED_IN_JSON) and isinstance(default, UNCHANGED_IN_JSON):  # which need no other form
        return value != default
    return bool(canonical(value) != canonical(default))


def show(value: Any) -> str:
    """A value in words: `0.001`, `400 400`."""
    if isinstance(value, float):
        return f"{value:g}"
    return " ".join(show(v) for v in value) if isinstance(value, list | tuple) else str(value)


def class_defaults(scenario: str, members: Iterable[str], net: str) -> dict[str, Any]:
    """The defaults of all fields of these classes, by flat name."""
    names = list(members)
    found = {"net.name": "mlp", "threads": 1, "device": "cpu"}
    for group, facts in (("training", training_defaults()), ("evaluation", evaluation_defaults())):
        found |= {f"{group}.{name}": value for name, value in facts.items()}
    if scenario in SCENARIOS:
        found |= {f"scenario.{name}": value for name, value in SCENARIOS.facts(scenario).defaults.items()}
    if net in NETS:
        found |= {f"net.{name}": value for name, value in NETS.facts(net).defaults.items()}
    for member in names:
        if member in METHODS:
            prefix = "method" if len(names) == 1 else f"method.{member}"
            found |= {f"{prefix}.{name}": value for name, value in METHODS.facts(member).defaults.items()}
    return found


@cache
def training_defaults() -> Mapping[str, Any]:
    return class_facts("engram.learning.learner", "Training").defaults


@cache
def evaluation_defaults() -> Mapping[str, Any]:
    return class_facts("engram.learning.evaluate", "Evaluation").defaults


def metric_json(metric: Any) -> dict[str, Any]:
    """A metric as specs state it: name, fields and, of one from outside the package, a hash of its code."""
    code = hash_code(type(metric))
    values = {f.name: getattr(metric, f.name) for f in fields(metric)}
    stated = {"name": METRICS.name_of(metric), **values, **({OWN_CODE: code} if code else {})}
    found: dict[str, Any] = json.loads(json.dumps(stated))
    return found


def setting_of_record(record: Record, known: dict[tuple[str, ...], dict[str, Any]] | None = None) -> Setting:
    """The setting that a record was made with; `known` keeps defaults for whoever asks about many records."""
    given = dict(flat_values(record.spec))
    net = str(given.get("net.name", "mlp"))
    names, known = (record.scenario, record.method, net), {} if known is None else known
    if names not in known:
        known[names] = class_defaults(maker_of(record.scenario), record.method.split("+"), net)
    usual = known[names]
    values = {name: value for name, value in given.items() if differs(value, usual.get(name, COMPUTED))}
    return Setting(record.scenario, record.method, values)


def flat_values(spec: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The values of a recorded spec by flat name, without what decides nothing about the result."""
    for group, content_of in spec.items():
        if group == "method" and isinstance(content_of, list):
            for member in content_of:
                prefix = "method" if len(content_of) == 1 else f"method.{member.get('name')}"
                yield from ((f"{prefix}.{name}", value) for name, value in member.items() if name not in OMITTED)
        elif isinstance(content_of, Mapping):
            for name, value in content_of.items():
                if is_measured_besides(group, name):
                    continue
                if name not in OMITTED or (group, name) == ("net", "name"):
                    yield f"{group}.{name}", value


@dataclass(frozen=True)
class SettingRuns:
    """The runs of one setting: one per seed."""

    setting: Setting
    by_seed: Mapping[int, Record]
    other_data: int = 0
    """Runs that are left out because their datasets had another content than the latest run's."""

    @property
    def records(self) -> list[Record]:
        return [self.by_seed[seed] for seed in sorted(self.by_seed)]

    @property
    def done(self) -> dict[int, Record]:
        """The finished runs."""
        return {s: r for s, r in self.by_seed.items() if r.status == "done" and r.average_accuracy is not None}

    @property
    def accuracies(self) -> dict[int, float]:
        """The average accuracy of each finished run."""
        return {s: r.average_accuracy for s, r in self.done.items() if r.average_accuracy is not None}

    @property
    def kept(self) -> int | None:
        """Bytes that the method keeps across a boundary."""
        first = next(iter(self.done.values()), None)
        return sum(first.memory.get("kept", {}).values()) if first else None

    @property
    def failed(self) -> int:
        return len(self.by_seed) - len(self.done)


def group_by_setting(
    records: Iterable[Record], *, trials: bool = False, preferred: Callable[[Record], bool] = lambda _: False
) -> dict[Setting, SettingRuns]:
    """Records by setting and seed, in the order in which settings begin.

    Trials of a search count only if asked for. A seed counts once: a success stays until a later one with another
    key, which other code made; one that is preferred, because it measured what is asked for, stays in any case. Runs on
    datasets of another content than the latest run's are left out.
    """
    by_text: dict[str, list[Record]] = {}  # runs that differ only by seed are looked at once
    listed = list(records)
    for record in listed:
        if (record.search.get("stage") == "trial") == trials:
            by_text.setdefault(record.stated, []).append(record)
    grouped: dict[Setting, list[Record]] = {}
    mixed: set[Setting] = set()
    known: dict[tuple[str, ...], dict[str, Any]] = {}
    for runs in by_text.values():
        setting = setting_of_record(runs[0], known)
        if setting in grouped:
            mixed.add(setting)
        grouped.setdefault(setting, []).extend(runs)
    place = {id(record): number for number, record in enumerate(listed)} if mixed else {}
    for setting in mixed:  # stated in several ways, as by several versions: in the order of all
        grouped[setting].sort(key=lambda record: place[id(record)])
    return {
        setting: runs_of_setting(setting, runs, mixed=setting in mixed, preferred=preferred)
        for setting, runs in grouped.items()
    }


def runs_of_setting(
    setting: Setting, runs: Sequence[Record], *, mixed: bool, preferred: Callable[[Record], bool]
) -> SettingRuns:
    """The runs of a setting, in their order; `mixed` if they state it in several ways."""
    by_seed = {record.seed: record for record in runs}
    if len(by_seed) == len(runs) and not mixed:  # the usual case
        return SettingRuns(setting, by_seed)
    data = [content(record) for record in runs]
    by_seed = {}
    for record, its in zip(runs, data, strict=True):
        other = by_seed.get(record.seed)
        kept = other is not None and other.status == "done" and preferred(other) and not preferred(record)
        if its == data[-1] and not kept and supersedes(record, other):
            by_seed[record.seed] = record
    return SettingRuns(setting, by_seed, sum(its != data[-1] for its in data))


def content(record: Record) -> str:
    """The content of the datasets that a run was made with."""
    images = record.spec.get("scenario", {}).get("images", {})
    return json.dumps(sorted(images.values()) if isinstance(images, dict) else images)


def offline_of(record: Record, others: Iterable[Record]) -> Record | None:
    """The offline run that intransigence is measured against: of the same scenario, network and seed, and not a trial
    of a search. Fields that older records do not state have their defaults."""
    candidates = [
        other
        for other in others
        if (other.method, other.status, other.seed) == ("offline", "done", record.seed)
        and (other.scenario, content(other)) == (record.scenario, content(record))
        and other.search.get("stage") != "trial"
    ]
    mine = scenario_and_net(record) if candidates else {}
    return next((other for other in candidates if scenario_and_net(other) == mine), None)


def scenario_and_net(record: Record) -> dict[str, Any]:
    """What a record's setting says of its scenario and its network."""
    return {k: v for k, v in setting_of_record(record).values.items() if k.startswith(("scenario.", "net."))}
