"""Search: equal trials, a ledger that is right to the step, and test images that nobody reads before the end."""

import itertools
from dataclasses import dataclass, replace
from typing import Annotated, Literal

import pytest
from helpers import blobs

import engram as eg
from engram.core.ranges import Each, Log
from engram.core.registry import METHODS
from engram.engines.driver import Job
from engram.learning.combine import combine
from engram.runs.records import Record, append_record, read_records
from engram.runs.run import run_spec
from engram.runs.spec import Spec
from engram.search.ledger import best, tuned
from engram.search.trials import TRIAL_SEED, SearchAxis, apply_point, axes, check_folder, grid, run_search, trial_jobs

TRAINING = eg.Training(epochs=2, batch=16)
NET = eg.MLP(12)


@pytest.fixture(scope="module")
def images():
    """4 classes of 40 training and 10 test images."""
    return blobs(4)


def base(images, method, **training) -> Spec:
    values = replace(TRAINING, optimizer=method.optimizer, **training)
    return Spec(eg.split(images, kind="domain"), method, NET, values)


def runner(out, before=lambda job: None):
    """As `run_jobs`, in this process; `before` is called with each run."""

    def run(jobs: list[Job]):
        path = out / "records.jsonl"
        known = {record.key: record for record in read_records(path)}
        for job in jobs:
            before(job)
            record = known.get(job.spec.key)
            if record is None:
                record = run_spec(job.spec)
                record.search = job.search
                append_record(path, record)
            else:
                record.reused = True
            yield job, record

    return run


def trial(status: str, point: dict, accuracy: float | None = None) -> Record:
    return Record(
        "k", "split-own/domain", "l2", TRIAL_SEED, {}, status, average_accuracy=accuracy, search={"point": point}
    )


# The grid


@pytest.mark.parametrize("trials", [2, 5, 6, 12])
@pytest.mark.parametrize("name", METHODS)
def test_every_method_has_so_many_different_trials(images, name, trials):
    spec = base(images, METHODS[name]())
    over = axes(spec)
    points = grid(over, trials)
    wanted = trials if over else 1  # ncm has nothing to search
    assert len(points) == wanted
    assert len({apply_point(spec, over, point).key for point in points}) == wanted


def test_baselines_are_searched_over_the_learning_rate_and_rehearsal_over_its_mixing_too(images):
    for method in (eg.SGD(), eg.Adagrad(), eg.Adam(), eg.Offline()):
        assert [axis.name for axis in axes(base(images, method))] == ["lr"]
    assert [axis.name for axis in axes(base(images, eg.Rehearsal()))] == ["mixing", "lr"]
    assert grid(axes(base(images, eg.Rehearsal())), 5) == [
        {"mixing": "shuffled", "lr": 1e-4},
        {"mixing": "shuffled", "lr": 0.00316},  # the geometric mean of 0.0001 and 0.1, to three digits
        {"mixing": "shuffled", "lr": 0.1},
        {"mixing": "balanced", "lr": 1e-4},
        {"mixing": "balanced", "lr": 0.1},
    ]


def test_penalties_are_searched_over_their_weight_from_end_to_end(images):
    assert [point["coef"] for point in grid(axes(base(images, eg.EWC())), 7)] == [0.01, 0.1, 1, 10, 100, 1000, 10000]


def test_memory_is_not_searched(images):
    """Methods are compared at equal memory."""
    for method in (eg.Rehearsal(capacity=44), eg.RehearsalC(capacity=44), eg.GEM(capacity=44)):
        spec = base(images, method)
        for job in trial_jobs(spec, 6, "holdout"):
            assert job.spec.method.capacity == 44


def test_the_rest_of_the_spec_stays(images):
    spec = base(images, eg.SI(xi=0.3), lr=0.02)
    job = trial_jobs(spec, 2, "holdout")[1]
    assert (job.spec.method.coef, job.spec.method.xi, job.spec.training.lr) == (1e4, 0.3, 0.02)
    assert job.spec.scenario.held_out == 0.1
    assert (job.spec.seed, job.search) == (
        TRIAL_SEED,
        {"stage": "trial", "selected_on": "holdout", "point": {"coef": 1e4}},
    )


def test_methods_of_several_axes_share_the_trials(images):
    @dataclass
    class Two(eg.Method):
        weight: Annotated[float, Log(1, 100)] = 1.0
        size: Annotated[int, Log(1, 64)] = 1
        way: Annotated[Literal["a", "b"], Each()] = "a"
        other: Literal["x", "y"] = "x"

    over = axes(base(images, Two()))
    assert [axis.name for axis in over] == ["way", "weight", "size"]
    points = grid(over, 18)  # 9 for each way: 3 weights with 3 sizes each
    assert points == [
        {"way": way, "weight": weight, "size": size}
        for way, weight, size in itertools.product("ab", (1.0, 10.0, 100.0), (1, 8, 64))
    ]
    assert len(grid(over, 7)) == 7
    both = axes(base(images, combine([eg.Rehearsal(), eg.SI()])))
    assert [axis.name for axis in both] == ["rehearsal.mixing", "si.coef"]


def test_more_whole_numbers_than_there_are_are_refused():
    with pytest.raises(ValueError, match="size has fewer than 5 values from 1 to 3; give fewer trials"):
        SearchAxis("size", 0, "size", Log(1, 3), whole=True).levels(5)


# The ledger


@pytest.fixture(scope="module")
def searched(images, tmp_path_factory):
    """(records, jobs): sgd, ewc and rehearsal in 4 trials each, then 2 runs of each winner."""
    out = tmp_path_factory.mktemp("search")
    bases = [base(images, method) for method in (eg.SGD(), eg.EWC(), eg.Rehearsal(capacity=20))]
    jobs = [job for job, _ in run_search(bases, runner(out), trials=4, seeds=range(2))]
    return read_records(out / "records.jsonl"), jobs


def test_the_ledger_is_right_to_the_trial_and_the_step(searched):
    """Of 40 images a class 4 are held out: 2 tasks of 72 images are 5 batches of 16, twice, in each of 4 trials.

    All 80 images of a task are 5 batches too. Rehearsal sees 72 + 3 · 20 (80 + 4 · 20 at the end) images in the second
    task when they are shuffled, 9 batches and 10; balanced, half of a batch is new: 9 batches (10).
    """
    ledger = {one.method: one for one in tuned(searched[0])}
    assert list(ledger) == ["sgd", "ewc", "rehearsal"]
    for one in ledger.values():
        assert (one.trials.runs, one.finals.runs, one.trials.looks, one.finals.looks) == (4, 2, 0, 2)
        assert (one.selected_on, one.unfinished, one.failed, one.n) == ("holdout", 0, 0, 2)
        assert one.trials.seconds > 0
    for name in ("sgd", "ewc"):
        assert (ledger[name].trials.steps, ledger[name].finals.steps) == (4 * 2 * (5 + 5), 2 * 2 * (5 + 5))
    assert ledger["rehearsal"].trials.steps == 4 * 2 * (5 + 9)
    assert ledger["rehearsal"].finals.steps == 2 * 2 * (5 + 10)


def test_best_median_and_worst_are_those_of_the_trials(searched):
    for one in tuned(searched[0]):
        mine = [r for r in searched[0] if r.method == one.method]
        trials = sorted(r.average_accuracy for r in mine if r.seed == TRIAL_SEED)
        assert (one.best, one.median, one.worst) == (trials[3], (trials[1] + trials[2]) / 2, trials[0])
        finals = [r.average_accuracy for r in mine if r.seed < TRIAL_SEED]
        assert one.final == pytest.approx(sum(finals) / 2)


def test_winners_are_run_on_all_training_data_with_the_reported_seeds(searched):
    records, jobs = searched
    assert [r.search["stage"] for r in records] == ["trial"] * 12 + ["final"] * 6
    for record, job in zip(records, jobs, strict=True):
        assert record.key == job.spec.key
        final = record.search["stage"] == "final"
        assert record.spec["scenario"]["held_out"] == (0 if final else 0.1)
        assert record.seed in ((0, 1) if final else (TRIAL_SEED,))
        if final:
            trials = [r for r in records if r.method == record.method and r.seed == TRIAL_SEED]
            assert record.search["point"] == best(trials).search["point"]
            assert record.search["trials"] == 4
    values = {(r.method, str(r.search["point"])) for r in records if r.search["stage"] == "final"}
    assert len(values) == 3


def test_it_goes_on_where_it_stopped(images, tmp_path):
    bases = [base(images, eg.SGD()), base(images, eg.L2())]
    whole = list(run_search(bases, runner(tmp_path / "whole"), trials=3, seeds=range(2)))
    for _ in itertools.islice(run_search(bases, runner(tmp_path / "stopped"), trials=3, seeds=range(2)), 4):
        pass
    assert len(read_records(tmp_path / "stopped" / "records.jsonl")) == 4
    again = list(run_search(bases, runner(tmp_path / "stopped"), trials=3, seeds=range(2)))
    assert [record.reused for _, record in again] == [True] * 4 + [False] * 6
    assert [(r.key, r.accuracy) for _, r in again] == [(r.key, r.accuracy) for _, r in whole]
    assert len(read_records(tmp_path / "stopped" / "records.jsonl")) == 10


def test_a_trial_that_diverges_ranks_last_and_a_method_of_none_else_has_no_winner(images, tmp_path):
    @dataclass
    class Wild(eg.Method):
        optimizer = "sgd"
        scale: Annotated[float, Log(1, 1e30)] = 1.0

        def loss(self, learner, batch):
            return learner.loss(batch) * self.scale**2

    run = runner(tmp_path)
    list(run_search([base(images, Wild())], run, trials=3, seeds=range(1)))
    (one,) = tuned(read_records(tmp_path / "records.jsonl"))
    assert (one.unfinished, one.worst, one.median) == (2, None, None)
    assert one.best is not None
    assert one.point == {"scale": 1.0}
    assert best([trial("diverged", {"coef": 1.0}), trial("failed", {"coef": 2.0})]) is None


def test_of_equal_trials_the_middle_one_wins():
    values = {10.0: 90, 0.1: 90, 1.0: 90, 100.0: 80, 0.01: 70}
    found = [trial("done", {"coef": coef}, accuracy) for coef, accuracy in values.items()]
    assert best(found).search["point"] == {"coef": 1.0}
    assert best([*found, trial("done", {"coef": 1000.0}, 90.5)]).search["point"] == {"coef": 1000.0}
    assert best([]) is None


def test_a_winner_at_an_end_of_its_range_is_named():
    def of(values):
        trials = [trial("done", {"mixing": m, "lr": lr}, accuracy) for (m, lr), accuracy in values.items()]
        for one in trials:
            one.key = str(one.search["point"])
            one.search |= {"stage": "trial", "selected_on": "holdout"}
            one.spec = {"scenario": {"held_out": 0.1}}
        (found,) = tuned(trials)
        return found.at_end

    assert of({("a", 0.1): 1.0, ("a", 0.2): 3.0, ("b", 0.3): 2.0}) == []
    assert of({("a", 0.1): 1.0, ("a", 0.2): 3.0, ("b", 0.3): 4.0}) == ["lr"]
    assert of({("a", 0.1): 5.0, ("a", 0.2): 3.0, ("b", 0.3): 4.0}) == ["lr"]


def test_a_retry_is_the_same_trial(images, tmp_path):
    (job, *_) = trial_jobs(base(images, eg.SGD()), 2, "holdout")
    ((_, record),) = runner(tmp_path)([job])
    died = replace(record, status="failed", steps=0, accuracy=[], average_accuracy=None)
    for records in ([died, record], [record, died], [died, died, record]):
        (one,) = tuned(records)
        assert (one.trials.runs, one.trials.steps, one.unfinished) == (1, 20, 0)


# Test images


def test_test_images_are_read_in_the_last_stage_only(images, tmp_path, monkeypatch):
    """Every read of the test arrays is noted with the stage that it happens in."""
    reads, stage = [], "before"

    class Watched(eg.Images):
        def __getattribute__(self, name):
            if name in ("x_test", "y_test") and name in object.__getattribute__(self, "__dict__"):
                reads.append(stage)
            return object.__getattribute__(self, name)

    watched = Watched(images.x_train, images.y_train, images.x_test, images.y_test)
    _ = watched.fingerprint
    reads.clear()

    def note(job: Job) -> None:
        nonlocal stage
        stage = job.search["stage"]

    bases = [base(watched, method) for method in (eg.SGD(), eg.EWC(), eg.Rehearsal(capacity=20))]
    done = list(run_search(bases, runner(tmp_path / "a", note), trials=3, seeds=range(2)))
    assert [record.status for _, record in done] == ["done"] * (9 + 6)
    assert set(reads) == {"final"}
    reads.clear()
    list(run_search(bases, runner(tmp_path / "b", note), trials=2, seeds=range(1), select_on="test"))
    assert set(reads) == {"trial", "final"}  # the watch sees a read where there is one


def test_selecting_on_test_is_what_the_records_say(images, tmp_path):
    spec = base(images, eg.Adagrad())
    done = [record for _, record in run_search([spec], runner(tmp_path), trials=3, seeds=range(2), select_on="test")]
    assert {r.search["selected_on"] for r in done} == {"test"}
    assert {r.spec["scenario"]["held_out"] for r in done} == {0}
    (one,) = tuned(read_records(tmp_path / "records.jsonl"))
    assert (one.selected_on, one.trials.looks, one.finals.looks) == ("test", 3, 2)
    assert one.trials.steps == 3 * 2 * (5 + 5)


def test_reported_seeds_stay_away_from_that_of_the_trials(images, tmp_path):
    with pytest.raises(ValueError, match="seeds 1001: reported seeds must be below 1000"):
        list(run_search([base(images, eg.SGD())], runner(tmp_path), seeds=range(1001)))
    assert not list(tmp_path.iterdir())


def test_a_folder_with_other_runs_of_these_methods_is_refused(images, tmp_path):
    spec = base(images, eg.SGD())
    list(run_search([spec], runner(tmp_path / "a"), trials=3, seeds=range(1)))
    check_folder(tmp_path / "a", [spec], 3, "holdout")
    check_folder(tmp_path / "a", [base(images, eg.L2())], 2, "test")
    with pytest.raises(
        ValueError, match=r"records.jsonl has a trial of another grid or of other code .*lr.* of sgd; give another"
    ):
        check_folder(tmp_path / "a", [spec], 4, "holdout")
    with pytest.raises(ValueError, match="has runs selected on holdout of sgd"):
        check_folder(tmp_path / "a", [spec], 3, "test")
    run_spec(spec, tmp_path / "b")
    with pytest.raises(ValueError, match="has runs that belong to no search of sgd"):
        check_folder(tmp_path / "b", [spec], 3, "holdout")
