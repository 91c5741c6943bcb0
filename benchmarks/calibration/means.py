"""Intervals and tests of means: normal, heavy-tailed and skewed values, repeats, unequal clusters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product

import numpy as np
from cells import Cell, covered, rejected
from shares import own

from peira.stats.intervals import estimate
from peira.stats.paired import difference, paired_permutation, paired_t, sign_test, wilcoxon
from peira.stats.simultaneous import max_t
from peira.stats.unpaired import mann_whitney, permutation, unpaired_difference, welch
from peira.stats.values import Estimate

Shape = Callable[[np.random.Generator, object], np.ndarray]
SHAPES: dict[str, Shape] = {
    "normal": lambda rng, size: rng.normal(size=size),
    "t with 3 df": lambda rng, size: rng.standard_t(3, size),
    "uniform": lambda rng, size: rng.random(size) - 0.5,
    "lognormal 0.5": lambda rng, size: rng.lognormal(0, 0.5, size) - np.exp(0.125),
    "lognormal 1": lambda rng, size: rng.lognormal(0, 1, size) - np.exp(0.5),
}


def single(quick: bool) -> Iterator[Cell]:
    rounds = 1000 if quick else 10_000
    for seed, (n, shape) in enumerate(product((10, 100) if quick else (10, 30, 100, 300, 1000), SHAPES)):
        yield _warned(
            "t", f"n {n}, {shape}", lambda rng: estimate(SHAPES[shape](rng, n), range(n)), rounds, seed
        )


def clusters(quick: bool) -> Iterator[Cell]:
    """Case effects of the shape, normal repeats; unequal: one case in ten has twenty repeats."""
    rounds = 500 if quick else 5000
    grid = product(
        (10, 25) if quick else (10, 25, 100),
        (0.0, 0.5) if quick else (0.0, 0.1, 0.5, 0.8),
        (False, True),
        SHAPES,
    )
    for seed, (cases, correlation, unequal, shape) in enumerate(grid):
        if quick and shape not in ("normal", "t with 3 df"):
            continue
        sizes = np.where(np.arange(cases) % 10 == 0, 20, 2) if unequal else np.full(cases, 5)
        codes = np.repeat(np.arange(cases), sizes)
        labels = codes.tolist()

        def draw(rng: np.random.Generator) -> Estimate:
            effects = np.sqrt(correlation) * SHAPES[shape](rng, cases)[codes]
            return estimate(effects + np.sqrt(1 - correlation) * rng.normal(size=codes.size), labels)

        where = f"{cases} cases{', unequal' if unequal else ' x 5'}, correlation {correlation}, {shape}"
        yield _warned("clustered", where, draw, rounds, seed)


def repeated(quick: bool) -> Iterator[Cell]:
    """The difference of two yes/no sides on the same cases, five repeats each: coverage, and false alarms."""
    rounds = 600 if quick else 4000
    grid = product((10, 25, 100), ((0.5, 0.5), (0.9, 0.9), (0.9, 0.8), (0.98, 0.9)), (0.3, 0.8))
    for seed, (cases, (one, two), correlation) in enumerate(grid):

        def sides(rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
            first, second = (own(rng, p, correlation, cases) for p in (one, two))
            return rng.binomial(5, first) / 5, rng.binomial(5, second) / 5

        where = f"{cases} cases x 5, p {one} and {two}, correlation {correlation}"
        yield _warned(
            "paired difference", where, lambda rng: difference(*sides(rng)), rounds, seed, one - two
        )
        if one == two:
            found = rejected(lambda rng: paired_t(*sides(rng)).p, rounds, seed)
            yield Cell("paired t", where, "rejection", *found, rounds)


def tests(quick: bool) -> Iterator[Cell]:
    """Both sides from the same shape; the unpaired ones with 10 and 25 cases, the paired ones with n."""
    rounds = 500 if quick else 4000
    for seed, (n, shape) in enumerate(product((10, 30), SHAPES)):
        draw = SHAPES[shape]
        paired = {
            "paired t": paired_t,
            "sign-flip permutation": paired_permutation,
            "wilcoxon": wilcoxon,
            "sign test": sign_test,
        }
        for name, test in paired.items():
            times = rounds // 5 if test is paired_permutation and n > 14 else rounds
            found = rejected(lambda rng, test=test: test(draw(rng, n), draw(rng, n)).p, times, seed)
            yield Cell(name, f"n {n}, {shape}", "rejection", *found, times)
        for name, test in {"welch": welch, "permutation": permutation, "mann-whitney": mann_whitney}.items():
            times = rounds // 5 if test is permutation else rounds
            found = rejected(lambda rng, test=test: test(draw(rng, n), draw(rng, n)).p, times, seed)
            yield Cell(name, f"n {n} and {n}, {shape}", "rejection", *found, times)


def unequal(quick: bool) -> Iterator[Cell]:
    """Welch where sizes and spreads differ, and a family of all pairs on the same cases."""
    rounds = 2000 if quick else 10_000
    for seed, (n, m, spread) in enumerate(((10, 10, 1), (10, 30, 3), (30, 10, 3), (100, 20, 5))):

        def draw(rng: np.random.Generator) -> tuple[float | None, float | None]:
            found = unpaired_difference(rng.normal(size=n), rng.normal(0, spread, m))
            return found.low, found.high

        where = f"n {n} and {m}, spread 1 and {spread}"
        yield Cell("welch interval", where, "coverage", covered(draw, 0, rounds, seed), 0.95, rounds)
    pairs = [(i, j) for i in range(4) for j in range(i)]
    for seed, n in enumerate((10, 40)):
        times = 200 if quick else 2000

        def least(rng: np.random.Generator) -> float:
            return min(one.p for one in max_t(rng.normal(size=(n, 4)) + rng.normal(size=(n, 1)), pairs))

        yield Cell("max t, all pairs of 4", f"n {n}", "rejection", *rejected(least, times, seed), times)


def _warned(
    method: str,
    where: str,
    draw: Callable[[np.random.Generator], Estimate],
    rounds: int,
    seed: int,
    truth: float = 0.0,
) -> Cell:
    """Coverage, and how often the output said that the values are too skewed for it."""
    said = 0

    def bounds(rng: np.random.Generator) -> tuple[float | None, float | None]:
        nonlocal said
        found = draw(rng)
        said += "skewed" in found.method
        return found.low, found.high

    found = covered(bounds, truth, rounds, seed)
    note = f"warned in {said / rounds:.0%}" if said > 0.02 * rounds else ""
    return Cell(method, where, "coverage", found, 0.95, rounds, note)
