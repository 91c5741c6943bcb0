"""Space filling over factors of all kinds, and only where the constraints allow.

The distance of two runs is Gower's: the mean over factors of how far apart their values are, between 0 and 1:
for numbers and ordered levels in proportion to the scale, for categories 0 if equal and 1 if not.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING

from peira.core.ids import Json
from peira.core.space import Dimension, Point, Space
from peira.design.dimensions import (
    coded,
    counted,
    generator,
    key,
    numeric,
    places,
    require,
    unfit,
    value_at,
    values_of,
    whole_numbers,
)
from peira.design.spread import spread_subset
from peira.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

MOST = 500
TRIES = 20_000


def crowded(runs: int, instead: str) -> Iterator[str]:
    """What is wrong with more runs than can be compared pair by pair."""
    if runs > MOST:
        yield f"runs: {runs} is more than the {MOST} that can be spread; {instead}, or take the design sobol"


def admitted(space: Space, runs: int, found: Iterator[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    """The first `runs` of the points that the constraints allow; Invalid where they seem to allow none."""
    for _ in range(runs):
        point = next((point for point in islice(found, TRIES) if space.allows(point)), None)
        if point is None:
            raise Invalid(f"the constraints allow none of {TRIES} points tried; relax them, or give levels")
        yield point


class SpaceFilling:
    """Runs as far from each other as an exchange among many admissible points can put them; none twice."""

    name = "space_filling"

    def __init__(self, *, runs: int) -> None:
        require(counted("runs", runs, 1))
        require(crowded(runs, "ask for fewer"))
        self.runs = runs

    def size(self, space: Space) -> int:
        require(unfit(space))
        return self.runs

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        require(unfit(space))
        rng = generator(seed, self.name)
        pool = self._pool(space, rng)
        return (Point(pool[one]) for one in spread_subset(gower(space, pool), self.runs, rng))

    def _pool(self, space: Space, rng: np.random.Generator) -> list[dict[str, Json]]:
        """Every admissible point where they are few, else many different ones at random."""
        most = 2000
        few = math.prod(map(values_of, space.dimensions)) <= most
        pool = _every(space) if few else _some(space, most, rng)
        if not pool:
            raise Invalid("the constraints allow no point that was tried; relax them")
        if len(pool) < self.runs:
            tried = "" if few else " among the points tried"
            raise Invalid(f"runs: {len(pool)} are different and admissible{tried}; say {len(pool)} at most")
        return pool


def _every(space: Space) -> list[dict[str, Json]]:
    found = product(*(d.levels or whole_numbers(d) for d in space.dimensions))
    points = (dict(zip(space.names, values, strict=True)) for values in found)
    return [point for point in points if space.allows(point)]


def _some(space: Space, most: int, rng: np.random.Generator) -> list[dict[str, Json]]:
    found: dict[str, dict[str, Json]] = {}
    for row in rng.random((max(TRIES, 2 * most), len(space.dimensions))).tolist():
        point = {d.name: value_at(d, share) for d, share in zip(space.dimensions, row, strict=True)}
        if space.allows(point):
            found.setdefault(key(point), point)
        if len(found) == most:
            break
    return list(found.values())


def gower(space: Space, points: Sequence[dict[str, Json]]) -> Matrix:
    """Columns whose absolute differences add up to the distance of two points."""
    import numpy as np

    blocks = [_columns(d, [point[d.name] for point in points]) for d in space.dimensions]
    return np.hstack(blocks) / len(space.dimensions)


def _columns(dimension: Dimension, values: Sequence[Json]) -> Matrix:
    import numpy as np

    if numeric(dimension):
        return np.array([[(coded(dimension, value) + 1) / 2] for value in values])
    at = np.array(places(dimension, values))
    if dimension.scale == "ordinal":
        return np.array(at[:, None] / (len(dimension.levels) - 1))
    return np.array(np.eye(len(dimension.levels))[at] / 2)  # two levels differ in two columns
