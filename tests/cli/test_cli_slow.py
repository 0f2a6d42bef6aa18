"""`engram bench` and `engram reproduce` ."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_helpers import Answer

Engram = Callable[..., Answer]


@pytest.mark.mnist
@pytest.mark.slow
def test_bench_measures_itself_by_products_and_by_a_dataloader(engram: Engram, work: Path, mnist: None) -> None:
    answer = engram("bench", "--json")
    found = answer.json
    assert answer.status == 0
    assert found.keys() >= {"gemm_share", "step_ms", "dataloader_ratio", "peak_mb"}
    assert 0 < found["gemm_share"] < 1.05
    assert found["dataloader_ratio"] > 1
    assert found["step_ms"] > 0
    assert 50 < found["peak_mb"] < 4000
    assert list(work.iterdir()) == []


@pytest.mark.slow
def test_bench_measures_any_scenario(engram: Engram, work: Path, data: Path) -> None:
    answer = engram("bench", "split-tiny/class", "adam", "--json")
    assert answer.status == 0, answer.err
    assert answer.json["step_ms"] > 0


def test_bench_of_a_sweep_times_the_same_runs_with_one_worker_and_with_two(
    engram: Engram, work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whole commands, here only noted, on a clock that gives the first 30 seconds and the second 20."""
    called: list[list[str]] = []
    clock = iter([0.0, 30.0, 100.0, 120.0] * 2)
    monkeypatch.setattr("engram.cli.bench.call", lambda *words: called.append(list(words)))
    monkeypatch.setattr("engram.cli.bench.time.perf_counter", lambda: next(clock))
    found = engram("bench", "split-tiny/class", "ewc", "--net", "cnn", "--sweep", "--json").json
    assert found == {
        "scenario": "split-tiny/class", "method": "ewc", "net": "cnn", "runs": 20,
        "seconds_1": 30, "seconds_2": 20, "sweep_ratio": 1.5,
    }  # fmt: skip
    what = ["run", "split-tiny/class", "ewc", "--net", "cnn"]
    assert called[0] == [*what, "--dry-run"]
    for words, workers in zip(called[1:], "12", strict=True):
        assert words[:-1] == [*what, "--seeds", "20", "--workers", workers, "--out"]
    assert called[1][-1] != called[2][-1]  # each in a folder of its own, or the second would find the records
    text = engram("bench", "split-tiny/class", "ewc", "--net", "cnn", "--sweep").out
    assert "split-tiny/class ewc, cnn, 20 runs: 30.0 s with one worker, 20.0 s with two, 1.50 times" in " ".join(
        text.split()
    )


@pytest.mark.slow
@pytest.mark.parametrize("method", ["dgr", "rtf"])
def test_bench_measures_replay_by_a_bare_loop_of_the_same_passes(
    engram: Engram, work: Path, data: Path, method: str
) -> None:
    found = engram("bench", "split-tiny/class", method, "--json").json
    assert found["bare_ratio"] == pytest.approx(found["step_ms"] / found["bare_ms"])
    assert found["bare_ms"] > 0
    for only_without_generator in ("gemm_share", "products_ms", "dataloader_ratio"):
        assert found[only_without_generator] is None
    assert found["peak_mb"] > 50


@pytest.mark.mnist
@pytest.mark.slow
def test_reproduce_runs_what_is_missing_and_no_more(engram: Engram, work: Path, mnist: None) -> None:
    call = ("reproduce", "table2", "--rows", "adam", "--columns", "class", "--seeds", "1")
    first = engram(*call)
    assert first.status == 0
    assert "task 5/5" in first.err
    assert "1/1  split-mnist/class adam" in first.err
    assert "n=1 (19.71 ± 0.08)" in first.out
    (record,) = map(json.loads, Path("results/hsu2018/table2.jsonl").read_text().splitlines())
    assert record["average_accuracy"] == pytest.approx(19.71, abs=1)

    second = engram(*call)
    assert second.status == 0
    assert "task 1/5" not in second.err
    assert second.out == first.out
    assert len(Path("results/hsu2018/table2.jsonl").read_text().splitlines()) == 1

    (cell,) = engram("compare", *call[1:-2], "--json").json
    assert (cell["n"], cell["ours"]) == (1, record["average_accuracy"])

    same = engram("run", "split-mnist/class", "adam", "--out", "results")
    assert "; fills hsu2018/table2 adam class" in same.err.replace("\n", " ")
    assert "recorded before" in same.err.replace("\n", " ")
