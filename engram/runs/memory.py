"""What methods keep with the networks of MNIST, without running anything."""

from __future__ import annotations

import math

import torch

from engram.core.registry import METHODS, NETS
from engram.runs.defaults import default_setting
from engram.runs.spec import new_net
from engram.scenarios.names import parse_name


def kept_on_mnist(scenario: str, method: str) -> int:
    """Bytes that a method keeps at a boundary, at most, with the default network of a scenario made from MNIST."""
    name, setting = parse_name(scenario), default_setting(scenario, method)
    outputs = {"split": (2, 10), "permuted": (10, 100)}[name.maker][name.kind != "domain"]
    side = 28 + 2 * setting.value("scenario.pad")
    with torch.device("meta"):
        net = new_net(NETS["mlp"], {"hidden": setting.value("net.hidden")}).build((1, side, side), outputs)
    fields = {n.partition(".")[2]: value for n, value in setting.values.items() if n.startswith("method.")}
    tasks = {"split": 5, "permuted": 10}[name.maker]
    return int(METHODS[method](**fields).kept_bytes_after(net, math.prod((1, side, side)), tasks))
