"""The model that a design is to estimate: formulas, terms and the model matrix.

A formula is terms joined by `+`: a factor (`style`), an interaction (`model:style`; `model*style` stands for
both factors and their interaction), a power of a numeric factor (`temperature^2`), or one of the words

    main          every factor
    interactions  main, and every pair of factors
    quadratic     interactions, and the square of every numeric factor with at least three values

The intercept is always in the model. A numeric factor is coded from -1 (lowest) to 1 (highest), on the log
scale if it has one; any other factor has sum-to-zero (effect) coding, one column for each level but the last
(1 in the level's own column, -1 in all columns for the last level).
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
"""The words that stand for whole models."""
_PART = re.compile(r"\s*(?P<name>[^\W\d]\w*)\s*(?:(?:\^|\*\*)\s*(?P<power>\d+)\s*)?")


class Term(msgspec.Struct, frozen=True):
    """A product of factors raised to powers, in the order of the space; empty for the intercept."""

    powers: tuple[tuple[str, int], ...] = ()

    @property
    def label(self) -> str:
        """The term as written in a formula, such as `model:temperature^2`."""
        return ":".join(_power(name, power) for name, power in self.powers) or "intercept"

    @property
    def factors(self) -> tuple[str, ...]:
        """The names of the factors in the term."""
        return tuple(name for name, _ in self.powers)


def _power(name: str, power: int) -> str:
    return name if power == 1 else f"{name}^{power}"


INTERCEPT = Term()


def parse(formula: str, space: Space) -> tuple[Term, ...]:
    """Parse a formula into distinct terms, the intercept first; raises `Invalid` with every problem."""
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
    """The number of model columns, and so of parameters, of the term."""
    known = {dimension.name: dimension for dimension in space.dimensions}
    return math.prod(1 if numeric(known[name]) else len(known[name].levels) - 1 for name in term.factors)


def parameters(space: Space, terms: Iterable[Term]) -> int:
    """The number of parameters of the model, which is the minimum number of runs."""
    return sum(width(term, space) for term in terms)


def model_matrix(
    space: Space, points: Sequence[Mapping[str, Json]], formula: str
) -> tuple[Matrix, tuple[str, ...]]:
    """The model matrix at the points, one row each, and its column names."""
    return encode(space, points, parse(formula, space))


def encode(
    space: Space, points: Sequence[Mapping[str, Json]], terms: Sequence[Term]
) -> tuple[Matrix, tuple[str, ...]]:
    """The model matrix of the terms at the points, one row each, and its column names."""
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
    """The columns of the terms, as products of the columns of their factors."""
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
    """Names such as `temperature^2` or `model[a]:style[plain]`, with the level in brackets."""
    known = {dimension.name: dimension for dimension in space.dimensions}
    names = [""]
    for name, power in term.powers:
        levels = known[name].levels[:-1]
        own = [_power(name, power)] if numeric(known[name]) else [f"{name}[{level}]" for level in levels]
        names = [f"{before}:{mine}" if before else mine for before in names for mine in own]
    return names if term.powers else ["intercept"]


def _terms(text: str, space: Space) -> list[Term]:
    """The terms denoted by one summand of a formula."""
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
    """The terms of `main`, `interactions` or `quadratic`."""
    main = [Term(((name, 1),)) for name in space.names]
    pairs = [Term(((a, 1), (b, 1))) for a, b in combinations(space.names, 2)]
    squares = [Term(((d.name, 2),)) for d in space.dimensions if numeric(d) and values_of(d) > 2]
    return main + (pairs if word != "main" else []) + (squares if word == "quadratic" else [])


def _product(text: str, space: Space) -> list[tuple[str, int]]:
    """Parse a product such as `a:b^2` into factors and powers."""
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
    """The product of the parts as one term; raises `Invalid` for a power the factor cannot have."""
    powers: dict[str, int] = {}
    for name, power in parts:
        powers[name] = powers.get(name, 0) + power
    require(*(_power_problems(d, powers[d.name]) for d in space.dimensions if d.name in powers))
    return Term(tuple((name, powers[name]) for name in space.names if powers.get(name)))


def _power_problems(dimension: Dimension, power: int) -> Iterator[str]:
    """Problems with a power that the factor cannot have, or too few values for it."""
    name = dimension.name
    if power == 0:
        yield f"{name}^0 is the intercept, which is always in the model; leave it out"
    elif power > 1 and not numeric(dimension):
        yield f"{name}^{power}: {name} is not numeric; say {name}, which has an effect for each of its levels"
    elif values_of(dimension) <= power:
        shown, count = _power(name, power), values_of(dimension)
        yield f"{shown} needs {power + 1} values of {name}, not {count:g}; give more, or leave the term out"
