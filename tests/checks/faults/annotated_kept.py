"""Fault 12: a declaration with an annotation becomes a hyper-parameter."""

from dataclasses import dataclass

from engram import Method


@dataclass
class AnnotatedKept(Method):
    """Declares its state as a field by mistake."""

    kept: tuple = ("images",)
