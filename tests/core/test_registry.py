"""The registry: names and facts without imports, files from outside the package, errors with the nearest name."""

import dataclasses
import subprocess
import sys
from pathlib import Path

import pytest
from helpers import blobs

import engram as eg
from engram.core.code import hash_code
from engram.core.facts import COMPUTED, class_facts
from engram.core.registry import FIGURES, METHODS, METRICS, NETS, REGISTRIES, SCENARIOS, Loaded, facts_of, load_file
from engram.core.userfile import loaded_files, one_call
from engram.runs.records import Record
from engram.runs.spec import Spec, from_json, spec_of_setting

ENTRIES = [(registry, name) for registry in REGISTRIES for name in registry]


@pytest.mark.parametrize(("registry", "name"), ENTRIES, ids=[f"{r.what} {n}" for r, n in ENTRIES])
def test_what_the_source_states_is_what_the_class_has(registry, name):
    """Facts are read from the text, classes from the imported module: they agree in every literal and default."""
    facts, cls = registry.facts(name), registry[name]
    assert (facts.module, facts.class_name) == (cls.__module__, cls.__name__)
    for attribute, value in facts.literals.items():
        assert getattr(cls, attribute) == value, attribute
    if dataclasses.is_dataclass(cls):
        assert list(facts.defaults) == [f.name for f in dataclasses.fields(cls)]
        for f in dataclasses.fields(cls):
            stated = facts.defaults[f.name]
            assert stated is COMPUTED or stated == f.default, f.name
    assert issubclass(cls, registry.base_class())
    assert registry.name_of(cls) == name
    assert facts.doc


@pytest.mark.parametrize(
    ("module", "cls"), [("engram.learning.learner", eg.Training), ("engram.learning.evaluate", eg.Evaluation)]
)
def test_the_defaults_of_training_and_evaluation_are_read_too(module, cls):
    facts = class_facts(module, cls.__name__)
    assert facts.defaults == {f.name: f.default for f in dataclasses.fields(cls)}
    assert set(facts.docs) == set(facts.defaults)


def test_methods_state_title_family_and_needs_themselves():
    gem = METHODS.facts("gem").literals
    assert (gem["title"], gem["family"]) == ("GEM", METHODS["gem"].family)
    for name in METHODS:
        literals = METHODS.facts(name).literals
        assert literals["title"]
        assert isinstance(literals["needs"], frozenset)
    assert METHODS.facts("sgd").literals["optimizer"] == "sgd"


def test_the_names_of_the_registry():
    assert {"adam", "online-ewc", "gem-textbook", "rehearsal-c", "offline"} <= set(METHODS)
    assert "_penalty" not in METHODS
    assert {"mlp", "cnn"} <= set(NETS)
    assert {"split", "permuted", "queue"} <= set(SCENARIOS)
    assert {"average-accuracy", "forgetting"} <= set(METRICS)
    assert len(METHODS) == len(list(METHODS)) == len(set(METHODS))


LISTS = """
import sys
from engram.core.registry import REGISTRIES
for registry in REGISTRIES:
    for name in registry:
        registry.facts(name).summary
    try:
        registry.find("nothing like this")
    except ValueError:
        pass
print("torch" in sys.modules, "matplotlib" in sys.modules)
"""


def test_listing_names_and_facts_imports_no_torch():
    done = subprocess.run([sys.executable, "-c", LISTS], capture_output=True, text=True, check=True)
    assert done.stdout == "False False\n"


def test_an_unknown_name_is_refused_with_the_nearest_and_the_choices():
    with pytest.raises(ValueError, match=r"method 'onlin-ewc' is unknown; did you mean online-ewc.*choose from .*adam"):
        METHODS.find("onlin-ewc")
    with pytest.raises(KeyError, match="net 'mpl' is unknown; did you mean mlp"):
        NETS["mpl"]
    with pytest.raises(ValueError, match="metric 'forgeting' is unknown; did you mean forgetting"):
        METRICS.find("forgeting")
    with pytest.raises(ValueError, match="figure 'xyz' is unknown; choose from"):
        FIGURES.find("xyz")


def test_an_entry_can_be_put_and_taken_out_again(monkeypatch):
    with monkeypatch.context() as patch:
        patch.setitem(METHODS, "mine", eg.SGD)
        patch.delitem(METHODS, "adam")
        assert "mine" in METHODS
        assert "adam" not in METHODS
    assert "mine" not in METHODS
    assert METHODS["adam"] is eg.Adam


# Files from outside the package

EVERYTHING = '''
from dataclasses import dataclass
from typing import Annotated

from torch import nn

import engram as eg
from engram.nets.net import Layer
from engram.scenarios.split import Split


@dataclass
class Slow(eg.Method):
    """Plain training."""

    coef: Annotated[float, eg.Log(0.1, 10)] = 1.0

    def loss(self, learner, batch):
        return self.coef * learner.loss(batch)


@dataclass(frozen=True)
class Tiny(eg.Net):
    """One hidden layer."""

    name = "tiny-net"
    width: int = 5

    def build(self, shape, outputs):
        size = shape[0] * shape[1] * shape[2]
        return nn.Sequential(nn.Flatten(), nn.Linear(size, self.width), nn.Tanh(), nn.Linear(self.width, outputs))

    def layers(self, shape, outputs):
        return [Layer("outputs", (outputs,), 0)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Halves(Split):
    """Split, in halves."""

    name = "halves"
    extra: float = 0.5


class Worst(eg.Metric):
    """The worst task after the last one."""

    name = "worst-task"
    title = "worst task"

    def of(self, record):
        return min(record.accuracy[-1])
'''


def write(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


@pytest.fixture
def loaded(tmp_path: Path) -> list[Loaded]:
    return load_file(write(tmp_path / "all_of_it.py", EVERYTHING))


def test_a_file_adds_all_that_it_defines(loaded):
    assert loaded == [
        ("method", "all-of-it"), ("net", "tiny-net"), ("scenario", "halves"), ("metric", "worst-task"),
    ]  # fmt: skip
    assert METHODS.facts("all-of-it").defaults == {"coef": 1.0}
    assert NETS.facts("tiny-net").summary == "One hidden layer"
    assert METHODS.name_of(METHODS["all-of-it"](coef=3.0)) == "all-of-it"
    assert METRICS["worst-task"]().of(Record("", "", "", 0, {}, "done", [[90.0], [50.0, 70.0]])) == 50.0


def test_what_comes_from_a_file_runs_and_its_spec_goes_through_json_and_its_setting(loaded, monkeypatch):
    images = blobs(4)
    monkeypatch.setattr("engram.scenarios.create.images", lambda name: images)
    scenario = SCENARIOS["halves"](images=(images,), extra=0.25)
    net, training = NETS["tiny-net"](width=7), eg.Training(epochs=1, batch=16)
    spec = Spec(scenario, METHODS["all-of-it"](coef=2.0), net, training, seed=4)
    assert str(spec) == "halves-own/class all-of-it seed 4"
    again = from_json(spec.to_json(), {images.fingerprint: images})
    assert (type(again.scenario), type(again.net), type(again.method)) == (
        type(scenario), type(net), type(spec.method),
    )  # fmt: skip
    assert again.key == spec.key
    assert spec_of_setting(spec.setting, 4).key == spec.key
    assert spec.setting.value("scenario.extra") == 0.25
    record = eg.run(scenario, spec.method, net=net, training=training, seed=4)
    assert (record.status, record.key) == ("done", spec.key)


def test_facts_of_an_imported_class_have_its_fields(loaded):
    facts = facts_of(SCENARIOS["halves"])
    assert facts.literals["name"] == facts.literals["make"] == "halves"
    assert facts.defaults["extra"] == 0.5
    assert facts.defaults["classes_per_task"] == 2


METHOD = "import engram as eg\n\n\nclass Mine(eg.Method):\n    title = {!r}\n"


def test_a_file_that_was_edited_is_loaded_anew(tmp_path):
    file = tmp_path / "mine.py"
    for title in ("first", "second"):
        assert load_file(write(file, METHOD.format(title))) == [("method", "mine")]
        assert METHODS["mine"].title == METHODS.facts("mine").literals["title"] == title
    assert list(METHODS).count("mine") == 1


def test_a_file_with_dashes_in_its_name_is_a_method_with_dashes(tmp_path):
    assert load_file(write(tmp_path / "my_own_method.py", METHOD.format("x"))) == [("method", "my-own-method")]


HALVES = """
from dataclasses import dataclass
from engram.scenarios.split import Split


@dataclass(frozen=True, eq=False, kw_only=True)
class Halves(Split):
    extra: float = 0.5
"""


def test_a_scenario_without_a_name_goes_by_its_file_and_not_by_what_it_inherits_from(tmp_path, monkeypatch):
    images = blobs(4)
    given = {images.fingerprint: images}
    monkeypatch.setattr("engram.scenarios.create.images", lambda name: images)
    assert load_file(write(tmp_path / "halved.py", HALVES)) == [("scenario", "halved")]
    spec = Spec(SCENARIOS["halved"](images=(images,), extra=0.25), eg.Adam())
    assert (spec.scenario_name, spec.to_json()["scenario"]["make"]) == ("halved-own/class", "halved")
    again = from_json(spec.to_json(), given)
    assert type(again.scenario) is SCENARIOS["halved"]
    assert again.key == spec.key == spec_of_setting(spec.setting).key
    assert set(spec.setting.values) == {"scenario.extra", "scenario.own code"}
    plain = Spec(eg.split(images), eg.Adam())
    assert type(from_json(plain.to_json(), given).scenario) is SCENARIOS["split"]


def test_the_recipe_of_a_scenario_is_the_longest_name_that_it_begins_with(tmp_path):
    load_file(write(tmp_path / "in_halves.py", HALVES))
    load_file(write(tmp_path / "in.py", HALVES))
    for text, recipe in (("in-halves-own", "in-halves"), ("in-own", "in"), ("split-my-set", "split"), ("inside", "")):
        assert SCENARIOS.first_name(text) == recipe
    spec = Spec(SCENARIOS["in-halves"](images=(blobs(4),), extra=0.25), eg.Adam())
    assert spec.scenario_name == "in-halves-own/class"
    assert set(spec.setting.values) == {"scenario.extra", "scenario.own code"}


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("adam.py", METHOD.format("x"), "there is a method adam already; give the file another name"),
        ("mine.txt", METHOD.format("x"), "is not a Python file"),
        ("a+b.py", METHOD.format("x"), r"\+ combines methods"),
        ("empty.py", "x = 1\n", "defines nothing that engram knows: no subclass of engram.Method, engram.Net"),
        ("broken.py", "x = (\n", r"cannot be loaded: SyntaxError: .*line 1"),
        ("raises.py", "import engram\n\n1 / 0\n", r"cannot be loaded: ZeroDivisionError: .* \(raises.py, line 3\)"),
        ("plain.py", "import engram as eg\nclass A(eg.Method):\n    coef: float = 1.0\n", "put @dataclass above"),
        (
            "kept.py",
            "from dataclasses import dataclass, field\nimport engram as eg\n@dataclass\nclass A(eg.Method):\n"
            "    coef: float\n",
            "field coef has no default",
        ),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_words(tmp_path, name, text, words):
    with pytest.raises(ValueError, match=words):
        load_file(write(tmp_path / name, text))
    assert METHODS["adam"] is eg.Adam


def test_a_file_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"none\.py does not exist"):
        load_file(tmp_path / "none.py")


def test_files_beside_a_file_can_be_imported_by_it(tmp_path):
    """Also those that they import, and packages; two folders with a file of the same name do not mix."""
    for folder, factor in (("one", 2.0), ("two", 3.0)):
        place = tmp_path / folder
        (place / "parts").mkdir(parents=True)
        write(place / "helper.py", "from parts.deep import FACTOR\n")
        write(place / "parts" / "__init__.py", "")
        write(place / "parts" / "deep.py", f"FACTOR = {factor}\n")
        text = "import engram as eg\nfrom helper import FACTOR\n\n\nclass Mine(eg.Method):\n    factor = FACTOR\n"
        load_file(write(place / f"mine_{folder}.py", text))
    assert (METHODS["mine-one"].factor, METHODS["mine-two"].factor) == (2.0, 3.0)


def test_a_file_that_is_refused_is_not_loaded_by_other_processes(tmp_path, monkeypatch):
    monkeypatch.setattr("engram.core.userfile._LOADED", {})
    file = tmp_path / "nothing.py"
    file.write_text("x = 1\n")
    with pytest.raises(ValueError, match="defines nothing that engram knows"):
        load_file(file)
    assert loaded_files() == ()


@pytest.mark.parametrize("field", ["name", "source"])
def test_a_field_that_would_take_the_place_of_something_else_in_a_record_is_refused(tmp_path, field):
    file = tmp_path / "mine.py"
    file.write_text(
        "from dataclasses import dataclass\nimport engram as eg\n\n\n@dataclass\nclass Mine(eg.Method):\n"
        f'    {field}: str = "other"\n'
    )
    with pytest.raises(ValueError, match=f"field {field} has the name of something else in a record"):
        load_file(file)
    assert "mine" not in METHODS
    assert "other" not in METHODS


# Which class a name stands for

FIRST_AND_ABLATED = """
import engram as eg


class {0}(eg.Method):
    factor = 10.0


class {1}({0}):
    factor = 0.0
"""


@pytest.mark.parametrize(
    ("file", "first", "last", "names"),
    [
        ("mine.py", "Mine", "MineAblated", {"mine": 10.0, "mineablated": 0.0}),
        ("other.py", "Mine", "MineAblated", {"mine": 10.0, "other": 0.0}),
        ("my_mine.py", "MyMine", "MyMineAblated", {"my-mine": 10.0, "mymineablated": 0.0}),  # hyphens aside
        ("mine.py", "Base", "Mine", {"base": 10.0, "mine": 0.0}),
    ],
)
def test_the_name_of_a_file_belongs_to_the_class_that_is_called_so_else_to_the_last(tmp_path, file, first, last, names):
    found = load_file(write(tmp_path / file, FIRST_AND_ABLATED.format(first, last)))
    assert {name: METHODS[name].factor for _, name in found} == names


def test_a_class_that_states_the_name_of_the_file_keeps_it(tmp_path):
    text = "import engram as eg\nclass A(eg.Method):\n    name = 'mine'\nclass B(eg.Method):\n    ...\n"
    assert load_file(write(tmp_path / "mine.py", text)) == [("method", "mine"), ("method", "b")]
    assert METHODS["mine"].__name__ == "A"


def test_the_name_of_a_file_belongs_to_the_metric_or_network_that_is_called_so(tmp_path):
    text = (
        "import engram as eg\nfrom torch import nn\n"
        "class Fin(eg.Metric):\n    def of(self, record): return 5.0\n"
        "class Other(eg.Metric):\n    def of(self, record): return 1.0\n"
    )
    assert load_file(write(tmp_path / "fin.py", text)) == [("metric", "fin"), ("metric", "other")]
    assert (METRICS["fin"]().of(None), METRICS["other"]().of(None)) == (5.0, 1.0)
    text = (
        "from torch import nn\n"
        "class Own(nn.Linear):\n    def __init__(self, shape, outputs): super().__init__(64, outputs)\n"
        "def bigger(shape, outputs) -> nn.Module:\n    return nn.Linear(64, outputs)\n"
    )
    assert load_file(write(tmp_path / "own.py", text)) == [("net", "own"), ("net", "bigger")]
    assert NETS["own"].__name__ == "Own"


@pytest.mark.parametrize(
    ("file", "text", "words"),
    [
        (
            "two.py",
            "class Mine(eg.Method): ...\nclass MINE(eg.Method): ...\nclass Last(eg.Method): ...\n",
            "Mine and MINE are both the method mine; give one of them another name",
        ),
        (
            "two.py",
            "class A(eg.Method):\n    name = 'b'\nclass B(eg.Method): ...\nclass C(eg.Method): ...\n",
            "A and B are both the method b",
        ),
        (
            "two.py",
            "def acc(logits, targets, active): return 1.0\n"
            "class ACC(eg.Metric):\n    name = 'acc'\n    def of(self, record): return 2.0\n",
            "acc and ACC are both the metric acc",
        ),
    ],
)
def test_a_name_given_twice_in_a_file_is_refused_with_both_classes(tmp_path, file, text, words):
    with pytest.raises(ValueError, match=rf"two\.py: {words}"):
        load_file(write(tmp_path / file, f"import engram as eg\n{text}"))
    assert not METHODS.added


def test_a_second_name_of_a_class_is_no_second_class(tmp_path):
    text = (
        METHOD.format("x")
        + "\n\nDefault = Mine\n\n\ndef half(logits, targets, active):\n    return 0.5\n\n\nh = half\n"
    )
    assert load_file(write(tmp_path / "one.py", text)) == [("method", "one"), ("metric", "half")]


def test_a_class_with_the_name_of_a_built_in_one_is_told_to_take_another(tmp_path):
    text = "import engram as eg\nclass Mine(eg.Method): ...\nclass ER(eg.ER): ...\n"
    with pytest.raises(ValueError, match="there is a method er already; give the class ER another name"):
        load_file(write(tmp_path / "mine.py", text))
    assert not METHODS.added  # a file is refused as a whole


BOTH = """
import engram as eg


def acc(logits, targets, active):
    return 7.0


def _helper(logits, targets, active):
    return 8.0


class Worst(eg.Metric):
    def of(self, record):
        return 9.0
"""


def test_functions_beside_a_metric_are_metrics_too(tmp_path):
    assert load_file(write(tmp_path / "both.py", BOTH)) == [("metric", "acc"), ("metric", "both")]
    assert METRICS["acc"]().measure(None, None, slice(0)) == 7.0
    assert METRICS["both"]().of(None) == 9.0


# Files of one call


def two_versions(folder: Path, text: str = METHOD) -> list[Path]:
    """Two files of one name in two folders: they state which they are in their titles."""
    for version in ("v1", "v2"):
        (folder / version).mkdir()
    return [write(folder / version / "mine.py", text.format(version)) for version in ("v1", "v2")]


def test_two_files_of_one_call_cannot_define_the_same_name(tmp_path):
    first, second = two_versions(tmp_path)
    with one_call():
        load_file(first)
        with (
            pytest.raises(
                ValueError, match=r"v2/mine\.py: it defines the method mine, and so does .*v1/mine\.py.*rename"
            ),
            one_call(),  # as of a study that a command reads
        ):
            load_file(second)
        assert METHODS["mine"].title == "v1"
        assert [Path(file.path) for file in loaded_files()] == [first]
        write(first, METHOD.format("edited"))
        load_file(first)
        assert METHODS["mine"].title == "edited"
    load_file(second)  # another call
    assert METHODS["mine"].title == "v2"


def test_a_file_that_does_not_define_a_name_any_longer_leaves_it_to_another(tmp_path):
    first, second = two_versions(tmp_path)
    with one_call():
        load_file(first)
        load_file(write(first, METHOD.format("v1").replace("title", "name")))
        load_file(second)
    assert METHODS["mine"].title == "v2"
    assert METHODS["v1"].name == "v1"


def test_other_processes_load_files_in_the_order_of_this_one(tmp_path):
    """The last one that defines a name has it, here and there."""
    first, second = two_versions(tmp_path)
    for file in (first, second, first):
        load_file(file)
    assert [Path(file.path) for file in loaded_files()] == [second, first]
    for file in loaded_files():
        load_file(file)
    assert METHODS["mine"].title == "v1"


def test_files_of_one_name_have_their_own_texts_in_keys(tmp_path):
    """Also if the key is made after both are loaded, and of helpers beside them."""
    text = "import engram as eg\nfrom helper import Base\n\n\nclass Mine(Base):\n    name = {!r}\n"
    files = two_versions(tmp_path, text)
    helper = "import engram as eg\n\n\nclass Base(eg.Method):\n    factor = {}\n"

    def hashes(factor: int) -> list[str]:
        write(tmp_path / "v1" / "helper.py", helper.format(factor))
        write(tmp_path / "v2" / "helper.py", helper.format(3))
        for file in files:
            load_file(file)
        return [hash_code(METHODS[version]) for version in ("v1", "v2")]

    before, after = hashes(1), hashes(2)
    assert before[0] != after[0]
    assert before[1] == after[1]
    load_file(files[0])
    assert hash_code(METHODS["v1"]) == after[0]  # as alone


# What Python's own messages leave open


@pytest.mark.parametrize(
    ("head", "base", "words"),
    [
        ("@dataclass", "Metric", r"\(mine\.py, line 4\); write @dataclass\(frozen=True\) above the class"),
        ("@dataclass(frozen=True)", "ER", "line 4.*; write @dataclass above the class, without frozen=True"),
    ],
)
def test_a_dataclass_that_is_frozen_or_not_unlike_its_base_is_told_what_to_write(tmp_path, head, base, words):
    text = (
        f"from dataclasses import dataclass\nimport engram as eg\n\n{head}\nclass M(eg.{base}):\n    k: int = 1\n"
        "    def of(self, record): return 1.0\n"
    )
    with pytest.raises(ValueError, match=f"cannot be loaded: TypeError: cannot inherit .*{words}"):
        load_file(write(tmp_path / "mine.py", text))


@pytest.mark.parametrize(
    ("field", "value", "choices"),
    [("better", "smaller", "'higher', 'lower'"), ("better", None, "'higher'"), ("when", "never", "'each task', 'end'")],
)
def test_a_metric_with_a_word_that_means_nothing_is_refused_when_it_is_made(field, value, choices):
    own = {field: value, "of": lambda self, record: 1.0}
    with pytest.raises(ValueError, match=f"metric Own: {field} = {value!r} is not one of its values.*{choices}"):
        type("Own", (eg.Metric,), own)
