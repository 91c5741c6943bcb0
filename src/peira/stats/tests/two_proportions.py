"""Two independent proportions: Newcombe's interval, exact and score tests, the odds ratio."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from peira.stats import normal
from peira.stats.inputs import Floats, known, share, upper
from peira.stats.intervals.proportions import wilson
from peira.stats.values import ALTERNATIVES, Alternative, Estimate, Interval, TestResult

Counts = NDArray[np.signedinteger[Any]]
_MOST_CELLS = 1_000_000
_PROPORTIONS = 400


def newcombe(yes: int, n: int, other_yes: int, other_n: int, level: float = 0.95) -> Estimate:
    """Newcombe's hybrid score interval of the first proportion minus the second.

    Wilson's intervals of both proportions, combined by `mover`. Of positive width for every table.
    """
    found = mover(wilson(yes, n, level), wilson(other_yes, other_n, level))
    return Estimate(found.mean, found.low, found.high, found.n, "newcombe")


def mover(one: Estimate, two: Estimate) -> Estimate:
    """The interval of a difference of independent estimates, by the MOVER method.

    Each bound lies at the root of the summed squared distances to the relevant single bounds.
    """
    mean, n = one.mean - two.mean, one.n + two.n
    if one.low is None or one.high is None or two.low is None or two.high is None:
        return Estimate(mean, None, None, n, "unknown")
    low = mean - math.hypot(one.mean - one.low, two.high - two.mean)
    high = mean + math.hypot(one.high - one.mean, two.mean - two.low)
    method = one.method if one.method == two.method else f"{one.method} and {two.method}"
    return Estimate(mean, low, high, n, f"hybrid of {method}")


def two_proportions(
    yes: int,
    n: int,
    other_yes: int,
    other_n: int,
    alternative: Alternative = "two-sided",
    method: Literal["exact", "score", "fisher"] | None = None,
) -> TestResult:
    """Test the equality of two independent proportions.

    - "exact" (Suissa and Shuster) is the unconditional test: the maximum p-value over the unknown common
      proportion. It keeps its level and is more powerful than "fisher".
    - "fisher" is Fisher's exact test, which conditions on both margins.
    - "score" is Pearson's test with Campbell's factor (N-1)/N, the default for tables too large for "exact".
    """
    share(yes, n), share(other_yes, other_n)
    known("the alternative", alternative, ALTERNATIVES)
    known("the method", method or "exact", ("exact", "score", "fisher"))
    total = n + other_n
    if yes + other_yes in (0, total):
        return TestResult(1.0, None, total, "no differences")
    chosen = method or ("exact" if n * other_n <= _MOST_CELLS else "score")
    if chosen == "fisher":
        return _fisher(yes, n, other_yes, other_n, alternative)
    z = float(_scores(np.array([[yes]]), n, np.array([[other_yes]]), other_n)[0, 0])
    p = normal.p_value(z, alternative) if chosen == "score" else _largest_p(z, n, other_n, alternative)
    return TestResult(p, z, total, f"two proportions, {chosen}")


def _scores(yes: Counts, n: int, other_yes: Counts, other_n: int) -> Floats:
    """The pooled z statistics; 0 where the pooled variance is 0."""
    total = n + other_n
    pooled = (yes + other_yes) / total
    variance = pooled * (1 - pooled) * (1 / n + 1 / other_n) * total / (total - 1)
    gap = yes / n - other_yes / other_n
    found: Floats = np.divide(gap, np.sqrt(variance), out=np.zeros(variance.shape), where=variance > 0)
    return found


def _largest_p(z: float, n: int, other_n: int, alternative: Alternative) -> float:
    """The maximum p-value of the score `z` over a grid of common proportions."""
    from scipy.stats import binom

    scores = _scores(np.arange(n + 1)[:, None], n, np.arange(other_n + 1)[None], other_n)
    signed = scores if alternative == "greater" else -scores if alternative == "less" else np.abs(scores)
    seen = z if alternative == "greater" else -z if alternative == "less" else abs(z)
    beyond = (signed >= seen - 1e-9).astype(np.float64)
    common = np.sin(np.linspace(0, np.pi / 2, _PROPORTIONS + 2)[1:-1, None]) ** 2
    first, second = binom.pmf(np.arange(n + 1), n, common), binom.pmf(np.arange(other_n + 1), other_n, common)
    return min(1.0, float(((first @ beyond) * second).sum(axis=1).max()))


def _fisher(yes: int, n: int, other_yes: int, other_n: int, alternative: Alternative) -> TestResult:
    """Fisher's exact test."""
    from scipy.stats import fisher_exact

    table = [[yes, n - yes], [other_yes, other_n - other_yes]]
    p = float(fisher_exact(table, alternative=alternative).pvalue)
    return TestResult(p, None, n + other_n, "two proportions, fisher")


def odds_ratio(yes: int, n: int, other_yes: int, other_n: int, level: float = 0.95) -> Interval:
    """The odds ratio of the first proportion to the second.

    Woolf's interval if no cell is 0, else the exact conditional one, which is then unbounded above or has 0
    as its lower bound.
    """
    share(yes, n), share(other_yes, other_n)
    cells, limit = (yes, n - yes, other_yes, other_n - other_yes), upper(level)
    total = n + other_n
    if (yes + other_yes) in (0, total):
        return Interval(None, None, None, total, "unknown")
    if 0 in cells:
        return _conditional(cells, level)
    value = cells[0] * cells[3] / (cells[1] * cells[2])
    half = normal.quantile(limit) * math.sqrt(sum(1 / cell for cell in cells))
    return Interval(value, value * math.exp(-half), value * math.exp(half), total, "woolf")


def _conditional(cells: tuple[int, int, int, int], level: float) -> Interval:
    """The conditional odds ratio interval for tables with an empty cell."""
    from scipy.stats.contingency import odds_ratio as conditional

    found = conditional([list(cells[:2]), list(cells[2:])])
    low, high = found.confidence_interval(level)
    value = 0.0 if 0 in (cells[0], cells[3]) else None
    return Interval(value, float(low), None if math.isinf(high) else float(high), sum(cells), "exact")
