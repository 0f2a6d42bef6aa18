"""What a run leaves beside its record: logits that give its accuracies, a network that gives those logits."""

from pathlib import Path

import pytest
import torch
from helpers import blobs

import engram as eg
from engram.engines.driver import Job, run_jobs
from engram.engines.local import Local
from engram.runs.left import attach_left
from engram.runs.run import process_state
from engram.runs.spec import Spec
from engram.runs.store import kept_path

SHORT = eg.Training(epochs=1, batch=16, lr=0.01)
ALL = ("net", "logits", "features")


def go(kind="class", method=None, **options):
    method = method or eg.Adam()
    return eg.run(eg.split(blobs(4), kind=kind), method, net=eg.MLP(8), training=SHORT, **options)


def accuracies(record):
    return [
        [100 * float((guess == right).double().mean()) for guess, right in zip(row, record.targets, strict=False)]
        for row in record.predictions
    ]


@pytest.mark.parametrize("kind", ["task", "domain", "class", "class-known", "iid"])
def test_kept_logits_give_the_accuracies_of_the_record(kind):
    record = go(kind, keep=("logits",))
    assert accuracies(record) == record.accuracy
    assert record.extra["confusion"][-1]  # the page shows it
    assert 100 * sum(n for task in record.extra["confusion"][-1] for a, b, n in task if a == b) / 40 == pytest.approx(
        record.pooled_accuracy
    )


def test_a_method_with_scores_of_its_own_leaves_what_it_predicts_by():
    record = go(method=eg.ICaRL(capacity=20), keep="logits")
    assert accuracies(record) == record.accuracy


@pytest.mark.parametrize("net", [eg.MLP(8), eg.ConvNet()])
def test_the_network_of_a_key_gives_the_kept_logits_bit_for_bit(net, tmp_path: Path):
    scenario = eg.split(blobs(4, size=8))
    found = eg.run(scenario, eg.Adam(), net=net, training=SHORT, keep=ALL, out=tmp_path)
    loaded = eg.run(scenario, eg.Adam(), net=net, training=SHORT, keep=ALL, out=tmp_path)
    assert loaded.reused
    loaded.left = None
    attach_left(loaded, tmp_path, Spec(scenario, eg.Adam(), net, SHORT))
    with process_state(1), torch.no_grad():
        for record in (found, loaded):
            for j, task in enumerate(scenario.tasks(0)):
                logits = torch.cat([record.net(batch.x) for batch in task.test.chunks()])
                assert torch.equal(logits, record.logits[-1][j])
                assert torch.equal(task.test.batch(torch.arange(len(task.test))).y, record.targets[j])
    head = [m for m in found.net.modules() if isinstance(m, torch.nn.Linear)][-1]
    again = torch.nn.functional.linear(found.features[0], head.weight, head.bias)
    assert torch.allclose(again, found.logits[-1][0], atol=1e-5)


def test_load_finds_a_run_by_its_key(tmp_path: Path, monkeypatch):
    images = blobs(4, name="mine")
    monkeypatch.setattr("engram.runs.spec.images", lambda name: {"mine": images}[name])
    scenario = eg.split(images)
    found = eg.run(scenario, eg.SI(), net=eg.MLP(8), training=SHORT, keep=ALL, out=tmp_path)
    loaded = eg.load(found.key, out=tmp_path)
    assert loaded == found
    x = next(scenario.tasks(0)[1].test.chunks()).x
    with torch.no_grad():
        assert torch.equal(loaded.net(x), found.net(x))
    assert torch.equal(loaded.predictions[1][0], found.predictions[1][0])
    with pytest.raises(ValueError, match="no finished run 0123456789abcdef is recorded in"):
        eg.load("0123456789abcdef", out=tmp_path)
    kept_path(tmp_path, found.key).unlink()
    with pytest.raises(ValueError, match="is gone, though the run was asked to keep something"):
        _ = eg.load(found.key, out=tmp_path).logits


def test_two_workers_leave_the_files_that_one_process_leaves(tmp_path: Path):
    evaluation = eg.Evaluation(keep=ALL)
    scenario = eg.split(blobs(4))
    jobs = [Job(Spec(scenario, eg.Adam(), eg.MLP(8), SHORT, evaluation, seed)) for seed in (0, 1)]
    engine = Local(2)
    try:
        records = {job.spec.seed: record for job, record in run_jobs(jobs, tmp_path, engine=engine)}
    finally:
        engine.close()
    for seed, record in records.items():
        assert record.status == "done", record.error
        alone = go(seed=seed, keep=ALL)
        assert alone.key == record.key
        assert kept_path(tmp_path, record.key).is_file()
        assert torch.equal(record.logits[1][0], alone.logits[1][0])
        assert torch.equal(record.features[1], alone.features[1])
        assert all(torch.equal(a, b) for a, b in zip(record.net.parameters(), alone.net.parameters(), strict=True))


def test_a_resumed_run_leaves_what_an_uninterrupted_one_leaves(tmp_path: Path):
    saved = []
    spec = Spec(eg.split(blobs(4)), eg.Adam(), eg.MLP(8), SHORT, eg.Evaluation(keep=ALL))
    from engram.runs.run import compute

    whole = compute(spec, save=saved.append)
    resumed = compute(spec, resume=saved[0])
    assert resumed.environment["resumed_after_task"] == 1
    assert all(
        torch.equal(a, b) for x, y in zip(whole.logits, resumed.logits, strict=True) for a, b in zip(x, y, strict=True)
    )
    assert whole.extra == resumed.extra


def test_what_was_not_kept_is_refused_in_words():
    with pytest.raises(ValueError, match="comes without what its run may have left"):
        _ = go().net
    with pytest.raises(ValueError, match=r"did not keep its net; run it with keep=\(\"net\",\) or --keep net"):
        _ = go(keep=["logits"]).net
    with pytest.raises(ValueError, match="keep 'weights' is unknown; choose from net, logits, features"):
        go(keep=["weights"])


def test_the_order_of_what_is_kept_does_not_matter():
    assert eg.Evaluation(keep=("logits", "net")) == eg.Evaluation(keep=("net", "logits"))
