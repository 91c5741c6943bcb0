"""How much of the space the runs cover: the share of all combinations, gaps, and how close runs come."""

from __future__ import annotations

import math

import msgspec

from peira.design.dimensions import key, numeric, places, values_of
from peira.design.filling import gower
from peira.design.laid import Laid

MOST = 2000
"""Runs that are compared each with each."""


class Coverage(msgspec.Struct, frozen=True):
    """What is None does not apply: no share of a range, no distance of more runs than can be compared.

    `combinations` is the share of all combinations of levels that are run. `nearest` is Gower's distance of
    the two closest different runs: 0 the same, 1 the most different there can be. `discrepancy` (centred L2)
    is how unevenly runs lie in boxes of numeric and ordered factors: 0 is even.
    """

    combinations: float | None
    nearest: float | None
    discrepancy: float | None


def coverage(laid: Laid) -> Coverage:
    every = math.prod(map(values_of, laid.space.dimensions))
    different = {tuple(key(row[name]) for name in laid.space.names) for row in laid.rows}
    few = 2 <= len(laid.rows) <= MOST
    return Coverage(
        combinations=len(different) / every if math.isfinite(every) else None,
        nearest=_nearest(laid) if few and len(different) > 1 else None,
        discrepancy=_discrepancy(laid) if few else None,
    )


def _nearest(laid: Laid) -> float:
    from scipy.spatial.distance import pdist

    distances = pdist(gower(laid.space, [dict(row) for row in laid.rows]), "cityblock")
    return float(distances[distances > 1e-12].min())


def _discrepancy(laid: Laid) -> float | None:
    """Over the factors that have an order; None if there is none, or a run lies outside of its range."""
    import numpy as np
    from scipy.stats import qmc

    found = []
    for dimension in laid.space.dimensions:
        values = [row[dimension.name] for row in laid.rows]
        if numeric(dimension):
            found.append((laid.columns[dimension.name][:, 0] + 1) / 2)
        elif dimension.scale == "ordinal":
            found.append((np.array(places(dimension, values)) + 0.5) / len(dimension.levels))
    if not found:
        return None
    unit = np.round(np.repeat(np.stack(found, axis=1), laid.times, axis=0), 12)
    if unit.min() < 0 or unit.max() > 1 or len(unit) > MOST:
        return None
    return float(qmc.discrepancy(unit, method="CD"))
