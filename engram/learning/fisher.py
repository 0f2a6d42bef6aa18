"""How much each parameter matters to a task: diagonal Fisher information, exactly or by mini-batches."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import unfold

from engram.learning import fast
from engram.learning.learner import Learner, Params, in_eval_mode
from engram.scenarios.task import Batch, Data

Label = Literal["predicted", "true", "sampled", "exact", "weighted"]
Estimator = Literal["sample", "batch"]
Divisor = Literal["images", "images-1", "batches"]
Delta = Callable[[Tensor], Tensor]
CHUNK = 512
"""Images at a time."""
PIECE = 64
"""Images whose patches are held at a time where a convolution's gradients are formed one by one."""
PER_SAMPLE_FLOATS = 1 << 26
"""Per-sample gradients that are held at a time where they have to be formed: 256 MB."""


@torch.no_grad()
def fisher(
    learner: Learner,
    data: Data,
    label: Label = "predicted",
    estimator: Estimator = "sample",
    batch: int = 128,
    divisor: Divisor = "images",
) -> Params:
    """The diagonal of the Fisher information of the current network on these data.

    Args:
        learner: Its active outputs for the data's task are the model's outcomes.
        data: Images of one task.
        label: Whose log-likelihood: of the arg-max prediction (the authors' code), the true label, a label drawn
            from the model, the expectation over all labels, or the true label with its probability as a weight. Values
            are normal around the outputs with variance 1, labels Bernoulli each. The likeliest values are the outputs
            themselves, whose likelihood has no gradient; so `predicted` takes the expectation of values.
        estimator: `sample`: mean of squared per-sample gradients. `batch`: mean over shuffled mini-batches of
            size times squared gradient of the mini-batch's mean loss (the authors' permuted-domain scripts),
            which is larger wherever the mean gradient is not zero.
        batch: Images per mini-batch.
        divisor: What the sum over images is divided by: their number N, N − 1, or N rounded up to whole mini-batches.
    """
    check_estimator(label, estimator, divisor)
    with in_eval_mode(learner.net):
        if estimator == "sample":
            return per_sample(learner, data, label, count_images(len(data), batch, divisor))
        total = [torch.zeros_like(p) for p in learner.params]
        count, rng = 0, learner.fresh_rng("fisher labels")
        what = learner.tasks[data.tasks[0]].targets
        for chunk in shuffled_batches(learner, data, batch):
            if what == "classes":
                gradients = learner.gradients(chunk._replace(y=choose_labels(learner, chunk, label, rng)))
            else:
                gradients = mean_gradients(learner, chunk, what, label, rng)
            for sum_, g in zip(total, gradients, strict=True):
                sum_.addcmul_(g, g, value=len(chunk.y))
            count += 1
        return [t / count for t in total]


def check_estimator(label: Label, estimator: Estimator, divisor: Divisor = "images") -> None:
    if estimator == "batch" and label in ("exact", "weighted"):
        raise ValueError(f"label {label!r} goes with estimator 'sample'; choose predicted, true or sampled")
    if estimator == "batch" and divisor != "images":
        raise ValueError(f"divisor {divisor!r} goes with estimator 'sample'; choose images")


def count_images(images: int, batch: int, divisor: Divisor) -> int:
    """What a sum over images is divided by."""
    if divisor == "images-1":
        return max(images - 1, 1)
    return math.ceil(images / batch) * batch if divisor == "batches" else images


def per_sample(learner: Learner, data: Data, label: Label, divisor: int) -> Params:
    """The sum over images of squared gradients, divided."""
    total = [torch.zeros_like(p) for p in learner.params]
    outputs = learner.active(data.tasks[0])
    rng = learner.fresh_rng("fisher labels")
    what = learner.tasks[data.tasks[0]].targets
    if what != "classes" and label == "weighted":
        raise ValueError(f"label 'weighted' is for classes, and the targets are {what}; choose true, sampled or exact")
    for chunk in data.chunks(CHUNK):
        if what != "classes":
            for delta in deltas_of_numbers(what, label, chunk.y, outputs, rng):
                squares = summed_gradients(learner.net, learner.inputs(chunk.x, chunk.t), delta, torch.square)
                for sum_, square in zip(total, squares, strict=True):
                    sum_ += square
            continue
        if label == "exact":
            classes = torch.arange(outputs.start, outputs.stop, device=chunk.y.device)
            chosen = [(c.expand_as(chunk.y), True) for c in classes]
        else:
            chosen = [(choose_labels(learner, chunk, label, rng), label == "weighted")]
        for y, weighted in chosen:
            inputs = learner.inputs(chunk.x, chunk.t)
            squares = summed_gradients(learner.net, inputs, delta_of(y, outputs, weighted), torch.square)
            for sum_, square in zip(total, squares, strict=True):
                sum_ += square
    return [t / divisor for t in total]


def delta_of(y: Tensor, outputs: slice, weighted: bool) -> Delta:
    """Gradient of each image's own negative log-likelihood at the logits; weighted by the root of its probability."""

    def delta(logits: Tensor) -> Tensor:
        p = torch.softmax(logits[:, outputs], 1)
        own = (y - outputs.start)[:, None]
        g = p.scatter_add(1, own, -torch.ones_like(own, dtype=p.dtype))
        if weighted:
            g = g * p.gather(1, own).sqrt()
        everywhere = torch.zeros_like(logits)
        everywhere[:, outputs] = g
        return everywhere

    return delta


def deltas_of_numbers(what: str, label: Label, y: Tensor, outputs: slice, rng: torch.Generator) -> list[Delta]:
    """Gradients at the logits whose squares add up to the Fisher information of values or labels.

    One for a chosen outcome; for the expectation one per output, since outputs are independent: the derivative of an
    output times the standard deviation of its gradient, which is 1 for values and √(p (1 − p)) for labels.
    """

    def chosen(logits: Tensor) -> Tensor:
        own = logits[:, outputs]
        mean = own if what == "values" else own.sigmoid()
        if label == "true":
            given = y[:, : own.shape[1]]
        elif label == "predicted":
            given = (mean > 0.5).to(mean)
        elif what == "values":
            given = mean + torch.randn(mean.shape, generator=rng).to(mean)
        else:
            given = torch.bernoulli(mean.cpu(), generator=rng).to(mean)
        everywhere = torch.zeros_like(logits)
        everywhere[:, outputs] = mean - given
        return everywhere

    def of_output(output: int) -> Delta:
        def delta(logits: Tensor) -> Tensor:
            everywhere = torch.zeros_like(logits)
            p = logits[:, output].sigmoid()
            everywhere[:, output] = 1.0 if what == "values" else (p * (1 - p)).sqrt()
            return everywhere

        return delta

    if label == "exact" or (label, what) == ("predicted", "values"):
        return [of_output(output) for output in range(outputs.start, outputs.stop)]
    return [chosen]


def mean_gradients(learner: Learner, batch: Batch, what: str, label: Label, rng: torch.Generator) -> Params:
    """Of a mini-batch's mean negative log-likelihood of values or labels."""
    if (label, what) == ("predicted", "values"):
        raise ValueError(
            "label 'predicted' has no gradient if values are predicted, so estimator 'batch' would find nothing; "
            "choose label true or sampled, or estimator sample"
        )
    (delta,) = deltas_of_numbers(what, label, batch.y, learner.active(batch.tasks[0]), rng)
    return learner.gradients_from(batch.x, lambda logits: delta(logits) / len(batch.x), batch.t)


def choose_labels(learner: Learner, batch: Batch, label: Label, rng: torch.Generator) -> Tensor:
    """The outputs whose likelihood is taken."""
    if label in ("true", "weighted"):
        return batch.y
    outputs = learner.active(batch.tasks[0])
    logits = learner.logits(batch.x, batch.t)[:, outputs]
    if label == "predicted":
        chosen = logits.argmax(1)
    else:
        chosen = torch.multinomial(torch.softmax(logits, 1).cpu(), 1, generator=rng).squeeze(1).to(logits.device)
    return chosen.add_(outputs.start)


def shuffled_batches(learner: Learner, data: Data, batch: int) -> Iterator[Batch]:
    order = torch.randperm(len(data), generator=learner.fresh_rng("fisher")).to(data.device)
    for indices in torch.split(order, batch):
        yield data.batch(indices)


def summed_gradients(
    net: nn.Module, inputs: tuple[Tensor, ...], delta: Delta, of: Callable[[Tensor], Tensor]
) -> Params:
    """Σ over images of the square, or the absolute value, of the gradient of each one's own loss.

    Both are multiplicative, and a linear layer's per-sample gradient is an outer product δ ⊗ a: so its sum is one
    matrix product, of(δ)ᵀ of(a). A convolution's is formed image by image from its patches; a network with any other
    layer goes through torch.func.
    """
    if fast.has_closed_form(net):
        return [s for a, g in fast.layer_gradients(net, inputs[0], delta) for s in (of(g).t() @ of(a), of(g).sum(0))]
    layers = [m for m in net.modules() if any(True for _ in m.parameters(recurse=False))]
    owned = [p for layer in layers for p in layer.parameters(recurse=False)]
    each_once = len(set(owned)) == len(owned) and all(p.requires_grad for p in owned)
    if each_once and all(type(layer) is nn.Linear or is_plain_convolution(layer) for layer in layers):
        with suppress(NoClosedFormError):
            return by_layer(net, layers, inputs, delta, of)
    return by_function(net, inputs, delta, of)


class NoClosedFormError(Exception):
    """A layer is used in a way that its per-sample gradients have no closed form for."""


def is_plain_convolution(layer: nn.Module) -> bool:
    return (
        type(layer) is nn.Conv2d
        and layer.groups == 1
        and layer.padding_mode == "zeros"
        and not isinstance(layer.padding, str)
    )


def by_layer(
    net: nn.Module,
    layers: list[nn.Module],
    called_with: tuple[Tensor, ...],
    delta: Delta,
    of: Callable[[Tensor], Tensor],
) -> Params:
    """Closed forms from each layer's input and the loss's gradient at its output."""
    inputs: dict[nn.Module, Tensor] = {}
    outputs: dict[nn.Module, Tensor] = {}

    def note(layer: nn.Module, arguments: tuple[Tensor, ...], output: Tensor) -> Tensor:
        rows = arguments[0].ndim == (2 if isinstance(layer, nn.Linear) else 4)
        if layer in inputs or not rows:  # used twice, or at several places: gradients add up before they are squared
            raise NoClosedFormError
        inputs[layer], outputs[layer] = arguments[0].detach(), output
        return output.clone()  # what follows may work in place

    handles = [layer.register_forward_hook(note) for layer in layers]
    try:
        with torch.enable_grad():
            logits = net(*called_with)
    finally:
        for handle in handles:
            handle.remove()
    if len(outputs) < len(layers):  # a layer that is not called as a module
        raise NoClosedFormError
    gradients = torch.autograd.grad(logits, [outputs[layer] for layer in layers], delta(logits.detach()))
    found: dict[Tensor, Tensor] = {}
    for layer, g in zip(layers, gradients, strict=True):
        a = inputs[layer]
        if isinstance(layer, nn.Conv2d):
            found[layer.weight] = of_convolution(layer, a, g, of)
            g = g.flatten(2).sum(2)
        else:
            assert isinstance(layer, nn.Linear)
            found[layer.weight] = of(g).t() @ of(a)
        if layer.bias is not None:
            found[layer.bias] = of(g).sum(0)
    return [found[p] for p in net.parameters() if p.requires_grad]


def of_convolution(layer: nn.Conv2d, a: Tensor, g: Tensor, of: Callable[[Tensor], Tensor]) -> Tensor:
    """The same of a convolution's weight, whose gradient sums over places before it is squared: image by image."""
    assert not isinstance(layer.padding, str)
    total = torch.zeros_like(layer.weight).flatten(1)  # (out, in·k·k)
    for some, their in zip(torch.split(a, PIECE), torch.split(g.flatten(2), PIECE), strict=True):
        patches = unfold(some, layer.kernel_size, layer.dilation, layer.padding, layer.stride)  # (n, in·k·k, places)
        total += of(torch.einsum("nop,nip->noi", their, patches)).sum(0)
    return total.view_as(layer.weight)


def by_function(net: nn.Module, inputs: tuple[Tensor, ...], delta: Delta, of: Callable[[Tensor], Tensor]) -> Params:
    """Per-sample gradients of any network by torch.func."""
    return [of(gradients).sum(0) for gradients in per_sample_gradients(net, inputs, delta)]


def per_sample_gradients(net: nn.Module, inputs: tuple[Tensor, ...], delta: Delta) -> Params:
    """(images, …) for each parameter that is trained: the gradient of each image's own loss, by torch.func."""
    params = {name: p.detach() for name, p in net.named_parameters() if p.requires_grad}
    rest = dict(net.named_buffers())
    targets = delta(net(*inputs).detach())

    def weighted(values: dict[str, Tensor], target: Tensor, *one: Tensor) -> Tensor:
        out: Tensor = torch.func.functional_call(net, {**values, **rest}, tuple(value[None] for value in one))
        return (out[0] * target).sum()

    at_once = max(1, PER_SAMPLE_FLOATS // sum(p.numel() for p in params.values()))
    each = torch.func.vmap(torch.func.grad(weighted), in_dims=(None, 0, *(0 for _ in inputs)), chunk_size=at_once)
    gradients = each(params, targets, *inputs)
    return [gradients[name] for name in params]
