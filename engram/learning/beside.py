"""What a network holds beside its state: a checkpoint takes along what of it has changed, or is not written."""

from __future__ import annotations

from collections.abc import Set
from typing import Any

from torch import Tensor, nn

from engram.learning.content import attributes_of, fingerprint, is_own_object
from engram.learning.reachable import Path, held_by_hooks, named_parts, names_of_parts, nodes_of, part_names, told
from engram.learning.saved_changes import SavedChange, Saver, UnsavableError


class NetBeside:
    """Plain attributes of a network and what they hold, buffers that are not persistent, which modules are in training,
    which parameters are trained, and what hooks hold: as it was when training began."""

    def __init__(self, net: nn.Module) -> None:
        self.first, self.names = nodes_of(net), names_of_parts(net)
        self.first_of_hooks = {name: fingerprint(value, part_names(net)) for name, value in held_by_hooks(net)}

    def changes(self, net: nn.Module) -> list[SavedChange]:
        """What has changed since, in the order in which it is put back.

        Raises:
            UnsavableError: no file can hold it, or the fresh network of a resumed run would not have its place.
        """
        for name, part in names_of_parts(net).items():
            if self.names.get(name, part) != part:
                raise UnsavableError(f"the network has another part as {name} now")
        saver = Saver(net, self.first)
        found: list[SavedChange] = []
        done: list[Path] = []
        for path, node in saver.nodes.items():  # what is inside another follows it
            before = self.first.get(path)
            if done and path[: len(done[-1])] == done[-1]:
                continue
            same = before is not None and before.value is node.value
            if before is not None and before.text == node.text and (same or node.whole):
                continue
            change = saver.change(path, node, before)
            if change is not None:
                found.append((path, *change))
                done.append(path)
        named, written = dict(named_parts(net)), set(done)
        gone = (path for path in self.first if path not in saver.nodes and not inside(path, written))
        if lost := next((path for path in gone if path[0] in named), None):
            raise UnsavableError(f"{told(lost)} is gone")
        return found

    def unsaved(self, net: nn.Module) -> list[str]:
        """Names of what hooks hold that was computed last: a resumed run has it after its first step.

        Raises:
            UnsavableError: a hook holds something else that changed.
        """
        parts = part_names(net)
        changed = {
            name: value
            for name, value in held_by_hooks(net)
            if self.first_of_hooks.get(name) != fingerprint(value, parts)
        }
        if lost := next((name for name, value in changed.items() if not is_computed(value)), None):
            raise UnsavableError(f"{lost}, which a hook of its layers uses, changed")
        return [*changed]


def inside(path: Path, done: Set[Path]) -> bool:
    return any(path[:length] in done for length in range(2, len(path)))


def is_computed(value: Any) -> bool:
    """Whether it holds tensors alone, by name, as what a layer computed last: a list may grow, a number may count."""
    if isinstance(value, dict):
        return all(map(is_computed, value.values()))
    if isinstance(value, list | tuple) and len(value) == 1:
        return is_computed(value[0])
    if is_own_object(value):
        return is_computed(attributes_of(value))
    return value is None or isinstance(value, Tensor)
