"""Built-in methods end with the bits that they had in version 0.1: records under unchanged keys stay true."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent / "weights.py"
TREE = Path(__file__).parents[2]
CHECKED = ("net", "optimizer", "kept", "accuracy", "losses", "before", "steps")


def results_of(tree: Path) -> dict[str, dict[str, object]]:
    done = subprocess.run(
        [sys.executable, SCRIPT], env={**os.environ, "PYTHONPATH": str(tree)}, capture_output=True, text=True, cwd=tree
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.slow
def test_final_weights_equal_those_of_version_0_1():
    baseline = os.environ.get("ENGRAM_BASELINE")
    if not baseline:
        pytest.skip("ENGRAM_BASELINE names no checkout of version 0.1 to compare with")
    old, new = results_of(Path(baseline)), results_of(TREE)
    assert old.keys() == new.keys()
    assert len(old) > 200
    different = [(case, part) for case in old for part in CHECKED if old[case][part] != new[case][part]]
    assert different == []
