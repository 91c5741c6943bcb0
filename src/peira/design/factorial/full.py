"""The full factorial: all combinations of the levels of all factors.

Combinations are generated lazily, so a design of 10^9 combinations takes no memory. Constraints are not
applied: excluded combinations stay in the plan with the reason, and are not run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.space import Point, Space
from peira.design.dimensions import Counts, centre, count_problems, grid, level_count_problems, require


class FullFactorial:
    """All combinations, each `replicates` times, plus `center` runs with all factors at their centre.

    `levels` is the number of values taken from a range. Without factors there is one run, with no values.
    """

    name = "full_factorial"

    def __init__(self, *, levels: Counts = None, center: int = 0, replicates: int = 1) -> None:
        require(
            level_count_problems(levels),
            count_problems("center", center, 0),
            count_problems("replicates", replicates, 1),
        )
        self.levels, self.center, self.replicates = levels, center, replicates

    def size(self, space: Space) -> int:
        """The number of combinations, plus one for the centre point; raises `Invalid`."""
        values = grid(space, self.levels, self.name)
        return math.prod(map(len, values)) + (self._centre(space, values) is not None)

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """The combinations, last factor fastest, then the centre point; raises `Invalid`."""
        values = grid(space, self.levels, self.name)
        return self._points(space, values, self._centre(space, values))

    def _points(
        self, space: Space, values: Sequence[Sequence[Json]], extra: tuple[Json, ...] | None
    ) -> Iterator[Point]:
        names, replicates = space.names, self.replicates
        for row in product(*values):
            yield Point(dict(zip(names, row, strict=True)), replicates=replicates)
        if extra is not None:
            yield Point(dict(zip(names, extra, strict=True)), replicates=self.center)

    def _centre(self, space: Space, values: Sequence[Sequence[Json]]) -> tuple[Json, ...] | None:
        """The centre point if centre runs are requested, else None.

        Raises `Invalid` if a factor has no centre or the centre is one of the combinations.
        """
        if not self.center:
            return None
        found = [centre(d) for d in space.dimensions]
        require(
            f"{d.name}: has no centre; say center = 0, or give a range or evenly spaced levels, an odd number"
            for d, at in zip(space.dimensions, found, strict=True)
            if not at
        )
        if all(at[0] in own for at, own in zip(found, values, strict=True)):
            require(["center: it is one of the combinations already; say replicates instead"])
        return tuple(at[0] for at in found)


def register(registry: Registry) -> None:
    """Register the design `full_factorial`."""
    registry.add("design", FullFactorial.name, FullFactorial)
