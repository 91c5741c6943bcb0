"""The input and output of design methods: factors as dimensions of a space, and runs as its points.

A design knows nothing of cases, agents or models. It sees dimensions (levels in order, or a range), and gives
runs: assignments of a value to every dimension, with the block or whole plot each belongs to and how often it
is replicated.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Literal

import msgspec

from peira.core.ids import Json

Scale = Literal["categorical", "ordinal", "continuous", "integer"]


class Dimension(msgspec.Struct, frozen=True):
    """A factor as a design sees it: `levels` in their order, or the range `low` to `high`.

    `log` spaces a range evenly on a logarithmic scale. `dear` marks a factor that is expensive to change
    (hard to change): it is set once for a whole plot. `parent` is the factor that this one is nested in.
    """

    name: str
    levels: tuple[Json, ...] = ()
    scale: Scale = "categorical"
    low: float | None = None
    high: float | None = None
    log: bool = False
    baseline: Json = None
    dear: bool = False
    parent: str = ""

    @property
    def ranged(self) -> bool:
        """Whether it is a range rather than a list of levels."""
        return self.low is not None and self.high is not None

    def at(self, coded: float) -> Json:
        """The value at a coded coordinate between -1 and 1 of a range; without a range, the nearest level."""
        if not self.ranged:
            last = len(self.levels) - 1
            return self.levels[min(last, max(0, round((coded + 1) / 2 * last)))]
        assert self.low is not None
        assert self.high is not None
        low, high = (math.log(self.low), math.log(self.high)) if self.log else (self.low, self.high)
        value = low + (coded + 1) / 2 * (high - low)
        value = math.exp(value) if self.log else value
        if self.scale == "integer":
            return round(value)
        return self.low if coded == -1 else self.high if coded == 1 else float(f"{value:.12g}")


class Space(msgspec.Struct, frozen=True):
    """The dimensions, and a predicate for the admissible points (None: all are)."""

    dimensions: tuple[Dimension, ...]
    admits: Callable[[Mapping[str, Json]], bool] | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the dimensions, in order."""
        return tuple(dimension.name for dimension in self.dimensions)

    def allows(self, point: Mapping[str, Json]) -> bool:
        """Whether the point satisfies the constraints."""
        return self.admits is None or self.admits(point)


class Point(msgspec.Struct, frozen=True):
    """One run of a design: a value for every dimension.

    `block` and `plot` name the block and the whole plot it is run in ("" where there are none),
    `period` its place in a sequence (0 where order is free), `replicates` how often it is run.
    """

    factors: dict[str, Json]
    block: str = ""
    plot: str = ""
    period: int = 0
    replicates: int = 1
