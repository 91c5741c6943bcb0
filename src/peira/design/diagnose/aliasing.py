"""Aliasing: which effects are confounded with each other, and which are clear.

An effect is what a term adds to the terms marginal to it: an interaction to its factors and the mean, a
square to its factor. Two effects are confounded to the extent of their correlation; for effects of several
columns, the largest canonical correlation. An effect whose columns lie entirely in the span of another is
fully confounded with it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import TYPE_CHECKING

import msgspec

from peira.design.diagnose.design_matrix import MOST_CELLS, DesignMatrix, two_way
from peira.design.model import INTERCEPT, Term, parameters

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]
    Places = NDArray[np.intp]


CLEAR = 1e-6
"""Correlations up to this size count as zero."""
BLOCKS = "blocks"
"""The label of the block effect."""
MOST_COLUMNS = 2000
"""Maximum number of columns compared pairwise; beyond it only main effects are compared with all."""


class Confounding(msgspec.Struct, frozen=True):
    """A pair of confounded effects."""

    effect: str
    """The label of an effect."""
    other: str
    """The label of an effect it is not clear of."""
    correlation: float
    """The largest canonical correlation; signed if both effects have one column."""
    full: bool
    """Whether `effect` cannot be distinguished from `other`."""


@dataclass(frozen=True)
class EffectBasis:
    """An effect as the space of what a term adds to its marginal terms."""

    label: str
    order: int
    """The sum of the powers of the term: 1 for a main effect."""
    wide: int
    """The nominal number of columns; if the basis has fewer, the rest is aliased with the parts."""
    basis: Matrix
    """An orthonormal basis over the distinct runs, weighted by replicates."""
    parts: tuple[str, ...] = ()
    """The labels of the marginal terms."""

    @property
    def seen(self) -> int:
        """The number of columns that the runs can estimate."""
        return int(self.basis.shape[1])


def effects(design: DesignMatrix, terms: Sequence[Term] = ()) -> list[EffectBasis]:
    """The effects of all factors, all pairs and the given terms, and of blocks if there are any.

    Only main effects where the columns of all pairs do not fit in memory.
    """
    looked_at = [term for term in two_way(design.space, terms) if term != INTERCEPT]
    if parameters(design.space, looked_at) * len(design.rows) > MOST_CELLS:
        looked_at = [term for term in looked_at if _order(term) == 1]
    found = [effect(design, term) for term in looked_at]
    if design.block_columns.shape[1]:
        found.append(_effect_basis(design, BLOCKS, 1, design.matrix([INTERCEPT]), design.block_columns))
    return found


def effect(design: DesignMatrix, term: Term) -> EffectBasis:
    """The effect of one term: what it adds to its marginal terms."""
    inner = within(term)
    found = _effect_basis(design, term.label, _order(term), design.matrix(inner), design.matrix([term]))
    return replace(found, parts=tuple(part.label for part in inner if part != INTERCEPT))


def within(term: Term) -> list[Term]:
    """The terms marginal to a term, without itself: for `a:b^2` the intercept, a, b, b^2 and a:b."""
    found = []
    for powers in product(*(range(power + 1) for _, power in term.powers)):
        parts = ((name, p) for (name, _), p in zip(term.powers, powers, strict=True) if p)
        found.append(Term(tuple(parts)))
    return found[:-1]


def compared(found: Sequence[EffectBasis]) -> list[EffectBasis]:
    """The effects that are compared with all others: all, or main effects if those are too many."""
    few = sum(one.seen for one in found) <= MOST_COLUMNS
    return [one for one in found if few or one.order == 1]


def confoundings(found: Sequence[EffectBasis]) -> Iterator[Confounding]:
    """Every compared effect with every other that it is not clear of; each pair in both directions."""
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


def against(one: EffectBasis, others: Sequence[EffectBasis]) -> list[Confounding]:
    """The effects that one effect is confounded with, strongest first."""
    products = ((other, one.basis.T @ other.basis) for other in others)
    found = [_confounding(one, other, p) for other, p in products if (abs(p) > CLEAR).any()]
    return sorted(found, key=lambda pair: (not pair.full, -abs(pair.correlation)))


def alias_matrix(design: DesignMatrix, terms: Sequence[Term], others: Sequence[Term]) -> Matrix:
    """The alias matrix: the bias of each model estimate per unit of each column of `others`.

    Rows are the columns of `terms`, scaled as in `design`. Valid where the model can be estimated.
    """
    import numpy as np

    root = np.sqrt(design.weights)[:, None]
    return np.array(np.linalg.lstsq(root * design.matrix(terms), root * design.matrix(others), rcond=1e-9)[0])


def _confounding(one: EffectBasis, other: EffectBasis, products: Matrix) -> Confounding:
    """The confounding of two effects, from the inner products of their bases."""
    shared = _canonical_correlations(products)
    sign = -1.0 if products.size == 1 and products[0, 0] < 0 else 1.0
    lies_within = one.seen <= other.seen and shared[-1] > 1 - CLEAR
    return Confounding(one.label, other.label, sign * round(min(1.0, shared[0]), 9), lies_within)


def _canonical_correlations(products: Matrix) -> list[float]:
    """The canonical correlations of two bases, largest first."""
    import numpy as np

    if products.size == 1:
        return [abs(float(products[0, 0]))]
    found: list[float] = np.linalg.svd(products, compute_uv=False).tolist()
    return found


def _starts(found: Sequence[EffectBasis]) -> Places:
    """The first column of each effect when their bases are concatenated, and the total."""

    import numpy as np

    return np.cumsum([0, *(one.seen for one in found)])


def _order(term: Term) -> int:
    """The order of a term: the sum of its powers."""
    return sum(power for _, power in term.powers)


def _effect_basis(design: DesignMatrix, label: str, order: int, inner: Matrix, outer: Matrix) -> EffectBasis:
    """The basis of `outer` orthogonal to `inner`, weighted by replicates."""

    import numpy as np

    root = np.sqrt(design.weights)[:, None]
    rest = root * outer - root * inner @ np.linalg.lstsq(root * inner, root * outer, rcond=1e-9)[0]
    left, sizes, right = np.linalg.svd(rest, full_matrices=False)
    seen = int((sizes > CLEAR * np.linalg.norm(root * outer)).sum())
    if outer.shape[1] == 1:
        left = left * right[0, 0]  # so that a correlation has the sign of the columns
    return EffectBasis(label, order, outer.shape[1], left[:, :seen])


# Clarity of effects


class Clarity(msgspec.Struct, frozen=True):
    """What an effect is clear of, and what it is confounded with."""

    effect: str
    order: int
    """The order of the effect: 1 for a main effect."""
    lost: int
    """The number of its parameters that cannot be estimated."""
    confounded_with: tuple[str, ...]
    """The effects it is fully confounded with."""
    with_main: float
    """The largest correlation with a main effect; 0 is clear."""
    with_interactions: float
    """The largest correlation with an interaction or a square; 0 is clear."""
    with_blocks: float
    """The largest correlation with blocks; 0 is clear."""

    @property
    def clear(self) -> bool:
        """Whether it is clear of every effect considered."""
        largest = max(self.with_main, self.with_interactions, self.with_blocks)
        return not self.lost and largest == 0


def clarities(found: Sequence[EffectBasis], confounded: Iterable[Confounding]) -> tuple[Clarity, ...]:
    """The clarity of every effect that was compared with all others, in their order."""
    kind = {one.label: 0 if one.label == BLOCKS else min(2, one.order) for one in found}
    full: dict[str, list[str]] = defaultdict(list)
    largest: dict[tuple[str, int], float] = defaultdict(float)
    for pair in confounded:
        if pair.full and pair.other != BLOCKS:
            full[pair.effect].append(pair.other)
        at = pair.effect, kind[pair.other]
        largest[at] = max(largest[at], abs(pair.correlation))
    for one in found:
        for part in (
            one.parts if one.seen < one.wide else ()
        ):  # inestimable columns are aliased with the parts
            largest[part, 2] = 1.0
    return tuple(
        Clarity(
            effect=one.label,
            order=one.order,
            lost=one.wide - one.seen,
            confounded_with=tuple(full[one.label]),
            with_main=largest[one.label, 1],
            with_interactions=largest[one.label, 2],
            with_blocks=largest[one.label, 0],
        )
        for one in compared(found)
        if one.label != BLOCKS
    )
