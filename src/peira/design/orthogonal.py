"""The orthogonal array as a design: mixed numbers of levels in few runs, every pair of levels equally often.

Taguchi's arrays are among them (L4, L8, L9, L12, L16, L18, L25, L27, L32, L36, L50, L54, L64, L81). The
smallest array that holds the factors is taken, or the one with as many runs as `array` says.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.space import Point, Space
from peira.design.arrays import Array, array, possible
from peira.design.dimensions import counted, require, unfit
from peira.design.grid import Counts, grid, miscounted
from peira.design.runs import merged
from peira.design.triples import strong_array
from peira.errors import Invalid

MOST_RUNS = 1024


class OrthogonalArray:
    """Every combination of the levels of any two factors (of any three with `strength` 3) equally often.

    Main effects are estimated free of each other; of interactions only what the strength says. `array` is
    a name as "L18", `levels` says how many values of a range are taken. Factors take columns in their
    order.
    """

    name = "orthogonal_array"

    def __init__(
        self, *, array: str | None = None, strength: int = 2, levels: Counts = None, replicates: int = 1
    ) -> None:
        require(
            _misnamed(array),
            counted("strength", strength, 2, 3),
            miscounted(levels),
            counted("replicates", replicates, 1),
        )
        self.runs = int(array[1:]) if array is not None else None
        self.strength, self.levels, self.replicates = strength, levels, replicates

    def size(self, space: Space) -> int:
        return len(merged(zip(*self._array(self._values(space)), strict=True)))

    def points(self, space: Space, seed: int) -> Iterator[Point]:
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
        require(unfit(space))
        return grid(space, self.levels, self.name)

    def _array(self, values: Sequence[Sequence[Json]]) -> Array:
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
    """The array with the fewest runs that the constructions give."""
    for runs in range(max(levels), min(MOST_RUNS, math.prod(levels)) + 1):
        if (found := _build(runs, levels, strength)) is not None:
            return found
    raise Invalid(
        f"no orthogonal array of up to {MOST_RUNS} runs was found for {_shown(levels)}: take fewer levels, "
        "or a design that needs no balance, as latin_hypercube"
    )


def _build(runs: int, levels: Sequence[int], strength: int) -> Array | None:
    if not possible(runs, levels, strength):
        return None
    return array(runs, levels) if strength == 2 else strong_array(runs, levels)


def _shown(levels: Sequence[int]) -> str:
    """As `2^3 3^4`, three factors of two levels and four of three."""
    return " ".join(f"{n}^{levels.count(n)}" for n in sorted(set(levels)))


def _misnamed(name: object) -> Iterator[str]:
    if name is None:
        return
    known = isinstance(name, str) and re.fullmatch(r"L[1-9]\d{0,3}", name)
    if not known or not 2 <= int(known[0][1:]) <= MOST_RUNS:
        yield f'array: must be L and a number of runs up to {MOST_RUNS}, as "L18", not {name!r}'


def register(registry: Registry) -> None:
    registry.add("design", OrthogonalArray.name, OrthogonalArray)
