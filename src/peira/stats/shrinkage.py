"""Means of many slices, each pulled towards the others as far as its own evidence is weak.

Small slices shout: their means scatter widely by chance alone. The slices are taken for a sample from a
normal population of slices; how much they truly differ is not fixed at one estimate (which is often 0, and
then pulls everything together) but averaged over, each possibility weighed by how well it explains the means.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peira.stats import normal
from peira.stats.inputs import Floats, flat, upper

_NODES = 400


@dataclass(frozen=True)
class Pooled:
    """`weight` is what the slice's own mean counts for: at 1 it stands alone, at 0 the overall mean does."""

    mean: float
    low: float | None
    high: float | None
    weight: float


@dataclass(frozen=True)
class Pooling:
    """The slices in the order given, the overall mean, and how much slices truly differ (a deviation)."""

    slices: tuple[Pooled, ...]
    overall: float
    deviation: float | None


def pool(means: Sequence[float], errors: Sequence[float], level: float = 0.95) -> Pooling:
    """Partial pooling of slices with their standard errors; flat priors on the overall mean and deviation.

    An error of 0 (a slice without spread) is unknown, not perfect: such a slice is given the largest error of
    the others. With fewer than three slices, or no known error, how much slices differ cannot be estimated,
    and nothing is pulled.
    """
    values, errs = flat(means), flat(errors)
    if values.size != errs.size or bool((errs < 0).any()):
        raise ValueError("need one standard error of at least 0 for each mean")
    z, known = normal.quantile(upper(level)), errs > 0
    if values.size < 3 or not known.any():
        return _apart(values, errs, z)
    return _averaged(values, np.where(known, errs, errs.max()) ** 2, z)


def _averaged(values: Floats, variances: Floats, z: float) -> Pooling:
    """Everything below has a row for each deviation that is tried, and a column for each slice."""
    angles = (np.arange(_NODES) + 0.5) / _NODES * math.pi / 2
    deviations = math.sqrt(float(variances.mean() + values.var())) * np.tan(angles)
    totals = variances + deviations[:, None] ** 2
    precision = (1 / totals).sum(axis=1)
    overall = (values / totals).sum(axis=1) / precision
    misfit = ((values - overall[:, None]) ** 2 / totals).sum(axis=1)
    chances = -0.5 * (np.log(totals).sum(axis=1) + np.log(precision) + misfit) - 2 * np.log(np.cos(angles))
    shares = np.exp(chances - chances.max())
    shares /= shares.sum()
    own = deviations[:, None] ** 2 / totals
    centres = own * values + (1 - own) * overall[:, None]
    spread = own * variances + (1 - own) ** 2 / precision[:, None]
    mean = shares @ centres
    half = z * np.sqrt(shares @ (spread + (centres - mean) ** 2))
    slices = (
        Pooled(float(m), float(m - h), float(m + h), float(w))
        for m, h, w in zip(mean, half, shares @ own, strict=True)
    )
    return Pooling(tuple(slices), float(shares @ overall), _median(deviations, shares))


def _median(points: Floats, shares: Floats) -> float:
    return float(np.interp(0.5, np.cumsum(shares) - shares / 2, points))


def _apart(values: Floats, errs: Floats, z: float) -> Pooling:
    slices = (
        Pooled(float(m), float(m - z * e) if e else None, float(m + z * e) if e else None, 1.0)
        for m, e in zip(values, errs, strict=True)
    )
    return Pooling(tuple(slices), float(values.mean()), None)
