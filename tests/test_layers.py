"""What answers without torch: whole folders, and the commands that only look at records."""

import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "engram"
FOLDERS = ("analysis", "studies")
ALONE = ("engram.cli.compare", "engram.cli.study", "engram.cli.ls")
IMPORTS = """
import importlib, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
    assert "torch" not in sys.modules, name
print(len(sys.argv) - 1)
"""


def modules(folder: str) -> list[str]:
    """All modules of a folder, at any depth."""
    paths = sorted((PACKAGE / folder).rglob("*.py"))
    names = [".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts) for path in paths]
    return [name.removesuffix(".__init__") for name in names]


def check(names: list[str]) -> None:
    done = subprocess.run([sys.executable, "-c", IMPORTS, *names], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr.strip().splitlines()[-1]
    assert done.stdout == f"{len(names)}\n"


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_module_of_a_folder_imports_torch(folder):
    names = modules(folder)
    assert len(names) >= 5
    check(names)


@pytest.mark.parametrize("name", ALONE)
def test_a_command_that_looks_at_records_does_not_import_torch(name):
    check([name])


def test_importing_engram_imports_next_to_nothing():
    check(["engram"])
    check(["engram.workbench"])
