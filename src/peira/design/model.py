"""The model a design is to estimate: a formula over the factors, and its matrix.

A formula is terms joined by `+`: a factor (`style`), an interaction (`model:style`; `model*style` stands for
both factors and their interaction), a power of a numeric factor (`temperature^2`), or one of the words

    main          every factor
    interactions  main, and every pair of factors
    quadratic     interactions, and the square of every numeric factor with at least three values

The intercept is always in the model. A numeric factor is coded from -1 (lowest) to 1 (highest), in its
logarithm if it is on a log scale; any other factor has one column for each level but the last, coded so that
its effects sum to zero (the level's own column 1, the last level -1 in all).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

import msgspec

from peira.core.ids import Json
from peira.core.registry import nearest
from peira.core.space import Dimension, Space
from peira.design.dimensions import coded, numeric, places, require, values_of
from peira.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

WORDS = ("main", "interactions", "quadratic")
_PART = re.compile(r"\s*(?P<name>[^\W\d]\w*)\s*(?:(?:\^|\*\*)\s*(?P<power>\d+)\s*)?")


class Term(msgspec.Struct, frozen=True):
    """A product of factors, each raised to a power: in the order of the space. Empty: the intercept."""

    powers: tuple[tuple[str, int], ...] = ()

    @property
    def label(self) -> str:
        return ":".join(_power(name, power) for name, power in self.powers) or "intercept"

    @property
    def factors(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.powers)


def _power(name: str, power: int) -> str:
    return name if power == 1 else f"{name}^{power}"


INTERCEPT = Term()


def parse(formula: str, space: Space) -> tuple[Term, ...]:
    """The terms of a formula, each once, the intercept first; every problem with it is said at once."""
    found: dict[Term, None] = {INTERCEPT: None}
    problems: list[str] = []
    for text in formula.split("+"):
        try:
            found.update(dict.fromkeys(_terms(text.strip(), space)))
        except Invalid as error:
            problems += error.problems
    require(f"the formula {formula!r}: {problem}" for problem in problems)
    return tuple(found)


def width(term: Term, space: Space) -> int:
    """How many columns, and so parameters, the term has."""
    known = {dimension.name: dimension for dimension in space.dimensions}
    return math.prod(1 if numeric(known[name]) else len(known[name].levels) - 1 for name in term.factors)


def parameters(space: Space, terms: Iterable[Term]) -> int:
    """How many parameters the model has, and so how many runs it needs at least."""
    return sum(width(term, space) for term in terms)


def model_matrix(
    space: Space, points: Sequence[Mapping[str, Json]], formula: str
) -> tuple[Matrix, tuple[str, ...]]:
    """The matrix of the model at the points (one row each), and the names of its columns."""
    return encode(space, points, parse(formula, space))


def encode(
    space: Space, points: Sequence[Mapping[str, Json]], terms: Sequence[Term]
) -> tuple[Matrix, tuple[str, ...]]:
    """One row for each point, the columns of each term in turn, and the columns' names."""
    used = {name for term in terms for name in term.factors}
    dimensions = [dimension for dimension in space.dimensions if dimension.name in used]
    lacking = {d.name for d in dimensions for point in points if d.name not in point}
    require(f"{name}: not every run has a value for it" for name in sorted(lacking))
    columns = {d.name: code(d, [point[d.name] for point in points]) for d in dimensions}
    names = tuple(name for term in terms for name in column_names(space, term))
    return expand(columns, terms, len(points)), names


def code(dimension: Dimension, values: Sequence[Json]) -> Matrix:
    """The columns of one factor, one row for each value."""
    import numpy as np

    if numeric(dimension):
        return np.array([[coded(dimension, value)] for value in values], dtype=np.float64).reshape(-1, 1)
    effects = np.vstack([np.eye(len(dimension.levels) - 1), -np.ones(len(dimension.levels) - 1)])
    return effects[places(dimension, values)]


def expand(columns: Mapping[str, Matrix], terms: Iterable[Term], rows: int) -> Matrix:
    """The columns of the terms from the columns of their factors."""
    import numpy as np

    blocks = []
    for term in terms:
        block = np.ones((rows, 1))
        for name, power in term.powers:
            factor = columns[name] ** power
            block = (block[:, :, None] * factor[:, None, :]).reshape(rows, block.shape[1] * factor.shape[1])
        blocks.append(block)
    return np.hstack(blocks)


def column_names(space: Space, term: Term) -> list[str]:
    """`temperature^2`, `model[a]:style[plain]`: the level whose own column it is, in brackets."""
    known = {dimension.name: dimension for dimension in space.dimensions}
    names = [""]
    for name, power in term.powers:
        levels = known[name].levels[:-1]
        own = [_power(name, power)] if numeric(known[name]) else [f"{name}[{level}]" for level in levels]
        names = [f"{before}:{mine}" if before else mine for before in names for mine in own]
    return names if term.powers else ["intercept"]


def _terms(text: str, space: Space) -> list[Term]:
    """The terms that one part of a formula between two `+` stands for."""
    if text == "1":
        return [INTERCEPT]
    if text in WORDS and text not in space.names:
        return _word(text, space)
    factors = [_product(piece, space) for piece in re.split(r"(?<!\*)\*(?!\*)", text)]
    return [
        _term([part for powers in chosen for part in powers], space)
        for size in range(1, len(factors) + 1)
        for chosen in combinations(factors, size)
    ]


def _word(word: str, space: Space) -> list[Term]:
    main = [Term(((name, 1),)) for name in space.names]
    pairs = [Term(((a, 1), (b, 1))) for a, b in combinations(space.names, 2)]
    squares = [Term(((d.name, 2),)) for d in space.dimensions if numeric(d) and values_of(d) > 2]
    return main + (pairs if word != "main" else []) + (squares if word == "quadratic" else [])


def _product(text: str, space: Space) -> list[tuple[str, int]]:
    """The factors and powers of `a:b^2`."""
    powers = []
    for piece in text.split(":"):
        match = _PART.fullmatch(piece)
        if match is None:
            raise Invalid(
                f"{piece.strip()!r} is no term; say a factor, a:b, a*b, a^2, or one of {', '.join(WORDS)}"
            )
        if match["name"] not in space.names:
            raise Invalid(f"no factor {match['name']!r}{nearest(match['name'], [*space.names, *WORDS])}")
        powers.append((match["name"], int(match["power"] or 1)))
    return powers


def _term(parts: Iterable[tuple[str, int]], space: Space) -> Term:
    powers: dict[str, int] = {}
    for name, power in parts:
        powers[name] = powers.get(name, 0) + power
    require(*(_unfit(d, powers[d.name]) for d in space.dimensions if d.name in powers))
    return Term(tuple((name, powers[name]) for name in space.names if powers.get(name)))


def _unfit(dimension: Dimension, power: int) -> Iterator[str]:
    name = dimension.name
    if power == 0:
        yield f"{name}^0 is the intercept, which is always in the model; leave it out"
    elif power > 1 and not numeric(dimension):
        yield f"{name}^{power}: {name} is not numeric; say {name}, which has an effect for each of its levels"
    elif values_of(dimension) <= power:
        shown, count = _power(name, power), values_of(dimension)
        yield f"{shown} needs {power + 1} values of {name}, not {count:g}; give more, or leave the term out"
