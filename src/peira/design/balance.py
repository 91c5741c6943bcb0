"""How evenly a design takes the levels of each factor, and the combinations of every two.

Two factors are orthogonal to each other if every combination comes in proportion to its levels: then what
one does is estimated free of what the other does. A range of many values is looked at in quarters of its
scale.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import msgspec

from peira.core.ids import Json
from peira.core.space import Dimension
from peira.design.dimensions import coded, key, label
from peira.design.laid import Laid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]

QUARTERS = 4
FEW = 8


class Balance(msgspec.Struct, frozen=True):
    """How often each level comes; of a range, each value that is met, or each quarter."""

    factor: str
    counts: tuple[tuple[str, int], ...]
    ranged: bool = False

    @property
    def even(self) -> bool:
        return len({count for _, count in self.counts}) == 1

    @property
    def missing(self) -> tuple[str, ...]:
        """The levels that never come."""
        return tuple(level for level, count in self.counts if not count)


class Pair(msgspec.Struct, frozen=True):
    """How often the combinations of two factors come: least, most, and how many of them never do."""

    factors: tuple[str, str]
    least: int
    most: int
    missing: int
    orthogonal: bool


def balance(laid: Laid) -> tuple[Balance, ...]:
    return tuple(
        Balance(d.name, tuple(zip(names, _counted(places, len(names), laid), strict=True)), d.ranged)
        for d in laid.space.dimensions
        for names, places in [_levels(d, [row[d.name] for row in laid.rows])]
    )


def pairs(laid: Laid) -> tuple[Pair, ...]:
    """Every two factors."""
    found = {d.name: _levels(d, [row[d.name] for row in laid.rows]) for d in laid.space.dimensions}
    return tuple(
        _pair(a, b, _crossed(found[a], found[b], laid)) for a, b in combinations(laid.space.names, 2)
    )


def _pair(a: str, b: str, counts: Counts) -> Pair:
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0, keepdims=True)
    return Pair(
        factors=(a, b),
        least=int(counts.min()),
        most=int(counts.max()),
        missing=int((counts == 0).sum()),
        orthogonal=bool((counts * counts.sum() == expected).all()),
    )


def _crossed(
    one: tuple[Sequence[str], list[int]], other: tuple[Sequence[str], list[int]], laid: Laid
) -> Counts:
    import numpy as np

    (rows, at_row), (columns, at_column) = one, other
    places = np.array(at_row) * len(columns) + np.array(at_column)
    found = np.bincount(places, weights=laid.weights, minlength=len(rows) * len(columns))
    return np.rint(found).astype(np.int64).reshape(len(rows), len(columns))


def _counted(places: list[int], levels: int, laid: Laid) -> list[int]:
    import numpy as np

    found: list[int] = (
        np.rint(np.bincount(places, weights=laid.weights, minlength=levels)).astype(int).tolist()
    )
    return found


def _levels(dimension: Dimension, values: Sequence[Json]) -> tuple[list[str], list[int]]:
    """The names of the levels, and which of them each value is."""
    if not dimension.ranged:
        known = {key(level): place for place, level in enumerate(dimension.levels)}
        return [label(level) for level in dimension.levels], [known[key(value)] for value in values]
    met = {key(value): value for value in sorted(values)}
    if len(met) <= FEW:
        order = {one: place for place, one in enumerate(met)}
        return list(met), [order[key(value)] for value in values]
    ends = [dimension.at(2 * nth / QUARTERS - 1) for nth in range(QUARTERS + 1)]
    names = [f"{low:.4g} to {high:.4g}" for low, high in pairwise(ends)]
    shares = [(coded(dimension, value) + 1) / 2 for value in values]
    return names, [min(QUARTERS - 1, max(0, int(share * QUARTERS))) for share in shares]
