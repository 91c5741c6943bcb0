"""Space-sampling designs: Latin hypercube, Sobol, Halton, uniform random, space filling.

All take ranges (also integer and log-scaled ones) and discrete levels. Their balance:

- `latin_hypercube`: the range of a factor is divided into as many strata of equal width (on its scale) as
  there are runs, and each stratum holds one run; the counts of levels, or of integers on a linear scale,
  differ by at most one. Constraints are not applied: excluded runs stay in the plan and are not run.
- `sobol`: with 2^m runs, each of the 2^m equal intervals of a range holds one run; with other numbers nearly
  so. `halton`: nearly uniform for any number of runs. `uniform_random`: uniform in expectation only. These
  three skip points that the constraints exclude and return the requested number of admissible runs.
- `space_filling` respects the constraints and spreads the runs as far apart as it can.

The maximin Latin hypercube and the space-filling design minimise the Morris-Mitchell phi_p criterion, the sum
of distances to a high negative power. It approaches maximin and, unlike the smallest distance alone, shows at
every step which exchange is better.

The distance of two runs is Gower's: the mean over factors of the dissimilarity of their values, between 0 and
1; for numbers and ordinal levels proportional to the difference on the scale, for categories 0 if equal and 1
if not.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING, ClassVar, Literal

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.space import Dimension, Point, Space
from peira.design.dimensions import (
    choice_problems,
    coded,
    count_problems,
    generator,
    key,
    numeric,
    places,
    require,
    space_problems,
    value_at,
    values_of,
    whole_numbers,
)
from peira.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]
    Indices = NDArray[np.intp]
    Draw = Callable[[int], NDArray[np.float64]]


# Exchange algorithms


POWER = 15.0
"""The exponent p of the Morris-Mitchell criterion."""
PASSES = 30
"""Maximum number of exchange passes of a space-filling design."""


def spread_latin(strata: Indices, rng: np.random.Generator) -> Indices:
    """Improve a Latin hypercube by exchanging the strata of two runs in one factor.

    One of the two runs always belongs to the closest pair. The result is a Latin hypercube again.
    """
    import numpy as np

    runs, factors = strata.shape
    if runs < 3 or factors < 2:
        return strata
    at = strata / runs
    squares = ((at[:, None, :] - at[None, :, :]) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    for _ in range(1000 + 50 * runs):
        a = int(squares.argmin()) // runs
        b, factor = int(rng.integers(runs)), int(rng.integers(factors))
        pair = _after_swap(squares, at[:, factor], a, b)
        if a != b and _closeness(pair) < _closeness(squares[[a, b]]):
            at[[a, b], factor] = at[[b, a], factor]
            squares[[a, b]] = pair
            squares[:, [a, b]] = pair.T
    swapped: Indices = np.rint(at * runs).astype(np.intp)
    return swapped


def _after_swap(squares: Matrix, column: Matrix, a: int, b: int) -> Matrix:
    """The squared distances of two runs from all others after exchanging their values in one factor."""
    change = (column - column[b]) ** 2 - (column - column[a]) ** 2
    pair: Matrix = squares[[a, b]].copy()
    pair[0] += change
    pair[1] -= change
    pair[:, [a, b]] = squares[[a, b]][:, [a, b]]  # the distance between the two is unchanged
    return pair


def _closeness(squares: Matrix) -> float:
    """The Morris-Mitchell criterion for squared distances; lower is better."""

    import numpy as np

    return float((np.maximum(squares, 1e-12) ** (-POWER / 2)).sum())


def spread_subset(places: Matrix, runs: int, rng: np.random.Generator) -> Indices:
    """Indices of `runs` rows of `places` that are far apart in the Manhattan distance.

    Exchanges one chosen row at a time for the best candidate until none improves the criterion. No row is
    chosen twice as long as there are enough distinct ones.
    """
    import numpy as np

    taken = rng.choice(len(places), runs, replace=False)
    near = np.stack([_nearness(places, places[one]) for one in taken], axis=1)
    for _ in range(PASSES):
        before = taken.copy()
        for nth in range(runs):
            near[:, nth] = 0.0
            best = int(near.sum(axis=1).argmin())
            if near[best].sum() < near[taken[nth]].sum():
                taken[nth] = best
            near[:, nth] = _nearness(places, places[taken[nth]])
        if (taken == before).all():
            break
    return taken


def _nearness(places: Matrix, one: Matrix) -> Matrix:
    """The distances of all rows from one row to the power -p."""

    import numpy as np

    nearness: Matrix = np.maximum(np.abs(places - one).sum(axis=1), 1e-9) ** -POWER
    return nearness


# Space filling


MOST_SPREAD = 500
"""Maximum number of runs whose pairwise distances are optimised."""
TRIES = 20_000
"""Number of random points tried before the constraints count as infeasible."""


def run_count_problems(runs: int, instead: str) -> Iterator[str]:
    """Problems with a number of runs too large for pairwise distances."""
    if runs > MOST_SPREAD:
        most = f"runs: {runs} is more than the {MOST_SPREAD} that can be spread"
        yield f"{most}; {instead}, or take the design sobol"


def admitted(space: Space, runs: int, found: Iterator[dict[str, Json]]) -> Iterator[dict[str, Json]]:
    """The first `runs` admissible points; raises `Invalid` after `TRIES` inadmissible ones in a row."""
    for _ in range(runs):
        point = next((point for point in islice(found, TRIES) if space.allows(point)), None)
        if point is None:
            raise Invalid(f"the constraints allow none of {TRIES} points tried; relax them, or give levels")
        yield point


class SpaceFilling:
    """Distinct runs as far apart as an exchange among many admissible candidates can place them."""

    name = "space_filling"

    def __init__(self, *, runs: int) -> None:
        require(count_problems("runs", runs, 1))
        require(run_count_problems(runs, "ask for fewer"))
        self.runs = runs

    def size(self, space: Space) -> int:
        """The number of runs; raises `Invalid` if the space has no varying factor."""
        require(space_problems(space))
        return self.runs

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """The chosen runs; raises `Invalid` if there are too few distinct admissible candidates."""
        require(space_problems(space))
        rng = generator(seed, self.name)
        pool = self._pool(space, rng)
        return (Point(pool[one]) for one in spread_subset(gower(space, pool), self.runs, rng))

    def _pool(self, space: Space, rng: np.random.Generator) -> list[dict[str, Json]]:
        """The candidates: every admissible point if there are few, else random distinct ones."""
        most = 2000
        few = math.prod(map(values_of, space.dimensions)) <= most
        pool = _all_points(space) if few else _random_points(space, most, rng)
        if not pool:
            raise Invalid("the constraints allow no point that was tried; relax them")
        if len(pool) < self.runs:
            tried = "" if few else " among the points tried"
            raise Invalid(f"runs: {len(pool)} are different and admissible{tried}; say {len(pool)} at most")
        return pool


def _all_points(space: Space) -> list[dict[str, Json]]:
    """All admissible points of a finite space."""
    found = product(*(d.levels or whole_numbers(d) for d in space.dimensions))
    points = (dict(zip(space.names, values, strict=True)) for values in found)
    return [point for point in points if space.allows(point)]


def _random_points(space: Space, most: int, rng: np.random.Generator) -> list[dict[str, Json]]:
    """Up to `most` distinct admissible random points."""
    found: dict[str, dict[str, Json]] = {}
    for row in rng.random((max(TRIES, 2 * most), len(space.dimensions))).tolist():
        point = {d.name: value_at(d, share) for d, share in zip(space.dimensions, row, strict=True)}
        if space.allows(point):
            found.setdefault(key(point), point)
        if len(found) == most:
            break
    return list(found.values())


def gower(space: Space, points: Sequence[dict[str, Json]]) -> Matrix:
    """Columns whose Manhattan distance is the Gower distance of two points."""
    import numpy as np

    blocks = [_columns(d, [point[d.name] for point in points]) for d in space.dimensions]
    return np.hstack(blocks) / len(space.dimensions)


def _columns(dimension: Dimension, values: Sequence[Json]) -> Matrix:
    """The Gower columns of one factor."""

    import numpy as np

    if numeric(dimension):
        return np.array([[(coded(dimension, value) + 1) / 2] for value in values])
    at = np.array(places(dimension, values))
    if dimension.scale == "ordinal":
        return np.array(at[:, None] / (len(dimension.levels) - 1))
    return np.array(np.eye(len(dimension.levels))[at] / 2)  # two different levels differ in two columns


# Latin hypercubes and sequences


Criterion = Literal["maximin", "discrepancy", "random"]
CRITERIA = ("maximin", "discrepancy", "random")
CHUNK, MOST = 4096, 1_000_000


class LatinHypercube:
    """A Latin hypercube: one run in each of the n strata of every factor.

    The `criterion` is optimised over exchanges: `maximin` (runs far apart) or `discrepancy` (centred L2), and
    each run lies in the middle of its stratum; `random` takes the first sample, anywhere in its strata.
    """

    name = "latin_hypercube"

    def __init__(self, *, runs: int, criterion: Criterion = "maximin") -> None:
        require(count_problems("runs", runs, 1, MOST), choice_problems("criterion", criterion, CRITERIA))
        if criterion != "random":
            require(run_count_problems(runs, 'say criterion = "random"'))
        self.runs, self.criterion = runs, criterion

    def size(self, space: Space) -> int:
        """The number of runs; raises `Invalid` if the space has no varying factor."""
        require(space_problems(space))
        return self.runs

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """The runs of the hypercube for this seed; constraints are not applied."""
        require(space_problems(space))
        return self._points(space, generator(seed, self.name))

    def _points(self, space: Space, rng: np.random.Generator) -> Iterator[Point]:
        strata = self._strata(len(space.dimensions), rng)
        optimised = self.criterion != "random"
        columns = [
            _stratified(dimension, strata[:, nth], rng, middle=optimised)
            for nth, dimension in enumerate(space.dimensions)
        ]
        for values in zip(*columns, strict=True):
            yield Point(dict(zip(space.names, values, strict=True)))

    def _strata(self, factors: int, rng: np.random.Generator) -> NDArray[np.intp]:
        """The stratum number of every run (row) in every factor (column)."""
        from scipy.stats import qmc

        optimization = "random-cd" if self.criterion == "discrepancy" else None
        engine = qmc.LatinHypercube(factors, scramble=False, optimization=optimization, seed=rng)
        strata: NDArray[np.intp] = (engine.random(self.runs) * self.runs).astype(int)
        return spread_latin(strata, rng) if self.criterion == "maximin" else strata


def _stratified(
    dimension: Dimension, strata: NDArray[np.intp], rng: np.random.Generator, *, middle: bool
) -> list[Json]:
    """One value from each stratum: at random, or its `middle`, which keeps what was optimised over strata.

    Discrete values share one random offset, which keeps counts within one.
    """
    discrete = values_of(dimension) < float("inf")
    offsets = rng.random() if discrete else 0.5 if middle else rng.random(len(strata))
    return [value_at(dimension, float(share)) for share in (strata + offsets) / len(strata)]


class _Stream(ABC):
    """Base class: a stream of points in the unit cube, of which the first admissible ones are used."""

    name: ClassVar[str]

    def __init__(self, *, runs: int) -> None:
        require(count_problems("runs", runs, 1))
        self.runs = runs

    def size(self, space: Space) -> int:
        """The number of runs; raises `Invalid` if the space has no varying factor."""
        require(space_problems(space))
        return self.runs

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """The first admissible points of the sequence, mapped to factor values."""
        require(space_problems(space))
        draw = self._drawer(len(space.dimensions), generator(seed, self.name))
        return map(Point, admitted(space, self.runs, self._values(space, draw)))

    def _values(self, space: Space, draw: Draw) -> Iterator[dict[str, Json]]:
        """The points of the sequence as factor values, without end."""
        rows = min(CHUNK, 1 << (self.runs - 1).bit_length())  # a power of two, which Sobol requires
        while True:
            for row in draw(rows).tolist():
                yield {d.name: value_at(d, share) for d, share in zip(space.dimensions, row, strict=True)}

    @abstractmethod
    def _drawer(self, factors: int, rng: np.random.Generator) -> Draw: ...


class Sobol(_Stream):
    """A scrambled Sobol sequence; most uniform when `runs` is a power of two."""

    name = "sobol"

    def _drawer(self, factors: int, rng: np.random.Generator) -> Draw:
        from scipy.stats import qmc

        draw: Draw = qmc.Sobol(factors, scramble=True, bits=48, seed=rng).random
        return draw


class Halton(_Stream):
    """A scrambled Halton sequence: nearly uniform in every factor for any number of runs."""

    name = "halton"

    def _drawer(self, factors: int, rng: np.random.Generator) -> Draw:
        from scipy.stats import qmc

        draw: Draw = qmc.Halton(factors, scramble=True, seed=rng).random
        return draw


class UniformRandom(_Stream):
    """Independent runs, uniform over the admissible part of the space."""

    name = "uniform_random"

    def _drawer(self, factors: int, rng: np.random.Generator) -> Draw:
        return lambda rows: rng.random((rows, factors))


def register(registry: Registry) -> None:
    """Register the sampling designs."""
    for design in (LatinHypercube, Sobol, Halton, UniformRandom, SpaceFilling):
        registry.add("design", design.name, design)
