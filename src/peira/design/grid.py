"""The values that a design crosses: a factor's own levels, or evenly spaced values of its range.

How many of a range is said with `levels`: one number for all ranges, or one for each by name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from peira.core.ids import Json
from peira.core.space import Dimension, Space
from peira.design.dimensions import counted, named, require, unfit

Counts = int | Mapping[str, int] | None
MOST = 100_000
"""Values of one range: they are held in memory, their combinations are not."""


def miscounted(levels: object) -> Iterator[str]:
    """What is wrong with `levels` whatever the factors are."""
    if isinstance(levels, Mapping):
        for name, count in levels.items():
            yield from counted(f"levels.{name}", count, 2, MOST)
    elif levels is not None:
        yield from counted("levels", levels, 2, MOST)


def grid(space: Space, levels: Counts, design: str) -> list[tuple[Json, ...]]:
    """The values of every factor; Invalid if a range has no count, or a count no range."""
    by_name = levels if isinstance(levels, Mapping) else {}
    ranged = [d for d in space.dimensions if d.ranged]
    suspect = Space(tuple(d for d in space.dimensions if d.ranged or not d.levels))
    require(
        unfit(suspect) if suspect.dimensions else (),
        named("levels", by_name, space),
        (
            f"levels.{d.name}: it has its own {len(d.levels)} levels; leave it out"
            for d in space.dimensions
            if d.name in by_name and not d.ranged
        ),
        ["levels: no factor is a range; leave it out"] if isinstance(levels, int) and not ranged else (),
    )
    counts = {d.name: levels if isinstance(levels, int) else by_name.get(d.name) for d in ranged}
    require(*(_uncountable(d, counts[d.name], design) for d in ranged))
    return [values(d, counts[d.name] or 0) if d.ranged else d.levels for d in space.dimensions]


def values(dimension: Dimension, count: int) -> tuple[Json, ...]:
    """So many values of a range, evenly spaced in its scale, ends included."""
    return tuple(dimension.at(2 * place / (count - 1) - 1) for place in range(count))


def _uncountable(dimension: Dimension, count: int | None, design: str) -> Iterator[str]:
    name = dimension.name
    if count is None:
        yield f"{name}: is a range; say how many values of it {design} takes, as levels = {{{name} = 3}}"
    elif (different := len(set(values(dimension, count)))) < count:
        yield f"levels.{name}: {count} values round to {different} whole numbers; say fewer, or widen it"
