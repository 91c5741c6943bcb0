"""Many differences at once, with p-values and intervals that hold together for the whole family.

Dunnett (every group against a control) and Tukey (every pair) take unrelated groups of roughly normal values
with a common variance. `max_t` takes columns measured on the same cases and any list of contrasts among them,
so both of those for paired studies: the correlation of the contrasts is estimated, not assumed.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike

from peira.stats.inputs import Floats, coded, finite, flat, totals, upper
from peira.stats.robust import spread

_DRAWS = 50_000
_FEW = 60


@dataclass(frozen=True)
class Comparison:
    """First minus second, by their positions; `p` and the bounds are adjusted for the whole family."""

    first: int
    second: int
    difference: float
    low: float | None
    high: float | None
    p: float | None


def dunnett(control: ArrayLike, groups: Sequence[ArrayLike], level: float = 0.95) -> list[Comparison]:
    """Every group (positions from 1) minus the control (position 0)."""
    from scipy.stats import dunnett as scipy_dunnett

    samples, _ = [flat(group) for group in (control, *groups)], upper(level)
    pairs = [(index, 0) for index in range(1, len(samples))]
    if not _comparable(samples):
        return [_unknown(samples, pair) for pair in pairs]
    found = scipy_dunnett(*samples[1:], control=samples[0], rng=np.random.default_rng(0))
    bounds = found.confidence_interval(level)
    return [
        Comparison(i, 0, _gap(samples, (i, 0)), float(low), float(high), float(p))
        for (i, _), low, high, p in zip(pairs, bounds.low, bounds.high, found.pvalue, strict=True)
    ]


def tukey(groups: Sequence[ArrayLike], level: float = 0.95) -> list[Comparison]:
    """Every pair of groups, the earlier minus the later."""
    from scipy.stats import tukey_hsd

    samples, _ = [flat(group) for group in groups], upper(level)
    pairs = list(combinations(range(len(samples)), 2))
    if not _comparable(samples):
        return [_unknown(samples, pair) for pair in pairs]
    found = tukey_hsd(*samples)
    bounds = found.confidence_interval(level)
    return [
        Comparison(
            i, j, _gap(samples, (i, j)), *(float(t[i, j]) for t in (bounds.low, bounds.high, found.pvalue))
        )
        for i, j in pairs
    ]


def max_t(
    table: ArrayLike,
    contrasts: Sequence[tuple[int, int]],
    clusters: Iterable[Hashable] | None = None,
    level: float = 0.95,
    seed: int = 0,
) -> list[Comparison]:
    """Differences between columns measured on the same cases (rows), adjusted by the largest of their t.

    The largest t is drawn, from a seeded generator, as that of normal differences with the correlation that
    these show and the fewest degrees of freedom among them. A difference without spread is unknown, and the
    others are adjusted among themselves.
    """
    data = finite(np.asarray(table, dtype=np.float64))
    if data.ndim != 2 or data.size == 0:
        raise ValueError("need a table of cases by sides")
    codes, groups = coded(clusters, len(data))
    gaps = np.stack([data[:, i] - data[:, j] for i, j in contrasts], axis=1)
    means, limit = gaps.mean(axis=0), upper(level)
    spreads = [spread(column, codes) for column in gaps.T] if groups > 1 else []
    scale = float(np.abs(data).max()) * 2.0**-48
    known = [k for k, found in enumerate(spreads) if found.error > scale]
    largest = _largest(gaps[:, known], codes, min((spreads[k].df for k in known), default=1.0), seed)
    critical = float(np.quantile(largest, 2 * limit - 1)) if known else math.inf
    return [
        _comparison(contrast, float(means[k]), spreads[k].error if k in known else None, critical, largest)
        for k, contrast in enumerate(contrasts)
    ]


def _comparison(
    pair: tuple[int, int], mean: float, error: float | None, critical: float, largest: Floats
) -> Comparison:
    if error is None:
        return Comparison(*pair, mean, None, None, None)
    p = (int((largest >= abs(mean) / error).sum()) + 1) / (largest.size + 1)
    return Comparison(*pair, mean, mean - critical * error, mean + critical * error, p)


def _largest(gaps: Floats, codes: np.ndarray, df: float, seed: int) -> Floats:
    """Draws of the largest absolute t among correlated ones."""
    if gaps.shape[1] == 0:
        return np.zeros(0)
    sums = np.stack([totals(codes, column - column.mean()) for column in gaps.T])
    sums /= np.sqrt((sums**2).sum(axis=1, keepdims=True))
    rng = np.random.default_rng(seed)
    # Weighted sums of the rows are normal with exactly the correlation of the rows, of whatever rank.
    values, vectors = np.linalg.eigh(sums @ sums.T)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0))

    def normals() -> Floats:
        drawn: Floats = rng.standard_normal((_DRAWS, len(root))) @ root.T
        return drawn

    # Every difference has a variance estimate of its own; with many cases all are as good as one.
    few = round(df)
    squares = (
        sum(normals() ** 2 for _ in range(few)) / few if few <= _FEW else rng.chisquare(df, (_DRAWS, 1)) / df
    )
    found: Floats = (np.abs(normals()) / np.sqrt(squares)).max(axis=1)
    return found


def _comparable(samples: Sequence[Floats]) -> bool:
    spread = max(float(np.ptp(sample)) for sample in samples)
    return len(samples) > 1 and min(sample.size for sample in samples) > 1 and spread > 0


def _gap(samples: Sequence[Floats], pair: tuple[int, int]) -> float:
    return float(samples[pair[0]].mean() - samples[pair[1]].mean())


def _unknown(samples: Sequence[Floats], pair: tuple[int, int]) -> Comparison:
    return Comparison(*pair, _gap(samples, pair), None, None, None)
