"""The contract of methods, networks and scenarios, checked on small made-up data in seconds."""

from __future__ import annotations

import dataclasses
import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import torch

from engram.checks.facts import BrokenError, Fact, SkippedError, state_fact
from engram.checks.trials import Trial, made_up_images, make_scenario, make_spec, run_trial, ten_digits, watch_run
from engram.core.code import hash_code
from engram.core.registry import METHODS, NETS, SCENARIOS
from engram.core.userfile import SOURCE
from engram.learning.combine import combine
from engram.learning.hooks import overlooked
from engram.learning.learner import in_eval_mode
from engram.learning.memory import states_memory
from engram.learning.method import Method
from engram.methods.adam import Adam
from engram.nets.cnn import CNN
from engram.nets.mlp import MLP
from engram.nets.net import Net
from engram.runs.spec import Spec, from_json
from engram.scenarios.scenario import Scenario

KINDS_CHECKED = ("task", "domain", "class")
SMALL = MLP(16, 12)


def check_method(method: Method, *, engines: Sequence[str] = ("local",), short: bool = False) -> Iterator[Fact]:
    """Everything that a method promises; `short`: in one kind, with one network, in this process."""
    kinds = ["task"] if "task identity" in method.needs else list(KINDS_CHECKED)
    main = kinds[-1]
    spec = make_spec(method, SMALL, main)
    first: list[Trial] = []

    def trains() -> str:
        with watch_run() as observed:
            first.append(run_trial(spec))
        if observed.files:
            raise BrokenError(
                f"it reads {', '.join(sorted(observed.files))}, whose content is not in the key: other content would "
                "be answered with the old record; make it a field, or a literal in the file"
            )
        if observed.restarts:
            names = ", ".join(f"{name} ({times} times)" for name, times in observed.restarts.items())
            raise BrokenError(
                f"random streams begin again and draw the same numbers: {names}; use learner.rng(purpose)"
            )
        if first[0].record.status != "done":
            why = ": its loss or a parameter became NaN or infinite" if first[0].record.status == "diverged" else ""
            raise BrokenError(f"the run {first[0].record.status} on small made-up images{why}")
        return f"average accuracy {first[0].record.average_accuracy:.1f} after {first[0].record.steps} steps"

    yield state_fact(f"trains in {main} learning, and reads nothing that its key does not show", trains)
    if not first or first[0].record.status != "done":
        return
    yield state_fact("same seed, same bits", lambda: same_bits(run_trial(spec), first[0]))
    yield state_fact("resumed after each task equals uninterrupted", lambda: resumes(spec, first[0]))
    yield state_fact("declared memory covers measured memory", lambda: memory_is_declared(method, spec, first[0]))
    yield state_fact("its spec can be read back", lambda: reads_back(spec))
    yield state_fact("with coefficient 0 it is plain training, bit for bit", lambda: coefficient_zero(method, main))
    others: list[tuple[str, Net, str]] = [(kind, SMALL, "an MLP") for kind in kinds[:-1]]
    if not short:
        others += [(kind, CNN(), "a CNN") for kind in kinds]
    for kind, net, name in others:
        yield state_fact(f"works in {kind} learning with {name}", lambda k=kind, n=net: works(method, n, k))  # type: ignore[misc]
    if not short:
        yield from check_engines(spec, first[0], engines)


def check_net(net: Net, *, engines: Sequence[str] = ("local",), short: bool = False) -> Iterator[Fact]:
    """Everything that a network promises."""
    spec = make_spec(Adam(), net, "class")
    first: list[Trial] = []

    def trains() -> str:
        with watch_run() as observed:
            first.append(run_trial(spec))
        if observed.files:
            raise BrokenError(f"it reads {', '.join(sorted(observed.files))}, whose content is not in the key")
        return f"average accuracy {first[0].record.average_accuracy:.1f} after {first[0].record.steps} steps"

    yield state_fact("trains, and reads nothing that its key does not show", trains)
    if not first or first[0].record.status != "done":
        return
    yield state_fact("same seed, same bits", lambda: same_bits(run_trial(spec), first[0]))
    yield state_fact("resumed after each task equals uninterrupted", lambda: resumes(spec, first[0]))
    yield state_fact("its code is in the key", lambda: code_counts(net))
    yield state_fact("its spec can be read back", lambda: reads_back(spec))
    yield state_fact("evaluation changes nothing", lambda: evaluation_changes_nothing(net))
    yield state_fact("features, the input of its output layer, can be read", lambda: has_features(net))
    names = ["ewc", "rehearsal", "lwf"] if short else list(METHODS)
    for name in names:
        method = METHODS[name]()
        kind = "task" if "task identity" in method.needs else "class"
        yield state_fact(f"works with {name}", lambda m=method, k=kind: works(m, net, k))  # type: ignore[misc]
    if not short:
        yield from check_engines(spec, first[0], engines)


def check_scenario(scenario: Scenario, *, engines: Sequence[str] = ("local",), short: bool = False) -> Iterator[Fact]:
    """Everything that a scenario promises."""

    def same_tasks() -> str:
        digests = [task_digest(scenario, 0) for _ in range(2)]
        if digests[0] != digests[1]:
            raise BrokenError("the same seed gives other tasks when it is asked again")
        return f"{len(scenario.tasks(0))} tasks"

    def test_data_stay_closed() -> str:
        tasks = scenario.tasks(0)
        with tasks.guarded():
            for task in tasks:
                try:
                    task.test.batch(torch.arange(1))
                except RuntimeError:
                    continue
                raise BrokenError(f"the test images of task {task.index + 1} can be read while it trains")
        return ""

    spec = make_spec(Adam(), SMALL, scenario=scenario)
    first: list[Trial] = []

    def trains() -> str:
        first.append(run_trial(spec))
        return f"average accuracy {first[0].record.average_accuracy:.1f}"

    yield state_fact("same seed, same tasks", same_tasks)
    yield state_fact("test data are closed to training", test_data_stay_closed)
    yield state_fact("its code and data are in the key", lambda: code_counts(scenario))
    yield state_fact("Adam trains on it", trains)
    if not first or first[0].record.status != "done":
        return
    yield state_fact("same seed, same bits", lambda: same_bits(run_trial(spec), first[0]))
    yield state_fact("resumed after each task equals uninterrupted", lambda: resumes(spec, first[0]))
    if not short:
        yield from check_engines(spec, first[0], engines)


def same_bits(again: Trial, first: Trial) -> str:
    if again.bits != first.bits:
        raise BrokenError(
            f"losses {[round(x, 6) for x in again.record.losses]} the second time, "
            f"{[round(x, 6) for x in first.record.losses]} the first: it draws from a generator that nobody seeds, or "
            "keeps something outside itself; use learner.rng(purpose)"
        )
    return first.bits


def resumes(spec: Spec, first: Trial) -> str:
    points = first.checkpoints[:-1]
    if not points:
        many = len(first.record.accuracy) > 1
        raise SkippedError("no checkpoint can hold its state" if many else "there is one task only")
    for checkpoint in points:
        again = run_trial(spec, checkpoint)
        if again.record.accuracy != first.record.accuracy or again.bits != first.bits:
            where = f"task {checkpoint['task']}" + (f", epoch {checkpoint['epoch']}" if checkpoint["epoch"] else "")
            raise BrokenError(
                f"resumed after {where} it ends at {again.record.average_accuracy:.2f}, uninterrupted at "
                f"{first.record.average_accuracy:.2f}: something that later tasks need is not named in kept"
            )
    return f"{len(points)} checkpoints"


def memory_is_declared(method: Method, spec: Spec, first: Trial) -> str:
    tasks = spec.scenario.tasks(spec.seed)
    net = spec.net.build(tasks.shape, tasks.outputs)
    declared = method.kept_bytes_after(net, math.prod(tasks.shape), len(tasks))
    measured = sum(first.record.memory.get("kept", {}).values())
    undeclared = [m for m in method.members() if not states_memory(m)]
    if undeclared and measured:
        names = ", ".join(type(m).__name__ for m in undeclared)
        raise BrokenError(
            f"{names} keeps {measured:,} bytes and declares none; give it def kept_bytes(self, net, pixels)"
        )
    if measured > declared:
        raise BrokenError(f"it keeps {measured:,} bytes and declares {declared:,}")
    return f"declared {declared:,} bytes, measured {measured:,}"


def coefficient_zero(method: Method, kind: str) -> str:
    """A penalty without its coefficient trains as plain training does."""
    fields = {f.name for f in dataclasses.fields(method)}
    if "coef" not in fields or len(method.members()) > 1:
        raise SkippedError("it has no field coef")
    if "past data" in method.needs or method.replays:
        raise SkippedError("it replays")
    without = dataclasses.replace(method, coef=0.0)  # type: ignore[call-arg]
    plain = run_trial(make_spec(PLAIN[method.optimizer](), SMALL, kind))
    again = run_trial(make_spec(without, SMALL, kind))
    if (again.record.losses, again.record.accuracy) != (plain.record.losses, plain.record.accuracy):
        raise BrokenError(f"losses {again.record.losses} with coefficient 0, {plain.record.losses} in plain training")
    return ""


PLAIN: dict[str, Callable[[], Method]] = {
    "adam": Adam,
    "sgd": lambda: METHODS["sgd"](),
    "adagrad": lambda: METHODS["adagrad"](),
}


def works(method: Method, net: Net, kind: str) -> str:
    """It trains, or refuses in words before anything runs."""
    try:
        record = run_trial(make_spec(method, net, kind)).record
    except (ValueError, TypeError) as error:
        text = str(error)
        if "mlp" in text.lower() or "network" in text.lower() or "net" in text.lower():
            raise SkippedError(f"refused: {text}") from error
        raise
    if record.status != "done":
        raise BrokenError(f"the run {record.status}")
    return f"average accuracy {record.average_accuracy:.1f}"


def reads_back(spec: Spec) -> str:
    known = {images.fingerprint: images for images in spec.scenario.images}
    try:
        again = from_json(spec.to_json(), known)
    except ValueError as error:
        if is_registered(spec):
            raise
        raise SkippedError(f"it is not in a file that engram has loaded: {error}") from error
    if again.key != spec.key:
        raise BrokenError(f"its key is {again.key} when it is read back, {spec.key} before")
    return spec.key


def is_registered(spec: Spec) -> bool:
    members = [METHODS.name_of(member) in METHODS for member in spec.method.members()]
    return all(members) and NETS.name_of(spec.net) in NETS and SCENARIOS.name_of(spec.scenario) in SCENARIOS


def code_counts(recipe: Any) -> str:
    cls: Any = type(recipe)
    if cls.__module__.startswith("engram.") and not hasattr(cls, SOURCE) and not hash_code(cls):
        raise SkippedError("it is the package's own: its results change with the protocol number")
    hashed = hash_code(cls)
    if not hashed:
        raise BrokenError("no hash of its code can be made; define it in a file")
    return hashed


def evaluation_changes_nothing(net: Net) -> str:
    tasks = make_scenario("class").tasks(0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = net.build(tasks.shape, tasks.outputs)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    with torch.no_grad(), in_eval_mode(module), tasks[0].train.opened():
        module(tasks[0].train.batch(torch.arange(8)).x)
    changed = [name for name, value in module.state_dict().items() if not torch.equal(value, before[name])]
    if changed:
        raise BrokenError(f"evaluation changes {', '.join(changed)}")
    return ""


def has_features(net: Net) -> str:
    from engram.learning.train import new_learner

    spec = make_spec(Adam(), net)
    tasks = spec.scenario.tasks(0)
    learner = new_learner(tasks, combine([Adam()]), net, spec.training, 0, torch.device("cpu"))
    with tasks[0].train.opened():
        x = tasks[0].train.batch(torch.arange(4)).x
    found = learner.features(x)
    return f"{tuple(found.shape)} for 4 images"


def task_digest(scenario: Scenario, seed: int) -> str:
    import hashlib

    digest = hashlib.sha256()
    for task in scenario.tasks(seed):
        with task.train.opened():
            batch = task.train.batch(torch.arange(min(len(task.train), 64)))
        digest.update(batch.x.contiguous().numpy().tobytes() + batch.y.numpy().tobytes())
    return digest.hexdigest()


def check_engines(spec: Spec, first: Trial, engines: Sequence[str]) -> Iterator[Fact]:
    """The same record from one worker, from two, and on Ray."""
    for engine in engines:
        counts = (1, 2) if engine == "local" else (2,)
        for workers in counts:
            name = f"{workers} worker{'s' * (workers > 1)}" if engine == "local" else "Ray"
            yield state_fact(
                f"{name}: the same record", lambda e=engine, w=workers: same_on_engine(spec, first, e, w)  # type: ignore[misc]
            )  # fmt: skip


def same_on_engine(spec: Spec, first: Trial, engine: str, workers: int) -> str:
    from engram.engines.driver import Job, run_jobs
    from engram.engines.local import Local

    if not is_registered(spec):
        raise SkippedError("it is not in a file, so that no other process can load it; give its file: --file")
    if engine == "ray":
        try:
            from engram.engines.ray import OnRay

            used: Any = OnRay(None, workers, 0.25)
        except ImportError as error:
            raise SkippedError("Ray is not installed") from error
    else:
        used = Local(workers)
    jobs = [Job(dataclasses.replace(spec, seed=seed)) for seed in range(max(workers, 2))]
    with tempfile.TemporaryDirectory() as folder, closing(used):
        records = {r.seed: r for _, r in run_jobs(jobs, Path(folder), engine=used, say=lambda _: None)}
    mine = records[spec.seed]
    if mine.status == "failed":
        raise BrokenError((mine.error or "it failed").splitlines()[-1])
    if (mine.key, mine.accuracy, mine.losses) != (first.record.key, first.record.accuracy, first.record.losses):
        raise BrokenError(f"losses {mine.losses} there, {first.record.losses} here")
    return mine.key


def check_by_name(name: str, *, engines: Sequence[str] = ("local",), short: bool = False) -> Iterator[Fact]:
    """Checks a method (`rehearsal+si`: a combination), a network or a scenario recipe by its name."""
    if name in NETS:
        yield from check_net(NETS[name](**NETS[name].small), engines=engines, short=short)
    elif name in SCENARIOS:
        yield from check_scenario(small_scenario(SCENARIOS[name]), engines=engines, short=short)
    else:
        yield from check_made(lambda: combine([METHODS.find(member)() for member in name.split("+")]), engines, short)


def check_made(make: Callable[[], Method], engines: Sequence[str], short: bool) -> Iterator[Fact]:
    """Checks a method that can be made; a class with mistakes is refused when it is made."""
    made: list[Method] = []

    def construct() -> str:
        made.append(make())
        for member in made[0].members():
            if problem := overlooked(type(member), Method):
                raise BrokenError(problem)
        return ""

    fact = state_fact("its class has no misspelt hooks, and its fields are hyper-parameters", construct)
    yield fact
    if made:
        yield from check_method(made[0], engines=engines, short=short)


def small_scenario(cls: type[Scenario]) -> Scenario:
    """A recipe on made-up images; several datasets if it takes several, ten classes if it names the dataset itself."""
    if hasattr(cls, "dataset"):
        return cls(images=(ten_digits(),))
    images = (made_up_images(), made_up_images(1)) if cls.several_datasets else (made_up_images(),)
    return cls(images=images, kind="domain")


def check(thing: Any, *, engines: Sequence[str] = ("local",), short: bool = False) -> list[Fact]:
    """Checks a method, a network or a scenario, given as an instance, a class, or a name; the facts, in order.

    `eg.check(MyMethod(coef=3))` after scikit-learn's `check_estimator`.
    """
    if isinstance(thing, str):
        return list(check_by_name(thing, engines=engines, short=short))
    if isinstance(thing, type) and issubclass(thing, Scenario):
        thing = small_scenario(thing)
    if isinstance(thing, type) and issubclass(thing, Method):
        return list(check_made(thing, engines, short))
    made = thing() if isinstance(thing, type) else thing
    if isinstance(made, Method):
        return list(check_method(made, engines=engines, short=short))
    if isinstance(made, Net):
        return list(check_net(made, engines=engines, short=short))
    if isinstance(made, Scenario):
        return list(check_scenario(made, engines=engines, short=short))
    raise TypeError(f"{thing!r:.60} is not a method, a network or a scenario")
