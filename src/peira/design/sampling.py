"""Designs that sample the space: Latin hypercube, Sobol, Halton, uniform random, and space filling.

They take ranges (also whole numbers, also on a log scale) and levels alike. What balance holds:

- `latin_hypercube`: cut the range of a factor into as many strata as there are runs, of equal width in its
  scale, and each stratum holds one run; the counts of a factor's levels, or whole numbers on a linear scale,
  differ by at most one. Constraints are not looked at: what they exclude stays in the plan, and is not run.
- `sobol`: with 2^m runs, each of the 2^m equal parts of a range holds one run; with other numbers nearly so.
  `halton`: nearly even for any number. `uniform_random`: even in expectation only. These three skip what the
  constraints exclude, and give as many admissible runs as were asked for.
- `space_filling` honours constraints and spreads the runs as far from each other as it can.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, ClassVar, Literal

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.space import Dimension, Point, Space
from peira.design.dimensions import chosen, counted, generator, require, unfit, value_at, values_of
from peira.design.filling import SpaceFilling, admitted, crowded
from peira.design.spread import spread_latin

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Draw = Callable[[int], NDArray[np.float64]]

Criterion = Literal["maximin", "discrepancy", "random"]
CRITERIA = ("maximin", "discrepancy", "random")
CHUNK, MOST = 4096, 1_000_000


class LatinHypercube:
    """Each of n strata of every factor once.

    Optimised so that the runs are far apart (`maximin`), or that they are even in all boxes (`discrepancy`,
    the centred one); `random` takes the first that comes.
    """

    name = "latin_hypercube"

    def __init__(self, *, runs: int, criterion: Criterion = "maximin") -> None:
        require(counted("runs", runs, 1, MOST), chosen("criterion", criterion, CRITERIA))
        if criterion != "random":
            require(crowded(runs, 'say criterion = "random"'))
        self.runs, self.criterion = runs, criterion

    def size(self, space: Space) -> int:
        require(unfit(space))
        return self.runs

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        require(unfit(space))
        return self._points(space, generator(seed, self.name))

    def _points(self, space: Space, rng: np.random.Generator) -> Iterator[Point]:
        strata = self._strata(len(space.dimensions), rng)
        columns = [
            _stratified(dimension, strata[:, nth], rng) for nth, dimension in enumerate(space.dimensions)
        ]
        for values in zip(*columns, strict=True):
            yield Point(dict(zip(space.names, values, strict=True)))

    def _strata(self, factors: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """The number of the stratum of every run (row) in every factor (column)."""
        from scipy.stats import qmc

        optimization = "random-cd" if self.criterion == "discrepancy" else None
        engine = qmc.LatinHypercube(factors, scramble=False, optimization=optimization, seed=rng)
        strata: NDArray[np.intp] = (engine.random(self.runs) * self.runs).astype(int)
        return spread_latin(strata, rng) if self.criterion == "maximin" else strata


def _stratified(dimension: Dimension, strata: NDArray[np.intp], rng: np.random.Generator) -> list[Json]:
    """One value from each stratum. Where values are few, one shared offset keeps their counts within one."""
    discrete = values_of(dimension) < float("inf")
    offsets = rng.random() if discrete else rng.random(len(strata))
    return [value_at(dimension, float(share)) for share in (strata + offsets) / len(strata)]


class _Stream(ABC):
    """A stream of places in the unit cube, of which the first admissible ones are taken."""

    name: ClassVar[str]

    def __init__(self, *, runs: int) -> None:
        require(counted("runs", runs, 1))
        self.runs = runs

    def size(self, space: Space) -> int:
        require(unfit(space))
        return self.runs

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        require(unfit(space))
        draw = self._drawer(len(space.dimensions), generator(seed, self.name))
        return map(Point, admitted(space, self.runs, self._values(space, draw)))

    def _values(self, space: Space, draw: Draw) -> Iterator[dict[str, Json]]:
        rows = min(CHUNK, 1 << (self.runs - 1).bit_length())  # a power of two, as Sobol wants
        while True:
            for row in draw(rows).tolist():
                yield {d.name: value_at(d, share) for d, share in zip(space.dimensions, row, strict=True)}

    @abstractmethod
    def _drawer(self, factors: int, rng: np.random.Generator) -> Draw: ...


class Sobol(_Stream):
    """A scrambled Sobol sequence: even in every factor, and best with a power of two as `runs`."""

    name = "sobol"

    def _drawer(self, factors: int, rng: np.random.Generator) -> Draw:
        from scipy.stats import qmc

        draw: Draw = qmc.Sobol(factors, scramble=True, bits=48, seed=rng).random
        return draw


class Halton(_Stream):
    """A scrambled Halton sequence: nearly even in every factor for any number of runs."""

    name = "halton"

    def _drawer(self, factors: int, rng: np.random.Generator) -> Draw:
        from scipy.stats import qmc

        draw: Draw = qmc.Halton(factors, scramble=True, seed=rng).random
        return draw


class UniformRandom(_Stream):
    """Independent runs, each uniform over the admissible part of the space."""

    name = "uniform_random"

    def _drawer(self, factors: int, rng: np.random.Generator) -> Draw:
        return lambda rows: rng.random((rows, factors))


def register(registry: Registry) -> None:
    for design in (LatinHypercube, Sobol, Halton, UniformRandom, SpaceFilling):
        registry.add("design", design.name, design)
