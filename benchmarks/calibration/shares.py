"""Intervals of proportions: independent (enumerated), clustered (simulated), and their differences."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import product

import numpy as np
from cells import Bounds, Cell, Rng, covered, enumerated, narrowest
from scipy.stats import binom, multinomial

from peira.stats.intervals.means import estimate
from peira.stats.intervals.proportions import exact
from peira.stats.tests.mcnemar import mcnemar, tango
from peira.stats.tests.two_proportions import newcombe, two_proportions


def independent(quick: bool) -> Iterator[Cell]:
    """Exact intervals of one proportion, enumerated."""
    for n in (10, 30, 100, 1000) if quick else (10, 20, 30, 50, 100, 200, 500, 1000):
        bounds = [exact(x, n) for x in range(n + 1)]
        for p in (0.02, 0.1, 0.3, 0.5, 0.98) if quick else (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.98):
            chances = binom.pmf(np.arange(n + 1), n, p)
            found = sum(c for c, b in zip(chances, bounds, strict=True) if b.low <= p <= b.high)
            yield Cell("exact", f"n {n}, p {p}", "coverage", found, narrowest(chances))


def clustered(quick: bool) -> Iterator[Cell]:
    """Clustered proportions: each case has its own proportion from a beta distribution.

    Unequal: 1 to 2k - 1 repeats. Yes and no are symmetric, so proportions below one half are covered by those
    above.
    """
    grid = product((10, 25, 100), (0.5, 0.9, 0.98), (0.0, 0.3, 0.8), (2, 5), (False,))
    if not quick:
        shares = (0.5, 0.8, 0.9, 0.98)
        grid = product((10, 25, 100, 300), shares, (0.0, 0.1, 0.3, 0.8), (2, 5, 10), (False, True))
    for seed, (cases, p, correlation, repeats, unequal) in enumerate(grid):
        sizes = np.arange(cases) % (2 * repeats - 1) + 1 if unequal else np.full(cases, repeats)
        yield cluster_cell(p, correlation, sizes, 200 if quick else 1000, seed)


def cluster_cell(p: float, correlation: float, sizes: np.ndarray, rounds: int, seed: int) -> Cell:
    """The cell of one situation of clustered proportions."""
    labels = np.repeat(np.arange(sizes.size), sizes).tolist()
    found = covered(partial(_cluster_bounds, p, correlation, sizes, labels), p, rounds, seed)
    each = f"{sizes.min()}-{sizes.max()}" if np.ptp(sizes) else f"{sizes[0]}"
    where = f"{sizes.size} cases x {each}, p {p}, correlation {correlation}"
    return Cell("wilson on clusters", where, "coverage", found, _oracle(p, correlation, sizes), rounds)


def own(rng: Rng, p: float, correlation: float, size: int | tuple[int, ...]) -> np.ndarray:
    """Beta-distributed proportions of cases, with this correlation between repeats."""
    if correlation == 0:
        return np.full(size, p)
    return rng.beta(p * (1 / correlation - 1), (1 - p) * (1 / correlation - 1), size)


def _cluster_bounds(p: float, correlation: float, sizes: np.ndarray, labels: list[int], rng: Rng) -> Bounds:
    chances = np.repeat(own(rng, p, correlation, sizes.size), sizes)
    found = estimate((rng.random(chances.size) < chances).astype(float), labels)
    return found.low, found.high


def _oracle(p: float, correlation: float, sizes: np.ndarray, rounds: int = 4000) -> float:
    """The best attainable coverage, by simulation."""
    rng = np.random.default_rng(1)
    totals = rng.binomial(sizes, own(rng, p, correlation, (rounds, sizes.size))).sum(axis=1)
    return narrowest(np.bincount(totals, minlength=int(sizes.sum()) + 1) / rounds)


def matched(quick: bool) -> Iterator[Cell]:
    """Tango's interval and McNemar's test, enumerated."""
    for n in (10, 25, 50) if quick else (10, 25, 50, 100):
        counts = np.array([(b, c, n - b - c) for b in range(n + 1) for c in range(n + 1 - b)])
        bounds = np.array(
            [(found.low, found.high) for found in (tango(b, c, n) for b, c, _ in counts.tolist())]
        )
        p = np.array([mcnemar(b, c, n).p for b, c, _ in counts.tolist()])
        for won, lost in ((0.05, 0.05), (0.2, 0.2), (0.1, 0.02), (0.3, 0.1), (0.4, 0.15)):
            chances = multinomial.pmf(counts, n, [won, lost, 1 - won - lost])
            where, gap = f"n {n}, won {won}, lost {lost}", won - lost
            best = narrowest(np.bincount(counts[:, 0] - counts[:, 1] + n, chances))
            yield Cell("tango", where, "coverage", _held(bounds, gap, chances), best)
            if won == lost:
                yield Cell("mcnemar exact", where, "rejection", *enumerated(p, chances))


def unmatched(quick: bool) -> Iterator[Cell]:
    """Newcombe's interval and the exact test, enumerated."""
    for n, m in ((10, 10), (15, 30)) if quick else ((10, 10), (20, 20), (15, 30), (40, 40)):
        pairs = list(product(range(n + 1), range(m + 1)))
        bounds = np.array([(found.low, found.high) for found in (newcombe(x, n, y, m) for x, y in pairs)])
        p = np.array([two_proportions(x, n, y, m).p for x, y in pairs])
        order = np.argsort([x / n - y / m for x, y in pairs], kind="stable")
        for one, two in ((0.05, 0.05), (0.3, 0.3), (0.5, 0.5), (0.9, 0.7), (0.98, 0.8)):
            chances = np.array([binom.pmf(x, n, one) * binom.pmf(y, m, two) for x, y in pairs])
            where, gap = f"n {n} and {m}, p {one} and {two}", one - two
            yield Cell("newcombe", where, "coverage", _held(bounds, gap, chances), narrowest(chances[order]))
            if one == two:
                yield Cell("two proportions, exact", where, "rejection", *enumerated(p, chances))


def _held(bounds: np.ndarray, truth: float, chances: np.ndarray) -> float:
    """The probability that the interval contains the truth."""
    inside = (bounds[:, 0] <= truth + 1e-12) & (truth - 1e-12 <= bounds[:, 1])
    return float(chances[inside].sum())
