"""Plain training with stochastic gradient descent."""

from dataclasses import dataclass

from engram.learning.method import Method


@dataclass
class SGD(Method):
    """Plain training with SGD, without momentum. Paper row: "SGD" of tables 2, 3 and 4."""

    title = "SGD"
    family = "plain"
    look = ("grey", "s", "--")
    target_kinds = ("classes", "values", "labels")

    optimizer = "sgd"
