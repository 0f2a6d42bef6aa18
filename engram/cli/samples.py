"""`engram run --samples DIR`: pictures of what a generator draws, a grid for each task of a run."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape

from engram.cli.screen import ERR, writable
from engram.core.registry import METHODS
from engram.engines.driver import At
from engram.learning.method import Method
from engram.runs.records import Record
from engram.runs.spec import Spec

GAP = 1
"""Pixels between two images."""


class Pictures:
    """What generators draw, in a folder; without one, nothing."""

    def __init__(self, folder: Path | None, spec: Spec) -> None:
        self.folder = folder
        self.wrong = ""
        if folder:
            writable(folder)
            if not any(has_generator(type(member)) for member in spec.method.members()):
                named = ", ".join(name for name, cls in METHODS.items() if has_generator(cls))
                raise ValueError(f"samples: {spec.method_name} has no generator to draw them; those that have: {named}")

    def watch(self, event: At) -> None:
        if self.folder and event.progress and event.progress.samples is not None:
            try:
                save_grid(event.progress.samples, self.folder / f"{event.job.key}-task-{event.progress.task}.png")
            except OSError as error:  # a full disk costs the pictures, not the run
                self.wrong = str(error)

    def report(self, done: list[Record]) -> None:
        """Says where they are, or why there are none."""
        if not self.folder:
            return
        if before := sum(record.reused for record in done):
            ERR.print(
                f"{before} of {len(done)} runs were recorded before and not run again, so nothing was drawn; "
                "with another --out they are run again"
            )
        if self.wrong:
            ERR.print(f"pictures are missing: {escape(self.wrong)}")
        elif before < len(done):
            ERR.print(f"pictures in {escape(str(self.folder))}")


def has_generator(cls: type[Method]) -> bool:
    return cls.samples is not Method.samples


def save_grid(images: NDArray[np.uint8], path: Path) -> None:
    """Writes images, (n, h, w) or (n, h, w, 3), as one PNG: row by row, as square as they go, grey between them."""
    from PIL import Image  # slow to import, and few runs need it

    columns = math.ceil(math.sqrt(len(images)))
    rows = math.ceil(len(images) / columns)
    height, width = images.shape[1] + GAP, images.shape[2] + GAP
    sheet = np.full((rows * height - GAP, columns * width - GAP, *images.shape[3:]), 128, np.uint8)
    for i, image in enumerate(images):
        top, left = height * (i // columns), width * (i % columns)
        sheet[top : top + height - GAP, left : left + width - GAP] = image
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(sheet).save(path)
