"""Intervals and tests of means: normal, heavy-tailed and skewed values, repeats, unequal clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from itertools import combinations, product

import numpy as np
from cells import Bounds, Cell, Rng, covered, rejected
from shares import own

from peira.stats.intervals.means import estimate
from peira.stats.tests.multiplicity import largest_t
from peira.stats.tests.paired import (
    difference,
    is_t_enough,
    paired_bounded,
    paired_permutation,
    paired_t,
    sign_test,
    wilcoxon,
)
from peira.stats.tests.unpaired import mann_whitney, permutation, unpaired_difference, welch
from peira.stats.values import Estimate, TestResult, remark_of

Shape = Callable[[Rng, int], np.ndarray]
SHAPES: dict[str, Shape] = {
    "normal": lambda rng, n: rng.normal(size=n),
    "t with 3 df": lambda rng, n: rng.standard_t(3, n),
    "uniform": lambda rng, n: rng.random(n) - 0.5,
    "lognormal 0.5": lambda rng, n: rng.lognormal(0, 0.5, n) - np.exp(0.125),
    "lognormal 1": lambda rng, n: rng.lognormal(0, 1, n) - np.exp(0.5),
}
"""Distributions with mean 0."""
PAIRED = {
    "paired t": paired_t,
    "sign flips": paired_permutation,
    "wilcoxon": wilcoxon,
    "sign test": sign_test,
}
UNPAIRED = {"welch": welch, "permutation": permutation, "mann-whitney": mann_whitney}
SAMPLED = (paired_permutation, permutation)
"""Tests by random permutations, which are slow."""


def single(quick: bool) -> Iterator[Cell]:
    """Intervals of a mean of independent values."""
    rounds = 1000 if quick else 10_000
    for seed, (n, shape) in enumerate(product((10, 100) if quick else (10, 30, 100, 300, 1000), SHAPES)):
        yield warned_cell("t", f"n {n}, {shape}", partial(_mean, SHAPES[shape], n), rounds, seed)


def skewed(quick: bool) -> Iterator[Cell]:
    """Comparisons of a skewed measure without limits with a tight one of the same mean.

    The note has the rejection rate of plain t, and how often the comparison warned.
    """
    rounds = 500 if quick else 2500
    shapes = [shape for shape in SHAPES if shape.startswith(("lognormal", "normal"))]
    for seed, (n, shape) in enumerate(product((12, 30, 100, 20), shapes)):
        for kind in ("paired", "unpaired"):
            yield _compared(kind, shape, n, rounds, seed)


def _compared(kind: str, shape: str, n: int, rounds: int, seed: int) -> Cell:
    """The rejection rate of the default comparison, which its interval decides."""
    rng, found, student, warned = np.random.default_rng(seed), 0, 0, 0
    gap, test = (difference, paired_t) if kind == "paired" else (unpaired_difference, welch)
    for _ in range(rounds):
        sides = _tight(SHAPES[shape], n, rng)
        default = gap(*sides, skewed=True)
        found += default.excludes_zero
        student += (test(*sides).p or 1.0) <= 0.05
        warned += bool(remark_of(default.method))
    note = f"t: {student / rounds:.3f}; warned in {warned / rounds:.0%}"
    return Cell(f"{kind}, no limits", f"n {n}, {shape}", "rejection", found / rounds, 0.05, rounds, note)


def _tight(shape: Shape, n: int, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    return shape(rng, n), rng.normal(0, 0.1, n)


def _mean(shape: Shape, n: int, rng: Rng) -> Estimate:
    return estimate(shape(rng, n), range(n))


def clusters(quick: bool) -> Iterator[Cell]:
    """Intervals of clustered values: case effects of the shape, normal repeats.

    Unequal: one case in ten has twenty repeats, the others two.
    """
    rounds = 500 if quick else 5000
    cases_, correlations = ((10, 25), (0.0, 0.5)) if quick else ((10, 25, 100), (0.0, 0.1, 0.5, 0.8))
    shapes = ("normal", "t with 3 df") if quick else tuple(SHAPES)
    for seed, (cases, correlation, unequal, shape) in enumerate(
        product(cases_, correlations, (False, True), shapes)
    ):
        sizes = np.where(np.arange(cases) % 10 == 0, 20, 2) if unequal else np.full(cases, 5)
        where = f"{cases} cases{', unequal' if unequal else ' x 5'}, correlation {correlation}, {shape}"
        draw = partial(_clustered, SHAPES[shape], correlation, np.repeat(np.arange(cases), sizes))
        yield warned_cell("clustered", where, draw, rounds, seed)


def _clustered(shape: Shape, correlation: float, codes: np.ndarray, rng: Rng) -> Estimate:
    effects = np.sqrt(correlation) * shape(rng, int(codes[-1]) + 1)[codes]
    return estimate(effects + np.sqrt(1 - correlation) * rng.normal(size=codes.size), codes.tolist())


def repeated(quick: bool) -> Iterator[Cell]:
    """Paired differences of two yes/no sides, five repeats each: coverage and rejection rates."""
    rounds = 100 if quick else 4000
    shares = ((0.5, 0.5), (0.9, 0.9), (0.9, 0.8), (0.98, 0.9))
    for seed, (cases, (one, two), correlation) in enumerate(product((10, 25, 100), shares, (0.3, 0.8))):
        sides = partial(_sides, cases, one, two, correlation)
        where = f"{cases} cases x 5, p {one} and {two}, correlation {correlation}"
        draw = partial(_difference, sides)
        yield warned_cell("paired difference", where, draw, rounds, seed, one - two)
        if one == two:
            found = rejected(partial(_p, _default_test, sides), rounds, seed)
            yield Cell("paired test", where, "rejection", *found, rounds)


def _default_test(one: np.ndarray, two: np.ndarray) -> TestResult:
    """The test of a comparison of scores from 0 to 1."""
    if is_t_enough(one, two, (0.0, 1.0)):
        return paired_t(one, two)
    return paired_bounded(one, two, (0.0, 1.0))


def _sides(cases: int, one: float, two: float, correlation: float, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    first, second = (rng.binomial(5, own(rng, p, correlation, cases)) / 5 for p in (one, two))
    return first, second


def _difference(sides: Callable[[Rng], tuple[np.ndarray, np.ndarray]], rng: Rng) -> Estimate:
    return difference(*sides(rng), limits=(0.0, 1.0))


def tests(quick: bool) -> Iterator[Cell]:
    """Tests of two sides of the same shape, n values each."""
    for seed, (n, shape) in enumerate(product((10, 30), SHAPES)):
        yield from tests_of(n, shape, 500 if quick else 2000, seed)


def tests_of(n: int, shape: str, rounds: int, seed: int) -> Iterator[Cell]:
    """The rejection rates of all tests in one situation."""
    for name, test in (PAIRED | UNPAIRED).items():
        times = rounds // 5 if test in SAMPLED else rounds
        found = rejected(partial(_p, test, partial(_twice, SHAPES[shape], n)), times, seed)
        yield Cell(name, f"n {n}, {shape}", "rejection", *found, times)


def _twice(shape: Shape, n: int, rng: Rng) -> tuple[np.ndarray, np.ndarray]:
    return shape(rng, n), shape(rng, n)


def _p(
    test: Callable[..., TestResult], sides: Callable[[Rng], tuple[np.ndarray, np.ndarray]], rng: Rng
) -> float | None:
    return test(*sides(rng)).p


def unequal(quick: bool) -> Iterator[Cell]:
    """Welch's interval with unequal sizes and variances, and the largest t over all pairs of sides."""
    rounds = 2000 if quick else 10_000
    for seed, (n, m, spread) in enumerate(((10, 10, 1), (10, 30, 3), (30, 10, 3), (100, 20, 5))):
        found = covered(partial(_welch, n, m, spread), 0, rounds, seed)
        yield Cell("welch interval", f"n {n} and {m}, spread 1 and {spread}", "coverage", found, 0.95, rounds)
    for seed, n in enumerate((10, 40)):
        times = 100 if quick else 300
        found = rejected(partial(_least, n), times, seed)
        yield Cell("largest t, all pairs of 4", f"n {n}", "rejection", *found, times)


def _welch(n: int, m: int, spread: float, rng: Rng) -> Bounds:
    found = unpaired_difference(rng.normal(size=n), rng.normal(0, spread, m))
    return found.low, found.high


def _least(n: int, rng: Rng) -> float:
    """The smallest adjusted p-value of all pairs."""
    sides, pairs = rng.normal(size=(n, 4)) + rng.normal(size=(n, 1)), list(combinations(range(4), 2))
    least = min(paired_t(sides[:, i], sides[:, j]).p or 1.0 for i, j in pairs)
    return largest_t(sides, pairs).adjusted(least)


def warned_cell(
    method: str, where: str, draw: Callable[[Rng], Estimate], rounds: int, seed: int, truth: float = 0.0
) -> Cell:
    """A cell of coverage, with how often the method warned of skewed or too few values."""
    said = []

    def bounds(rng: Rng) -> Bounds:
        found = draw(rng)
        said.append("skewed" in found.method or "few" in found.method)
        return found.low, found.high

    found = covered(bounds, truth, rounds, seed)
    note = f"warned in {np.mean(said):.0%}" if np.mean(said) > 0.02 else ""
    return Cell(method, where, "coverage", found, 0.95, rounds, note)
