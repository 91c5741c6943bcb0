"""Balance of levels and of pairs of levels, and coverage of the space.

Two factors are orthogonal if every combination of levels has a proportional frequency: then their main
effects are estimated independently. A range with many values is divided into quarters of its scale.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, pairwise
from typing import TYPE_CHECKING

import msgspec

from peira.core.ids import Json
from peira.core.space import Dimension
from peira.design.diagnose.design_matrix import DesignMatrix
from peira.design.dimensions import coded, key, label, numeric, places, values_of
from peira.design.sampling import gower

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Counts = NDArray[np.int64]


# Balance


QUARTERS = 4
FEW = 8
"""Maximum number of distinct values of a range that are counted individually."""


class Balance(msgspec.Struct, frozen=True):
    """The number of runs at each level; for a range, at each value that occurs, or in each quarter."""

    factor: str
    counts: tuple[tuple[str, int], ...]
    """The number of runs at each level, or in each quarter of a range."""
    ranged: bool = False
    """Whether the factor is a range."""

    @property
    def even(self) -> bool:
        """Whether all levels occur equally often."""
        return len({count for _, count in self.counts}) == 1

    @property
    def missing(self) -> tuple[str, ...]:
        """The levels that never occur."""
        return tuple(level for level, count in self.counts if not count)


class PairBalance(msgspec.Struct, frozen=True):
    """The frequencies of the level combinations of two factors."""

    factors: tuple[str, str]
    least: int
    """The smallest frequency of a combination."""
    most: int
    """The largest frequency of a combination."""
    missing: int
    """The number of combinations that never occur."""
    orthogonal: bool
    """Whether the frequencies are proportional."""


def balance(design: DesignMatrix) -> tuple[Balance, ...]:
    """The level counts of every factor."""
    return tuple(
        Balance(d.name, tuple(zip(names, _counted(places, len(names), design), strict=True)), d.ranged)
        for d in design.space.dimensions
        for names, places in [_levels(d, [row[d.name] for row in design.rows])]
    )


def pairs(design: DesignMatrix) -> tuple[PairBalance, ...]:
    """The pair frequencies of every two factors."""
    found = {d.name: _levels(d, [row[d.name] for row in design.rows]) for d in design.space.dimensions}
    return tuple(
        _pair(a, b, _crossed(found[a], found[b], design)) for a, b in combinations(design.space.names, 2)
    )


def _pair(a: str, b: str, counts: Counts) -> PairBalance:
    """The balance of two factors from their contingency table."""
    expected = counts.sum(axis=1, keepdims=True) * counts.sum(axis=0, keepdims=True)
    return PairBalance(
        factors=(a, b),
        least=int(counts.min()),
        most=int(counts.max()),
        missing=int((counts == 0).sum()),
        orthogonal=bool((counts * counts.sum() == expected).all()),
    )


def _crossed(
    one: tuple[Sequence[str], list[int]], other: tuple[Sequence[str], list[int]], design: DesignMatrix
) -> Counts:
    """The contingency table of two factors."""

    import numpy as np

    (rows, at_row), (columns, at_column) = one, other
    places = np.array(at_row) * len(columns) + np.array(at_column)
    found = np.bincount(places, weights=design.weights, minlength=len(rows) * len(columns))
    return np.rint(found).astype(np.int64).reshape(len(rows), len(columns))


def _counted(places: list[int], levels: int, design: DesignMatrix) -> list[int]:
    """The number of runs at each level index."""

    import numpy as np

    found: list[int] = (
        np.rint(np.bincount(places, weights=design.weights, minlength=levels)).astype(int).tolist()
    )
    return found


def _levels(dimension: Dimension, values: Sequence[Json]) -> tuple[list[str], list[int]]:
    """The names of the levels, and the level index of each value."""
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


# Coverage


MOST = 2000
"""Maximum number of runs compared pairwise."""


class Coverage(msgspec.Struct, frozen=True):
    """How well the runs cover the space; a measure that does not apply is None."""

    combinations: float | None
    """The share of all level combinations that are run; None with a continuous range."""
    nearest: float | None
    """Gower's distance of the two closest distinct runs, from 0 to 1; None for too many runs."""
    discrepancy: float | None
    """Centred L2 discrepancy over numeric and ordinal factors; 0 is uniform."""


def coverage(design: DesignMatrix) -> Coverage:
    """The coverage of the space; distances only for up to `MOST` runs."""
    every = math.prod(map(values_of, design.space.dimensions))
    different = {tuple(key(row[name]) for name in design.space.names) for row in design.rows}
    few = 2 <= len(design.rows) <= MOST
    return Coverage(
        combinations=len(different) / every if math.isfinite(every) else None,
        nearest=_nearest(design) if few and len(different) > 1 else None,
        discrepancy=_discrepancy(design) if few else None,
    )


def _nearest(design: DesignMatrix) -> float:
    """The smallest Gower distance between distinct runs."""

    from scipy.spatial.distance import pdist

    distances = pdist(gower(design.space, [dict(row) for row in design.rows]), "cityblock")
    return float(distances[distances > 1e-12].min())


def _discrepancy(design: DesignMatrix) -> float | None:
    """Centred L2 discrepancy over the ordered factors; None if there are none or a run is out of range."""
    import numpy as np
    from scipy.stats import qmc

    found = []
    for dimension in design.space.dimensions:
        values = [row[dimension.name] for row in design.rows]
        if numeric(dimension):
            found.append((design.columns[dimension.name][:, 0] + 1) / 2)
        elif dimension.scale == "ordinal":
            found.append((np.array(places(dimension, values)) + 0.5) / len(dimension.levels))
    if not found:
        return None
    unit = np.round(np.repeat(np.stack(found, axis=1), design.times, axis=0), 12)
    if unit.min() < 0 or unit.max() > 1 or len(unit) > MOST:
        return None
    return float(qmc.discrepancy(unit, method="CD"))
