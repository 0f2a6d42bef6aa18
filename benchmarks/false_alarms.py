"""False alarms of categorisation: how often does it say that P(X) differs between two halves of the same images?

    python benchmarks/false_alarms.py false-alarms.jsonl [--dataset mnist] [--images 600] [--flat] [--splits 1000]

Each split draws new images of a dataset and deals them to two tasks; everything runs as in `engram.categorize`. Every
p-value is appended to the file, and a second call goes on from there. Prints how many splits are flagged at each level.
With --flat the images are vectors to the network of the test, which then has one hidden layer and is fast.
"""

import argparse
import json
from pathlib import Path

import numpy as np

import engram as eg
from engram.scenarios.categorize import Pair, categorize

LEVELS = (0.05, 0.01, 0.001)


def compare_split(images: eg.Images, n: int, flat: bool, split: int) -> Pair:
    """What is measured between two tasks of n images each, dealt at random."""
    rows = np.random.default_rng(split).permutation(len(images.y_train))[: 2 * n]
    x, y = images.x_train[rows], images.y_train[rows]
    if flat:
        x = x.reshape(len(x), -1)
    tasks = [(x[part], y[part]) for part in (slice(n), slice(n, None))]
    (pair,) = categorize(tasks, "single").pairs
    return pair


def count_alarms(lines: list[dict[str, float]]) -> str:
    """Flagged splits at each level: by both tests together, and by each alone, without a correction."""
    found = [f"{len(lines)} splits"]
    for level in LEVELS:
        both, distances, network = (
            sum(line[name] is not None and line[name] <= level for line in lines)
            for name in ("p_value", "p_distances", "p_network")
        )
        found.append(f"level {level}: {both} flagged (distances alone {distances}, network alone {network})")
    return "\n".join(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--dataset", default="mnist")
    parser.add_argument("--images", type=int, default=600, help="per task")
    parser.add_argument("--flat", action="store_true")
    parser.add_argument("--splits", type=int, default=1000)
    options = parser.parse_args()
    images = eg.images(options.dataset)
    setting = {name: getattr(options, name) for name in ("dataset", "images", "flat")}
    lines = [json.loads(line) for line in options.file.read_text().splitlines()] if options.file.exists() else []
    for line in lines:
        if (found := {name: line[name] for name in setting}) != setting:
            raise SystemExit(f"{options.file} has splits of {found}, not of {setting}; give another file")
    with options.file.open("a") as file:
        for split in range(len(lines), options.splits):
            pair = compare_split(images, options.images, options.flat, split)
            values = {name: getattr(pair, name) for name in ("p_value", "p_distances", "p_network")}
            lines.append({**setting, "split": split, **values})
            file.write(json.dumps(lines[-1]) + "\n")
            file.flush()
    print(count_alarms(lines[: options.splits]))


if __name__ == "__main__":
    main()
