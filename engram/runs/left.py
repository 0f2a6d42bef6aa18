"""What a run leaves beside its record: its network, the logits and the features of its test data."""

from __future__ import annotations

import copy
import io
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from engram.learning.train import new_learner
from engram.runs.records import Record
from engram.runs.spec import Spec, from_json
from engram.runs.store import Store, kept_path, write_kept


class Left:
    """What a run has left; a file is read when something of it is first asked for.

    Args:
        kept: Tensors by name; or the same packed, or the file that has them.
        spec: Of the run, for its network; or the spec's JSON.
    """

    def __init__(self, kept: dict[str, Any] | bytes | Path, spec: Spec | dict[str, Any]) -> None:
        self._kept, self._spec = kept, spec

    def __getstate__(self) -> dict[str, Any]:
        """From process to process: tensors as bytes, and no spec, which the driver has."""
        return {"_kept": pack(self.kept), "_spec": {}}

    @cached_property
    def kept(self) -> dict[str, Any]:
        """All of it, by name."""
        if isinstance(self._kept, dict):
            return self._kept
        if isinstance(self._kept, Path) and not self._kept.is_file():
            raise ValueError(
                f"{self._kept} is gone, though the run was asked to keep something; to make it again, remove the "
                "record and run it once more"
            )
        content = io.BytesIO(self._kept) if isinstance(self._kept, bytes) else self._kept
        try:
            found: dict[str, Any] = torch.load(content, weights_only=True)
        except Exception as error:  # torch.load raises many types
            raise ValueError(f"{self._kept!s:.200} cannot be read: {type(error).__name__}") from error
        return found

    def use(self, spec: Spec) -> None:
        """Says what the run's spec is."""
        self._spec = spec

    def write(self, folder: Path, key: str) -> None:
        """Puts it into its file, whole or not at all."""
        content = self._kept if isinstance(self._kept, bytes) else pack(self.kept)
        path = kept_path(folder, key)
        write_kept(path, content)
        self._kept = path

    def part(self, name: str) -> Any:
        """`logits`, `targets`, `active`, `features` or the state of the `net`."""
        if name not in self.kept:
            asked = "logits" if name in ("targets", "active") else name
            raise ValueError(f'this run did not keep its {asked}; run it with keep=("{asked}",) or --keep {asked}')
        return self.kept[name]

    @cached_property
    def net(self) -> nn.Module:
        """The network as the last task left it, as at test time. It takes what batches hold."""
        state = self.part("net")
        spec = from_json(self._spec) if isinstance(self._spec, dict) else self._spec
        tasks, method = spec.scenario.tasks(spec.seed), copy.deepcopy(spec.method)
        with tasks.guarded():
            net = new_learner(tasks, method, spec.network, spec.training, spec.seed, torch.device("cpu")).net
        net.load_state_dict(state)
        return net.eval()

    @property
    def predictions(self) -> list[list[Tensor]]:
        """[i][j]: the output predicted for each of task j's test samples after task i; values and labels as they are
        predicted."""
        kinds = self.part("kinds of targets")
        return [
            [predict(*one) for one in zip(row, active, kinds, strict=False)]  # the kinds are of all tasks
            for row, active in zip(self.part("logits"), self.part("active"), strict=True)
        ]


def predict(logits: Tensor, active: tuple[int, int], what: str) -> Tensor:
    """What logits predict: an output, values, or labels."""
    own = logits[:, slice(*active)]
    if what == "classes":
        return own.argmax(1) + active[0]
    return own if what == "values" else (own > 0).long()


def pack(kept: dict[str, Any]) -> bytes:
    """Plain tensors, lists and numbers, which torch.load reads with weights_only=True."""
    content = io.BytesIO()
    torch.save(kept, content)
    return content.getvalue()


def attach_left(record: Record, folder: Path, spec: Spec | None = None) -> Record:
    """The record of a folder, with access to the files of its run if it was asked to leave some."""
    if record.left is None and record.spec.get("evaluation", {}).get("keep"):
        record.left = Left(kept_path(folder, record.key), spec or record.spec)
    return record


def find_record(key: str, folder: Path) -> Record:
    """The finished run of this key, with what it left."""
    found = Store(folder).finished().get(key)
    if found is None:
        raise ValueError(f"no finished run {key} is recorded in {folder}; name the folder of its records as out=…")
    return attach_left(found, folder)
