"""What designs ask of a factor: how many values it has, where a value lies, and what is wrong with it.

Checks give one line for each thing that is wrong, with the nearest thing that works, so that a design can say
all of them at once and before it does any work.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from typing import TYPE_CHECKING

from peira.core.ids import Json, canonical, normalise, seed_of
from peira.core.registry import nearest
from peira.core.space import Dimension, Space
from peira.errors import Invalid

if TYPE_CHECKING:
    import numpy as np


def require(*problems: Iterable[str]) -> None:
    """Invalid with every problem, if there is any."""
    found = tuple(chain(*problems))
    if found:
        raise Invalid(found)


def unfit(space: Space) -> Iterator[str]:
    """What is wrong with a space in which something is to vary."""
    if not space.dimensions:
        yield "there are no factors; give at least one, with two levels or more"
    for dimension in space.dimensions:
        yield from _unfit(dimension)


def ranges(space: Space, design: str) -> Iterator[str]:
    """What is wrong with a space for a design that takes levels only."""
    for d in space.dimensions:
        if d.ranged and not list(_unfit(d)):
            example = ", ".join(f"{d.at(place)}" for place in (-1.0, 0.0, 1.0))
            yield f"{d.name}: is a range, and {design} takes levels; say levels = [{example}]"


def counted(name: str, value: object, least: int, most: float = math.inf) -> Iterator[str]:
    """What is wrong with a parameter that must be a whole number from `least` to `most`."""
    if not isinstance(value, int) or isinstance(value, bool):
        yield f"{name}: must be a whole number of at least {least}, not {value!r}"
    elif value < least:
        yield f"{name}: must be at least {least}, not {value}"
    elif value > most:
        yield f"{name}: must be at most {most:g}, not {value}"


def chosen(name: str, value: object, known: Sequence[str]) -> Iterator[str]:
    """What is wrong with a parameter that must be one of a few words."""
    if value not in known:
        yield f"{name}: {value!r} is not one of {', '.join(known)}{nearest(str(value), known)}"


def named(name: str, values: Iterable[object], space: Space) -> Iterator[str]:
    """What is wrong with a parameter that names factors of the space."""
    for value in values:
        if value not in space.names:
            yield f"{name}: no factor {value!r}{nearest(str(value), space.names)}"


def numeric(dimension: Dimension) -> bool:
    """Whether the factor is a number: a range, or levels on a continuous or integer scale."""
    if dimension.ranged:
        return True
    return dimension.scale in ("continuous", "integer") and all(map(is_number, dimension.levels))


def bounds(dimension: Dimension) -> tuple[float, float]:
    """The lowest and the highest value of a numeric factor."""
    if dimension.low is not None and dimension.high is not None:
        return dimension.low, dimension.high
    return min(dimension.levels), max(dimension.levels)


def coded(dimension: Dimension, value: Json) -> float:
    """Where a number lies between the lowest (-1) and the highest (1) value of a numeric factor."""
    if not is_number(value) or (dimension.log and value <= 0):
        raise Invalid(f"{dimension.name}: {value!r} is not a {'positive ' if dimension.log else ''}number")
    low, high = bounds(dimension)
    scale = math.log if dimension.log else float
    return 2 * (scale(value) - scale(low)) / (scale(high) - scale(low)) - 1


def values_of(dimension: Dimension) -> float:
    """How many values the factor can take: infinitely many in a continuous range."""
    if not dimension.ranged:
        return len(dimension.levels)
    low, high = bounds(dimension)
    if dimension.scale == "integer":
        return len(whole_numbers(dimension))
    return math.inf if low < high else int(low == high)


def value_at(dimension: Dimension, share: float) -> Json:
    """The value at a share, from 0 to below 1, of the factor.

    Each level has an equal share, and so has each whole number of a range that is not on a log scale.
    """
    few: Sequence[Json] = dimension.levels
    if dimension.ranged:
        if dimension.log or dimension.scale != "integer":
            return dimension.at(2 * share - 1)
        few = whole_numbers(dimension)
    return few[min(int(share * len(few)), len(few) - 1)]


def whole_numbers(dimension: Dimension) -> range:
    """The values of an integer range."""
    low, high = bounds(dimension)
    return range(math.ceil(low), math.floor(high) + 1)


def combinations(dimensions: Sequence[Dimension]) -> Iterator[dict[str, Json]]:
    """Every combination of levels of the factors; of no factors, the empty one."""
    names = [d.name for d in dimensions]
    for values in product(*(d.levels for d in dimensions)):
        yield dict(zip(names, values, strict=True))


def in_order(space: Space, found: Mapping[str, Json]) -> dict[str, Json]:
    """The values of a run in the order of the space."""
    return {name: found[name] for name in space.names}


def places(dimension: Dimension, values: Sequence[Json]) -> list[int]:
    """The number of each value's level; Invalid for a value that is none."""
    known = {key(level): place for place, level in enumerate(dimension.levels)}
    found = [known.get(key(value), -1) for value in values]
    strange = {key(v): v for v, place in zip(values, found, strict=True) if place < 0}
    levels = [str(level) for level in dimension.levels]
    require(
        f"{dimension.name}: {value!r} is not one of its levels{nearest(str(value), levels)}"
        for value in strange.values()
    )
    return found


def key(value: Json) -> str:
    """A text that is equal for equal values only: True is not 1, and 1.0 is."""
    return canonical(normalise(value)).decode()


def label(value: Json) -> str:
    """A level as the name of a block."""
    return value if isinstance(value, str) else key(value)


def is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def generator(seed: int, design: str) -> np.random.Generator:
    """The design's own random numbers, from any seed."""
    import numpy as np

    return np.random.default_rng(seed_of(f"{design} {seed}"))


def _unfit(dimension: Dimension) -> Iterator[str]:
    name, count = dimension.name, values_of(dimension)
    if dimension.ranged:
        low, high = bounds(dimension)
        if dimension.log and low <= 0:
            yield f"{name}: a log scale starts above 0, not at {low:g}; give another low, or leave log out"
        if low >= high:
            yield f"{name}: low must be below high, not {low:g} and {high:g}"
        elif count < 2:
            yield f"{name}: there are no two whole numbers from {low:g} to {high:g}; widen the range"
    elif count == 0:
        yield f"{name}: has no levels; give at least two, or a range"
    elif count == 1:
        yield f"{name}: has one level, {dimension.levels[0]!r}; give another, or leave the factor out"
