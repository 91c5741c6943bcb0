"""The full factorial: every level of every factor with every other.

It is never held in memory: a thousand million combinations cost nothing until they are asked for. Constraints
are not looked at: what they exclude stays in the plan with its reason, and is not run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import product

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.space import Point, Space
from peira.design.dimensions import counted, require
from peira.design.grid import Counts, grid, miscounted
from peira.design.runs import centre


class FullFactorial:
    """All combinations, each `replicates` times, and `center` runs with every factor at its centre.

    `levels` says how many values of a range are taken. Without factors there is one run, of nothing.
    """

    name = "full_factorial"

    def __init__(self, *, levels: Counts = None, center: int = 0, replicates: int = 1) -> None:
        require(miscounted(levels), counted("center", center, 0), counted("replicates", replicates, 1))
        self.levels, self.center, self.replicates = levels, center, replicates

    def size(self, space: Space) -> int:
        values = grid(space, self.levels, self.name)
        return math.prod(map(len, values)) + (self._centre(space, values) is not None)

    def points(self, space: Space, seed: int) -> Iterator[Point]:
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
        """The centre, if it is asked for; Invalid where there is none, or it is one of the combinations."""
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
    registry.add("design", FullFactorial.name, FullFactorial)
