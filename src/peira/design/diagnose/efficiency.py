"""The information matrix of a model in a design, estimability, and design efficiencies in percent.

A parameter is estimable if no null vector of the information matrix involves it; the variance of what is
estimable does not depend on what is not.

- D: based on the volume of the joint confidence region of all parameters; A: on their mean variance. 100 is a
  balanced orthogonal design with all runs at the ends; with squares in the model no design reaches it.
- G: based on the maximum prediction variance over the space: 100 is the optimum, for any model.
- I: based on the average prediction variance over the space: 100 is that of runs spread uniformly over the
  space. Runs at the ends of ranges can exceed it.

Block effects are not part of the efficiencies. The space is evaluated at every combination if there are few,
else at a quasi-random sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import TYPE_CHECKING

import msgspec

from peira.core.ids import Json
from peira.core.space import Space
from peira.design.diagnose.design_matrix import DesignMatrix, columns
from peira.design.dimensions import generator, value_at, values, values_of
from peira.design.model import Term, expand, width

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]


# Information and estimability


SINGULAR = 1e-9
"""Eigenvalues below this share of the largest count as zero."""
TOUCHED = 1e-8
"""A parameter with a smaller part in the null space counts as estimable."""


@dataclass(frozen=True)
class ModelInformation:
    """The information matrix of a model, and what can be estimated from it."""

    information: Matrix
    """The information matrix."""
    spans: Mapping[Term, slice]
    """The columns of each term; the remaining columns are block effects."""

    @cached_property
    def _spectrum(self) -> tuple[Matrix, Matrix]:
        """Eigenvalues and eigenvectors of the information matrix."""

        import numpy as np

        found: tuple[Matrix, Matrix] = np.linalg.eigh(self.information)
        return found

    @property
    def _estimable_directions(self) -> NDArray[np.bool_]:
        """Which eigenvectors are estimable."""
        values = self._spectrum[0]
        seen: NDArray[np.bool_] = values > SINGULAR * max(float(values[-1]), 0.0)
        return seen

    @property
    def rank(self) -> int:
        """The rank of the information matrix."""
        return int(self._estimable_directions.sum())

    @property
    def complete(self) -> bool:
        """Whether every parameter can be estimated."""
        return self.rank == len(self.information)

    @cached_property
    def _null_parts(self) -> Matrix:
        """The squared length of each parameter's projection on the null space."""
        parts: Matrix = (self._spectrum[1][:, ~self._estimable_directions] ** 2).sum(axis=1)
        return parts

    def estimable(self, term: Term) -> bool:
        """Whether all parameters of the term can be estimated."""
        return bool((self._null_parts[self.spans[term]] < TOUCHED).all())

    @cached_property
    def covariance(self) -> Matrix:
        """The covariance of the estimates for unit error variance; valid for estimable ones."""
        values, vectors = self._spectrum
        found: Matrix = (
            vectors[:, self._estimable_directions] / values[self._estimable_directions]
        ) @ vectors[:, self._estimable_directions].T
        return found

    def of(self, term: Term) -> Matrix:
        """The covariance of the parameters of a term."""
        part = self.spans[term]
        return self.covariance[part, part]


def fit(
    design: DesignMatrix, terms: Sequence[Term], weights: Matrix | None = None, *, blocks: bool = True
) -> ModelInformation:
    """The information of the model at the runs, with block effects unless `blocks` is false.

    `weights` are the weights of the runs, by default their numbers of replicates.
    """
    import numpy as np

    matrix = design.matrix(terms)
    if blocks and design.block_columns.shape[1]:
        matrix = np.hstack([matrix, design.block_columns])
    worth = design.weights if weights is None else weights
    return ModelInformation((matrix.T * worth) @ matrix, spans(design.space, terms))


def spans(space: Space, terms: Sequence[Term]) -> dict[Term, slice]:
    """The columns of each term, as slices."""
    found, start = {}, 0
    for term in terms:
        found[term] = slice(start, start + width(term, space))
        start = found[term].stop
    return found


# Efficiencies


REGION = 4096
"""Number of points at which the prediction variance is evaluated."""
FEW = 50_000_000
"""Maximum number of matrix entries for the prediction variance."""


class Efficiency(msgspec.Struct, frozen=True):
    """Design efficiencies in percent, and the condition number."""

    d: float
    """D-efficiency."""
    a: float
    """A-efficiency."""
    g: float | None
    """G-efficiency; None if the prediction variance was not evaluated."""
    i: float | None
    """I-efficiency; None if the prediction variance was not evaluated."""
    condition: float
    """The condition number of the model matrix: 1 is best, over 30 is poor."""


def efficiency(fit: ModelInformation, runs: int, space: Space) -> Efficiency | None:
    """The efficiencies of the model; None if it cannot be estimated, G and I None without a sample."""
    import numpy as np

    if not fit.complete:
        return None
    eigen = np.linalg.eigvalsh(fit.information)
    count = len(eigen)
    mean, worst = _predictions(fit, space)
    return Efficiency(
        d=_percent(math.exp(float(np.log(eigen).mean())) / runs),
        a=_percent(count / runs / float((1 / eigen).sum())),
        g=_percent(count / runs / worst) if worst else None,
        i=_percent(count / runs / mean) if mean else None,
        condition=round(math.sqrt(float(eigen[-1] / eigen[0])), 6),
    )


def _percent(share: float) -> float:
    return round(100 * share, 6)


def _predictions(fit: ModelInformation, space: Space) -> tuple[float | None, float | None]:
    """The mean and the maximum prediction variance, for unit error variance."""
    if len(fit.information) * REGION > FEW:
        return None, None
    inside, ends = region(space)
    rows = [*inside, *ends]
    if not inside:
        return None, None
    own = {d.name: columns(d, [row[d.name] for row in rows]) for d in space.dimensions}
    matrix = expand(own, tuple(fit.spans), len(rows))
    variances = ((matrix @ fit.covariance) * matrix).sum(axis=1)
    return float(variances[: len(inside)].mean()), float(variances.max())


def region(space: Space) -> tuple[list[dict[str, Json]], list[dict[str, Json]]]:
    """Admissible points spread uniformly over the space, and others at factor ends and centres."""
    finite = math.prod(map(values_of, space.dimensions)) <= REGION and not any(
        d.ranged for d in space.dimensions
    )
    if finite:
        return _admitted(space, product(*(d.levels for d in space.dimensions))), []
    inside = _admitted(space, _sampled(space))
    ends = [values(d, 3) if d.ranged else d.levels for d in space.dimensions]
    if math.prod(map(len, ends)) <= REGION:
        return inside, _admitted(space, product(*ends))
    rng = generator(0, "ends")
    picked = zip(*([own[at] for at in rng.integers(len(own), size=REGION)] for own in ends), strict=True)
    return inside, _admitted(space, picked)


def _sampled(space: Space) -> list[list[Json]]:
    """Points of a Sobol sequence over the space."""

    from scipy.stats import qmc

    engine = qmc.Sobol(len(space.dimensions), scramble=True, seed=generator(0, "region"))
    return [
        [value_at(d, share) for d, share in zip(space.dimensions, row, strict=True)]
        for row in engine.random(REGION).tolist()
    ]


def _admitted(space: Space, rows: Iterable[Sequence[Json]]) -> list[dict[str, Json]]:
    """The admissible points among the rows."""
    points = (dict(zip(space.names, row, strict=True)) for row in rows)
    return [point for point in points if space.allows(point)]
