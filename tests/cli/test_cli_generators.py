"""`engram run` with the methods that replay what they do not store: their protocol, and pictures of what they draw."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from cli_helpers import Answer, arrays, written
from PIL import Image

Engram = Callable[..., Answer]
QUICK = ("--steps", "3", "--hidden", "12")


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(work: Path, data: Path) -> None:
    pass


# protocols ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["lwf", "dgr", "rtf"])
def test_a_dry_run_shows_the_protocol_of_the_row_and_that_of_all_others(
    engram: Engram, method: str, work: Path
) -> None:
    own = engram("run", "split-tiny/class", method, "--dry-run", "--json")
    common = engram("run", "split-tiny/class", method, "--dry-run", "--json", "--protocol", "common")
    adam = engram("run", "split-tiny/class", "adam", "--dry-run", "--json")
    assert own.status == common.status == 0
    assert own.json["steps"] == 2 * 2000 * (2 if method == "dgr" else 1)
    training, scenario = own.json["spec"]["training"], own.json["spec"]["scenario"]
    assert (training["steps"], training["drop_last"]) == (2000, True)
    assert (scenario["normalize"], scenario["order"]) == (None, "shuffled")
    for source in ("training.steps", "training.drop_last", "scenario.order", "scenario.normalize"):
        assert own.json["sources"][source] == "van de Ven & Tolias' code of September 2018"
    for group in ("training", "scenario", "net"):
        assert common.json["spec"][group] == adam.json["spec"][group]
    assert "the default of" in own.err
    assert "normalize None, order shuffled" in own.err
    assert "--protocol" in own.err
    assert "the default of" not in common.err
    assert list(work.iterdir()) == []


def test_a_protocol_changes_nothing_for_the_other_methods(engram: Engram) -> None:
    for method in ("adam", "rehearsal+si"):
        found = [
            engram("run", "split-tiny/task", method, "--dry-run", "--json", *flags).json
            for flags in ([], ["--protocol", "own"], ["--protocol=common"])
        ]
        assert found[0]["key"] == found[1]["key"] == found[2]["key"]
        assert found[0]["spec"] == found[1]["spec"] == found[2]["spec"]


def test_flags_go_before_the_protocol_s_values(engram: Engram) -> None:
    found = engram("run", "split-tiny/class", "lwf", "--order", "fixed", "--steps", "7", "--dry-run", "--json").json
    assert (found["spec"]["scenario"]["order"], found["steps"]) == ("fixed", 14)
    assert found["sources"]["scenario.order"] == "this command"
    assert found["sources"]["training.epochs"] == "without effect: steps are given"


@pytest.mark.parametrize("method", ["lwf", "dgr", "rtf", "lwf+si", "rehearsal+lwf"])
@pytest.mark.parametrize("protocol", ["own", "common"])
def test_it_runs_and_can_be_repeated_from_its_record(engram: Engram, method: str, protocol: str) -> None:
    first = engram("run", "split-tiny/task", method, *QUICK, "--protocol", protocol, "--json")
    assert first.status == 0, first.err
    (record,) = first.records
    assert record["steps"] == 6 * (2 if method == "dgr" else 1)
    (again,) = engram("run", "--spec", record["key"], "--out", "again", "--json").records
    assert again["accuracy"] == record["accuracy"]
    assert again["losses"] == record["losses"]
    assert Path("again/records.jsonl").exists()


def test_ls_names_what_they_keep(engram: Engram) -> None:
    """A VAE of 1,069,784 parameters; for RtF its latent maps and decoder; nothing for LwF."""
    found = {row["method"]: row for row in engram("ls", "methods", "--json").json}
    assert [found[name]["kept_split"] for name in ("dgr", "rtf", "lwf")] == [4 * 1_069_784, 4 * 595_384, 0]
    assert [found[name]["equal_memory"] for name in ("dgr", "rtf", "lwf")] == [True, True, False]


# pictures -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["dgr", "rtf", "si+rtf"])
def test_samples_are_64_images_in_a_grid_for_each_task(engram: Engram, method: str) -> None:
    answer = engram("run", "split-tiny/class", method, *QUICK, "--samples", "pictures", "--json")
    assert answer.status == 0, answer.err
    key = answer.records[0]["key"]
    assert sorted(written(Path("pictures"))) == [f"{key}-task-1.png", f"{key}-task-2.png"]
    assert "pictures in pictures" in answer.err
    one, two = (np.asarray(Image.open(f"pictures/{key}-task-{task}.png")) for task in (1, 2))
    assert one.shape == two.shape == (8 * 6 + 7, 8 * 6 + 7)  # a pixel of grey between images of 6 × 6
    assert set(one[6::7].flatten().tolist()) == set(one[:, 6::7].flatten().tolist()) == {128}
    tiles = {one[7 * i : 7 * i + 6, 7 * j : 7 * j + 6].tobytes() for i in range(8) for j in range(8)}
    assert len(tiles) == 64, "no image is drawn twice"
    assert not np.array_equal(one, two)


def test_colours_are_drawn_as_colours(engram: Engram, data: Path) -> None:
    grey = arrays()
    colour = {name: np.stack([x, x // 2, x // 4], -1) if name.startswith("x") else x for name, x in grey.items()}
    np.savez(data / "colour.npz", **colour)
    flags = ("--steps", "200", "--lr", "0.01", "--hidden", "30")
    answer = engram("run", "split-colour/class", "dgr", *flags, "--samples", "pictures", "--json")
    image = np.asarray(Image.open(f"pictures/{answer.records[0]['key']}-task-2.png")).astype(float)
    assert image.shape == (55, 55, 3)
    drawn = image.reshape(-1, 3)[(image != 128).any(2).flatten()]
    red, green, blue = drawn.mean(0)
    assert red > 1.5 * green > 2 * blue, "each channel is half of the one before"


@pytest.mark.slow
def test_runs_in_processes_of_their_own_are_drawn_too(engram: Engram) -> None:
    call = ("run", "split-tiny/class", "rtf", *QUICK, "--seeds", "2", "--samples", "pictures", "--json")
    both = engram(*call, "--workers", "2")
    assert both.status == 0, both.err
    in_processes = written(Path("pictures"))
    assert len(in_processes) == 4
    for path in Path("pictures").iterdir():
        path.unlink()
    engram(*call, "--workers", "1", "--out", "again")
    assert written(Path("pictures")) == in_processes


def test_what_is_recorded_is_not_drawn_again_and_that_is_said(engram: Engram) -> None:
    call = ("run", "split-tiny/class", "rtf", *QUICK, "--samples", "pictures")
    engram(*call[:-2])
    answer = engram(*call)
    assert answer.status == 0
    assert "1 of 1 runs were recorded before and not run again, so nothing was drawn" in answer.err
    assert not Path("pictures").exists()
    key = json.loads(Path("runs/records.jsonl").read_text())["key"]
    assert engram("run", "--spec", key, "--out", "again", "--samples", "pictures").status == 0
    assert len(list(Path("pictures").glob(f"{key}-task-*.png"))) == 2


def test_pictures_do_not_change_the_run(engram: Engram) -> None:
    call = ("run", "split-tiny/class", "dgr", *QUICK, "--json")
    (with_pictures,) = engram(*call, "--samples", "pictures", "--out", "one").records
    (without,) = engram(*call, "--out", "two").records
    for name in ("key", "spec", "accuracy", "losses", "memory"):
        assert with_pictures[name] == without[name]


def test_a_full_disk_costs_the_pictures_and_not_the_run(engram: Engram, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("PIL.Image.Image.save", full)
    answer = engram("run", "split-tiny/class", "rtf", *QUICK, "--samples", "pictures")
    assert answer.status == 0
    assert "pictures are missing: " in answer.err
    assert "No space left on device" in answer.err
    assert len(Path("runs/records.jsonl").read_text().splitlines()) == 1


# what is refused ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["dgr", "rtf", "rtf+si"])
@pytest.mark.parametrize("more", [[], ["--dry-run"]], ids=["run", "dry run"])
def test_a_network_that_a_generator_cannot_mirror_is_refused_before_anything_runs(
    engram: Engram, work: Path, data: Path, method: str, more: list[str]
) -> None:
    np.savez(data / "larger.npz", **arrays(size=20))
    answer = engram("run", "split-larger/class", method, "--net", "cnn", *more)
    assert answer.status == 2
    assert "a generator mirrors the hidden layers of an MLP, and the network is CNNNet; give mlp" in answer.err
    assert "Traceback" not in answer.err
    assert answer.out == ""
    assert list(work.iterdir()) == []


def test_a_fault_in_a_method_is_still_the_run_s(engram: Engram, work: Path) -> None:
    """Trying a method out beforehand refuses what cannot be; what breaks breaks in the run, and is recorded."""
    Path("mine.py").write_text(
        "import engram as eg\n\nclass Mine(eg.Method):\n    def start(self, learner, tasks):\n        return 1 / 0\n"
    )
    answer = engram("run", "split-tiny/class", "mine", "--method-file", "mine.py")
    assert answer.status == 1
    assert "failed" in answer.err
    record = json.loads(Path("runs/records.jsonl").read_text())
    assert "ZeroDivisionError" in record["error"]
