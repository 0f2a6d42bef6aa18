"""Specs and keys: a key names all that a run depends on, and nothing else."""

import importlib
import json
import sys
from dataclasses import dataclass, field, fields, replace

import pytest
from helpers import blobs

import engram as eg
from engram.core.code import hash_code, written_source
from engram.core.registry import METHODS, load_file
from engram.core.userfile import loaded_files
from engram.learning.combine import combine
from engram.runs import spec as spec_module
from engram.runs.records import Record
from engram.runs.setting import setting_of_record
from engram.runs.spec import Spec, SpecError, changed_values, from_json
from engram.scenarios.permute import Permute
from engram.scenarios.split import Split


@pytest.fixture(scope="module")
def images():
    return blobs(4)


def spec_of(images, **values) -> Spec:
    return Spec(eg.split(images), eg.Adam(), **values)


OTHER = {
    eg.Training: {
        "epochs": 5, "steps": 7, "batch": 64, "optimizer": "sgd", "lr": 0.01, "momentum": 0.9, "weight_decay": 0.1,
        "drop_last": True, "reset_optimizer": True, "schedule": "cosine", "schedule_over": "run", "warmup": 5,
        "lr_end": 0.1, "lr_drops": (0.9,), "lr_factor": 0.5, "clip": 1.0, "label_smoothing": 0.1,
        "nesterov": True, "betas": (0.8, 0.9), "augment": ("flip",), "optimizer_options": ("eps=0.5",),
        "precision": "bf16", "boundary_every": 100,
    },
    eg.Evaluation: {"mask": False, "forward_transfer": True, "evaluate_every": 10, "give_task_identity": True,
                    "keep": ("net",)},
    eg.MLP: {"hidden": (400,), "heads": "zero", "init": "xavier"},
    Split: {
        "kind": "task", "pad": 1, "normalize": (0.1, 0.2), "held_out": 0.1, "classes_per_task": 1, "order": "shuffled",
        "groups": ((0, 1), (2,)), "per_class": 3, "imbalance": "exp", "ratio": 0.2,
    },
    Permute: {
        "kind": "task", "pad": 1, "normalize": "train", "held_out": 0.1, "permutations": 3, "identity_first": False,
        "per_class": 3, "imbalance": "exp", "ratio": 0.2,
    },
}  # fmt: skip
"""Another value for every field."""
NEEDED = {
    "momentum": {"optimizer": "rmsprop"},  # adam has none
    "nesterov": {"optimizer": "sgd", "momentum": 0.9},
    "schedule_over": {"schedule": "linear"},
    "lr_end": {"schedule": "linear"},
    "lr_drops": {"schedule": "step"},
    "lr_factor": {"schedule": "step"},
    "imbalance": {"ratio": 0.1},
    "ratio": {"imbalance": "exp"},
}
"""What a field needs beside it."""


def variants(images):
    """(what differs, spec) for every single field of a spec."""
    for name in OTHER[eg.Training]:
        training = eg.Training(**{name: OTHER[eg.Training][name]}, **NEEDED.get(name, {}))
        yield f"training {name}", spec_of(images, training=training)
    for name in OTHER[eg.Evaluation]:
        yield f"evaluation {name}", spec_of(images, evaluation=eg.Evaluation(**{name: OTHER[eg.Evaluation][name]}))
    yield "net hidden", spec_of(images, net=eg.MLP(400))
    yield "net order", spec_of(images, net=eg.MLP(400, 300))
    yield "net order back", spec_of(images, net=eg.MLP(300, 400))
    yield "net heads", spec_of(images, net=eg.MLP(heads="zero"))
    yield "net init", spec_of(images, net=eg.MLP(init="xavier"))
    for cls, make in ((Split, eg.split), (Permute, eg.permute)):
        yield cls.__name__, replace(spec_of(images, seed=99), scenario=make(images))
        for name, value in OTHER[cls].items():
            yield f"{cls.__name__} {name}", Spec(make(images, **{name: value}, **NEEDED.get(name, {})), eg.Adam())
    for kind in ("domain", "class-known", "iid"):
        yield kind, Spec(eg.split(images, kind=kind), eg.Adam())
    yield "normalize train", Spec(eg.split(images, normalize="train"), eg.Adam())
    for method in (eg.SGD(), eg.Adagrad(), eg.Offline()):
        yield type(method).__name__, Spec(eg.split(images), method)
    yield "seed", spec_of(images, seed=1)
    yield "threads", spec_of(images, threads=2)
    yield "device", spec_of(images, device="cuda")
    yield "content", spec_of(blobs(4, seed=1))


@pytest.mark.parametrize("cls", OTHER)
def test_the_list_of_other_values_has_every_field(cls):
    assert set(OTHER[cls]) == {f.name for f in fields(cls)} - {"images"}


def test_any_other_value_is_another_key(images):
    keys = {"as it is": spec_of(images).key, **{what: spec.key for what, spec in variants(images)}}
    assert len(set(keys.values())) == len(keys)
    assert all(len(key) == 16 for key in keys.values())


def test_the_same_values_are_the_same_key_however_they_were_written(images):
    plain = spec_of(images)
    assert Spec(eg.split(images, kind="class", pad=0), eg.Adam(), net=eg.MLP(400, 400)).key == plain.key
    assert spec_of(images, training=eg.Training(lr=0.001, epochs=4)).key == plain.key
    by_list, by_tuple = (Spec(eg.split(images, classes_per_task=k), eg.Adam()).key for k in ([1, 3], (1, 3)))
    assert by_list == by_tuple


def test_whole_numbers_and_floats_that_are_equal_are_the_same_key(images):
    """`lr=1` in Python, `--lr 1` on the command line (a float), and a record read back: one run."""
    for one, other in (
        ({"training": eg.Training(lr=1)}, {"training": eg.Training(lr=1.0)}),
        ({"training": eg.Training(weight_decay=2)}, {"training": eg.Training(weight_decay=2.0)}),
    ):
        assert spec_of(images, **one).key == spec_of(images, **other).key
    whole, floats = (eg.split(images, normalize=n) for n in ((0, 1), (0.0, 1.0)))
    assert Spec(whole, eg.Adam()).key == Spec(floats, eg.Adam()).key


def test_the_key_depends_on_the_content_of_the_images_and_not_on_their_name():
    assert spec_of(blobs(4, name="one")).key == spec_of(blobs(4, name="two")).key
    assert spec_of(blobs(4, seed=0)).key != spec_of(blobs(4, seed=1)).key


def test_the_protocol_changes_every_key(images, monkeypatch):
    before = spec_of(images).key
    monkeypatch.setattr(spec_module, "PROTOCOL", 1_000_000)
    assert spec_of(images).key != before


def test_how_methods_are_combined_is_in_the_keys_of_combinations_alone(images, monkeypatch):
    def keys() -> list[str]:
        methods = eg.EWC(), eg.SI(), combine([eg.EWC()]), combine([eg.EWC(), eg.SI()])
        return [Spec(eg.split(images), method).key for method in methods]

    before = keys()
    monkeypatch.setattr(spec_module, "COMBINED", 1_000_000)
    assert [one == other for one, other in zip(before, keys(), strict=True)] == [True, True, True, False]


def test_the_derivation_of_a_key_is_pinned(monkeypatch):
    """Of pixels that never change; another key here means that every recorded run has lost its name."""
    monkeypatch.setattr(spec_module, "PROTOCOL", 1)
    x = [[[0, 1], [2, 3]], [[4, 5], [6, 7]]]
    tiny = eg.Images(x, [0, 1], x, [0, 1])
    scenario = eg.split(tiny, classes_per_task=1, kind="task")
    assert Spec(scenario, eg.SGD(), training=eg.Training(optimizer="sgd", lr=0.01), seed=3).key == "2bc279fb175dc903"


@dataclass(frozen=True)
class LongerTraining(eg.Training):
    clip: float = 0.0
    milestones: tuple[int, ...] = field(default_factory=tuple)


@dataclass(frozen=True)
class LongerEvaluation(eg.Evaluation):
    calibration: bool = False


@dataclass
class Weighted(eg.Adam):
    coef: float = 100.0


@dataclass
class LongerWeighted(Weighted):
    decay: float = 1.0


def test_a_new_field_with_a_neutral_default_leaves_keys_alone(images):
    for old, new in (
        ({"training": eg.Training(lr=0.1)}, {"training": LongerTraining(lr=0.1)}),
        ({"evaluation": eg.Evaluation(mask=False)}, {"evaluation": LongerEvaluation(mask=False)}),
    ):
        assert spec_of(images, **old).key == spec_of(images, **new).key
    assert changed_values(Weighted(coef=3.0)) == changed_values(LongerWeighted(coef=3.0)) == {"coef": 3.0}
    assert changed_values(LongerWeighted(decay=0.5)) == {"decay": 0.5}
    assert spec_of(images, training=LongerTraining(clip=1.0)).key != spec_of(images).key


def test_a_method_of_one_s_own_does_not_take_the_key_of_a_method_with_the_same_name(images):
    """Else its results would be looked up among the other's records, and called a preset's."""

    class Adam(eg.Method):
        def after_step(self, learner, batch):
            pass

    typed_at_a_prompt = type("Adam", (eg.Method,), {"after_step": lambda self, learner, batch: None})
    assert Spec(eg.split(images), Adam()).key != Spec(eg.split(images), eg.Adam()).key
    assert Spec(eg.split(images), typed_at_a_prompt()).key != Spec(eg.split(images), eg.Adam()).key


AT_A_PROMPT = """
from dataclasses import dataclass
import engram as eg

@dataclass
class Mine(eg.Method):
    coef: float = {coef}

    def loss(self, learner, batch, power={power}):
        return {factor} * learner.loss(batch) ** power if "a" in {{"a", "b"}} else None
"""


def test_a_class_without_a_text_has_its_code_in_its_key(images):
    """As a notebook's: `inspect` finds no source of it."""

    def key(factor=1.0, coef=2.0, power=1):
        module = {"__name__": "no_such_module"}
        exec(AT_A_PROMPT.format(factor=factor, coef=coef, power=power), module)
        return Spec(eg.split(images), module["Mine"]()).key

    assert key() == key()
    assert len({key(), key(factor=0.0), key(coef=3.0), key(power=2)}) == 4


def test_runs_of_two_versions_of_a_method_are_two_settings(images, tmp_path, monkeypatch):
    """Else a report or a diff would take the old version's numbers for the new one's."""
    file, specs = tmp_path / "mine.py", []
    monkeypatch.setattr("engram.core.userfile._LOADED", {})
    monkeypatch.setattr(METHODS, "added", {})
    for factor in (1, 2):
        file.write_text(MINE.format(factor))
        load_file(file)
        specs.append(Spec(eg.split(images), METHODS["mine"]()))
        again = from_json(specs[-1].to_json(), {images.fingerprint: images})
        assert again.key == specs[-1].key
    a, b = (Record(spec.key, "", "mine", 0, spec.to_json(), "done") for spec in specs)
    assert setting_of_record(a) != setting_of_record(b)
    assert "own code" not in spec_of(images).to_json()["method"][0]


MINE = "import engram as eg\n\nFACTOR = {}\n\n\nclass Mine(eg.Method):\n    ...\n"


def test_all_of_a_method_file_is_in_its_key(images, tmp_path, monkeypatch):
    """A constant or a function beside the class changes results as much as the class does."""
    file, keys = tmp_path / "mine.py", []
    monkeypatch.setattr("engram.core.userfile._LOADED", {})
    monkeypatch.setattr(METHODS, "added", {})
    for factor in (1, 1000, 1):
        file.write_text(MINE.format(factor))
        load_file(file)
        file.write_text("what comes after loading does not matter")
        keys.append(Spec(eg.split(images), METHODS["mine"]()).key)
        assert [(one.path, one.text) for one in loaded_files()] == [(str(file), MINE.format(factor))]
    assert keys[0] == keys[2] != keys[1]


def test_all_of_an_imported_module_is_in_the_key_of_its_method(images, tmp_path, monkeypatch):
    """As of a method file: a helper or a constant beside the class counts."""
    monkeypatch.syspath_prepend(tmp_path)
    keys = []
    for factor in (1, 1000, 1):
        (tmp_path / "mine_imported.py").write_text(MINE.format(factor))
        monkeypatch.delitem(sys.modules, "mine_imported", raising=False)
        importlib.invalidate_caches()
        keys.append(Spec(eg.split(images), importlib.import_module("mine_imported").Mine()).key)
    monkeypatch.delitem(sys.modules, "mine_imported")
    assert keys[0] == keys[2] != keys[1]


def test_what_a_method_of_one_s_own_inherits_is_in_its_key(monkeypatch):
    class Base(eg.Method):
        __module__ = "__main__"

    class Mixin:
        __module__ = "__main__"

    class Derived(Mixin, Base):
        __module__ = "__main__"

    def hashed(**texts):
        written_source.cache_clear()
        monkeypatch.setattr("engram.core.code.inspect.getsource", lambda cls: texts.get(cls.__name__, "same"))
        return hash_code(Derived)

    assert hashed() == hashed()
    assert len({hashed(), hashed(Derived="other"), hashed(Base="other"), hashed(Mixin="other", Base="more")}) == 4
    assert hash_code(eg.SI) == ""  # ours have a protocol number instead
    written_source.cache_clear()


@pytest.mark.mnist
def test_a_spec_goes_through_json_and_keeps_its_key(mnist, monkeypatch):
    monkeypatch.setattr(spec_module, "images", lambda name: mnist)  # loaded once, not twenty times
    count = 0
    for what, spec in variants(mnist):
        if what in ("device", "content"):
            continue
        values = json.loads(json.dumps(spec.to_json()))
        if what == "Split classes_per_task":
            assert values["scenario"]["classes_per_task"] == 1
        again = from_json(values)
        assert again.key == spec.key, what
        assert again.to_json() == spec.to_json(), what
        count += 1
    assert count > 30


@pytest.mark.mnist
def test_a_spec_reads_the_images_that_it_names(mnist):
    spec = Spec(
        eg.split(mnist, kind="class", classes_per_task=[4, 6], pad=2, normalize=(0.1, 0.2752)), eg.SGD(), seed=5
    )
    values = json.loads(json.dumps(spec.to_json()))
    assert from_json(values).key == spec.key
    values["scenario"]["images"]["mnist"] = "sha256:0000000000000000"
    with pytest.raises(SpecError, match="mnist here has"):
        from_json(values)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda v: v.pop("seed"),
        lambda v: v["training"].update(epoch=3),
        lambda v: v["scenario"].update(make="shuffle"),
        lambda v: v["net"].update(name="transformer"),
        lambda v: v.pop("scenario"),
    ],
)
def test_what_is_no_spec_is_refused(images, monkeypatch, spoil):
    monkeypatch.setattr(spec_module, "images", lambda name: images)
    values = json.loads(json.dumps(spec_of(images).to_json()))
    assert from_json(values).key == spec_of(images).key
    spoil(values)
    with pytest.raises(SpecError, match=r"not a spec|is unknown; choose from"):
        from_json(values)


def test_names(images):
    assert spec_of(images).scenario_name == "split-own/class"
    assert Spec(eg.permute(images, kind="domain"), eg.Offline()).scenario_name == "permuted-own/domain"
    assert [Spec(eg.split(images), m).method_name for m in (eg.Adam(), eg.Offline())] == ["adam", "offline"]
