"""Networks that start from a file: what is read, what is refused, and what stays frozen."""

import json
import os

import pytest
import torch
from helpers import blobs
from torch import nn

import engram as eg
from engram.nets._start import Start, StartedNet
from engram.nets._weights import parse_safetensors, read_weights, weights_hash
from engram.runs.spec import Spec, SpecError, from_json

IMAGES = blobs(4)
SHAPE = (1, 6, 6)


def safetensors(tensors: dict[str, torch.Tensor]) -> bytes:
    """As the format's page describes it."""
    header, body = {"__metadata__": {"format": "pt"}}, b""
    for name, value in tensors.items():
        data = value.numpy().tobytes()
        kind = {torch.float32: "F32", torch.int64: "I64"}[value.dtype]
        offsets = [len(body), len(body) + len(data)]
        header[name] = {"dtype": kind, "shape": list(value.shape), "data_offsets": offsets}
        body += data
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + body


@pytest.fixture
def trained():
    torch.manual_seed(5)
    net = eg.ConvNet(width=3).build(SHAPE, 7)
    net(torch.rand(8, 36))
    return net


@pytest.fixture(params=["w.safetensors", "w.pt"])
def file(request, tmp_path, trained):
    path = tmp_path / request.param
    if path.suffix == ".pt":
        torch.save(trained.state_dict(), path)
    else:
        path.write_bytes(safetensors(trained.state_dict()))
    return path


def test_both_formats_give_the_same_tensors(file, trained):
    found = read_weights(str(file))
    assert list(found) == list(trained.state_dict())
    assert all(torch.equal(found[name], value) for name, value in trained.state_dict().items())


def test_the_backbone_is_the_file_s_and_a_head_of_another_size_is_drawn(file, trained):
    torch.manual_seed(0)
    drawn = eg.ConvNet(width=3).build(SHAPE, 4)
    torch.manual_seed(0)
    net = StartedNet(eg.ConvNet(width=3), Start(str(file))).build(SHAPE, 4)
    assert torch.equal(net.convolutions[2].weight, trained.convolutions[2].weight)
    assert torch.equal(net.norms[0].running_mean, trained.norms[0].running_mean)
    assert torch.equal(net.outputs.weight, drawn.outputs.weight)
    same = StartedNet(eg.ConvNet(width=3), Start(str(file))).build(SHAPE, 7)
    assert torch.equal(same.outputs.weight, trained.outputs.weight)


def test_a_frozen_backbone_trains_the_output_layer_alone(file, trained):
    net = StartedNet(eg.ConvNet(width=3), Start(str(file), "backbone")).build(SHAPE, 4)
    assert [name for name, p in net.named_parameters() if p.requires_grad] == ["outputs.weight", "outputs.bias"]
    net(torch.rand(8, 36))
    assert torch.equal(net.norms[0].running_mean, trained.norms[0].running_mean)
    found = StartedNet(eg.MLP(5), Start(freeze="backbone")).build(SHAPE, 4)
    assert sum(p.numel() for p in found.parameters() if p.requires_grad) == 6 * 4


@pytest.mark.parametrize("method", [eg.EWC(), eg.SI(), eg.Rehearsal(capacity=20), eg.LwF()])
def test_a_run_from_a_file_has_a_key_by_content_and_reads_back(file, tmp_path, method):
    options = {"net": eg.ConvNet(width=3), "training": eg.Training(epochs=1, batch=16)}
    record = eg.run(eg.split(IMAGES), method, weights=file, freeze="backbone", **options)
    plain = eg.run(eg.split(IMAGES), method, **options)
    assert (record.status, plain.status) == ("done", "done")
    assert record.key != plain.key
    assert "start" not in plain.spec
    spec = from_json(record.spec, {IMAGES.fingerprint: IMAGES})
    assert spec.key == record.key
    assert spec.setting.values["start.freeze"] == "backbone"
    moved = Start(str(file.rename(tmp_path / f"moved{file.suffix}")), "backbone")
    assert Spec(spec.scenario, spec.method, spec.net, spec.training, start=moved).key == record.key


def test_a_file_with_another_content_is_another_run(file, trained):
    before = Spec(eg.split(IMAGES), eg.Adam(), eg.ConvNet(width=3), start=Start(str(file)))
    values, key = before.to_json(), before.key
    torch.save({"changed": torch.ones(1)}, file)
    assert before.key != key
    with pytest.raises(SpecError, match=r"weights .* the spec was made with"):
        from_json(values, {IMAGES.fingerprint: IMAGES})


def test_weights_of_another_network_are_refused(file):
    for net, words in ((eg.ConvNet(width=4), "convolutions.0.weight is missing"), (eg.MLP(5), "layer1.weight is mis")):
        with pytest.raises(ValueError, match=words):
            StartedNet(net, Start(str(file))).build(SHAPE, 4)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\xff" * 8,
        (5).to_bytes(8, "little") + b"{",
        (2).to_bytes(8, "little") + b"[]",
        safetensors({"a": torch.ones(4)})[:-1],
        safetensors({"a": torch.ones(4)}).replace(b"[4]", b"[5]"),
        safetensors({"a": torch.ones(4)}).replace(b'"F32"', b'"F99"'),
        safetensors({"a": torch.ones(4)}).replace(b"[0, 16]", b"[-1,15]"),
    ],
)
def test_corrupt_files_are_refused(tmp_path, content):
    for name in ("w.safetensors", "w.pt"):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ValueError, match="cannot be read"):
            read_weights(str(tmp_path / name))


@pytest.mark.parametrize("name", ["w.safetensors", "w.pt"])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path, name):
    os.mkfifo(tmp_path / name)
    for read in (read_weights, weights_hash):
        with pytest.raises(ValueError, match="cannot be read: it is not a regular file"):
            read(str(tmp_path / name))


def test_what_is_no_state_dict_is_refused(tmp_path):
    torch.save([1, 2], tmp_path / "w.pt")
    with pytest.raises(ValueError, match="is not a state dict"):
        read_weights(str(tmp_path / "w.pt"))
    with pytest.raises(ValueError, match="No such file"):
        Start(str(tmp_path / "none.pt")).content  # noqa: B018
    with pytest.raises(ValueError, match="freeze 'head' is unknown"):
        Start(freeze="head")


def test_a_scalar_and_an_empty_tensor_are_read():
    found = parse_safetensors(safetensors({"n": torch.tensor(3), "e": torch.zeros(0, 2)}))
    assert (found["n"].item(), found["e"].shape) == (3, (0, 2))


def test_a_network_without_an_output_layer_is_refused():
    class Scaled(nn.Module):
        def __init__(self, shape, outputs) -> None:
            super().__init__()
            self.last = nn.Linear(36, outputs)

        def forward(self, x):
            return 2 * self.last(x.flatten(1))

    with pytest.raises(ValueError, match="Scaled has no output layer"):
        eg.run(eg.split(IMAGES), eg.Adam(), net=Scaled, freeze="backbone")


def test_a_method_with_a_network_of_its_own_does_not_drop_them_without_a_word(tmp_path):
    path = tmp_path / "mlp.pt"
    torch.save(eg.MLP(12, 10).build(SHAPE, 4).state_dict(), path)
    with pytest.raises(ValueError, match=r"weights .* would have no effect: Separate trains another network"):
        eg.run(eg.split(IMAGES, kind="task"), eg.Separate(layers=(5,)), net=eg.MLP(12, 10), weights=path)
