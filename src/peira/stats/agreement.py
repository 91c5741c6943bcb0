"""Inter-rater agreement beyond chance: Cohen's kappa, Fleiss' kappa, Krippendorff's alpha.

Ratings are a table with one row per case and one column per judge; None or NaN marks a missing rating. Kappa
and alpha are 1 for perfect agreement and 0 for the agreement expected by chance. If every rating falls into
the same category, chance agreement is 1 and the coefficient is undefined (None).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Literal

import numpy as np

from peira.stats import normal, student
from peira.stats.inputs import Floats, coded, known, upper
from peira.stats.intervals.resampling import jackknife
from peira.stats.values import Interval

Weights = Literal["none", "linear", "quadratic"]
"""How weighted kappa penalises disagreement by the distance between two categories."""
Scale = Literal["nominal", "ordinal", "interval"]
"""The scale of measurement of the ratings."""


def cohen_kappa(
    one: Sequence[Hashable],
    two: Sequence[Hashable],
    weights: Weights = "none",
    categories: Sequence[Hashable] | None = None,
    level: float = 0.95,
) -> Interval:
    """Cohen's kappa of two judges who rated the same cases.

    The interval uses the large-sample standard error of Fleiss, Cohen and Everitt. Weighted kappa gives
    partial credit by distance in `categories`, which must then be given in order. Raises ValueError for
    unequal lengths, no ratings, unknown weights, or ratings outside `categories`.
    """
    known("the weights", weights, ("none", "linear", "quadratic"))
    if len(one) != len(two) or not len(one):
        raise ValueError(f"need pairs of ratings, not {len(one)} and {len(two)}")
    if weights != "none" and categories is None:
        raise ValueError("weighted kappa needs the categories, in order")
    order = list(categories) if categories is not None else list(dict.fromkeys([*one, *two]))
    if unexpected := {*one, *two} - set(order):
        raise ValueError(f"ratings outside the categories: {', '.join(sorted(map(str, unexpected)))}")
    place = {category: index for index, category in enumerate(order)}
    table = np.zeros((len(order), len(order)))
    np.add.at(table, ([place[rating] for rating in one], [place[rating] for rating in two]), 1.0)
    return _kappa(table, _closeness(len(order), weights), normal.quantile(upper(level)))


def fleiss_kappa(counts: Sequence[Sequence[int]], level: float = 0.95) -> Interval:
    """Fleiss' kappa of any number of judges, the same number for every case.

    `counts` has one row per case and one column per category; each cell is the number of judges who chose
    that category. The interval is by jackknife over cases.
    """
    table = np.asarray(counts, dtype=np.float64)
    if table.ndim != 2 or table.size == 0 or bool((table < 0).any()):
        raise ValueError("need a table of counts, cases by categories")
    judges = table.sum(axis=1)
    if judges[0] < 2 or bool((judges != judges[0]).any()):
        raise ValueError("need the same number of ratings, at least two, of every case")
    return _jackknife_interval(lambda kept: _fleiss(table[kept]), len(table), "fleiss kappa", level)


def krippendorff_alpha(
    ratings: Sequence[Sequence[float | str | None]], scale: Scale = "nominal", level: float = 0.95
) -> Interval:
    """Krippendorff's alpha of any number of judges; ratings may be missing.

    Cases with fewer than two ratings are left out, since they contain no pair to compare. Ordinal and
    interval scales need numeric ratings. The interval is by jackknife over cases.
    """
    known("the scale", scale, ("nominal", "ordinal", "interval"))
    values, counts = _tally(ratings, scale)
    counts = counts[counts.sum(axis=1) >= 2]
    upper(level)
    if len(counts) == 0:
        return Interval(None, None, None, 0, "unknown")
    return _jackknife_interval(
        lambda kept: _alpha(counts[kept], values, scale), len(counts), f"{scale} alpha", level
    )


def _kappa(table: Floats, closeness: Floats, z: float) -> Interval:
    """(Weighted) kappa of a contingency table with its asymptotic interval.

    `closeness` holds the weights.
    """
    n = int(table.sum())
    shares = table / n
    rows, columns = shares.sum(axis=1), shares.sum(axis=0)
    seen, chance = float((closeness * shares).sum()), float(rows @ closeness @ columns)
    if chance >= 1:
        return Interval(None, None, None, n, "unknown")
    value = (seen - chance) / (1 - chance)
    typical = (closeness @ columns)[:, None] + (rows @ closeness)[None, :]
    spread = float((shares * (closeness - typical * (1 - value)) ** 2).sum())
    variance = (spread - (value - chance * (1 - value)) ** 2) / (n * (1 - chance) ** 2)
    if variance <= 1e-15:
        return Interval(value, None, None, n, "unknown")
    half = z * math.sqrt(variance)
    return Interval(value, max(-1.0, value - half), min(1.0, value + half), n, "cohen kappa")


def _closeness(k: int, weights: Weights) -> Floats:
    """The agreement weights of a k by k table: identity, linear or quadratic."""
    if weights == "none":
        return np.eye(k)
    distance = np.abs(np.subtract.outer(np.arange(k), np.arange(k))) / max(1, k - 1)
    found: Floats = 1 - (distance if weights == "linear" else distance**2)
    return found


def _fleiss(table: Floats) -> float | None:
    """Fleiss' kappa of a count table; None if chance agreement is 1."""
    judges = float(table[0].sum())
    seen = float(((table**2).sum() / len(table) - judges) / (judges * (judges - 1)))
    chance = float(((table.sum(axis=0) / table.sum()) ** 2).sum())
    return (seen - chance) / (1 - chance) if chance < 1 else None


def _tally(ratings: Iterable[Sequence[float | str | None]], scale: Scale) -> tuple[Floats, Floats]:
    """The distinct rating values, sorted, and the table of counts by case and value."""
    given = [[one for one in row if one is not None and one == one] for row in ratings]
    flat = [one for row in given for one in row]
    if scale != "nominal" and any(isinstance(one, str) for one in flat):
        raise ValueError(f"an {scale} scale needs numbers")
    codes, k = coded(flat, len(flat))
    known = (
        np.array(list(dict.fromkeys(flat)), dtype=np.float64)
        if scale != "nominal"
        else np.arange(k, dtype=np.float64)
    )
    table = np.zeros((len(given), k))
    np.add.at(table, (np.repeat(np.arange(len(given)), [len(row) for row in given]), codes), 1.0)
    order = np.argsort(known)
    return known[order], table[:, order]


def _alpha(counts: Floats, values: Floats, scale: Scale) -> float | None:
    """Krippendorff's alpha: one minus observed over expected disagreement.

    Sums of squared distances are computed from moments. On an ordinal scale a value is replaced by its
    mid-rank among all ratings.
    """
    totals, each = counts.sum(axis=0), counts.sum(axis=1)
    n = float(totals.sum())
    if scale == "nominal":
        within, overall = each**2 - (counts**2).sum(axis=1), n**2 - float((totals**2).sum())
    else:
        place = values if scale == "interval" else np.cumsum(totals) - totals / 2
        place = place - float(totals @ place) / n
        within = 2 * (each * (counts @ place**2) - (counts @ place) ** 2)
        overall = 2 * n * float(totals @ place**2)
    if overall <= 0:
        return None
    return 1 - (n - 1) * float((within / (each - 1)).sum()) / overall


def _jackknife_interval(
    statistic: Callable[[np.ndarray], float | None], n: int, method: str, level: float
) -> Interval:
    """A statistic with a t interval from its jackknife standard error, clipped to [-1, 1]."""
    upper(level)
    value = statistic(np.arange(n))
    found = None if value is None else jackknife(statistic, n)
    if value is None or found is None:
        return Interval(value, None, None, n, "unknown")
    low, high = student.around(value, found, level)
    return Interval(value, max(-1.0, low), min(1.0, high), n, method)
