"""The hash of outside code: what is edited gets another key, and what has no part in a run does not."""

import importlib
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers import blobs

import engram as eg
from engram.core.code import captured_values, hash_code
from engram.core.registry import METHODS, NETS, SCENARIOS, load_file
from engram.core.userfile import imported_names, loaded_files, read_user_file
from engram.runs.spec import Spec, SpecError

IMAGES = blobs(4)

NET = """
from dataclasses import dataclass
from torch import nn
import engram as eg
from engram.nets.net import Layer


@dataclass(frozen=True)
class Mine(eg.Net):
    def build(self, shape, outputs):
        size = shape[0] * shape[1] * shape[2]
        return nn.Sequential(nn.Flatten(), nn.Linear(size, 5), nn.{}(), nn.Linear(5, outputs))

    def layers(self, shape, outputs):
        return [Layer("outputs", (outputs,), 0)]
"""
SCENARIO = """
from dataclasses import dataclass
from engram.scenarios.split import Split


@dataclass(frozen=True, eq=False, kw_only=True)
class Mine(Split):
    def tasks(self, seed=0, device="cpu"):
        return super().tasks(seed + {}, device)
"""
METHOD = """
import engram as eg
from beside import FACTOR


class Mine(eg.Method):
    def loss(self, learner, batch):
        return FACTOR * learner.loss(batch)
"""


def key(scenario=None, method=None, net=None) -> str:
    return Spec(scenario or eg.split(IMAGES), method or eg.Adam(), net or eg.MLP(5)).key


def load(path: Path, text: str) -> None:
    path.write_text(text)
    load_file(path)


def test_a_network_edited_between_two_runs_gets_a_new_key(tmp_path):
    keys, settings = [], []
    for activation in ("ReLU", "Tanh", "ReLU"):
        load(tmp_path / "mine.py", NET.format(activation))
        keys.append(key(net=NETS["mine"]()))
        settings.append(Spec(eg.split(IMAGES), eg.Adam(), NETS["mine"]()).setting)
    assert keys[0] == keys[2] != keys[1]
    assert settings[0] == settings[2] != settings[1]


def test_an_edited_network_is_run_again_and_not_read(tmp_path):
    found = []
    for activation in ("ReLU", "Tanh", "ReLU"):
        load(tmp_path / "mine.py", NET.format(activation))
        training = eg.Training(epochs=1, batch=16)
        found.append(eg.run(eg.split(IMAGES), eg.Adam(), net=NETS["mine"](), training=training, out=tmp_path / "out"))
    assert [record.reused for record in found] == [False, False, True]
    assert found[0].losses == found[2].losses != found[1].losses


def test_a_scenario_edited_between_two_runs_gets_a_new_key(tmp_path):
    keys = []
    for shift in (0, 1, 0):
        load(tmp_path / "mine.py", SCENARIO.format(shift))
        keys.append(key(scenario=SCENARIOS["mine"](images=(IMAGES,))))
    assert keys[0] == keys[2] != keys[1]


def test_a_file_beside_a_method_is_in_its_key(tmp_path):
    keys = []
    for factor in (1, 1000, 1):
        (tmp_path / "beside.py").write_text(f"FACTOR = {factor}\n")
        load(tmp_path / "mine.py", METHOD)
        keys.append(key(method=METHODS["mine"]()))
        assert factor == sys.modules["beside"].FACTOR
    assert keys[0] == keys[2] != keys[1]


def test_a_file_that_a_file_beside_imports_is_in_the_key_too(tmp_path):
    keys = []
    (tmp_path / "beside.py").write_text("from further.deep import FACTOR\n")
    (tmp_path / "further").mkdir()
    (tmp_path / "further" / "__init__.py").write_text("")
    for factor in (1, 1000, 1):
        (tmp_path / "further" / "deep.py").write_text(f"FACTOR = {factor}\n")
        load(tmp_path / "mine.py", METHOD)
        keys.append(key(method=METHODS["mine"]()))
    assert keys[0] == keys[2] != keys[1]


def test_an_edited_further_file_is_what_runs(tmp_path):
    """The file beside, whose own text is the same, is made anew from the edited one."""
    (tmp_path / "beside.py").write_text("from further import FACTOR\n")
    for factor in (1, 1000):
        (tmp_path / "further.py").write_text(f"FACTOR = {factor}\n")
        load(tmp_path / "mine.py", METHOD)
        assert METHODS["mine"].loss.__globals__["FACTOR"] == factor


def test_files_that_nobody_imports_are_not_in_the_key(tmp_path):
    (tmp_path / "beside.py").write_text("FACTOR = 1\n")
    load(tmp_path / "mine.py", METHOD)
    before = key(method=METHODS["mine"]())
    (tmp_path / "notes.py").write_text("x = 2\n")
    load(tmp_path / "mine.py", METHOD)
    assert key(method=METHODS["mine"]()) == before
    (file,) = loaded_files()
    assert [name for name, _, _ in file.beside] == ["beside"]


def test_the_modules_that_a_text_imports():
    text = (
        "import numpy as np, os\nimport a.b\nfrom c import d\nfrom engram import x\ndef f():\n    from e.f import g\n"
    )
    assert set(imported_names(text)) == {"numpy", "a", "a.b", "c", "c.d", "e", "e.f", "e.f.g"}


def test_a_file_that_imports_itself_is_read_once(tmp_path):
    (tmp_path / "a.py").write_text("import b\n")
    (tmp_path / "b.py").write_text("import a\n")
    assert [name for name, _, _ in read_user_file(tmp_path / "a.py").beside] == ["b"]


# Arrays in an own scenario

ARRAYS = """
from dataclasses import dataclass, field
from typing import Any
import numpy as np
from engram.scenarios.split import Split


@dataclass(frozen=True, eq=False, kw_only=True)
class Mine(Split):
    table: Any = None
"""


@pytest.mark.parametrize("make", [np.asarray, torch.tensor], ids=["numpy", "torch"])
def test_other_arrays_in_an_own_scenario_get_a_new_key(tmp_path, make):
    load(tmp_path / "mine.py", ARRAYS)
    keys = [
        key(scenario=SCENARIOS["mine"](images=(IMAGES,), table=make(values)))
        for values in ([[1.0, 2.0]], [[1.0, 3.0]], [[1.0], [2.0]], [[1, 2]], [[1.0, 2.0]])
    ]
    assert keys[0] == keys[4]
    assert len(set(keys)) == 4  # other values, another shape, another type


def test_long_arrays_differ_in_one_value(tmp_path):
    """NumPy prints the ends of a long array only."""
    load(tmp_path / "mine.py", ARRAYS)
    one, other = np.zeros(10_000), np.zeros(10_000)
    other[5000] = 1
    assert key(scenario=SCENARIOS["mine"](images=(IMAGES,), table=one)) != key(
        scenario=SCENARIOS["mine"](images=(IMAGES,), table=other)
    )


def test_what_has_no_content_is_refused(tmp_path):
    load(tmp_path / "mine.py", ARRAYS)
    with pytest.raises(SpecError, match=r"object .* cannot be part of a spec; give numbers, words, arrays"):
        key(scenario=SCENARIOS["mine"](images=(IMAGES,), table=object()))


# Scripts and notebooks

SCRIPT = """
import numpy as np
from helpers import blobs
import engram as eg
from engram.runs.spec import Spec

FACTOR = {factor}
UNUSED = {unused}


def scale(x):
    return {how} * x


class Mine(eg.Method):
    def loss(self, learner, batch):
        return FACTOR * scale(learner.loss(batch))

{blank}
print(  Spec(eg.split(blobs(4)), Mine()).key{space})
"""


def script_key(path: Path, **changes: object) -> str:
    values = {"factor": 1, "unused": 1, "how": 1, "blank": "", "space": ""}
    path.write_text(SCRIPT.format(**{**values, **changes}))
    paths = os.pathsep.join(sys.path)
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, check=False, env={**os.environ, "PYTHONPATH": paths}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_of_a_script_only_what_the_class_uses_is_in_the_key(tmp_path):
    file = tmp_path / "script.py"
    plain = script_key(file)
    assert script_key(file, space="   ", blank="\n\n# a remark\nprint(end='')\n") == plain
    assert script_key(file, unused=2) == plain
    assert script_key(file, factor=2) != plain
    assert script_key(file, how=2) != plain


def in_a_notebook(*cells: str) -> type:
    """A class that cells of a notebook define: no source can be found of it."""
    module = {"__name__": "__main__"}
    for cell in cells:
        exec(cell, module)
    return module["Mine"]


CELL = """
import engram as eg

class Mine(eg.Method):
    def loss(self, learner, batch):
        return FACTOR * scale(learner.loss(batch))
"""


def test_an_edited_class_of_a_notebook_gets_a_new_key():
    def of(factor="2.0", body="x + 1", cell=CELL):
        return hash_code(in_a_notebook(f"FACTOR = {factor}", f"def scale(x):\n    return {body}", cell))

    assert of() == of()
    assert of() == of(cell=CELL.replace("FACTOR * scale", "FACTOR  *  scale"))
    assert len({of(), of(factor="3.0"), of(body="x + 2"), of(cell=CELL.replace("FACTOR * ", ""))}) == 4


@pytest.mark.parametrize(
    ("first", "second"), [(10, 20), ((1, 2), (1, 3)), (np.zeros(3), np.ones(3)), (torch.zeros(2), torch.ones(2))]
)
def test_a_value_that_another_cell_sets_anew_is_in_the_key_at_once(first, second):
    cell = "import engram as eg\n\nclass Mine(eg.Method):\n    def loss(self, learner, batch):\n        return WIDTH\n"
    cls = in_a_notebook("WIDTH = None", cell)
    values = cls.loss.__globals__
    hashes = []
    for value in (first, second, first):
        values["WIDTH"] = value
        hashes.append(hash_code(cls))
    assert hashes[0] == hashes[2] != hashes[1]


def test_a_module_is_read_again_when_it_was_reloaded_and_not_before(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "reloaded_helper.py"
    file.write_text("FACTOR = 1\n")
    module = importlib.import_module("reloaded_helper")
    cell = "import reloaded_helper\n\ndef mine():\n    return reloaded_helper.FACTOR\n\nMine = mine\n"
    mine = in_a_notebook(cell)
    before = hash_code(mine)
    file.write_text("FACTOR = 2222\n")
    assert hash_code(mine) == before  # what runs is still the old text
    importlib.reload(module)
    assert hash_code(mine) != before
    del sys.modules["reloaded_helper"]


def test_the_package_s_own_classes_have_no_hash():
    for registry in (METHODS, NETS, SCENARIOS):
        assert {hash_code(registry[name]) for name in registry} == {""}
    assert hash_code(torch.nn.Linear) == ""


def test_an_edited_scenario_of_a_notebook_gets_a_new_key():
    """The package wraps a scenario's `tasks`; what stands inside counts."""
    cell = (
        "from engram.scenarios.split import Split\n\nclass Mine(Split):\n    def tasks(self, seed=0, device='cpu'):\n"
        "        return mix(super().tasks(seed + SHIFT, device))\n"
    )

    def of(shift="1", body="tasks", cell=cell):
        return hash_code(in_a_notebook(f"SHIFT = {shift}", f"def mix(tasks):\n    return {body}", cell))

    assert of() == of()
    assert len({of(), of(shift="2"), of(body="tasks[:1]"), of(cell=cell.replace("+", "-"))}) == 4


def test_what_a_decorator_of_torch_wraps_counts():
    """Its wrapper holds objects of torch's own, which have no text."""
    cell = "class Mine:\n    @torch.no_grad()\n    def look(self, x):\n        return SHIFT * x.mean()\n"

    def of(shift="1", cell=cell):
        mine = in_a_notebook(f"import torch\nSHIFT = {shift}", cell)
        return hash_code(mine) + captured_values(mine)

    assert of() == of()
    assert (
        len(
            {of(), of(shift="2"), of(cell=cell.replace("no_grad", "enable_grad")), of(cell=cell.replace("mean", "sum"))}
        )
        == 4
    )


# Values that a text does not tell

USED = {
    "a field of an object": ("from types import SimpleNamespace\nC = SimpleNamespace(w={})", "C.w"),
    "an object of a class of the notebook": (
        "class C:\n    def __init__(self, w):\n        self.w = w\nC = C({})",
        "C.w",
    ),
    "a set": ("C = set([{}])", "len(C)"),
    "one value of a long array in a dict": (
        "import numpy as np\nC = dict(a=np.zeros(5000))\nC['a'][2500] = {}",
        "C['a'].sum()",
    ),
    "a partial": ("import functools\ndef f(x, w):\n    return w * x\nC = functools.partial(f, w={})", "C(1)"),
    "a cached function": ("import functools\n@functools.lru_cache\ndef f():\n    return {}", "f()"),
    "the weights of a network": (
        "from torch import nn\nC = nn.Linear(1, 1, bias=False)\nnn.init.constant_(C.weight, {})",
        "C.weight.sum()",
    ),
}


@pytest.mark.parametrize("what", USED)
def test_what_the_code_of_a_notebook_names_is_in_the_key(what):
    cell, used = USED[what]

    def of(value):
        return hash_code(in_a_notebook(cell.format(value), CELL.replace("FACTOR * scale", f"{used} * ")))

    assert of(1) == of(1) != of(2)


FURTHER = {
    "a default argument": "F = {v}\nclass Mine(eg.Method):\n    def loss(self, learner, batch, w=F):\n        return w",
    "an attribute of the class": "F = {v}\nclass Mine(eg.Method):\n    w = F\n",
    "the default of a field": "F = {v}\n@dataclass\nclass Mine(eg.Method):\n    w: float = F\n",
    "an attribute set from outside": "class Mine(eg.Method):\n    w = 1\nMine.w = {v}\n",
    "a variable of the function around it": (
        "def make(w):\n    class Mine(eg.Method):\n        def loss(self, learner, batch):\n            return w\n"
        "    return Mine\nMine = make({v})"
    ),
    "what a decorator was given": (
        "def times(k):\n    def wrap(f):\n        def g(*a):\n            return k * f(*a)\n        return g\n"
        "    return wrap\n"
        "F = {v}\nclass Mine(eg.Method):\n    @times(F)\n    def loss(self, learner, batch):\n        return 1"
    ),
    "a function put in from outside": (
        "class Mine(eg.Method):\n    pass\nif {v} == 2:\n    def other(self, learner, batch):\n        return 2\n"
        "    Mine.loss = other"
    ),
    "what a class inside names": (
        "F = {v}\nclass Mine(eg.Method):\n    class Inner:\n        def f(self):\n            return F\n"
    ),
}


@pytest.mark.parametrize("what", FURTHER)
def test_values_that_the_source_of_a_script_does_not_tell_are_in_the_key(tmp_path, what):
    """`inspect` finds the source here, which is the same but for what stands outside the class."""

    def of(value):
        text = "from dataclasses import dataclass\nimport engram as eg\n" + FURTHER[what].format(v=value)
        path = tmp_path / f"script{value}.py"
        path.write_text(text)
        module = {"__name__": "__main__", "__file__": str(path)}
        exec(compile(text, str(path), "exec"), module)
        return hash_code(module["Mine"])

    assert of(1) == of(1) != of(2)


def test_code_that_was_run_in_a_namespace_without_a_name_is_in_the_key():
    def of(factor):
        module = {}
        exec(f"import engram as eg\nclass Mine(eg.Method):\n    w = {factor}\n", module)
        assert module["Mine"].__module__ == "builtins"
        return hash_code(module["Mine"])

    assert of(1) == of(1) != of(2)
    assert hash_code(dict) == ""


def test_an_attribute_of_a_module_s_class_set_from_outside_is_in_the_key(tmp_path):
    load(tmp_path / "mine.py", "import engram as eg\n\nclass Mine(eg.Method):\n    w = 1\n")
    cls = METHODS["mine"]
    before = hash_code(cls)
    cls.w = 2
    assert hash_code(cls) != before
    cls.w = 1
    assert hash_code(cls) == before


@pytest.mark.parametrize("edited", ["blocks.py", "common.py", "nets/near.py", "nets/sub/more.py"])
def test_what_a_package_of_one_s_own_imports_from_itself_is_in_the_key(tmp_path, monkeypatch, edited):
    """By absolute names, and relative to its own place, one folder up too."""
    package = tmp_path / "own_package"
    (package / "nets" / "sub").mkdir(parents=True)
    for file in ("__init__.py", "nets/__init__.py", "nets/sub/__init__.py"):
        (package / file).write_text("")
    for file in ("blocks.py", "common.py", "nets/near.py", "nets/sub/more.py"):
        (package / file).write_text("K = 1\n")
    (package / "nets" / "sub" / "deep.py").write_text("from .more import K\n")
    (package / "nets" / "conv.py").write_text(
        "from own_package.blocks import K\nfrom ..common import K as K2\nfrom .near import K as K3\n"
        "from .sub.deep import K as K4\n\nclass Mine:\n    pass\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def of():
        for name in [name for name in sys.modules if name.partition(".")[0] == "own_package"]:
            del sys.modules[name]
        importlib.invalidate_caches()
        return hash_code(importlib.import_module("own_package.nets.conv").Mine)

    before = of()
    (package / edited).write_text("K = 2222\n")
    changed = of()
    (package / edited).write_text("K = 1\n")
    assert of() == before != changed


def test_what_a_file_imports_from_elsewhere_is_in_the_key(tmp_path, monkeypatch):
    (tmp_path / "library").mkdir()
    monkeypatch.syspath_prepend(tmp_path / "library")
    other = tmp_path / "library" / "own_library.py"
    keys = []
    for factor in (1, 1000, 1):
        other.write_text(f"FACTOR = {factor}\n")
        load(tmp_path / "mine.py", METHOD.replace("beside", "own_library"))
        keys.append(key(method=METHODS["mine"]()))
    assert keys[0] == keys[2] != keys[1]
    del sys.modules["own_library"]


def test_a_file_edited_between_its_import_and_its_first_use_is_refused(tmp_path, monkeypatch):
    """Its new text would be the key of what the old code computed."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    file = tmp_path / "edited_early.py"
    text = "def twice(x):\n    return 2 * x\n\nclass Net:\n    @property\n    def f(self):\n        return 1\n"
    file.write_text(text)
    module = importlib.import_module("edited_early")
    file.write_text(text.replace("return 1", "return 7"))
    with pytest.raises(ValueError, match=r"edited_early\.py was edited after it was imported: Net\.f is another one"):
        hash_code(module.twice)
    importlib.reload(module)
    assert hash_code(module.twice)
    file.write_text(text.replace("return 1", "return 8"))
    assert hash_code(module.twice), "it was read before it was edited"
    del sys.modules["edited_early"]
