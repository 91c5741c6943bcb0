"""Intervals of proportions: independent (enumerated), in clusters (simulated), and differences of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from cells import Cell, covered, enumerated, narrowest
from scipy.stats import binom, multinomial

from peira.stats.intervals import estimate
from peira.stats.matched import mcnemar, tango
from peira.stats.proportions import exact
from peira.stats.twobytwo import newcombe, two_proportions


def independent(quick: bool) -> Iterator[Cell]:
    for n in (10, 30, 100, 1000) if quick else (10, 20, 30, 50, 100, 200, 500, 1000):
        bounds = [exact(x, n) for x in range(n + 1)]
        for p in (0.02, 0.1, 0.3, 0.5, 0.98) if quick else (0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.7, 0.9, 0.98):
            chances = binom.pmf(np.arange(n + 1), n, p)
            found = sum(c for c, b in zip(chances, bounds, strict=True) if b.low <= p <= b.high)
            yield Cell("exact", f"n {n}, p {p}", "coverage", found, narrowest(chances))


def clustered(quick: bool) -> Iterator[Cell]:
    """Each case has a proportion of its own, drawn from a beta distribution; unequal: 1 to 2k repeats."""
    grid = product((10, 25, 100), (0.5, 0.9, 0.98), (0.0, 0.3, 0.8), (2, 5), (False,))
    if not quick:
        grid = product(
            (10, 25, 100, 300),
            (0.02, 0.1, 0.3, 0.5, 0.8, 0.98),
            (0.0, 0.1, 0.3, 0.8),
            (2, 5, 10),
            (False, True),
        )
    rounds = 250 if quick else 2000
    for seed, (cases, p, correlation, repeats, unequal) in enumerate(grid):
        sizes = (
            np.array([1 + k % (2 * repeats - 1) for k in range(cases)])
            if unequal
            else np.full(cases, repeats)
        )
        labels = np.repeat(np.arange(cases), sizes).tolist()

        def draw(rng: np.random.Generator) -> tuple[float | None, float | None]:
            found = estimate(trials(rng, p, correlation, sizes), labels)
            return found.low, found.high

        where = f"{cases} cases x {'1-' + str(2 * repeats - 1) if unequal else repeats}, p {p}, correlation {correlation}"
        found = covered(draw, p, rounds, seed)
        yield Cell("wilson on clusters", where, "coverage", found, oracle(p, correlation, sizes), rounds)


def own(rng: np.random.Generator, p: float, correlation: float, size: object) -> np.ndarray:
    if correlation == 0:
        return np.full(size, p)
    return rng.beta(p * (1 / correlation - 1), (1 - p) * (1 / correlation - 1), size)


def trials(rng: np.random.Generator, p: float, correlation: float, sizes: np.ndarray) -> np.ndarray:
    chances = np.repeat(own(rng, p, correlation, sizes.size), sizes)
    return (rng.random(chances.size) < chances).astype(float)


def oracle(p: float, correlation: float, sizes: np.ndarray, rounds: int = 4000) -> float:
    rng = np.random.default_rng(1)
    totals = rng.binomial(sizes, own(rng, p, correlation, (rounds, sizes.size))).sum(axis=1)
    return narrowest(np.bincount(totals, minlength=int(sizes.sum()) + 1) / rounds)


def matched(quick: bool) -> Iterator[Cell]:
    """Tango's interval and McNemar's test, over every outcome."""
    for n in (10, 25, 50) if quick else (10, 25, 50, 100):
        cells = [(b, c) for b in range(n + 1) for c in range(n + 1 - b)]
        counts = np.array([(b, c, n - b - c) for b, c in cells])
        bounds, p = [tango(b, c, n) for b, c in cells], np.array([mcnemar(b, c).p for b, c in cells])
        low, high = (np.array([getattr(one, side) for one in bounds]) for side in ("low", "high"))
        for won, lost in ((0.05, 0.05), (0.2, 0.2), (0.1, 0.02), (0.3, 0.1), (0.4, 0.15)):
            chances = multinomial.pmf(counts, n, [won, lost, 1 - won - lost])
            where, gap = f"n {n}, won {won}, lost {lost}", won - lost
            held = float(chances[(low <= gap + 1e-12) & (gap - 1e-12 <= high)].sum())
            best = narrowest(np.bincount(counts[:, 0] - counts[:, 1] + n, chances))
            yield Cell("tango", where, "coverage", held, best)
            if won == lost:
                yield Cell("mcnemar mid-p", where, "rejection", *enumerated(p, chances))


def unmatched(quick: bool) -> Iterator[Cell]:
    """Newcombe's interval and the exact test, over every outcome."""
    for n, m in ((10, 10), (20, 40)) if quick else ((10, 10), (20, 20), (20, 40), (50, 50)):
        cells = [(x, y) for x in range(n + 1) for y in range(m + 1)]
        bounds = [newcombe(x, n, y, m) for x, y in cells]
        p = np.array([two_proportions(x, n, y, m).p for x, y in cells])
        for one, two in ((0.05, 0.05), (0.3, 0.3), (0.5, 0.5), (0.9, 0.7), (0.98, 0.8)):
            chances = np.array([binom.pmf(x, n, one) * binom.pmf(y, m, two) for x, y in cells])
            where, gap = f"n {n} and {m}, p {one} and {two}", one - two
            held = sum(
                c
                for c, b in zip(chances, bounds, strict=True)
                if b.low <= gap + 1e-12 and gap - 1e-12 <= b.high
            )
            gaps = np.array([x / n - y / m for x, y in cells])
            order = np.argsort(gaps)
            yield Cell("newcombe", where, "coverage", held, narrowest(chances[order]))
            if one == two:
                yield Cell("two proportions, exact", where, "rejection", *enumerated(p, chances))
