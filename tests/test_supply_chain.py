"""What is installed and what CI runs is pinned to its content, not to a name that somebody may move."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
APART = re.compile(r"torch|triton|nvidia-|cuda-|engram")
"""What comes with torch's build, which has a hash of its own for each device, and this package itself."""
PIN = re.compile(r"^([\w.-]+)==(\S+)", re.MULTILINE)


def pins(text: str) -> set[tuple[str, str]]:
    return {(re.sub(r"[-_.]+", "-", name).lower(), version) for name, version in PIN.findall(text)}


@pytest.mark.parametrize("name", ["requirements.lock", "requirements-dev.lock"])
def test_every_locked_release_has_hashes(name: str) -> None:
    text = (ROOT / name).read_text()
    entries = re.split(r"^(?=[\w.-]+==)", text, flags=re.MULTILINE)[1:]
    assert len(entries) == len(pins(text)) > 30
    for entry in entries:
        first, *hashes = entry.replace("\\\n", "").split()
        assert hashes, first
        assert all(re.fullmatch("--hash=sha256:[0-9a-f]{64}", one) for one in hashes), first


def test_the_lock_for_development_has_all_pins_and_that_for_runs_has_some_of_them() -> None:
    pinned = {pin for pin in pins((ROOT / "constraints.txt").read_text()) if not APART.match(pin[0])}
    assert pins((ROOT / "requirements-dev.lock").read_text()) == pinned
    assert pins((ROOT / "requirements.lock").read_text()) < pinned


def test_make_installs_locked_releases_by_their_hashes() -> None:
    text = (ROOT / "Makefile").read_text()
    assert re.search(r"^LOCKED := .*--require-hashes --no-deps", text, re.MULTILINE)
    assert text.count("$(LOCKED) requirements") == 2


def test_actions_of_workflows_are_pinned_by_commit() -> None:
    used = [
        line.split("uses:")[1].split()[0]
        for path in (ROOT / ".github/workflows").glob("*.yml")
        for line in path.read_text().splitlines()
        if "uses:" in line
    ]
    assert used
    assert [one for one in used if not re.fullmatch(r"[\w./-]+@[0-9a-f]{40}", one)] == []


def test_what_workflows_install_by_name_is_held_by_the_constraints() -> None:
    commands = [
        line
        for path in (ROOT / ".github/workflows").glob("*.yml")
        for line in path.read_text().splitlines()
        if "pip install" in line
    ]
    assert commands
    assert [line.strip() for line in commands if "--constraint constraints.txt" not in line] == []
