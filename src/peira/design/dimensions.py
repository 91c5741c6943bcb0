"""Levels, ranges and values of factors, and validation helpers shared by all designs.

Validation functions yield one message per problem, with the nearest valid alternative, so that a design can
report all problems at once and before any work is done.

The number of values to take from a range is given by `levels`: one count for all ranges, or one per factor by
name.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from typing import TYPE_CHECKING

from peira.core.ids import Json, canonical, normalise, seed_of
from peira.core.registry import nearest
from peira.core.space import Dimension, Space
from peira.errors import Invalid, NotJson

if TYPE_CHECKING:
    import numpy as np

NEAR = 1e-9
"""How far from a place in coded units a level may lie and still be there."""


# Problems with spaces and parameters


def require(*problems: Iterable[str]) -> None:
    """Raise `Invalid` with all problems, if there are any."""
    found = tuple(chain(*problems))
    if found:
        raise Invalid(found)


def space_problems(space: Space) -> Iterator[str]:
    """Problems with a space for a design that needs at least one factor with two values."""
    if not space.dimensions:
        yield "there are no factors; give at least one, with two levels or more"
    for dimension in space.dimensions:
        yield from _factor_problems(dimension)


def ranges(space: Space, design: str) -> Iterator[str]:
    """Problems with a space for a design that takes discrete levels only."""
    for d in space.dimensions:
        if d.ranged and not list(_factor_problems(d)):
            example = ", ".join(f"{d.at(place)}" for place in (-1.0, 0.0, 1.0))
            yield f"{d.name}: is a range, and {design} takes levels; say levels = [{example}]"


def count_problems(name: str, value: object, least: int, most: float = math.inf) -> Iterator[str]:
    """Problems with a parameter that must be an integer from `least` to `most`."""
    if not isinstance(value, int) or isinstance(value, bool):
        yield f"{name}: must be a whole number of at least {least}, not {value!r}"
    elif value < least:
        yield f"{name}: must be at least {least}, not {value}"
    elif value > most:
        yield f"{name}: must be at most {most:g}, not {value}"


def choice_problems(name: str, value: object, known: Sequence[str]) -> Iterator[str]:
    """Problems with a parameter that must be one of a few strings."""
    if value not in known:
        yield f"{name}: {value!r} is not one of {', '.join(known)}{nearest(str(value), known)}"


def name_problems(name: str, values: Iterable[object], space: Space) -> Iterator[str]:
    """Problems with a parameter that names factors of the space."""
    for value in values:
        if value not in space.names:
            yield f"{name}: no factor {value!r}{nearest(str(value), space.names)}"


# Values of a factor


def numeric(dimension: Dimension) -> bool:
    """Whether the factor is numeric: a range, or numeric levels on a continuous or integer scale."""
    if dimension.ranged:
        return True
    return dimension.scale in ("continuous", "integer") and all(map(is_number, dimension.levels))


def bounds(dimension: Dimension) -> tuple[float, float]:
    """The lowest and the highest value of a numeric factor."""
    if dimension.low is not None and dimension.high is not None:
        return dimension.low, dimension.high
    return min(dimension.levels), max(dimension.levels)


def coded(dimension: Dimension, value: Json) -> float:
    """The coded value of a number: -1 at the lowest and 1 at the highest value of a numeric factor."""
    if not is_number(value) or (dimension.log and value <= 0):
        raise Invalid(f"{dimension.name}: {value!r} is not a {'positive ' if dimension.log else ''}number")
    low, high = bounds(dimension)
    scale = math.log if dimension.log else float
    return 2 * (scale(value) - scale(low)) / (scale(high) - scale(low)) - 1


def values_of(dimension: Dimension) -> float:
    """The number of values the factor can take; infinity for a continuous range."""
    if not dimension.ranged:
        return len(dimension.levels)
    low, high = bounds(dimension)
    if dimension.scale == "integer":
        return len(whole_numbers(dimension))
    return math.inf if low < high else int(low == high)


def value_at(dimension: Dimension, share: float) -> Json:
    """The value at a quantile, from 0 to below 1, of the factor.

    Every level has equal probability, and so has every integer of a range that is not on a log scale.
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
    """Every combination of the levels of the factors; one empty combination without factors."""
    names = [d.name for d in dimensions]
    for values in product(*(d.levels for d in dimensions)):
        yield dict(zip(names, values, strict=True))


def in_order(space: Space, found: Mapping[str, Json]) -> dict[str, Json]:
    """The values of a run in the factor order of the space."""
    return {name: found[name] for name in space.names}


def places(dimension: Dimension, values: Sequence[Json]) -> list[int]:
    """The index of the level of each value; raises `Invalid` for a value that is not a level."""
    known = {key(level): place for place, level in enumerate(dimension.levels)}
    found = [known.get(key(value), -1) for value in values]
    unknown = {key(v): v for v, place in zip(values, found, strict=True) if place < 0}
    levels = [str(level) for level in dimension.levels]
    require(
        f"{dimension.name}: {value!r} is not one of its levels{nearest(str(value), levels)}"
        for value in unknown.values()
    )
    return found


def key(value: Json) -> str:
    """The canonical text of a value, for comparison: True differs from 1, and 1.0 equals 1."""
    return canonical(normalise(value)).decode()


def label(value: Json) -> str:
    """A level as the name of a block."""
    return value if isinstance(value, str) else key(value)


def is_number(value: Json) -> bool:
    """Whether the value is an int or a float; booleans are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def generator(seed: int, design: str) -> np.random.Generator:
    """A random generator for this seed, with a separate stream for each design name."""
    import numpy as np

    return np.random.default_rng(seed_of(f"{design} {seed}"))


def _factor_problems(dimension: Dimension) -> Iterator[str]:
    """Problems with a factor that cannot vary: fewer than two values, or an invalid range."""
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


# Numbers of values taken from ranges


Counts = int | Mapping[str, int] | None
MOST = 100_000
"""Maximum number of values taken from one range; they are held in memory, combinations are not."""


def level_count_problems(levels: object) -> Iterator[str]:
    """Problems with `levels` that do not depend on the factors."""
    if isinstance(levels, Mapping):
        for name, count in levels.items():
            yield from count_problems(f"levels.{name}", count, 2, MOST)
    elif levels is not None:
        yield from count_problems("levels", levels, 2, MOST)


def grid(space: Space, levels: Counts, design: str) -> list[tuple[Json, ...]]:
    """The values of every factor; raises `Invalid` for a range without a count or a count without a range."""
    by_name = levels if isinstance(levels, Mapping) else {}
    ranged = [d for d in space.dimensions if d.ranged]
    suspect = Space(tuple(d for d in space.dimensions if d.ranged or not d.levels))
    require(
        space_problems(suspect) if suspect.dimensions else (),
        name_problems("levels", by_name, space),
        (
            f"levels.{d.name}: it has its own {len(d.levels)} levels; leave it out"
            for d in space.dimensions
            if d.name in by_name and not d.ranged
        ),
        ["levels: no factor is a range; leave it out"] if isinstance(levels, int) and not ranged else (),
    )
    counts = {d.name: levels if isinstance(levels, int) else by_name.get(d.name) for d in ranged}
    require(*(_value_count_problems(d, counts[d.name], design) for d in ranged))
    return [values(d, counts[d.name] or 0) if d.ranged else d.levels for d in space.dimensions]


def values(dimension: Dimension, count: int) -> tuple[Json, ...]:
    """`count` evenly spaced values of a range, on its scale, ends included."""
    return tuple(dimension.at(2 * place / (count - 1) - 1) for place in range(count))


def _value_count_problems(dimension: Dimension, count: int | None, design: str) -> Iterator[str]:
    """Problems with the number of values taken from a range."""
    name = dimension.name
    if count is None:
        yield f"{name}: is a range; say how many values of it {design} takes, as levels = {{{name} = 3}}"
    elif (different := len(set(values(dimension, count)))) < count:
        yield f"levels.{name}: {count} values round to {different} whole numbers; say fewer, or widen it"


# Problems with values


def value_problem(dimension: Dimension, value: Json) -> Iterator[str]:
    """Problems with a value of the factor: not a level, or not within the range."""
    if dimension.ranged:
        yield from _range_problems(dimension, value)
    elif not equal_levels(dimension, value):
        levels = [label(level) for level in dimension.levels]
        yield f"{dimension.name}: {value!r} is not one of its levels{nearest(str(value), levels)}"


def equal_levels(dimension: Dimension, value: Json) -> list[Json]:
    """The levels equal to the value: one or none."""
    try:
        wanted = key(value)
    except NotJson:
        return []
    return [level for level in dimension.levels if key(level) == wanted]


def _range_problems(dimension: Dimension, value: Json) -> Iterator[str]:
    """Problems with a value of a range."""
    low, high = bounds(dimension)
    if not is_number(value):
        yield f"{dimension.name}: must be a number from {low:g} to {high:g}, not {value!r}"
    elif not low <= value <= high:
        yield f"{dimension.name}: must be from {low:g} to {high:g}, not {value:g}"
    elif dimension.scale == "integer" and value != int(value):
        yield f"{dimension.name}: must be a whole number, not {value:g}; say {round(value)}"


def centre(dimension: Dimension) -> list[Json]:
    """The value at the centre of the factor, alone in a list; an empty list where it has none."""
    if dimension.scale == "categorical" and not dimension.ranged:
        return []
    if dimension.ranged and len({dimension.at(place) for place in (-1.0, 0.0, 1.0)}) < 3:
        return []
    return [value for _, value in values_at(dimension, (0.0,))]


def values_at(dimension: Dimension, places: Sequence[float]) -> Iterator[tuple[float, Json]]:
    """The places, in coded units (-1 to 1), at which the factor has a value, with the value."""
    if dimension.ranged:
        yield from ((place, dimension.at(place)) for place in places)
        return
    for spot, level in zip(_spots(dimension), dimension.levels, strict=True):
        yield from ((place, level) for place in places if abs(spot - place) < NEAR)


def _spots(dimension: Dimension) -> list[float]:
    """Where the levels lie between -1 and 1."""
    if numeric(dimension):
        return [coded(dimension, level) for level in dimension.levels]
    return [2 * place / (len(dimension.levels) - 1) - 1 for place in range(len(dimension.levels))]
