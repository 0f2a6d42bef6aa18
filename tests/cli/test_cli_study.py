"""`engram study` and `engram table`: one's own table, in every format, interrupted, wrong, from other results."""

import io
import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_helpers import Answer, wait_for

Engram = Callable[..., Answer]
Start = Callable[..., subprocess.Popen[str]]
STUDY = """
title = "Tiny"
seeds = 2
baseline = "adam"

[columns]
class = "split-tiny/class"
task = { scenario = "split-tiny/task", title = "Task learning" }

[rows]
adam = {}
ewc = { coef = 10, at.task = { coef = 20 } }
"buffer/20" = { method = "rehearsal", capacity = 20, training.lr = 0.01 }

[training]
epochs = 1

[net]
hidden = [8]
"""
PLACES = [(row, column) for row in ("adam", "ewc", "buffer/20") for column in ("class", "task")]


@pytest.fixture
def tiny(work: Path, data: Path) -> Path:
    """The study in a file of the folder to work in."""
    (work / "tiny.toml").write_text(STUDY)
    return work


def lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_study_runs_its_cells_and_shows_mean_std_n_memory_and_time(engram: Engram, tiny: Path) -> None:
    answer = engram("study", "tiny.toml", "--workers", "1")
    assert answer.status == 0, answer.err
    assert "12/12" in answer.err
    records = lines(tiny / "runs/tiny/records.jsonl")
    assert len(records) == 12
    assert {str(record["seed"]) for record in records[:6]} == {"0"}  # one seed of every cell before the next
    for words in ("Tiny", "Task learning", "Memory", "Time", "n=2", "can show something only with 6", "EWC"):
        assert words in answer.out
    cells = engram("study", "tiny.toml", "--json").json
    assert [(cell["row"], cell["column"]) for cell in cells] == PLACES
    for cell in cells:
        method = {"buffer/20": "rehearsal"}.get(cell["row"], cell["row"])
        values = [
            float(str(r["average_accuracy"]))
            for r in records
            if (r["method"], r["scenario"]) == (method, f"split-tiny/{cell['column']}")
        ]
        mean = sum(values) / 2
        assert cell["mean"] == pytest.approx(mean)
        assert cell["std"] == pytest.approx(abs(values[0] - mean))  # the population's
        assert (cell["n"], cell["failed"], cell["p"]) == (2, 0, None)  # two seeds can show nothing
    assert {cell["row"]: cell["memory"] > 0 for cell in cells} == {"adam": False, "ewc": True, "buffer/20": True}


def test_values_of_a_row_and_of_a_cell_reach_the_runs(engram: Engram, tiny: Path) -> None:
    engram("study", "tiny.toml", "--seeds", "1", "--workers", "1")
    specs = {(r["method"], r["scenario"]): r["spec"] for r in lines(tiny / "runs/tiny/records.jsonl")}
    assert specs["ewc", "split-tiny/class"]["method"][0]["coef"] == 10
    assert specs["ewc", "split-tiny/task"]["method"][0]["coef"] == 20
    assert specs["rehearsal", "split-tiny/task"]["training"]["lr"] == 0.01
    assert {(spec["training"]["epochs"], *spec["net"]["hidden"]) for spec in specs.values()} == {(1, 8)}


def test_every_format_has_the_same_numbers(engram: Engram, tiny: Path) -> None:
    pandas = pytest.importorskip("pandas")
    engram("study", "tiny.toml", "--workers", "1")
    cells = engram("study", "tiny.toml", "--format", "json").json
    frame = pandas.read_csv(io.StringIO(engram("study", "tiny.toml", "--format", "csv").out))
    assert list(zip(frame["row"], frame["column"], strict=True)) == PLACES
    assert frame["mean"].tolist() == pytest.approx([cell["mean"] for cell in cells])
    texts = {form: engram("study", "tiny.toml", "--format", form).out for form in ("text", "markdown", "latex")}
    for cell in cells:
        assert f"{cell['mean']:.2f} ± {cell['std']:.2f} n=2" in texts["text"]
        assert f"{cell['mean']:.2f} ± {cell['std']:.2f} (n = 2)" in texts["markdown"]
        assert rf"{cell['mean']:.2f} \pm {cell['std']:.2f}" in texts["latex"]
    assert r"\toprule" in texts["latex"]
    written = engram("study", "tiny.toml", "--format", "markdown", "--out", "tables/tiny.md")
    assert (written.status, written.out) == (0, "")
    assert (tiny / "tables/tiny.md").read_text() == texts["markdown"]


def test_what_is_recorded_is_not_run_again(engram: Engram, tiny: Path) -> None:
    engram("study", "tiny.toml", "--rows", "adam", "--columns", "class", "--workers", "1")
    assert "4 of 6 runs missing" not in engram("study", "tiny.toml", "--dry-run").out
    assert "tiny: 10 of 12 runs missing" in engram("study", "tiny.toml", "--dry-run").out
    before = (tiny / "runs/tiny/records.jsonl").read_text()
    again = engram("study", "tiny.toml", "--rows", "adam", "--columns", "class")
    assert "2 of 2 runs recorded before and not run again" in again.err
    assert (tiny / "runs/tiny/records.jsonl").read_text() == before


def test_a_study_that_keeps_logits_shows_its_runs_and_makes_those_that_kept_none_again(
    engram: Engram, tiny: Path
) -> None:
    call = ("study", "tiny.toml", "--workers", "1", "--columns", "class", "--rows", "adam", "--seeds", "1")
    engram(*call)
    (tiny / "tiny.toml").write_text(STUDY + '\n[evaluation]\nkeep = ["logits"]\n')
    assert "tiny: 1 of 1 run missing" in engram(*call, "--dry-run").out
    (cell,) = engram(*call, "--json").json
    assert (cell["n"], cell["failed"]) == (1, 0)
    assert len(lines(tiny / "runs/tiny/records.jsonl")) == 2
    assert "tiny: 0 of 1 run missing" in engram(*call, "--dry-run").out


def test_an_edited_study_does_not_take_the_runs_of_the_old_setting(engram: Engram, tiny: Path) -> None:
    call = ("study", "tiny.toml", "--rows", "adam", "--columns", "class")
    engram(*call, "--workers", "1")
    (tiny / "tiny.toml").write_text(STUDY.replace("epochs = 1", "epochs = 2"))
    assert "2 of 2 runs missing" in engram(*call, "--dry-run").out


@pytest.mark.slow
def test_killed_and_started_again_it_goes_on(start: Start, engram: Engram, tiny: Path) -> None:
    process = start("study", "tiny.toml", "--workers", "1")
    wait_for(tiny, "runs/tiny/records.jsonl", process)
    process.send_signal(signal.SIGKILL)
    process.wait(20)
    early = (tiny / "runs/tiny/records.jsonl").read_text()
    answer = engram("study", "tiny.toml", "--workers", "1", "--json")
    assert answer.status == 0, answer.err
    assert [cell["n"] for cell in answer.json] == [2] * 6
    assert (tiny / "runs/tiny/records.jsonl").read_text().startswith(early[: early.rindex("\n") + 1])
    assert len({record["key"] for record in lines(tiny / "runs/tiny/records.jsonl")}) == 12


def test_rows_are_tuned_first_and_the_ledger_is_printed(engram: Engram, tiny: Path) -> None:
    text = STUDY.replace('task = { scenario = "split-tiny/task", title = "Task learning" }\n', "")
    text = text.replace(", at.task = { coef = 20 }", "") + "\n[search]\ntrials = 2\n"
    (tiny / "tiny.toml").write_text(text)
    answer = engram("study", "tiny.toml", "--rows", "adam", "ewc", "--seeds", "1", "--workers", "1")
    assert answer.status == 0, answer.err
    assert "Tuning ledger" in answer.out
    stages = [record["search"]["stage"] for record in lines(tiny / "runs/tiny/records.jsonl")]
    assert (stages.count("trial"), stages.count("final")) == (4, 2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (("seeds = 2", "seeds = two"), ["tiny.toml is not TOML", "line 3"]),
        (("seeds = 2", "seeds = 0"), ["seeds 0", "give a number of seeds"]),
        (("seeds = 2", "seed = 2"), ["key 'seed' is unknown", "did you mean seeds?"]),
        (("[rows]", "[lines]"), ["key 'lines' is unknown"]),
        (('baseline = "adam"', 'baseline = "adem"'), ["baseline 'adem' is unknown", "did you mean adam?"]),
        (("coef = 10", "koef = 10"), ["row ewc, column class", "'koef' is unknown", "did you mean coef?"]),
        (("epochs = 1", "epoch = 1"), ["'epoch' is unknown", "did you mean epochs?"]),
        (("at.task", "at.tusk"), ["row ewc", "column 'tusk' is unknown", "did you mean task?"]),
        (("split-tiny/class", "split-tiny/klass"), ["split-tiny/klass", "did you mean split-tiny/class?"]),
        (("ewc = {", "ewk = {"), ["method 'ewk' is unknown", "did you mean ewc?"]),
        (("adam = {}", "adam = 3"), ["rows.adam: give a table, not 3"]),
        (("epochs = 1", "epochs = 1\nsteps = 5"), ["epochs 1 and steps 5 contradict each other"]),
    ],
)
def test_a_study_that_cannot_be_read_is_refused(
    engram: Engram, tiny: Path, change: tuple[str, str], words: list[str]
) -> None:
    (tiny / "tiny.toml").write_text(STUDY.replace(*change, 1))
    answer = engram("study", "tiny.toml", "--workers", "1")
    assert answer.status == 2, answer.err
    for word in words:
        assert word in " ".join(answer.err.split())
        assert "Traceback" not in engram("study", "tiny.toml", "--dry-run").err
    assert not (tiny / "runs").exists()


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (["study"], "name a study first"),
        (["study", "nowhere.toml"], "nowhere.toml does not exist"),
        (["study", "tiny"], "did you mean tiny.toml?"),
        (["study", "tiny.toml", "--rows", "ewk"], "row 'ewk' is unknown; did you mean ewc?"),
        (["study", "tiny.toml", "--columns", "x"], "column 'x' is unknown; choose from class, task"),
        (["study", "tiny.toml", "--seeds", "0"], "seeds 0 is out of range"),
        (["study", "tiny.toml", "--metric", "forgetfulness"], "metric 'forgetfulness' is unknown"),
        (["study", "tiny.toml", "--workers", "0"], "workers 0 is out of range"),
        (["study", "tiny.toml", "--file"], "--file needs a Python file"),
        (["table"], "name folders or files"),
        (["table", "nowhere"], "nowhere does not exist"),
        (["table", "."], "there are no records"),
        (["table", "r.csv"], "name it"),
        (["table", "r.csv", "--value", "acc", "--metric", "forgetting"], "name its column of numbers by --value"),
        (["table", "r.csv", "--value", "acc", "--baseline", "c"], "baseline 'c' is unknown; choose from a, b"),
        (["table", "bad.csv"], "line 2 of the results cannot be read"),
        (["table", "double.csv"], "line 2: a, x has seed 0 twice"),
    ],
)
def test_wrong_calls_are_refused_before_anything_runs(engram: Engram, tiny: Path, call: list[str], words: str) -> None:
    (tiny / "r.csv").write_text("method,scenario,seed,acc\na,x,0,1\nb,x,0,2\n")
    (tiny / "bad.csv").write_text("method,scenario,seed,value\na,x,0,1\na,x,1,many\n")
    (tiny / "double.csv").write_text("method,scenario,seed,value\na,x,0,1\na,x,0,2\n")
    answer = engram(*call)
    assert answer.status == 2, answer.err
    assert words in " ".join(answer.err.split())
    assert not (tiny / "runs").exists()


def test_a_table_of_records_keeps_settings_apart(engram: Engram, tiny: Path) -> None:
    for more in (["--epochs", "1"], ["--epochs", "2"]):
        engram("run", "split-tiny/class", "adam", "--hidden", "8", *more)
    engram("run", "split-tiny/task", "adam", "--hidden", "8", "--epochs", "1")
    cells = engram("table", "runs", "--json").json
    found = {(cell["row"], cell["column"]): cell["n"] for cell in cells}
    assert found == {
        ("adam (epochs 1)", "split-tiny/class"): 1,
        ("adam (epochs 1)", "split-tiny/task"): 1,
        ("adam (epochs 2)", "split-tiny/class"): 1,
        ("adam (epochs 2)", "split-tiny/task"): 0,
    }
    by_net = engram("table", "runs", "--columns", "net.hidden", "--json").json
    assert sum(cell["n"] for cell in by_net) == 3  # two scenarios in one column are two rows, not one mean
    shown = engram("ls", "runs").out
    assert shown.count("split-tiny/class") == 2
    assert [row["seeds"] for row in engram("ls", "runs", "--json").json] == [1, 1, 1]


def test_somebody_else_s_results_get_the_same_tests(engram: Engram, work: Path) -> None:
    """Eight pairs that all differ by 2: of 2^8 sign patterns two are as extreme, p = 2/256."""
    rows = [f"{name},mine,{seed},{50 + gain + seed % 3}" for name, gain in (("a", 0), ("b", 2)) for seed in range(8)]
    (work / "r.csv").write_text("\n".join(["method,scenario,seed,accuracy", *rows]))
    first, second = engram("table", "r.csv", "--baseline", "a", "--json").json
    assert (first["row"], first["mean"], first["p"]) == ("a", 50.875, None)
    assert (second["row"], second["difference"], second["pairs"], second["p"]) == ("b", 2.0, 8, 2 / 256)
    assert "*" in engram("table", "r.csv", "--baseline", "a").out


OWN = '''
from dataclasses import dataclass
import math
from torch import nn
import engram as eg
from engram.nets.net import Layer
from engram.scenarios.split import Split


@dataclass
class Plain(eg.Method):
    """Nothing beyond training."""

    name = "plain"
    strength: float = 1.0
    """Without effect."""


@dataclass(frozen=True)
class Straight(eg.Net):
    """One linear layer."""

    name = "straight"
    bias: bool = True
    """Whether it has a bias."""

    def build(self, shape, outputs):
        return nn.Sequential(nn.Flatten(), nn.Linear(math.prod(shape), outputs, bias=self.bias))

    def layers(self, shape, outputs):
        return [Layer("linear", (outputs,), (math.prod(shape) + self.bias) * outputs)]


@dataclass(frozen=True, eq=False, kw_only=True)
class Backwards(Split):
    """The tasks in reverse."""

    name = "backwards"


class LastTask(eg.Metric):
    """Accuracy on the last task."""

    name = "last-task"
    title = "last task"

    def of(self, record):
        return record.accuracy[-1][-1]
'''


@pytest.mark.parametrize("workers", ["1", "2"])
def test_one_file_brings_a_method_a_network_a_scenario_and_a_metric(
    engram: Engram, work: Path, data: Path, workers: str
) -> None:
    """With workers, by its key, and in a table."""
    (work / "own.py").write_text(OWN)
    call = ("run", "backwards-tiny/class", "plain", "--net", "straight", "--no-bias", "--strength", "2")
    answer = engram(*call, "--file", "own.py", "--epochs", "1", "--seeds", "2", "--workers", workers, "--json")
    assert answer.status == 0, answer.err
    first, second = sorted(answer.records, key=lambda record: int(record["seed"]))  # workers end in any order
    assert [first[name] for name in ("method", "scenario", "seed")] == ["plain", "backwards-tiny/class", 0]
    assert first["spec"]["net"]["bias"] is False
    again = engram("run", "--spec", first["key"], "--file", "own.py", "--out", "again", "--json")
    assert again.status == 0, again.err
    assert (again.records[0]["key"], again.records[0]["accuracy"]) == (first["key"], first["accuracy"])
    (cell,) = engram("table", "runs", "--metric", "last-task", "--file", "own.py", "--json").json
    expected = [record["accuracy"][-1][-1] for record in (first, second)]
    assert cell["mean"] == pytest.approx(sum(expected) / 2)
    for what, name in (("methods", "plain"), ("nets", "straight"), ("metrics", "last-task")):
        assert name in engram("ls", what, "--file", "own.py").out
