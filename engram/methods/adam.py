"""Plain training with Adam: the paper's first baseline."""

from dataclasses import dataclass

from engram.learning.method import Method


@dataclass
class Adam(Method):
    """Plain training with Adam, whose state is never reset. Paper row: "Adam" of all tables."""

    title = "Adam"
    family = "plain"
    look = ("black", "o", "--")
    target_kinds = ("classes", "values", "labels")
