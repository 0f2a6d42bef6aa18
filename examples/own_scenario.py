"""A scenario of your own: every second task shows the images with inverted pixels.

engram run inverted-mnist/domain adam --file examples/own_scenario.py
engram describe inverted-mnist/domain --file examples/own_scenario.py --repeats 4
"""

from dataclasses import dataclass, replace

import engram as eg
from engram.scenarios.scenario import count_training_images, prepare_images, view_rows


@dataclass(frozen=True, eq=False, kw_only=True)
class Inverted(eg.Scenario):
    """All classes in every task, black on white in every second one."""

    name = "inverted"

    repeats: int = 4
    """Number of tasks."""

    def __post_init__(self):
        super().__post_init__()
        if self.kind != "domain":
            raise ValueError(f"kind {self.kind} does not fit: all tasks have the same classes; give domain")
        if self.repeats < 2:
            raise ValueError(f"repeats {self.repeats} is out of range; give 2 or more")

    def sizes(self):
        return [int(count_training_images(self.images[0], self.held_out).sum())] * self.repeats

    def tasks(self, seed=0, device="cpu"):
        (images,) = self.images
        train, test, scaling = prepare_images(self, images, device)
        plain, inverted = (train, test), tuple(replace(part, x=255 - part.x) for part in (train, test))
        tasks = []
        for i in range(self.repeats):
            data = [
                view_rows(part, part.rows, part.y[part.rows], i, scaling, what)
                for part, what in zip(inverted if i % 2 else plain, ("training data", "test data"), strict=True)
            ]
            tasks.append(eg.Task(i, *data, images.classes))
        channels, height, width = images.shape
        shape = (channels, height + 2 * self.pad, width + 2 * self.pad)
        head = slice(0, images.n_classes)
        return eg.Tasks(tuple(tasks), self.kind, (head,) * self.repeats, images.n_classes, shape)
