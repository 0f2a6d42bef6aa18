"""The perceptron's closed-form gradients are autograd's, and its initial layers are PyTorch's."""

import copy

import pytest
import torch
from torch.nn.functional import cross_entropy

import engram as eg
from engram.learning.fast import gradients_from, layer_gradients
from engram.nets.mlp import MLPNet


def built(*hidden: int, outputs: int = 5, shape=(1, 6, 6), heads="random", seed=0) -> MLPNet:
    torch.manual_seed(seed)
    return eg.MLP(*hidden, heads=heads).build(shape, outputs)


def softmax_delta(y: torch.Tensor):
    """Gradient of the summed cross-entropy at the logits."""
    return lambda logits: logits.softmax(1) - torch.eye(logits.shape[1], dtype=logits.dtype)[y]


@pytest.mark.parametrize(
    ("hidden", "outputs", "count"),
    [
        ((400, 400), 2, 571_202),
        ((400, 400), 10, 574_410),
        ((1000, 1000), 10, 2_036_010),
        ((1000, 1000), 100, 2_126_100),
    ],
)
def test_parameters_for_padded_mnist(hidden, outputs, count):
    net = built(*hidden, outputs=outputs, shape=(1, 32, 32))
    assert sum(p.numel() for p in net.parameters()) == count


def test_no_sizes_are_two_layers_of_400():
    assert eg.MLP() == eg.MLP(400, 400)
    assert [tuple(p.shape) for p in built(7, shape=(3, 2, 2)).parameters()] == [(7, 12), (7,), (5, 7), (5,)]


def test_all_layers_are_uniform_within_one_over_the_root_of_their_inputs():
    net = built(400, 400, outputs=10, shape=(1, 32, 32))
    for layer, inputs in zip(net.layers, (1024, 400, 400), strict=True):
        bound = inputs**-0.5
        for p in (layer.weight, layer.bias):
            assert p.abs().max() <= bound
            assert p.abs().max() > 0.5 * bound
        assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)


def test_zero_heads_zero_the_output_layer_and_nothing_else():
    random, zero = built(12, 10), built(12, 10, heads="zero")
    for a, b in zip(random.layers[:-1], zero.layers[:-1], strict=True):
        assert torch.equal(a.weight, b.weight)
    assert not zero.layers[-1].weight.any()
    assert not zero.layers[-1].bias.any()
    assert torch.equal(zero(torch.randn(4, 36)), torch.zeros(4, 5))


def test_a_hand_made_network_by_hand():
    """x = (1, 2) → relu((1·1 − 1·2, 1 + 2 − 1)) = (0, 2) → 3·0 + 0.5·2 − 1 = 0 and 1·0 + 2·2 + 1 = 5."""
    net = MLPNet((2, 2, 2))
    with torch.no_grad():
        net.layers[0].weight.copy_(torch.tensor([[1.0, -1.0], [1.0, 1.0]]))
        net.layers[0].bias.copy_(torch.tensor([0.0, -1.0]))
        net.layers[1].weight.copy_(torch.tensor([[3.0, 0.5], [1.0, 2.0]]))
        net.layers[1].bias.copy_(torch.tensor([-1.0, 1.0]))
    x = torch.tensor([[1.0, 2.0]])
    assert net(x).tolist() == [[0.0, 5.0]]
    # with (1, −1) at the logits: hidden gets (3 − 1, 0.5 − 2) = (2, −1.5), of which the first is cut off
    gradients = gradients_from(net, x, lambda logits: torch.tensor([[1.0, -1.0]]))
    assert [g.tolist() for g in gradients] == [
        [[0.0, 0.0], [-1.5, -3.0]], [0.0, -1.5], [[0.0, 2.0], [0.0, -2.0]], [1.0, -1.0],
    ]  # fmt: skip


@pytest.mark.parametrize("hidden", [(9,), (12, 10), (33, 17, 8)])
@pytest.mark.parametrize("batch", [1, 17, 128])
def test_closed_form_gradients_have_autograd_s_bits(hidden, batch):
    net = built(*hidden)
    x, y = torch.randn(batch, 36), torch.randint(5, (batch,))
    delta = {}

    def at_logits(logits):
        logits = logits.detach().requires_grad_()
        with torch.enable_grad():
            (delta["logits"],) = torch.autograd.grad(cross_entropy(logits, y), logits)
        return delta["logits"]

    closed = gradients_from(net, x, at_logits)
    auto = torch.autograd.grad(cross_entropy(net(x), y), list(net.parameters()))
    for a, b in zip(closed, auto, strict=True):
        assert torch.equal(a, b)


def test_closed_form_gradients_are_finite_differences():
    net = built(6, 4).double()
    x, y = torch.randn(5, 36, dtype=torch.double), torch.tensor([0, 1, 2, 3, 4])
    closed = gradients_from(net, x, softmax_delta(y))
    rng = torch.Generator().manual_seed(0)
    for p, gradient in zip(net.parameters(), closed, strict=True):
        direction = torch.randn(p.shape, generator=rng, dtype=torch.double)
        slopes = []
        for sign in (1, -1):
            moved = copy.deepcopy(net)
            at = [q is p for q in net.parameters()].index(True)
            with torch.no_grad():
                list(moved.parameters())[at].add_(direction, alpha=sign * 1e-6)
                slopes.append(cross_entropy(moved(x), y, reduction="sum").item())
        assert (slopes[0] - slopes[1]) / 2e-6 == pytest.approx((gradient * direction).sum().item(), rel=1e-5, abs=1e-7)


def test_squared_layer_gradients_are_the_sum_of_squared_gradients_of_single_images():
    net = built(12, 10).double()
    x, y = torch.randn(23, 36, dtype=torch.double), torch.randint(5, (23,))
    params = list(net.parameters())
    expected = [torch.zeros_like(p) for p in params]
    for i in range(23):
        grads = torch.autograd.grad(cross_entropy(net(x[i : i + 1]), y[i : i + 1]), params)
        for total, g in zip(expected, grads, strict=True):
            total += g**2
    pairs = layer_gradients(net, x, softmax_delta(y))
    squared = [s for a, g in pairs for s in ((g**2).t() @ a**2, (g**2).sum(0))]
    for a, b in zip(squared, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-14)


def test_gradients_leave_the_parameters_grad_alone():
    net = built(12)
    gradients_from(net, torch.randn(3, 36), softmax_delta(torch.tensor([0, 1, 2])))
    assert all(p.grad is None for p in net.parameters())


def test_a_copy_and_a_reloaded_network_do_not_share_layers():
    """`layers` are the registered modules, in order."""
    net = built(12)
    twin = copy.deepcopy(net)
    with torch.no_grad():
        for p in net.parameters():
            p.zero_()
    assert all(layer.weight.any() for layer in twin.layers)
    assert twin.layers[0] is dict(twin.named_modules())["layer1"]
    twin.load_state_dict(net.state_dict())
    assert torch.equal(twin(torch.randn(2, 36)), torch.zeros(2, 5))


@pytest.mark.parametrize(
    ("sizes", "heads"), [((0,), "random"), ((10, -3), "random"), ((2.5,), "random"), ((4,), "none")]
)
def test_wrong_networks_are_refused(sizes, heads):
    with pytest.raises(ValueError, match=r"^heads|layer sizes"):
        eg.MLP(*sizes, heads=heads)


def test_xavier_is_uniform_within_its_bound_and_biases_are_zero():
    """Buzzega et al. (2020): bounds 0.08238, 0.17321 and 0.23355, 89,610 parameters."""
    torch.manual_seed(0)
    net = eg.MLP(100, 100, init="xavier").build((1, 28, 28), 10)
    assert sum(p.numel() for p in net.parameters()) == 89_610
    for layer, bound in zip(net.layers, (0.08238, 0.17321, 0.23355), strict=True):
        assert 0.98 * bound < layer.weight.abs().max() <= bound + 1e-5
        assert layer.weight.std().item() == pytest.approx(bound / 3**0.5, rel=0.05)
        assert not layer.bias.any()
    with pytest.raises(ValueError, match="init 'he' is unknown; choose from torch, xavier"):
        eg.MLP(init="he")
