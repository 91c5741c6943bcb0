"""What a model can learn from runs: which of its terms can be estimated, and with what variance.

All follows from the information matrix. A parameter can be estimated if no combination of the columns that
adds to nothing has a part in it; the variance of what can be estimated does not depend on what cannot.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from peira.core.space import Space
from peira.design.laid import Laid
from peira.design.model import Term, width

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

SINGULAR = 1e-9
TOUCHED = 1e-8


@dataclass(frozen=True)
class Fit:
    """The information of a model's parameters, in which each term has its `spans`; the rest are blocks."""

    information: Matrix
    spans: Mapping[Term, slice]

    @cached_property
    def _spectrum(self) -> tuple[Matrix, Matrix]:
        import numpy as np

        found: tuple[Matrix, Matrix] = np.linalg.eigh(self.information)
        return found

    @property
    def _seen(self) -> NDArray[np.bool_]:
        """Which directions of the parameters the runs tell anything about."""
        values = self._spectrum[0]
        seen: NDArray[np.bool_] = values > SINGULAR * max(float(values[-1]), 0.0)
        return seen

    @property
    def rank(self) -> int:
        return int(self._seen.sum())

    @property
    def complete(self) -> bool:
        """Whether every parameter can be estimated."""
        return self.rank == len(self.information)

    @cached_property
    def _unseen(self) -> Matrix:
        """How large a part each parameter has in directions that the runs tell nothing about."""
        parts: Matrix = (self._spectrum[1][:, ~self._seen] ** 2).sum(axis=1)
        return parts

    def estimable(self, term: Term) -> bool:
        """Whether all parameters of the term can be estimated."""
        return bool((self._unseen[self.spans[term]] < TOUCHED).all())

    @cached_property
    def covariance(self) -> Matrix:
        """Of the estimates, in units of the noise of one run; it holds for what can be estimated."""
        values, vectors = self._spectrum
        found: Matrix = (vectors[:, self._seen] / values[self._seen]) @ vectors[:, self._seen].T
        return found

    def of(self, term: Term) -> Matrix:
        """The covariance of the parameters of a term."""
        part = self.spans[term]
        return self.covariance[part, part]


def fit(laid: Laid, terms: Sequence[Term], weights: Matrix | None = None, *, blocks: bool = True) -> Fit:
    """The model at the runs, with the effects of blocks in it. `weights` are what each run is worth.

    By default that is how often it comes.
    """
    import numpy as np

    matrix = laid.matrix(terms)
    if blocks and laid.block_columns.shape[1]:
        matrix = np.hstack([matrix, laid.block_columns])
    worth = laid.weights if weights is None else weights
    return Fit((matrix.T * worth) @ matrix, spans(laid.space, terms))


def spans(space: Space, terms: Sequence[Term]) -> dict[Term, slice]:
    """Which columns each term has, in their order."""
    found, start = {}, 0
    for term in terms:
        found[term] = slice(start, start + width(term, space))
        start = found[term].stop
    return found
