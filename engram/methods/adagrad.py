"""Plain training with Adagrad."""

from dataclasses import dataclass

from engram.learning.method import Method


@dataclass
class Adagrad(Method):
    """Plain training with Adagrad: its ever-growing accumulators slow down the weights that past tasks moved.

    It needs neither boundaries nor memory. Paper row: "Adagrad" of all tables.
    """

    title = "Adagrad"
    family = "plain"
    look = ("orange", "D", "--")
    target_kinds = ("classes", "values", "labels")

    optimizer = "adagrad"
