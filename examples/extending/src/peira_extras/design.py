"""`corners`: the two extreme values of each factor, in all combinations."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.space import Dimension, Point, Space
from peira.errors import Invalid


class Corners:
    name = "corners"

    def __init__(self, *, replicates: int = 1) -> None:
        if replicates < 1:
            raise Invalid(f"replicates: must be at least 1, not {replicates}")
        self.replicates = replicates

    def size(self, space: Space) -> int:
        return sum(1 for _ in self.points(space, seed=0))

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        extremes = [_extremes(dimension) for dimension in space.dimensions]
        for values in product(*extremes):
            factors = dict(zip(space.names, values, strict=True))
            if space.allows(factors):
                yield Point(factors, replicates=self.replicates)


def _extremes(dimension: Dimension) -> tuple[Json, ...]:
    first, last = dimension.at(-1.0), dimension.at(1.0)
    return (first,) if first == last else (first, last)


def register(registry: Registry) -> None:
    registry.add("design", "corners", Corners)
