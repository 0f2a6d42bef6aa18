"""Large arrays stay in their file, from the command line too, and give the bits that arrays in memory give."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch

import engram as eg
from engram.data import mapped
from engram.data.catalog import images as images_by_name
from engram.data.errors import DataError

Y = np.arange(24) % 4


def parts(x):
    return {"x_train": x, "y_train": Y, "x_test": x[:12], "y_test": Y[:12]}


def write_folder(folder, **arrays):
    folder.mkdir()
    for name, array in arrays.items():
        np.save(folder / f"{name}.npy", array)
    return str(folder)


def write_npz(path, **arrays):
    np.savez(path, **arrays)
    return str(path)


@pytest.fixture
def small(monkeypatch):
    """Arrays of 512 bytes are large."""
    monkeypatch.setattr(mapped, "MAPPED_BYTES", 512)


RNG = np.random.default_rng(0)
INPUTS = {
    "features": RNG.standard_normal((24, 7)).astype(np.float32),
    "signals": RNG.standard_normal((24, 2, 5)).astype(np.float32),
    "counts": RNG.integers(-9, 9, (24, 7)),
    "grey": RNG.integers(0, 256, (24, 5, 4)).astype(np.uint8),
    "colour": RNG.integers(0, 256, (24, 5, 4, 3)).astype(np.uint8),
}


@pytest.mark.parametrize("form", ["npz", "folder"])
@pytest.mark.parametrize("which", INPUTS)
def test_what_the_network_sees_is_the_same_and_nothing_is_copied(tmp_path, small, form, which):
    x = INPUTS[which]
    path = write_npz(tmp_path / "d.npz", **parts(x)) if form == "npz" else write_folder(tmp_path / "d", **parts(x))
    found = images_by_name(path)
    assert mapped.is_mapped(found.x_train)
    kind = eg.Images if x.dtype == np.uint8 else eg.Arrays
    known = kind(**parts(x))
    assert found.fingerprint == known.fingerprint
    pads = (0, 2) if kind is eg.Images else (0,)
    for options in [{"pad": pad, "normalize": how} for pad in pads for how in (None, "train")]:
        for make in (eg.split, eg.permute):
            here, there = (make(data, kind="domain", **options).tasks(seed=3) for data in (found, known))
            for mine, other in zip(here, there, strict=True):
                for leaf in mine.train.leaves():
                    assert np.shares_memory(leaf.x.numpy(), found.x_train)
                with mine.train.opened(load=True), other.train.opened(load=True):
                    assert all(leaf.loaded is None for leaf in mine.train.leaves())
                    ours, theirs = (next(task.train.chunks()) for task in (mine, other))
                assert torch.equal(ours.x, theirs.x)
                assert torch.equal(ours.y, theirs.y)


def test_a_run_on_a_file_has_the_bits_of_one_in_memory(tmp_path, small):
    x = INPUTS["features"]
    here = images_by_name(write_folder(tmp_path / "d", **parts(x), classes=np.array(list("abcd"))))
    assert here.classes == ("a", "b", "c", "d")
    options = {"net": eg.MLP(6), "training": eg.Training(epochs=2, batch=8), "keep": "net"}
    for method in (eg.Adam, eg.Rehearsal, eg.EWC):
        records = [
            eg.run(eg.split(data, kind="class", normalize="train"), method(), **options)
            for data in (here, eg.Arrays(**parts(x)))
        ]
        states = [record.net.state_dict() for record in records]
        assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_other_processes_are_sent_the_place_and_not_the_values(tmp_path, small):
    x = RNG.standard_normal((24, 4000)).astype(np.float32)
    path = write_npz(tmp_path / "d.npz", **parts(x))
    found = images_by_name(path)
    sent = pickle.dumps(found)
    assert len(sent) < 5000
    for again in (pickle.loads(sent), copy.deepcopy(found), pickle.loads(pickle.dumps(found.seal())).unseal()):
        assert mapped.is_mapped(again.x_train)
        assert again.fingerprint == found.fingerprint
    write_npz(tmp_path / "d.npz", **parts(x[:, :3000]))
    with pytest.raises(DataError, match="was changed; runs read it in place"):
        pickle.loads(sent)


def test_compressed_small_and_turned_arrays_are_read_at_once(tmp_path, small):
    x = INPUTS["features"]
    np.savez_compressed(tmp_path / "a.npz", **parts(x))
    folder = write_folder(tmp_path / "b", **parts(x) | {"x_train": np.asfortranarray(x)})
    known = eg.Arrays(**parts(x)).fingerprint
    for path in (str(tmp_path / "a.npz"), folder):
        found = images_by_name(path)
        assert not mapped.is_mapped(found.x_train)
        assert found.fingerprint == known


def test_a_folder_that_lacks_a_part_is_refused(tmp_path):
    folder = write_folder(tmp_path / "d", x_train=INPUTS["features"], y_train=Y)
    with pytest.raises(DataError, match=r"d is not a dataset of \.npy files: it has no x_test, y_test"):
        images_by_name(folder)
    (tmp_path / "d" / "x_test.npy").write_bytes(b"no array")
    np.save(tmp_path / "d" / "y_test.npy", Y)
    with pytest.raises(DataError, match=r"x_test\.npy"):
        images_by_name(folder)


LIMITED = """
import resource, sys
import engram as eg

def data_bytes():
    return next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmData"))

def run(folder):
    eg.run(eg.scenario(f"split-{folder}/class"), eg.Adam(), net=eg.Linear(), training=eg.Training(steps=5))

small, large, allowed = sys.argv[1:]
run(small)
resource.setrlimit(resource.RLIMIT_DATA, (data_bytes() + int(allowed), resource.RLIM_INFINITY))
run(large)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit counts otherwise elsewhere")
def test_a_file_larger_than_the_memory_that_is_allowed_is_trained_on(tmp_path):
    small = write_folder(tmp_path / "small", **parts(INPUTS["features"]))
    large = tmp_path / "large"
    large.mkdir()
    shape = (6000, 10_000)  # 240 MB, of which the disk holds the first rows only
    x = np.lib.format.open_memmap(large / "x_train.npy", "w+", np.float32, shape)
    x[:40] = RNG.standard_normal((40, shape[1]))
    np.save(large / "x_test.npy", np.asarray(x[:40]))
    np.save(large / "y_train.npy", np.arange(6000) % 4)
    np.save(large / "y_test.npy", np.arange(40) % 4)
    allowed = 120 << 20
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, small, str(large), str(allowed)], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
