"""Naive rehearsal with a buffer of 8-bit pixels: four times the images in the same bytes."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from engram.methods.rehearsal import Rehearsal


@dataclass
class RehearsalC(Rehearsal):
    """Naive rehearsal with a buffer of 8-bit pixels, which loses nothing of an 8-bit source.

    Paper row: "Naive rehearsal-C", whose code only stored more images, as floats.
    """

    title = "Naive rehearsal-C"
    family = "rehearsal"
    look = ("green", "s", "--")
    equal_memory = True

    capacity: int = 4400
    """Images in the buffer, for the whole sequence."""

    storage = torch.uint8
