"""Two counts of yes among two numbers of cases that have nothing to do with each other."""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from peira.stats import normal
from peira.stats.inputs import Floats, known, share, upper
from peira.stats.proportions import wilson
from peira.stats.values import ALTERNATIVES, Alternative, Estimate, Evidence, Interval

Counts = NDArray[np.signedinteger[Any]]
_MOST_CELLS = 1_000_000
_PROPORTIONS = 400


def newcombe(yes: int, n: int, other_yes: int, other_n: int, level: float = 0.95) -> Estimate:
    """Newcombe's hybrid score interval of the first proportion minus the second."""
    found = mover(wilson(yes, n, level), wilson(other_yes, other_n, level))
    return Estimate(found.mean, found.low, found.high, found.n, "newcombe")


def mover(one: Estimate, two: Estimate) -> Estimate:
    """The interval of a difference of two independent estimates, recovered from the interval of each.

    Each bound moves away from the difference by the root of the two squared distances on that side.
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
) -> Evidence:
    """The test of equal proportions.

    "exact" (Suissa and Shuster) is the largest chance, whatever the common proportion, of a score at least as
    far out: its level is kept, and it loses less than "fisher", which also fixes the total. "score" is
    Pearson's with Campbell's factor (N-1)/N: the default for tables too large for the first.
    """
    share(yes, n), share(other_yes, other_n)
    known("the alternative", alternative, ALTERNATIVES)
    known("the method", method or "exact", ("exact", "score", "fisher"))
    total = n + other_n
    if yes + other_yes in (0, total):
        return Evidence(1.0, None, total, "no differences")
    chosen = method or ("exact" if n * other_n <= _MOST_CELLS else "score")
    if chosen == "fisher":
        return _fisher(yes, n, other_yes, other_n, alternative)
    z = float(_scores(np.array([[yes]]), n, np.array([[other_yes]]), other_n)[0, 0])
    p = normal.p_value(z, alternative) if chosen == "score" else _largest_p(z, n, other_n, alternative)
    return Evidence(p, z, total, f"two proportions, {chosen}")


def _scores(yes: Counts, n: int, other_yes: Counts, other_n: int) -> Floats:
    """Differences over their pooled standard error; 0 where there is none."""
    total = n + other_n
    pooled = (yes + other_yes) / total
    variance = pooled * (1 - pooled) * (1 / n + 1 / other_n) * total / (total - 1)
    gap = yes / n - other_yes / other_n
    found: Floats = np.divide(gap, np.sqrt(variance), out=np.zeros(variance.shape), where=variance > 0)
    return found


def _largest_p(z: float, n: int, other_n: int, alternative: Alternative) -> float:
    from scipy.stats import binom

    scores = _scores(np.arange(n + 1)[:, None], n, np.arange(other_n + 1)[None], other_n)
    signed = scores if alternative == "greater" else -scores if alternative == "less" else np.abs(scores)
    seen = z if alternative == "greater" else -z if alternative == "less" else abs(z)
    beyond = (signed >= seen - 1e-9).astype(np.float64)
    common = np.sin(np.linspace(0, np.pi / 2, _PROPORTIONS + 2)[1:-1, None]) ** 2
    first, second = binom.pmf(np.arange(n + 1), n, common), binom.pmf(np.arange(other_n + 1), other_n, common)
    return min(1.0, float(((first @ beyond) * second).sum(axis=1).max()))


def _fisher(yes: int, n: int, other_yes: int, other_n: int, alternative: Alternative) -> Evidence:
    from scipy.stats import fisher_exact

    table = [[yes, n - yes], [other_yes, other_n - other_yes]]
    p = float(fisher_exact(table, alternative=alternative).pvalue)
    return Evidence(p, None, n + other_n, "two proportions, fisher")


def odds_ratio(yes: int, n: int, other_yes: int, other_n: int, level: float = 0.95) -> Interval:
    """The odds of the first over the odds of the second: Woolf's interval where every cell has a count, else
    the exact conditional one, which is then unbounded on one side or known to reach 0."""
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
    from scipy.stats.contingency import odds_ratio as conditional

    found = conditional([list(cells[:2]), list(cells[2:])])
    low, high = found.confidence_interval(level)
    value = 0.0 if 0 in (cells[0], cells[3]) else None
    return Interval(value, float(low), None if math.isinf(high) else float(high), sum(cells), "exact")
