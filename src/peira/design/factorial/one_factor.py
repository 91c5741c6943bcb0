"""One factor at a time (OFAT) around a baseline.

Each factor is varied alone, so interactions cannot be estimated; the baseline is run as often as any other
point.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.space import Dimension, Point, Space
from peira.design.dimensions import (
    Counts,
    count_problems,
    grid,
    key,
    level_count_problems,
    name_problems,
    require,
    space_problems,
    value_problem,
)


class OneFactorAtATime:
    """The baseline, and for each factor its other values with the rest at the baseline.

    `baseline` gives values for some factors; for the others it is the factor's own baseline, else its first
    level or the centre of its range. `levels` is the number of values taken from a range.
    """

    name = "one_factor_at_a_time"

    def __init__(
        self, *, baseline: Mapping[str, Json] | None = None, levels: Counts = None, replicates: int = 1
    ) -> None:
        require(
            _baseline_problems(baseline),
            level_count_problems(levels),
            count_problems("replicates", replicates, 1),
        )
        self.baseline, self.levels, self.replicates = dict(baseline or {}), levels, replicates

    def size(self, space: Space) -> int:
        """The number of points: the baseline, and one for every other value of a factor."""
        base = self._base(space)
        values = grid(space, self.levels, self.name)
        return 1 + sum(len(_others(own, base[name])) for name, own in zip(space.names, values, strict=True))

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """The baseline, then the other values of each factor in turn."""
        return self._points(space, self._base(space), grid(space, self.levels, self.name))

    def _points(self, space: Space, base: dict[str, Json], values: list[tuple[Json, ...]]) -> Iterator[Point]:
        yield Point(dict(base), replicates=self.replicates)
        for name, own in zip(space.names, values, strict=True):
            for value in _others(own, base[name]):
                yield Point({**base, name: value}, replicates=self.replicates)

    def _base(self, space: Space) -> dict[str, Json]:
        """The baseline value of every factor; raises `Invalid` for a value a factor cannot have."""
        require(space_problems(space), name_problems("baseline", self.baseline, space))
        base = {d.name: self.baseline.get(d.name, _default_baseline(d)) for d in space.dimensions}
        require(f"baseline.{problem}" for d in space.dimensions for problem in value_problem(d, base[d.name]))
        return base


def _baseline_problems(baseline: object) -> Iterator[str]:
    if baseline is not None and not isinstance(baseline, Mapping):
        yield f"baseline: must be a table of values by factor, not {baseline!r}"


def _default_baseline(dimension: Dimension) -> Json:
    """The default baseline value of a factor."""
    if dimension.baseline is not None:
        return dimension.baseline
    return dimension.at(0.0) if dimension.ranged else dimension.levels[0]


def _others(values: tuple[Json, ...], base: Json) -> list[Json]:
    """The values that differ from the baseline."""
    return [value for value in values if key(value) != key(base)]


def register(registry: Registry) -> None:
    """Register the design `one_factor_at_a_time`."""
    registry.add("design", OneFactorAtATime.name, OneFactorAtATime)
