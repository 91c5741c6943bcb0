"""Whether a value belongs to a factor: one of its levels, or a number in its range."""

from __future__ import annotations

from collections.abc import Iterator

from peira.core.ids import Json
from peira.core.registry import nearest
from peira.core.space import Dimension
from peira.design.dimensions import bounds, is_number, key, label
from peira.errors import NotJson


def misplaced(dimension: Dimension, value: Json) -> Iterator[str]:
    """What is wrong with a value of the factor."""
    if dimension.ranged:
        yield from _out_of_range(dimension, value)
    elif not equal_levels(dimension, value):
        levels = [label(level) for level in dimension.levels]
        yield f"{dimension.name}: {value!r} is not one of its levels{nearest(str(value), levels)}"


def equal_levels(dimension: Dimension, value: Json) -> list[Json]:
    """The level that the value is equal to, if there is one."""
    try:
        wanted = key(value)
    except NotJson:
        return []
    return [level for level in dimension.levels if key(level) == wanted]


def _out_of_range(dimension: Dimension, value: Json) -> Iterator[str]:
    low, high = bounds(dimension)
    if not is_number(value):
        yield f"{dimension.name}: must be a number from {low:g} to {high:g}, not {value!r}"
    elif not low <= value <= high:
        yield f"{dimension.name}: must be from {low:g} to {high:g}, not {value:g}"
    elif dimension.scale == "integer" and value != int(value):
        yield f"{dimension.name}: must be a whole number, not {value:g}; say {round(value)}"
