"""The Pareto front of score, cost and time: what entries cost, and how likely no other one dominates them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from peira.analysis.table.measures import Observation
from peira.stats.inputs import Codes, Floats, coded
from peira.stats.intervals.means import unbounded
from peira.stats.values import Estimate

DRAWS = 1000
"""The number of bootstrap resamples."""
CHUNK = 50
"""Resamples per batch."""
Observations = Sequence[Observation]
"""The observations of one entry."""


def axis_means(seen: Sequence[Observations], axis: str) -> list[float | None]:
    """The mean of an axis for each entry; None if it is unknown for some trial."""
    found = [[_read(one, axis) for one in known if one.value is not None] for known in seen]
    return [
        None if not values or None in values else float(np.mean([v for v in values if v is not None]))
        for values in found
    ]


def axis_interval(seen: Observations, axis: str, level: float) -> Estimate:
    """The mean of an axis with its interval, by units of evidence; the axis is known for every trial."""
    known = [one for one in seen if one.value is not None]
    data = np.array([_read(one, axis) or 0.0 for one in known], dtype=np.float64)
    return unbounded(data, *coded([one.trial.unit for one in known], data.size), level)


def _read(one: Observation, axis: str) -> float | None:
    """The value of an observation on an axis."""
    return one.value if axis == "value" else one.trial.cost if axis == "cost" else one.trial.took


def front_chances(seen: Sequence[Observations], axes: Sequence[str], sign: int, seed: int) -> list[float]:
    """The probability of each entry to be on the front, by the bootstrap.

    Any two entries are compared on the units that both have, as differences are.
    """
    known = [[one for one in observations if one.value is not None] for observations in seen]
    labels = [one.trial.unit for observations in known for one in observations]
    codes, units = coded(labels, len(labels))
    ends = np.cumsum([0, *map(len, known)])
    tables = np.stack(
        [
            _sums(observations, codes[ends[i] : ends[i + 1]], units, axes, sign)
            for i, observations in enumerate(known)
        ]
    )
    rng, beaten = np.random.default_rng(seed), np.zeros(len(tables))
    for done in range(0, DRAWS, CHUNK):
        drawn = rng.integers(0, units, (min(CHUNK, DRAWS - done), units))
        times = np.stack([np.bincount(row, minlength=units) for row in drawn]).astype(np.float64)
        beaten += _beaten(tables, times)
    return [float(1 - share) for share in beaten / DRAWS]


def _sums(known: Observations, codes: Codes, units: int, axes: Sequence[str], sign: int) -> Floats:
    """For each unit the sums of all axes, signed so that more is better, and the number of trials."""
    columns = [
        (sign if axis == "value" else -1)
        * np.bincount(codes, np.array([_read(one, axis) for one in known], dtype=np.float64), units)
        for axis in axes
    ]
    return np.stack([*columns, np.bincount(codes, minlength=units)], axis=1).astype(np.float64)


def _beaten(tables: Floats, times: Floats) -> Floats:
    """For each entry the number of resamples in which another one dominates it.

    `tables` have a row of sums for each entry and unit, `times` says how often a resample has each unit.
    """
    has = tables[:, :, -1] > 0
    means = _resampled(tables, times) if bool(has.all()) else None
    found = np.zeros(len(tables))
    for i in range(len(tables)):
        by_any = np.zeros(len(times), dtype=bool)
        for j in range(len(tables)):
            if i == j:
                continue
            if means is None:
                both = (has[i] & has[j])[:, None]
                own, other = _resampled(tables[[i, j]] * both, times)
            else:
                own, other = means[i], means[j]
            by_any |= (other >= own).all(axis=1) & (other > own).any(axis=1)
        found[i] = by_any.sum()
    return found


def _resampled(tables: Floats, times: Floats) -> Floats:
    """Resampled means by entry, resample and axis; NaN, which beats nothing, if a resample has no trial."""
    with np.errstate(invalid="ignore", divide="ignore"):
        sums = np.stack([times @ table for table in tables])
        found: Floats = sums[:, :, :-1] / sums[:, :, -1:]
    return found
