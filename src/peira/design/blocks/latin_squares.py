"""Latin and Graeco-Latin squares.

A Latin square arranges three factors of n levels in n^2 runs instead of n^3, a Graeco-Latin square four. Any
factor can be taken as rows, columns or treatments: all pairs of factors are balanced. Main effects are clear
of each other only if there are no interactions. Constraints are not applied: excluded runs stay in the plan,
and are not run.

Every Latin square of an order is about equally likely: a random walk over all of them (Jacobson and
Matthews), then random rows, columns and levels. Of Graeco-Latin squares the class of one is sampled: all that
come from it by exchanging levels, and the parts that the factors play.

Orthogonal squares come from finite fields and their products: all orders not congruent to 2 modulo 4. Among
those, orders 2 and 6 do not exist, and 10 is Parker's construction from differences modulo 7.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import product
from random import Random
from typing import ClassVar

from peira.core.space import Point, Space
from peira.design.algebra.finite_fields import field
from peira.design.dimensions import ranges, require, space_problems

Runs = tuple[tuple[int, ...], ...]
"""The runs of a square: level indices of row, column and treatments."""


class LatinSquare:
    """Three factors of n levels each in n^2 runs: a random square, with levels in random order."""

    name = "latin_square"
    factors: ClassVar[int] = 3
    otherwise: ClassVar[str] = "for two take randomized_block, for four graeco_latin_square"

    def size(self, space: Space) -> int:
        """The number of runs, n^2; raises `Invalid` if the factors do not fit."""
        return self._order(space) ** 2

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """The runs of the square, with the levels of every factor permuted at random."""
        random = Random(f"{self.name} {seed}")
        return self._points(space, self._runs(self._order(space), random), random)

    def _points(self, space: Space, runs: Runs, random: Random) -> Iterator[Point]:
        """The runs, with the levels of every factor permuted at random."""
        levels = [random.sample(d.levels, len(d.levels)) for d in space.dimensions]
        for run in runs:
            values = (own[place] for own, place in zip(levels, run, strict=True))
            yield Point(dict(zip(space.names, values, strict=True)))

    def _order(self, space: Space) -> int:
        """The common number of levels; raises `Invalid` if the factors do not fit."""
        require(space_problems(space), ranges(space, self.name), self._miscounted(space))
        order = len(space.dimensions[0].levels)
        require(_level_count_problems(space, self.name))
        require(self._impossible(order))
        return order

    def _miscounted(self, space: Space) -> Iterator[str]:
        """Problems with the number of factors."""
        if space.dimensions and len(space.dimensions) != self.factors:
            found = len(space.dimensions)
            yield f"{self.name} takes {self.factors} factors, not {found}; {self.otherwise}"

    def _impossible(self, order: int) -> Iterator[str]:
        """Problems with the order of the square."""
        yield from ()

    def _runs(self, order: int, random: Random) -> Runs:
        """The level indices of every run."""
        return random_square(order, random)


class GraecoLatinSquare(LatinSquare):
    """Four factors of n levels each in n^2 runs; levels are assigned in random order."""

    name = "graeco_latin_square"
    factors = 4
    otherwise = "for three take latin_square, for more an orthogonal array or d_optimal"

    def _impossible(self, order: int) -> Iterator[str]:
        """Problems with an order for which no orthogonal squares are known."""
        if orthogonal(order) is None:
            why = "there is none" if order in (2, 6) else "none is known here"
            near = " or ".join(str(n) for n in (order - 1, order + 1) if orthogonal(n))
            yield f"{self.name}: {why} for {order} levels; give {near} to each factor"

    def _runs(self, order: int, random: Random) -> Runs:
        parts = random.sample(range(self.factors), self.factors)
        return tuple(tuple(run[part] for part in parts) for run in orthogonal(order) or ())


MOST_STEPS = 20_000
"""Maximum number of steps of the random walk over Latin squares."""


def random_square(order: int, random: Random) -> Runs:
    """A Latin square from a random walk over all squares of the order (Jacobson and Matthews, 1996).

    Rows, columns and symbols are treated alike, as a cube of 0s and 1s whose lines sum to 1. A step moves
    between squares, or through improper ones that have a single -1. Seen at its proper squares only, and that
    is where steps are counted, the walk comes to every Latin square equally often.
    """
    cube = {(i, j, (i + j) % order): 1 for i, j in product(range(order), repeat=2)}
    improper: tuple[int, int, int] | None = None
    steps = min(2 * order**3, MOST_STEPS) if order > 1 else 0
    while steps > 0:
        improper = _step(cube, order, improper, random)
        steps -= improper is None
    return tuple(sorted(cube))


def _step(
    cube: dict[tuple[int, int, int], int], order: int, improper: tuple[int, int, int] | None, random: Random
) -> tuple[int, int, int] | None:
    """One move of the walk, in place; returns the cell with -1 if the square is improper now."""
    if improper is None:
        while (cell := tuple(random.randrange(order) for _ in range(3))) in cube:
            pass
        x, y, z = cell
    else:
        x, y, z = improper
    # The cells with 1 in the lines through this cell: one each, or two if the cell holds -1.
    a = random.choice([i for i in range(order) if cube.get((i, y, z)) == 1])
    b = random.choice([j for j in range(order) if cube.get((x, j, z)) == 1])
    c = random.choice([k for k in range(order) if cube.get((x, y, k)) == 1])
    for at, change in (
        ((x, y, z), 1), ((x, b, c), 1), ((a, y, c), 1), ((a, b, z), 1),
        ((a, y, z), -1), ((x, b, z), -1), ((x, y, c), -1), ((a, b, c), -1),
    ):  # fmt: skip
        value = cube.get(at, 0) + change
        if value:
            cube[at] = value
        else:
            cube.pop(at, None)
    return (a, b, c) if cube.get((a, b, c)) == -1 else None


@cache
def orthogonal(order: int) -> Runs | None:
    """Rows (i, j, square 1, square 2) of two orthogonal Latin squares; None if none is known."""
    parts = _prime_powers(order)
    if order == 10:
        return tuple(_parker())
    if not parts or 2 in parts:
        return None
    runs: Runs = ((0, 0, 0, 0),)
    for part in parts:
        own = _linear(part)
        runs = tuple(
            tuple(a * part + b for a, b in zip(run, one, strict=True)) for run in runs for one in own
        )
    return runs


def _linear(order: int) -> Runs:
    """The squares i + j and i + g j over a field, where g is neither 0 nor 1."""
    gf = field(order)
    g = gf.powers[1]
    return tuple(
        (i, j, gf.add(i, j), gf.add(i, gf.multiply(g, j))) for i, j in product(range(order), repeat=2)
    )


def _parker() -> Iterator[tuple[int, ...]]:
    """Parker's orthogonal squares of order 10: the integers modulo 7 and three additional levels.

    In the columns (new, 0, s, 4s) for s = 1, 2, 4, in all four rotations, and (0, 0, 0, 0), the differences
    of any two positions are all the integers modulo 7; the additional levels are crossed among themselves.
    """
    for shift in range(7):
        yield (shift,) * 4
        for new, s in enumerate((1, 2, 4)):
            column = [7 + new, *((x + shift) % 7 for x in (0, s, 4 * s))]
            yield from (tuple(column[turn:] + column[:turn]) for turn in range(4))
    yield from (tuple(7 + x for x in run) for run in _linear(3))


def _prime_powers(number: int) -> list[int]:
    """The prime powers of the factorisation of the number."""
    found = []
    for prime in range(2, number + 1):
        power = 1
        while number % prime == 0:
            number, power = number // prime, power * prime
        if power > 1:
            found.append(power)
    return found


def _level_count_problems(space: Space, design: str) -> Iterator[str]:
    """Problems with factors whose numbers of levels differ."""
    counts = Counter(len(d.levels) for d in space.dimensions)
    usual = max(counts, key=lambda n: (counts[n], n))
    for d in space.dimensions:
        if len(d.levels) != usual:
            yield f"{d.name}: has {len(d.levels)} levels; {design} needs {usual}, as many as the others have"
