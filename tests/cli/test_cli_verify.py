"""`engram verify`: recorded runs that are run again."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from cli_helpers import Answer, arrays

import engram as eg
from engram.runs.records import Record, append_record

Engram = Callable[..., Answer]


@pytest.fixture(scope="module")
def made() -> list[Record]:
    """Four seeds of a small run, on the set that `data` will hold."""
    scenario = eg.split(eg.Images(**arrays(), name="tiny"), classes_per_task=2, kind="class")
    training = eg.Training(epochs=2, batch=16)
    return [eg.run(scenario, eg.Adam(), seed=seed, net=eg.MLP(8, 8), training=training) for seed in range(4)]


@pytest.fixture
def recorded(made: list[Record], work: Path, data: Path) -> Path:
    """They, in results/tiny.jsonl."""
    for record in made:
        append_record(Path("results/tiny.jsonl"), record)
    return Path("results/tiny.jsonl")


def changed(file: Path, by: float) -> None:
    """The records with other accuracies than the runs had."""
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    for line in lines:
        line["average_accuracy"] += by
        line["accuracy"][-1][-1] += by
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))


def test_a_run_that_is_run_again_gives_the_same_bits(engram: Engram, recorded: Path) -> None:
    before = recorded.read_bytes()
    answer = engram("verify", "tiny", "--sample", "3", "--seed", "1", "--json")
    assert answer.status == 0
    assert [one["verification"] for one in answer.json] == ["same bits"] * 3
    assert all(one["again"] == one["recorded"] for one in answer.json)
    assert "--seed 1 picks the same again" in answer.err
    assert recorded.read_bytes() == before
    assert [path.name for path in Path("results").glob("*.jsonl")] == ["tiny.jsonl"]


def test_only_runs_that_were_quick_enough(engram: Engram, recorded: Path) -> None:
    lines = [json.loads(line) for line in recorded.read_text().splitlines()]
    for line, seconds in zip(lines, (400, 20, 300, 7300), strict=True):
        line["seconds"] = seconds
    recorded.write_text("".join(json.dumps(line) + "\n" for line in lines))
    answer = engram("verify", "--sample", "4", "--minutes", "5", "--json")
    assert {one["seed"] for one in answer.json} == {lines[1]["seed"], lines[2]["seed"]}
    assert "2 of 2 records, which took 5 min before" in answer.err
    refused = engram("verify", "--minutes", "0.1")
    assert (refused.status, "no finished runs that took 6 s or less; the shortest took 20 s" in refused.err) == (
        2,
        True,
    )


def test_a_record_that_is_a_little_off_is_within_its_spread(engram: Engram, recorded: Path) -> None:
    changed(recorded, 0.2)
    answer = engram("verify", "--sample", "1", "--json")
    assert (answer.status, answer.json[0]["verification"]) == (0, "within spread")
    assert answer.json[0]["again"] == pytest.approx(answer.json[0]["recorded"] - 0.2)


def test_a_record_that_is_far_off_has_moved_and_the_status_says_so(engram: Engram, recorded: Path) -> None:
    changed(recorded, 1000.0)
    answer = engram("verify", "--sample", "1", "--seed", "0")
    assert answer.status == 1
    assert "1 moved" in answer.out


def test_a_spec_that_cannot_be_run_here_is_named_and_the_others_are_run(engram: Engram, recorded: Path) -> None:
    *others, last = (json.loads(line) for line in recorded.read_text().splitlines())
    last["spec"]["scenario"]["images"] = {"tiny": "sha256:0000000000000000"}
    recorded.write_text("".join(json.dumps(line) + "\n" for line in (*others, last)))
    answer = engram("verify", "--sample", "4", "--json")
    assert f"skipped, {last['key']}: dataset tiny here has" in answer.err
    assert (answer.status, [one["verification"] for one in answer.json]) == (1, ["same bits"] * 3)
    recorded.write_text(json.dumps(last) + "\n")
    assert engram("verify").status == 2


def test_a_record_whose_spec_was_changed_is_not_run(engram: Engram, recorded: Path) -> None:
    *others, last = (json.loads(line) for line in recorded.read_text().splitlines())
    last["spec"]["training"]["epochs"] = 10**9
    recorded.write_text("".join(json.dumps(line) + "\n" for line in (*others, last)))
    answer = engram("verify", "--sample", "4", "--json")
    assert f"skipped, {last['key']}: its spec has the key" in answer.err
    assert (answer.status, [one["verification"] for one in answer.json]) == (1, ["same bits"] * 3)


def test_runs_whose_images_cannot_be_had_are_passed_over(engram: Engram, recorded: Path) -> None:
    *others, last = (json.loads(line) for line in recorded.read_text().splitlines())
    last["spec"]["scenario"]["images"] = {"cyrillic-letters": "sha256:0000000000000000"}  # from a prepared file only
    recorded.write_text("".join(json.dumps(line) + "\n" for line in (*others, last)))
    answer = engram("verify", "--sample", "4", "--json")
    assert (answer.status, [one["verification"] for one in answer.json]) == (0, ["same bits"] * 3)
    assert "skipped, runs of cyrillic-letters: " in answer.err
    recorded.write_text(json.dumps(last) + "\n")
    refused = engram("verify")
    assert (refused.status, "cyrillic-letters" in refused.err) == (2, True)


def test_runs_of_one_s_own_method_are_passed_over(engram: Engram, recorded: Path) -> None:
    *others, last = (json.loads(line) for line in recorded.read_text().splitlines())
    last |= {
        "method": "drift+adam",
        "spec": last["spec"] | {"method": [{"name": "drift", "coef": 5.0}, {"name": "adam"}]},
    }
    recorded.write_text("".join(json.dumps(line) + "\n" for line in (*others, last)))
    answer = engram("verify", "--sample", "4", "--json")
    assert (answer.status, [one["verification"] for one in answer.json]) == (0, ["same bits"] * 3)
    assert "skipped, runs of drift: not a method of engram" in answer.err


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (["verify", "table9"], "choose from tiny"),
        (["verify", "--sample", "0"], "sample 0 is out of range"),
        (["verify", "--minutes", "-1"], "minutes -1 is out of range"),
        (["verify", "--results", "nowhere"], "nowhere has no finished runs"),
        (["verify", "table2", "--results", "nowhere"], "there are no records"),
    ],
)
def test_what_cannot_be_verified_is_refused(engram: Engram, recorded: Path, call: list[str], says: str) -> None:
    answer = engram(*call)
    assert answer.status == 2
    assert says in answer.err


def test_the_runs_of_a_study_are_named_by_its_file(engram: Engram, work: Path, data: Path) -> None:
    text = '[columns]\nclass = "split-tiny/class"\n[rows]\nadam = {}\n[training]\nepochs = 1\n'
    (work / "mine.toml").write_text(f"seeds = 1\n{text}")
    assert engram("study", "mine.toml", "--workers", "1").status == 0
    for name in ("mine", "mine.toml"):
        (again,) = engram("verify", name, "--results", "runs", "--sample", "1", "--json").json
        assert again["verification"] == "same bits"
