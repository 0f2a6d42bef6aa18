"""A scenario from its name."""

from __future__ import annotations

from typing import Any

from engram.core.registry import SCENARIOS
from engram.data.catalog import images
from engram.data.errors import DataError
from engram.data.images import Images
from engram.scenarios.names import (
    LETTERS,
    LONG_QUEUE,
    STAND_IN,
    datasets_of,
    default_classes_per_task,
    parse_name,
    preparation,
)
from engram.scenarios.scenario import Scenario


def scenario(text: str, **options: Any) -> Scenario:
    """Create the scenario of this name; the options replace its fields."""
    name = parse_name(text)
    maker: type[Scenario] = SCENARIOS[name.maker]
    datasets = tuple(map(load_images, datasets_of(name)))
    values = {**preparation(name)[0], **options}
    if "classes_per_task" not in values:
        values |= default_classes_per_task(name)
    return maker(images=datasets, kind=name.kind, **values)  # type: ignore[arg-type]


def load_images(name: str) -> Images:
    try:
        return images(name)
    except DataError as error:
        if name != LETTERS:
            raise
        raise DataError(f"{error}\nFor {LONG_QUEUE}, {STAND_IN} can replace it: --letters {STAND_IN}") from error
