"""Orthogonal arrays as designs: factors with mixed numbers of levels in few runs.

Taguchi's arrays are among them (L4, L8, L9, L12, L16, L18, L25, L27, L32, L36, L50, L54, L64, L81). The
smallest array that accommodates the factors is used, or the one with the number of runs given by `array`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.space import Point, Space
from peira.design.algebra.array_constructions import Array, array, possible, strong_array
from peira.design.coded_runs import merged
from peira.design.dimensions import (
    Counts,
    count_problems,
    grid,
    level_count_problems,
    require,
    space_problems,
)
from peira.errors import Invalid

MOST_RUNS = 1024
"""Largest array that is searched for."""


class OrthogonalArray:
    """An orthogonal array of strength 2 (or 3): all level combinations of any 2 (3) factors equally often.

    Main effects are orthogonal to each other; with strength 3 they are also clear of two-factor interactions.
    `array` is a name such as "L18", `levels` the number of values taken from a range. Factors are assigned to
    columns in their order.
    """

    name = "orthogonal_array"

    def __init__(
        self, *, array: str | None = None, strength: int = 2, levels: Counts = None, replicates: int = 1
    ) -> None:
        require(
            _name_problems(array),
            count_problems("strength", strength, 2, 3),
            level_count_problems(levels),
            count_problems("replicates", replicates, 1),
        )
        self.runs = int(array[1:]) if array is not None else None
        self.strength, self.levels, self.replicates = strength, levels, replicates

    def size(self, space: Space) -> int:
        """The number of distinct runs; raises `Invalid` if no array fits the factors."""
        return len(merged(zip(*self._array(self._values(space)), strict=True)))

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """The distinct runs of the array; raises `Invalid` if no array fits the factors."""
        values = self._values(space)
        found = merged(zip(*self._array(values), strict=True))
        return (
            Point(
                {name: own[int(at)] for name, own, at in zip(space.names, values, run.places, strict=True)},
                replicates=run.times * self.replicates,
            )
            for run in found
        )

    def _values(self, space: Space) -> list[tuple[Json, ...]]:
        require(space_problems(space))
        return grid(space, self.levels, self.name)

    def _array(self, values: Sequence[Sequence[Json]]) -> Array:
        """The requested or the smallest array; raises `Invalid` if there is none."""
        levels = [len(own) for own in values]
        if self.runs is None:
            return _smallest(levels, self.strength)
        found = _build(self.runs, levels, self.strength)
        if found is None:
            raise Invalid(
                f"array: L{self.runs} does not hold {_shown(levels)} with strength {self.strength}; "
                f"say array = 'L{len(_smallest(levels, self.strength)[0])}', or leave it out"
            )
        return found


def _smallest(levels: Sequence[int], strength: int) -> Array:
    """The smallest array that the constructions provide; raises `Invalid` if there is none."""
    for runs in range(max(levels), min(MOST_RUNS, math.prod(levels)) + 1):
        if (found := _build(runs, levels, strength)) is not None:
            return found
    raise Invalid(
        f"no orthogonal array of up to {MOST_RUNS} runs was found for {_shown(levels)}: take fewer levels, "
        "or a design that needs no balance, as latin_hypercube"
    )


def _build(runs: int, levels: Sequence[int], strength: int) -> Array | None:
    """The array with this number of runs; None if no construction here provides it."""
    if not possible(runs, levels, strength):
        return None
    return array(runs, levels) if strength == 2 else strong_array(runs, levels)


def _shown(levels: Sequence[int]) -> str:
    """The numbers of levels as `2^3 3^4`: three factors of two levels and four of three."""
    return " ".join(f"{n}^{levels.count(n)}" for n in sorted(set(levels)))


def _name_problems(name: object) -> Iterator[str]:
    """Problems with the name of an array."""
    if name is None:
        return
    known = isinstance(name, str) and re.fullmatch(r"L[1-9]\d{0,3}", name)
    if not known or not 2 <= int(known[0][1:]) <= MOST_RUNS:
        yield f'array: must be L and a number of runs up to {MOST_RUNS}, as "L18", not {name!r}'


def register(registry: Registry) -> None:
    """Register the design `orthogonal_array`."""
    registry.add("design", OrthogonalArray.name, OrthogonalArray)
