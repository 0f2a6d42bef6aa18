"""A run leaves its record and nothing else, is not run twice, and goes on where it stopped."""

import importlib
import json
import os

import pytest
import torch
from helpers import TIMES, blobs

import engram as eg
from engram.core.code import file_text
from engram.runs.checkpoints import Checkpoints, packed, unpacked
from engram.runs.records import read_records
from engram.runs.run import run_spec
from engram.runs.spec import Spec


@pytest.fixture(scope="module")
def images():
    return blobs(6)


TRAINING = eg.Training(epochs=2, batch=16, lr=0.01)
NET = eg.MLP(12, 10)


def go(images, method=None, **options) -> eg.Record:
    values = {"net": NET, "training": TRAINING, **options}
    return eg.run(eg.split(images, kind="class"), method or eg.Adam(), **values)


def facts(record: eg.Record) -> dict:
    """What does not depend on when and where."""
    return {k: v for k, v in vars(record).items() if k not in (*TIMES, "environment", "reused")}


class StopError(Exception):
    pass


def stop_in_task(number: int):
    """Breaks off a run right before the end of a task (from 1)."""

    def watch(progress) -> None:
        if progress.task == number and progress.accuracy is not None:
            raise StopError

    return watch


def test_a_record_says_what_was_found(images):
    record = go(images, seed=3)
    a = record.accuracy
    assert record.status == "done"
    assert (record.scenario, record.method, record.seed, record.steps) == ("split-own/class", "adam", 3, 30)
    assert [len(row) for row in a] == [1, 2, 3]
    assert record.average_accuracy == pytest.approx(sum(a[2]) / 3)
    assert record.forgetting == pytest.approx(
        ((max(a[0][0], a[1][0]) - a[2][0]) + (a[1][1] - a[2][1])) / 2  # tasks 1 and 2
    )
    assert record.backward_transfer == pytest.approx(((a[2][0] - a[0][0]) + (a[2][1] - a[1][1])) / 2)
    assert record.forward_transfer is None
    assert record.key == Spec(eg.split(images, kind="class"), eg.Adam(), NET, TRAINING, seed=3).key
    assert record.environment["resumed_after_task"] == 0
    assert record.environment["data"] == {"own": images.fingerprint}
    json.loads(record.to_json())


def test_forward_transfer_where_asked_for(images):
    assert go(images, evaluation=eg.Evaluation(forward_transfer=True)).forward_transfer is not None


@pytest.mark.parametrize(("method", "optimizer"), [(eg.Adam(), "adam"), (eg.SGD(), "sgd"), (eg.Adagrad(), "adagrad")])
def test_a_method_brings_its_optimizer_where_none_is_asked_for(images, method, optimizer):
    record = eg.run(eg.split(images), method, net=NET)
    assert record.spec["training"]["optimizer"] == optimizer


def test_nothing_is_written_without_a_folder(images, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    go(images)
    assert list(tmp_path.iterdir()) == []


def test_what_is_recorded_is_not_run_again(images, tmp_path):
    told = []
    first = go(images, out=tmp_path, watch=told.append)
    assert told
    told.clear()
    again = go(images, out=str(tmp_path), watch=told.append)
    assert told == []
    assert facts(again) == facts(first)
    assert len(read_records(tmp_path / "records.jsonl")) == 1
    go(images, out=tmp_path, seed=1, watch=told.append)
    assert told
    assert len(read_records(tmp_path / "records.jsonl")) == 2


def test_another_folder_is_not_looked_into(images, tmp_path):
    told = []
    go(images, out=tmp_path / "a")
    go(images, out=tmp_path / "b", watch=told.append)
    assert told


def test_a_failed_run_is_run_again(images, tmp_path):
    record = go(images, out=tmp_path)
    path = tmp_path / "records.jsonl"
    path.write_text(path.read_text().replace('"status": "done"', '"status": "failed"'))
    assert go(images, out=tmp_path).status == "done"
    assert [r.status for r in read_records(path)] == ["failed", "done"]
    assert facts(read_records(path)[1]) == facts(record)


def test_checkpoints_are_gone_at_the_end(images, tmp_path):
    with pytest.raises(StopError):
        go(images, out=tmp_path, watch=stop_in_task(2))
    assert len(list(tmp_path.glob("checkpoints/*/*"))) == 1  # the latest only
    go(images, out=tmp_path)
    assert [p.name for p in tmp_path.rglob("*")] == ["records.jsonl"]


@pytest.mark.parametrize("stop", [1, 2, 3])
def test_an_interrupted_run_goes_on_and_ends_with_the_same_bits(images, tmp_path, stop):
    whole = go(images)
    with pytest.raises(StopError):
        go(images, out=tmp_path, watch=stop_in_task(stop))
    assert read_records(tmp_path / "records.jsonl") == []
    record = go(images, out=tmp_path)
    assert facts(record) == facts(whole)
    assert record.environment["resumed_after_task"] == stop - 1


def test_an_interrupted_offline_run_goes_on_within_its_one_task(images, tmp_path):
    """240 images are 15 batches; told every 50 steps, and the fourth pass ends with step 60."""
    training = eg.Training(epochs=5, batch=16)
    whole = go(images, eg.Offline(), training=training)

    def watch(progress) -> None:
        raise StopError

    with pytest.raises(StopError):
        go(images, eg.Offline(), training=training, out=tmp_path, watch=watch)
    assert [p.name for p in tmp_path.glob("checkpoints/*/*")] == ["task-0-epoch-3.pt"]
    steps = []
    record = go(images, eg.Offline(), training=training, out=tmp_path, watch=lambda p: steps.append(p.step))
    assert steps == [50, 75]
    assert facts(record) == facts(whole)
    for name, never, after in (("resumed_after_task", 0, 0), ("resumed_after_epoch", 0, 3)):
        assert (whole.environment[name], record.environment[name]) == (never, after)


@pytest.mark.parametrize("left", [0, 1, 2, 3, 4, 7, 100, 0.3, 0.9, 0.999, "zeros", "text"])
def test_a_checkpoint_that_is_not_whole_is_reported_and_the_run_starts_over(images, tmp_path, left):
    whole = go(images)
    with pytest.raises(StopError):
        go(images, out=tmp_path, watch=stop_in_task(2))
    (path,) = tmp_path.glob("checkpoints/*/*")
    content = path.read_bytes()
    if isinstance(left, str):
        path.write_bytes(bytes(len(content)) if left == "zeros" else b"not a checkpoint\n")
    else:
        path.write_bytes(content[: left if isinstance(left, int) else int(left * len(content))])
    said = []
    spec = Spec(eg.split(images, kind="class"), eg.Adam(), NET, TRAINING)
    record = run_spec(spec, tmp_path, say=said.append)
    assert len(said) == 1
    assert str(path) in said[0]
    assert facts(record) == facts(whole)
    assert record.environment["resumed_after_task"] == 0
    assert not list(tmp_path.glob("checkpoints/*"))


OTHERS = {
    "a wider layer": lambda c: c["net"].update({"layer2.weight": torch.zeros(10, 13)}),
    "another optimiser": lambda c: c["optimizer"].clear(),
    "an optimiser's state of other shapes": lambda c: c["optimizer"]["state"][0].update(exp_avg=torch.zeros(1, 1)),
    "another optimiser's state": lambda c: [s.update(sum=s.pop("exp_avg")) for s in c["optimizer"]["state"].values()],
    "more tasks than were looked at": lambda c: c.update(task=99),
    "less is kept": lambda c: c["method"][0].pop("weights"),
    "more is kept": lambda c: c["method"][0].update(teacher=torch.zeros(2)),
    "one method more": lambda c: c["method"].append({}),
    "an outcome with more to it": lambda c: c["outcome"].update(colour="red"),
}


@pytest.mark.parametrize("other", OTHERS)
def test_a_checkpoint_of_other_code_is_reported_and_the_run_starts_over(images, tmp_path, other):
    whole = go(images, eg.L2(coef=3.0))
    with pytest.raises(StopError):
        go(images, eg.L2(coef=3.0), out=tmp_path, watch=stop_in_task(2))
    (path,) = tmp_path.glob("checkpoints/*/*")
    checkpoint = unpacked(path.read_bytes(), path.parent.name)
    OTHERS[other](checkpoint)
    path.write_bytes(packed(checkpoint, path.parent.name))
    said = []
    spec = Spec(eg.split(images, kind="class"), eg.L2(coef=3.0), NET, TRAINING)
    record = run_spec(spec, tmp_path, say=said.append)
    why = "its checkpoint was made by other code and does not fit"
    assert said == [f"split-own/class l2 seed 0: {why}; it starts again"]
    assert facts(record) == facts(whole)
    assert record.environment["resumed_after_task"] == 0


def interrupted(images, tmp_path, **others):
    """A run that was stopped in its second task, and the file of its checkpoint."""
    with pytest.raises(StopError):
        go(images, out=tmp_path, watch=stop_in_task(2), **others)
    (path,) = tmp_path.glob("checkpoints/*/*.pt")
    return path


def test_no_flipped_bit_in_a_checkpoint_goes_unseen(images, tmp_path, capsys):
    path = interrupted(images, tmp_path)
    content = path.read_bytes()
    checkpoints = Checkpoints(path.parent)
    assert checkpoints.latest()["task"] == 1
    places = [0, 5, 18, 19, 20, 30, 36, 100, *(len(content) * i // 40 for i in range(40)), len(content) - 1]
    for place in places:
        for bit in (1, 64):
            path.write_bytes(content[:place] + bytes([content[place] ^ bit]) + content[place + 1 :])
            assert checkpoints.latest() is None, place
    path.write_bytes(content[:2000] + bytes(len(content) - 2000))
    assert checkpoints.latest() is None
    capsys.readouterr()
    record = go(images, out=tmp_path)
    assert (record.status, record.environment["resumed_after_task"]) == ("done", 0)
    assert facts(record) == facts(go(images))
    assert capsys.readouterr().err == f"{path}: not a whole checkpoint of this run (damaged), ignored\n"


def test_a_checkpoint_of_another_seed_is_left_aside(images, tmp_path, capsys):
    other = interrupted(images, tmp_path / "other", seed=1).read_bytes()
    path = interrupted(images, tmp_path)
    path.write_bytes(other)
    record = go(images, out=tmp_path)
    assert record.environment["resumed_after_task"] == 0
    assert facts(record) == facts(go(images))
    assert capsys.readouterr().err == f"{path}: not a whole checkpoint of this run (of another run), ignored\n"


def test_a_checkpoint_of_the_previous_format_is_left_aside(images, tmp_path, capsys):
    """Version 0.1 wrote what torch wrote, without key and hash."""
    path = interrupted(images, tmp_path)
    torch.save(unpacked(path.read_bytes(), path.parent.name), path)
    record = go(images, out=tmp_path)
    assert record.environment["resumed_after_task"] == 0
    assert facts(record) == facts(go(images))
    assert "written by another version, or damaged" in capsys.readouterr().err


@pytest.mark.parametrize("stray", ["pipe", "folder", "dangling link", "endless file"])
def test_what_is_not_a_regular_file_is_no_checkpoint(images, tmp_path, capsys, stray):
    path = interrupted(images, tmp_path)
    path.unlink()
    plant = {
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
        "dangling link": lambda: path.symlink_to("nowhere"),
        "endless file": lambda: path.symlink_to("/dev/zero"),
    }
    plant[stray]()
    capsys.readouterr()
    record = go(images, out=tmp_path)
    assert (record.status, record.environment["resumed_after_task"]) == ("done", 0)
    assert facts(record) == facts(go(images))
    assert f"{path}: not a regular file, left aside" in capsys.readouterr().err
    assert [file.name for file in tmp_path.rglob("*")] == ["records.jsonl"]


def test_half_a_checkpoint_beside_a_whole_one_is_no_harm(images, tmp_path):
    """A crash while writing leaves the part, and the checkpoint before it."""
    with pytest.raises(StopError):
        go(images, out=tmp_path, watch=stop_in_task(2))
    (path,) = tmp_path.glob("checkpoints/*/*")
    (path.parent / "task-2.123.part").write_bytes(path.read_bytes()[:1000])
    record = go(images, out=tmp_path)
    assert record.environment["resumed_after_task"] == 1
    assert facts(record) == facts(go(images))


@pytest.mark.parametrize("kept", [True, False])
def test_a_file_that_is_edited_during_a_run_changes_nothing_of_it(images, tmp_path, monkeypatch, kept):
    """The record goes under the key of the code that ran."""
    text = "import engram as eg\n\n\nclass EditedMeanwhile(eg.Method):\n    ...\n"
    file = tmp_path / f"edited_meanwhile_{kept}.py"
    file.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    method = importlib.import_module(file.stem).EditedMeanwhile()

    def edit(_):
        file.write_text(text.replace("...", "def loss(self, learner, batch):\n        raise ValueError"))

    record = go(images, method, watch=edit, **({"out": tmp_path / "out"} if kept else {}))
    file.write_text(text)
    assert record.key == Spec(eg.split(images, kind="class"), method, NET, TRAINING).key
    monkeypatch.setattr("engram.core.code._TEXTS", {})
    file_text.cache_clear()
    assert record.key == Spec(eg.split(images, kind="class"), method, NET, TRAINING).key
    if kept:
        assert [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()] == ["records.jsonl"]


def test_a_checkpoint_is_handed_on_as_it_is(tmp_path):
    """To a machine that has the device it was made on: it is not opened here."""
    checkpoints = Checkpoints(tmp_path, print)
    assert checkpoints.content() is None
    (tmp_path / "task-1.pt").write_bytes(b"of another device")
    assert checkpoints.content() == b"of another device"


def test_files_of_others_are_neither_read_nor_removed(tmp_path):
    """As in a folder that a link of the run's name points to."""
    (tmp_path / "others").mkdir()
    (tmp_path / "others/model.pt").write_bytes(b"of somebody else")
    (tmp_path / "run").symlink_to(tmp_path / "others")
    said = []
    checkpoints = Checkpoints(tmp_path / "run", said.append)
    assert checkpoints.latest() is None
    checkpoints.save({"task": 0, "epoch": 1, "method": []})
    checkpoints.save({"task": 1, "epoch": 0, "method": []})
    assert sorted(path.name for path in (tmp_path / "others").iterdir()) == ["model.pt", "task-1.pt"]
    assert said == []


def test_a_checkpoint_is_replaced_by_the_next(tmp_path):
    checkpoints = Checkpoints(tmp_path / "run", print)
    assert checkpoints.latest() is None
    for task, epoch in ((0, 1), (0, 2), (1, 0)):
        checkpoints.save({"task": task, "epoch": epoch, "method": [], "net": {"w": torch.full((3,), float(task))}})
        assert checkpoints.latest()["task"] == task
        assert checkpoints.latest()["epoch"] == epoch
        assert len(list((tmp_path / "run").iterdir())) == 1


def test_what_diverges_has_no_average_and_is_not_run_again(images, tmp_path):
    training = eg.Training(epochs=2, batch=16, lr=1e30, optimizer="sgd")
    record = go(images, eg.SGD(), training=training, out=tmp_path)
    assert record.status == "diverged"
    assert record.average_accuracy is record.forgetting is record.pooled_accuracy is None
    assert json.loads(record.to_json())["average_accuracy"] is None
    told = []
    assert go(images, eg.SGD(), training=training, out=tmp_path, watch=told.append).status == "diverged"
    assert told == []


class LastStepExplodes(eg.Method):
    """Its only bad step is the last one of the first task, which no loss sees."""

    def after_step(self, learner, batch):
        if learner.step_of_task == learner.steps_of_task - 1:
            with torch.no_grad():
                learner.params[0].fill_(torch.inf)


def test_a_run_whose_last_step_diverges_is_not_done(images):
    record = go(images, LastStepExplodes())
    assert (record.status, record.accuracy, record.average_accuracy) == ("diverged", [], None)


@pytest.mark.parametrize("method", [eg.L2, eg.EWC, eg.SI, eg.MAS])
def test_a_coefficient_beyond_all_bounds_diverges(images, method):
    record = go(images, method(coef=3e38))
    assert record.status == "diverged"


def test_a_method_can_be_run_again(images):
    """A run takes a copy: what a method keeps is not carried into the next run."""

    class Counts(eg.Method):
        kept = ("tasks",)
        tasks = 0

        def end_task(self, learner, task):
            self.tasks = self.tasks + 1
            assert self.tasks == task.index + 1

    method = Counts()
    assert facts(go(images, method)) == facts(go(images, method))
    assert method.tasks == 0


@pytest.mark.parametrize(
    ("wrong", "what_to_do"),
    [
        ("ewc", r"method 'ewc' is a name; give engram\.EWC\(\)"),
        (eg.EWC, r"method EWC is a class; give an instance: EWC\(\)"),
        (["ewc"], r"give engram\.EWC\(\)"),
        ([eg.Adam(), eg.EWC], r"give an instance: EWC\(\)"),
        (None, "give an instance, as in"),
        ({"coef": 1}, "give an instance, as in"),
    ],
)
def test_what_is_no_method_is_refused_in_words(images, wrong, what_to_do):
    with pytest.raises(TypeError, match=what_to_do):
        eg.run(eg.split(images, kind="class"), wrong)


def test_what_is_no_scenario_is_refused_in_words(images):
    scenario = eg.split(images, kind="class")
    wrong = {
        "split-mnist/class": r'a scenario by name is engram\.scenario\("split-mnist/class"\)',
        scenario.tasks(0): "give the scenario that they came from",
        images: r"make a scenario of it: engram\.split",
        type(scenario): "Split is a class; give an instance",
        None: "give what engram.split",
    }
    for value, what_to_do in wrong.items():
        with pytest.raises(TypeError, match=what_to_do):
            eg.run(value, eg.Adam())


@pytest.mark.parametrize(
    ("wrong", "what_to_do"),
    [
        ({"net": "cnn"}, r"net 'cnn' is a name; give engram\.CNN\(\)"),
        ({"net": eg.MLP}, r"give an instance: MLP\(\)"),
        ({"net": object()}, "an nn.Module class with a constructor"),
        ({"training": {"epochs": 2}}, r"give engram\.Training\(epochs=2\)"),
        ({"evaluation": eg.Evaluation}, r"give engram\.Evaluation"),
    ],
)
def test_other_wrong_arguments_are_refused_in_words(images, wrong, what_to_do):
    with pytest.raises(TypeError, match=what_to_do):
        eg.run(eg.split(images, kind="class"), eg.Adam(), **wrong)


def test_a_memory_budget_sizes_the_buffer_from_python(images):
    """36 pixels of 4 bytes and a label of 2: 146 bytes per image; three slots of 8 bytes for their scaling."""
    record = eg.run(
        eg.split(images, kind="class"),
        eg.Rehearsal(),
        memory_budget=2000,
        net=eg.MLP(8),
        training=eg.Training(epochs=1),
    )
    assert record.spec["method"][0]["capacity"] == (2000 - 3 * 8) // 146
    assert sum(record.memory["kept"].values()) <= 2000


def test_a_device_that_is_not_there_is_refused(images):
    with pytest.raises(ValueError, match="device 'tpu' cannot be used here; choose from cpu"):
        go(images, device="tpu")


def test_threads_are_set_for_the_run_alone(images):
    seen = []
    go(images, threads=2, watch=lambda _: seen.append(torch.get_num_threads()))
    assert set(seen) == {2}
    assert torch.get_num_threads() == 1
