"""How good a design is for a model, in percent, and how far its estimates depend on each other.

- D: of the joint confidence region of all parameters; A: of their mean variance. 100 is what a balanced
  orthogonal design with all its runs at the ends would have; where squares are in the model, none has it.
- G: of the worst prediction in the space: 100 is the best there can be, for any model.
- I: of the mean variance of a prediction over the space: 100 is what runs spread evenly over all of the
  space have. Runs at the ends of ranges can have more.

Blocks are left out of it. The space is looked at in every combination where they are few, else in a sample.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import product

import msgspec

from peira.core.ids import Json
from peira.core.space import Space
from peira.design.dimensions import generator, value_at, values_of
from peira.design.fit import Fit
from peira.design.grid import values
from peira.design.laid import columns
from peira.design.model import expand

REGION = 4096
FEW = 50_000_000


class Efficiency(msgspec.Struct, frozen=True):
    """In percent; `condition` is that of the model's matrix: 1 is the best, and over 30 is poor."""

    d: float
    a: float
    g: float | None
    i: float | None
    condition: float


def efficiency(fit: Fit, runs: int, space: Space) -> Efficiency | None:
    """Of the model at the runs; None if it cannot be estimated, G and I None if no sample is admissible."""
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


def _predictions(fit: Fit, space: Space) -> tuple[float | None, float | None]:
    """The mean and the largest variance of a prediction, in units of the noise of a run."""
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
    """Admissible points spread evenly over the space, and others at the ends and centres of its factors."""
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
    from scipy.stats import qmc

    engine = qmc.Sobol(len(space.dimensions), scramble=True, seed=generator(0, "region"))
    return [
        [value_at(d, share) for d, share in zip(space.dimensions, row, strict=True)]
        for row in engine.random(REGION).tolist()
    ]


def _admitted(space: Space, rows: Iterable[Sequence[Json]]) -> list[dict[str, Json]]:
    points = (dict(zip(space.names, row, strict=True)) for row in rows)
    return [point for point in points if space.allows(point)]
