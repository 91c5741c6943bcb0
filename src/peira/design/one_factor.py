"""One factor at a time around a baseline: what most people do first, as a design that says what it is.

Every factor is moved away from the baseline alone, so no interaction can be seen, and the baseline is run
as often as any other point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.space import Dimension, Point, Space
from peira.design.dimensions import counted, key, named, require, unfit
from peira.design.grid import Counts, grid, miscounted
from peira.design.membership import misplaced


class OneFactorAtATime:
    """The baseline, and for each factor its other values with all else at the baseline.

    `baseline` names values of some factors; for the rest it is the factor's own baseline, else its first
    level, or the centre of its range. `levels` says how many values of a range are taken.
    """

    name = "one_factor_at_a_time"

    def __init__(
        self, *, baseline: Mapping[str, Json] | None = None, levels: Counts = None, replicates: int = 1
    ) -> None:
        require(_untabled(baseline), miscounted(levels), counted("replicates", replicates, 1))
        self.baseline, self.levels, self.replicates = dict(baseline or {}), levels, replicates

    def size(self, space: Space) -> int:
        base = self._base(space)
        values = grid(space, self.levels, self.name)
        return 1 + sum(len(_others(own, base[name])) for name, own in zip(space.names, values, strict=True))

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        return self._points(space, self._base(space), grid(space, self.levels, self.name))

    def _points(self, space: Space, base: dict[str, Json], values: list[tuple[Json, ...]]) -> Iterator[Point]:
        yield Point(dict(base), replicates=self.replicates)
        for name, own in zip(space.names, values, strict=True):
            for value in _others(own, base[name]):
                yield Point({**base, name: value}, replicates=self.replicates)

    def _base(self, space: Space) -> dict[str, Json]:
        """The value of every factor in the baseline; Invalid if one is none of its own."""
        require(unfit(space), named("baseline", self.baseline, space))
        base = {d.name: self.baseline.get(d.name, _own(d)) for d in space.dimensions}
        require(f"baseline.{problem}" for d in space.dimensions for problem in misplaced(d, base[d.name]))
        return base


def _untabled(baseline: object) -> Iterator[str]:
    if baseline is not None and not isinstance(baseline, Mapping):
        yield f"baseline: must be a table of values by factor, not {baseline!r}"


def _own(dimension: Dimension) -> Json:
    if dimension.baseline is not None:
        return dimension.baseline
    return dimension.at(0.0) if dimension.ranged else dimension.levels[0]


def _others(values: tuple[Json, ...], base: Json) -> list[Json]:
    return [value for value in values if key(value) != key(base)]


def register(registry: Registry) -> None:
    registry.add("design", OneFactorAtATime.name, OneFactorAtATime)
