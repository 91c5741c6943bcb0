"""Which effects cannot be told apart, in any design: found in its columns.

An effect is what a term adds to the terms within it: an interaction to its factors and the mean, a square
to its factor. Two effects are confounded as far as what they add is the same: their correlation, for effects
of several columns the largest that any two combinations of them have. An effect that lies wholly within
another cannot be told from it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import msgspec

from peira.design.laid import MOST_CELLS, Laid, two_way
from peira.design.model import INTERCEPT, Term, parameters

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]
    Places = NDArray[np.intp]

CLEAR = 1e-6
BLOCKS = "blocks"
MOST_COLUMNS = 2000
"""Of effects that are compared each with each; of more, only factors are compared with all."""


class Confounding(msgspec.Struct, frozen=True):
    """Two effects that are not clear of each other: `effect` cannot be told from `other` if it is `full`.

    The correlation has a sign where each has one column.
    """

    effect: str
    other: str
    correlation: float
    full: bool


@dataclass(frozen=True)
class Effect:
    """What a term adds to its `parts`, the terms within it: an orthonormal basis of that over the runs.

    `wide` is how many columns it should have. With fewer, the rest cannot be told from the parts.
    """

    label: str
    order: int
    wide: int
    basis: Matrix
    parts: tuple[str, ...] = ()

    @property
    def seen(self) -> int:
        return int(self.basis.shape[1])


def effects(laid: Laid, terms: Sequence[Term] = ()) -> list[Effect]:
    """The effects of every factor, of every pair, and of the terms given; and of blocks, if there are any.

    Where the columns of all pairs cannot be held, only of factors.
    """
    looked_at = [term for term in two_way(laid.space, terms) if term != INTERCEPT]
    if parameters(laid.space, looked_at) * len(laid.rows) > MOST_CELLS:
        looked_at = [term for term in looked_at if _order(term) == 1]
    found = [effect(laid, term) for term in looked_at]
    if laid.block_columns.shape[1]:
        found.append(_adds(laid, BLOCKS, 1, laid.matrix([INTERCEPT]), laid.block_columns))
    return found


def effect(laid: Laid, term: Term) -> Effect:
    """What one term adds to the terms within it."""
    inner = within(term)
    found = _adds(laid, term.label, _order(term), laid.matrix(inner), laid.matrix([term]))
    return replace(found, parts=tuple(part.label for part in inner if part != INTERCEPT))


def within(term: Term) -> list[Term]:
    """The terms that a term contains, itself left out: of `a:b^2` the intercept, a, b, b^2 and a:b."""
    found = []
    for powers in product(*(range(power + 1) for _, power in term.powers)):
        parts = ((name, p) for (name, _), p in zip(term.powers, powers, strict=True) if p)
        found.append(Term(tuple(parts)))
    return found[:-1]


def compared(found: Sequence[Effect]) -> list[Effect]:
    """Those that are compared with all: every one, or if these are too many, those of one factor."""
    few = sum(one.seen for one in found) <= MOST_COLUMNS
    return [one for one in found if few or one.order == 1]


def confoundings(found: Sequence[Effect]) -> Iterator[Confounding]:
    """Every compared effect with every other that it is not clear of: each pair once from each side."""
    import numpy as np

    there, rows = [one for one in found if one.seen], [one for one in compared(found) if one.seen]
    if not rows:
        return
    products = np.hstack([one.basis for one in rows]).T @ np.hstack([one.basis for one in there])
    at_row, at_column = _starts(rows), _starts(there)
    largest = np.maximum.reduceat(np.abs(products), at_row[:-1], axis=0)
    largest = np.maximum.reduceat(largest, at_column[:-1], axis=1)
    for a, b in np.argwhere(largest > CLEAR).tolist():
        if rows[a] is not there[b]:
            block = products[at_row[a] : at_row[a + 1], at_column[b] : at_column[b + 1]]
            yield _confounding(rows[a], there[b], block)


def against(one: Effect, others: Sequence[Effect]) -> list[Confounding]:
    """What one effect is confounded with, the most first."""
    products = ((other, one.basis.T @ other.basis) for other in others)
    found = [_confounding(one, other, p) for other, p in products if (abs(p) > CLEAR).any()]
    return sorted(found, key=lambda pair: (not pair.full, -abs(pair.correlation)))


def alias_matrix(laid: Laid, terms: Sequence[Term], others: Sequence[Term]) -> Matrix:
    """How much of each column of the `others`, were it at work, is added to each estimate of the model.

    Rows are the columns of `terms`, as they are scaled in `laid`. It holds where they can be estimated.
    """
    import numpy as np

    root = np.sqrt(laid.weights)[:, None]
    return np.array(np.linalg.lstsq(root * laid.matrix(terms), root * laid.matrix(others), rcond=1e-9)[0])


def _confounding(one: Effect, other: Effect, products: Matrix) -> Confounding:
    shared = _shared(products)
    sign = -1.0 if products.size == 1 and products[0, 0] < 0 else 1.0
    lies_within = one.seen <= other.seen and shared[-1] > 1 - CLEAR
    return Confounding(one.label, other.label, sign * round(min(1.0, shared[0]), 9), lies_within)


def _shared(products: Matrix) -> list[float]:
    """The canonical correlations of two bases, the largest first."""
    import numpy as np

    if products.size == 1:
        return [abs(float(products[0, 0]))]
    found: list[float] = np.linalg.svd(products, compute_uv=False).tolist()
    return found


def _starts(found: Sequence[Effect]) -> Places:
    import numpy as np

    return np.cumsum([0, *(one.seen for one in found)])


def _order(term: Term) -> int:
    return sum(power for _, power in term.powers)


def _adds(laid: Laid, label: str, order: int, inner: Matrix, outer: Matrix) -> Effect:
    import numpy as np

    root = np.sqrt(laid.weights)[:, None]
    rest = root * outer - root * inner @ np.linalg.lstsq(root * inner, root * outer, rcond=1e-9)[0]
    left, sizes, right = np.linalg.svd(rest, full_matrices=False)
    seen = int((sizes > CLEAR * np.linalg.norm(root * outer)).sum())
    if outer.shape[1] == 1:
        left = left * right[0, 0]  # so that the sign of a correlation is that of the columns
    return Effect(label, order, outer.shape[1], left[:, :seen])
