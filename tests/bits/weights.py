"""Final weights of every built-in method and kind on small made-up images, as hashes.

The script prints one JSON object: for every case the SHA-256 of the final weights, of the optimiser's state and of what
the method keeps, and the accuracies and losses in full. It uses nothing that differs between version 0.1 and today, so
the same file runs with both trees:

    PYTHONPATH=path/to/checkout-of-0.1 python tests/bits/weights.py > old.json
    PYTHONPATH=.                       python tests/bits/weights.py > new.json

Both files are equal on one machine. `test_weights.py` compares them if ENGRAM_BASELINE names a checkout of 0.1.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

import engram as eg
from engram.learning.combine import combine
from engram.learning.train import train

ADAM = eg.Training(epochs=2, batch=10, lr=0.02)
SGD = eg.Training(epochs=1, batch=10, lr=0.1, optimizer="sgd")
WIDE = eg.Training(epochs=1, batch=128, lr=0.003)

METHODS = {
    "adam": lambda: eg.Adam(),
    "adagrad": lambda: eg.Adagrad(),
    "sgd": lambda: eg.SGD(),
    "offline": lambda: eg.Offline(),
    "l2": lambda: eg.L2(coef=0.1),
    "ewc": lambda: eg.EWC(coef=100.0),
    "ewc true": lambda: eg.EWC(coef=100.0, label="true"),
    "ewc exact": lambda: eg.EWC(coef=100.0, label="exact"),
    "ewc sampled by batch": lambda: eg.EWC(coef=100.0, label="sampled", estimator="batch"),
    "online-ewc": lambda: eg.OnlineEWC(coef=100.0, decay=0.7, label="sampled"),
    "si": lambda: eg.SI(coef=10.0),
    "mas": lambda: eg.MAS(coef=1.0),
    "mas per sample": lambda: eg.MAS(coef=1.0, form="per-sample"),
    "rehearsal": lambda: eg.Rehearsal(capacity=60),
    "rehearsal balanced": lambda: eg.Rehearsal(capacity=60, mixing="balanced"),
    "rehearsal-c": lambda: eg.RehearsalC(capacity=60),
    "gem": lambda: eg.GEM(capacity=60),
    "gem memory batch": lambda: eg.GEM(capacity=60, memory_batch=12),
    "gem-textbook": lambda: eg.GEMTextbook(capacity=60),
    "lwf": lambda: eg.LwF(),
    "lwf sum": lambda: eg.LwF(reduction="sum", weighting="count"),
    "dgr": lambda: eg.DGR(),
    "rtf": lambda: eg.RtF(),
    "rehearsal+online-ewc": lambda: combine([eg.Rehearsal(capacity=60), eg.OnlineEWC(coef=50.0)]),
    "si+gem": lambda: combine([eg.SI(coef=1.0), eg.GEM(capacity=60)]),
    "lwf+si": lambda: combine([eg.LwF(), eg.SI(coef=1.0)]),
    "rehearsal+lwf": lambda: combine([eg.Rehearsal(capacity=60), eg.LwF()]),
    "rtf+online-ewc": lambda: combine([eg.RtF(), eg.OnlineEWC(coef=1.0)]),
    "ewc+si": lambda: combine([eg.EWC(coef=1.0), eg.SI(coef=1.0)]),
    "dgr+mas": lambda: combine([eg.DGR(), eg.MAS(coef=1.0)]),
}
WITH_CNN = ("adam", "ewc", "si", "rehearsal", "mas", "mas per sample", "lwf", "gem", "gem memory batch")
OTHER_TRAININGS = {
    "sgd momentum": eg.Training(epochs=2, batch=10, lr=0.05, optimizer="sgd", momentum=0.9),
    "adam decay": eg.Training(epochs=2, batch=10, lr=0.02, weight_decay=0.01),
    "adamw": eg.Training(epochs=2, batch=10, lr=0.02, optimizer="adamw", weight_decay=0.01),
    "rmsprop": eg.Training(epochs=2, batch=10, lr=0.01, optimizer="rmsprop", momentum=0.5),
    "steps": eg.Training(steps=13, batch=16, lr=0.01),
    "dropped, reset": eg.Training(epochs=2, batch=9, lr=0.01, drop_last=True, reset_optimizer=True),
}


def blobs(size: int, train: int) -> eg.Images:
    """Six classes, a pattern with noise each."""
    rng = np.random.default_rng(0)
    centres = rng.uniform(0, 255, (6, size, size))

    def part(n: int) -> tuple[Any, Any]:
        y = rng.permutation(np.repeat(np.arange(6), n))
        return np.clip(centres[y] + rng.normal(0, 60, (len(y), size, size)), 0, 255).astype(np.uint8), y

    x, y = part(train)
    test_x, test_y = part(20)
    return eg.Images(x, y, test_x, test_y, name="blobs")


def cases() -> Iterator[tuple[str, Any]]:
    """(name, arguments of `train`) of everything that is compared."""
    small, wide, large = blobs(5, 20), blobs(28, 50), blobs(20, 5)
    for name, make in METHODS.items():
        training = SGD if "gem" in name or name == "sgd" else ADAM
        if name == "adagrad":
            training = eg.Training(epochs=2, batch=10, lr=0.05, optimizer="adagrad")
        for kind in ("task", "domain", "class"):
            yield f"{name}, {kind}", (eg.split(small, kind=kind), make, eg.MLP(7, 6), training)
        if name in WITH_CNN:
            for kind in ("task", "class"):
                yield f"{name}, {kind}, cnn", (eg.split(large, kind=kind), make, eg.CNN(), training)
    for name in ("adam", "ewc", "si", "rehearsal-c", "dgr", "rtf", "lwf"):
        yield f"{name}, permuted", (eg.permute(small, permutations=3), METHODS[name], eg.MLP(7), ADAM)
        yield (
            f"{name}, wide",
            (eg.split(wide, kind="task", normalize=(0.3, 0.4)), METHODS[name], eg.MLP(100, 100), WIDE),
        )
    for name, training in OTHER_TRAININGS.items():
        for method in ("adam", "rehearsal", "si", "dgr"):
            yield f"{method}, {name}", (eg.split(small, kind="class"), METHODS[method], eg.MLP(7, 6), training)
    yield "adam, zero heads", (eg.split(small, kind="class-known"), eg.Adam, eg.MLP(7, heads="zero"), ADAM)
    yield "adam, iid", (eg.split(small, kind="iid"), eg.Adam, eg.MLP(7), ADAM)


def digest(*values: Any) -> str:
    """SHA-256 of all tensors inside, in order."""
    hashed = hashlib.sha256()

    def add(value: Any) -> None:
        if isinstance(value, torch.Tensor):
            hashed.update(value.detach().cpu().contiguous().numpy().tobytes())
        elif isinstance(value, dict):
            for name in value:
                add(value[name])
        elif isinstance(value, list | tuple):
            for inner in value:
                add(inner)

    for value in values:
        add(value)
    return hashed.hexdigest()


def kept_of(kept: dict[str, Any]) -> list[Any]:
    """What a method keeps, but how pixels are scaled: tensors in 0.1, numbers today."""
    return [value for name, value in kept.items() if name not in ("scales", "scalings")]


def results() -> dict[str, dict[str, Any]]:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    found = {}
    for seed in (0, 1):
        for name, (scenario, make, net, training) in cases():
            if seed and "cnn" in name:
                continue
            last: list[Any] = []
            outcome = train(
                scenario.deal(seed),
                make(),
                net,
                training,
                seed=seed,
                evaluation=eg.Evaluation(forward_transfer="offline" not in name),
                save=lambda checkpoint, last=last: last.__setitem__(slice(None), [checkpoint]),
            )
            found[f"{name}, seed {seed}"] = {
                "net": digest(last[0]["net"]),
                "optimizer": digest(last[0]["optimizer"]["state"]),
                "kept": digest([kept_of(kept) for kept in last[0]["method"]]),
                "accuracy": outcome.accuracy,
                "losses": outcome.losses,
                "before": outcome.before,
                "steps": outcome.steps,
            }
    return found


if __name__ == "__main__":
    json.dump(results(), sys.stdout, indent=1)
