"""Verdicts where Student's t fails: skewed bounded scores, gates, planned looks, slices, lost trials.

Judges grade from 1 to 5. The note of a cell says what Student's t (or a verdict that ignores lost trials)
attains on the same draws.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Literal

import numpy as np
from cells import Bounds, Cell, Rng, covered

from peira.analysis.compare.contrasts import compare_levels
from peira.analysis.effects.factor_effects import effects
from peira.analysis.gates import Bound, judge
from peira.analysis.ranking.leaderboard import leaderboard
from peira.analysis.table.slices import slices
from peira.core.log.events import State
from peira.results.trials import Score, TrialResult
from peira.stats.intervals.means import estimate, mean_t
from peira.stats.sequential.group_sequential import Spending
from peira.stats.sequential.monitoring import monitor
from peira.stats.tests.paired import is_t_enough, paired_bounded, paired_t
from peira.stats.tests.unpaired import is_welch_enough, unpaired_bounded, welch

GRADES = np.arange(1.0, 6.0)
JUDGES: dict[str, tuple[float, ...]] = {
    "mostly 5, rarely 1": (0.05, 0.02, 0.03, 0.1, 0.8),
    "long tail": (0.02, 0.03, 0.05, 0.1, 0.8),
    "nearly always 5": (0.02, 0.0, 0.0, 0.03, 0.95),
    "spread": (0.1, 0.1, 0.1, 0.3, 0.4),
}
"""Shares of the grades 1 to 5."""
LIMITS = (1.0, 5.0)
SIZES = (12, 30, 100)


def graded(rng: Rng, shares: tuple[float, ...], n: int) -> np.ndarray:
    """Grades of a judge."""
    return rng.choice(GRADES, n, p=shares)


def mean_of(shares: tuple[float, ...]) -> float:
    """The true mean grade."""
    return float(np.dot(GRADES, shares))


# Bounded scores


def bounded(quick: bool) -> Iterator[Cell]:
    """Intervals of a mean, and comparisons of a skewed with a tight judge of the same mean."""
    rounds = 100 if quick else 600
    yield from bounded_means(rounds)
    for seed, name in enumerate(("mostly 5, rarely 1", "long tail", "nearly always 5")):
        for n in SIZES:
            yield compared_cell(name, n, True, rounds, seed)
    for n in SIZES[:2]:
        yield compared_cell("mostly 5, rarely 1", n, False, rounds // 5, 8)


def judged_cell(name: str, n: int, rounds: int, seed: int) -> Cell:
    """The coverage of the mean of a judge's grades."""
    draw = partial(graded, shares=JUDGES[name], n=n)
    return _mean_cell(f"n {n}, {name}", draw, mean_of(JUDGES[name]), LIMITS, rounds, seed)


def bounded_means(rounds: int) -> Iterator[Cell]:
    """Coverage of the mean of judges' grades, of scores with rare failures, and of uniform ones."""
    for seed, name in enumerate(JUDGES):
        for n in SIZES:
            yield judged_cell(name, n, rounds, seed)
    for n in SIZES:
        yield _mean_cell(f"n {n}, 3% are 0, the rest near 0.9", partial(_rare, n), 0.873, (0, 1), rounds, 9)
        yield _mean_cell(f"n {n}, uniform", partial(_uniform, n), 0.5, (0, 1), rounds, 10)


def _rare(n: int, rng: Rng) -> np.ndarray:
    values: np.ndarray = np.where(rng.random(n) < 0.03, 0.0, rng.uniform(0.85, 0.95, n))
    return values


def _uniform(n: int, rng: Rng) -> np.ndarray:
    values: np.ndarray = rng.random(n)
    return values


def _mean_cell(
    where: str,
    draw: Callable[[Rng], np.ndarray],
    truth: float,
    limits: tuple[float, float],
    rounds: int,
    seed: int,
) -> Cell:
    """The coverage of the default interval of a mean; the note has that of t."""

    def by_default(rng: Rng) -> Bounds:
        data = draw(rng)
        found = estimate(data, range(data.size), limits=limits)
        return found.low, found.high

    def by_t(rng: Rng) -> Bounds:
        found = mean_t(draw(rng))
        return found.low, found.high

    other = covered(by_t, truth, rounds, seed)
    return Cell(
        "mean", where, "coverage", covered(by_default, truth, rounds, seed), 0.97, rounds, f"t: {other:.3f}"
    )


def compared_cell(name: str, n: int, paired: bool, rounds: int, seed: int) -> Cell:
    """The rejection rate of the default test of a skewed against a tight judge of the same mean."""
    shares, rng = JUDGES[name], np.random.default_rng(seed)
    mean, found, student = mean_of(JUDGES[name]), 0, 0
    for _ in range(rounds):
        skewed = graded(rng, shares, n)
        tight = 4.0 + (rng.random(n) < mean - 4)
        default, by_t = _tests(skewed, tight, paired)
        found += default <= 0.05
        student += by_t <= 0.05
    what = "paired" if paired else "unpaired"
    rate, note = found / rounds, f"t: {student / rounds:.3f}"
    return Cell(f"{what}, skewed and tight", f"n {n}, {name}", "anytime", rate, 0.05, rounds, note)


def _tests(one: np.ndarray, two: np.ndarray, paired: bool) -> tuple[float, float]:
    """The p-values of the default test and of Student's or Welch's."""
    student = (paired_t if paired else welch)(one, two).p
    by_t = 1.0 if student is None else student
    enough = (is_t_enough if paired else is_welch_enough)(one, two, LIMITS)
    if enough:
        return by_t, by_t
    free = (paired_bounded if paired else unpaired_bounded)(one, two, LIMITS).p
    return 1.0 if free is None else free, by_t


# Gates


def gates(quick: bool) -> Iterator[Cell]:
    """How often a gate at the true mean is passed: at most 5% is promised."""
    rounds = 100 if quick else 1000
    for seed, (name, shares) in enumerate(JUDGES.items()):
        for n in SIZES:
            yield gate_cell(name, shares, n, rounds, seed)
    for seed, (shape, n) in enumerate(product(TIMES, (12,) if quick else (8, 12, 30, 100, 300))):
        yield time_gate(shape, n, 3 * rounds, seed)


def gate_cell(name: str, shares: tuple[float, ...], n: int, rounds: int, seed: int) -> Cell:
    """The share of passed gates whose limit is the true mean."""
    rng, demand = np.random.default_rng(seed), Bound("s", mean_of(shares), "min")
    passed = student = 0
    for _ in range(rounds):
        data = graded(rng, shares, n)
        passed += judge([_trial(str(c), float(v)) for c, v in enumerate(data)], [demand]).met
        low = mean_t(data, 0.9).low
        student += low is not None and low >= demand.limit
    note = f"t: {student / rounds:.3f}"
    return Cell("gate", f"n {n}, {name}", "anytime", passed / rounds, 0.05, rounds, note)


TIMES: dict[str, tuple[Callable[[Rng, int], np.ndarray], float]] = {
    "log-normal": (lambda rng, n: rng.lognormal(size=n), math.exp(0.5)),
    "log-normal 0.5": (lambda rng, n: rng.lognormal(0, 0.5, size=n), math.exp(0.125)),
    "exponential": (lambda rng, n: rng.exponential(size=n), 1.0),
}
"""Measures without limits, with their means."""


def time_gate(shape: str, n: int, rounds: int, seed: int) -> Cell:
    """The share of passed gates of seconds whose limit is the true mean."""
    draw, mean = TIMES[shape]
    rng, demand, passed, student = np.random.default_rng(seed), Bound("took", mean, "max"), 0, 0
    for _ in range(rounds):
        data = draw(rng, n)
        trials = [
            TrialResult(id=str(c), agent="a", case_id=str(c), state=State.succeeded, took=float(took))
            for c, took in enumerate(data)
        ]
        passed += judge(trials, [demand]).met
        high = mean_t(data, 0.9).high
        student += high is not None and high <= mean
    note = f"t: {student / rounds:.3f}"
    return Cell("gate of seconds", f"n {n}, {shape}", "rejection", passed / rounds, 0.05, rounds, note)


# Planned looks

DIFFERENCES: dict[str, Callable[[Rng, int], np.ndarray]] = {
    "-0.95 in 5%, else +0.05": lambda rng, n: np.where(rng.random(n) < 0.05, -0.95, 0.05),
    "-0.4 in 20%, else +0.1": lambda rng, n: np.where(rng.random(n) < 0.2, -0.4, 0.1),
    "a tenth differs": lambda rng, n: rng.choice([-1.0, 0.0, 1.0], n, p=[0.05, 0.9, 0.05]),
}
"""Differences within [-1, 1] with mean 0."""


def looks(quick: bool) -> Iterator[Cell]:
    """How often five planned looks find a difference that is not there."""
    rounds = 40 if quick else 400
    spendings: tuple[Spending, ...] = ("obrien-fleming", "pocock")
    for seed, (name, draw) in enumerate(DIFFERENCES.items()):
        for planned in (50, 200):
            for spending in spendings:
                rate = crossed(draw, planned, spending, rounds, seed)
                yield Cell(
                    f"5 looks, {spending}", f"{planned} planned, {name}", "anytime", rate, 0.05, rounds
                )


def crossed(
    draw: Callable[[Rng, int], np.ndarray], planned: int, spending: Spending, rounds: int, seed: int
) -> float:
    """The share of runs in which some look excludes 0."""
    rng, wrong = np.random.default_rng(seed), 0
    for _ in range(rounds):
        followed = monitor(1.0, 0.95, 10, 5, planned, spending)
        for value in draw(rng, planned):
            followed.add(value, value)
            if followed.due():
                now = followed.now()
                if now.low > 0 or now.high < 0:
                    wrong += 1
                    break
    return wrong / rounds


# Slices

Kind = Literal["yes/no", "grades"]


def small_slices(quick: bool) -> Iterator[Cell]:
    """Pooled intervals of slices with two or three cases: how many contain the slice's own mean."""
    rounds = 10 if quick else 150
    kinds: tuple[Kind, ...] = ("yes/no", "grades")
    for seed, kind in enumerate(kinds):
        for each in (2, 3):
            for mean, deviation in ((0.6, 0.1), (0.6, 0.25), (0.9, 0.05)):
                where = f"12 slices x {each}, {kind}, means {mean} ± {deviation}"
                rate = slice_coverage(kind, each, mean, deviation, rounds, seed)
                yield Cell("slices", where, "coverage", rate, 0.97, 12 * rounds)


def slice_coverage(kind: Kind, each: int, mean: float, deviation: float, rounds: int, seed: int) -> float:
    """The share of pooled intervals that contain the true mean of their slice."""
    rng, held = np.random.default_rng(seed), 0
    for _ in range(rounds):
        truths = np.clip(rng.normal(mean, deviation, 12), 0.02, 0.98)
        trials = [
            _trial(f"{s} {c}", float(_draw(rng, kind, truth)), slice=str(s))
            for s, truth in enumerate(truths)
            for c in range(each)
        ]
        for one in slices(trials, score="s").slices:
            low, high, truth = one.pooled.low, one.pooled.high, truths[int(one.label)]
            held += low is None or high is None or low <= truth <= high
    return held / (12 * rounds)


def _draw(rng: Rng, kind: Kind, p: float) -> float:
    return float(rng.random() < p) if kind == "yes/no" else rng.binomial(4, p) / 4


# Tails that few cases hide

TAILS: dict[str, Callable[[Rng, int], np.ndarray]] = {
    "normal": lambda rng, n: rng.normal(0, 2, n),
    "log-normal": lambda rng, n: rng.lognormal(size=n) - np.exp(0.5),
    "log-normal with errors": lambda rng, n: rng.lognormal(size=n) - np.exp(0.5) + 0.5 * rng.normal(size=n),
}
"""Differences without limits, of mean 0."""


def hidden_tails(quick: bool) -> Iterator[Cell]:
    """Verdicts without doubt about a difference of a measure without limits that is not there."""
    rounds = 200 if quick else 3000
    sizes = (8, 12) if quick else (6, 7, 8, 9, 10, 12, 15, 20, 30, 39)
    for seed, shape in enumerate(TAILS):
        for n in sizes:
            sure, doubted = tail_claims(TAILS[shape], n, 0.0, rounds, 100 * seed + n)
            note = f"with doubt {doubted:.3f} more" if doubted else ""
            yield Cell("compare", f"{n} pairs, {shape}", "rejection", sure, 0.05, rounds, note)


def tail_claims(
    shape: Callable[[Rng, int], np.ndarray], n: int, effect: float, rounds: int, seed: int
) -> tuple[float, float]:
    """How often a difference is claimed without doubt, and how often with doubt because of a hidden tail."""
    rng, sure, doubted = np.random.default_rng(seed), 0, 0
    for _ in range(rounds):
        own, gaps = rng.normal(10, 3, n), shape(rng, n) + effect
        trials = [_trial(str(c), float(own[c] + m * gaps[c]), m=m) for c in range(n) for m in range(2)]
        found = compare_levels(trials, "m").contrasts[0]
        doubted += found.hides_tail(0.05)
        sure += found.clear(0.05) and not found.hides_tail(0.05)
    return sure / rounds, doubted / rounds


# Lost trials


def lost(quick: bool) -> Iterator[Cell]:
    """Verdicts without doubt about a difference that is not there, but for the trials that failed."""
    rounds, few = (20, 10) if quick else (300, 100)
    third = "a third of wrong answers lost"
    for n in (100, 300):
        yield _lost("compare", f"{n} cases, {third}", claims(n, 2, rounds, 1), rounds)
    for n, levels, term in ((100, 1, "m"), (300, 1, "m"), (100, 2, "m x s"), (100, 3, "m x s")):
        where = f"{term} of 2{f' x {levels}' if levels > 1 else ''} levels, {n} cases, {third}"
        yield _lost("effects", where, term_claims(n, levels, term, rounds // 2, 4), rounds // 2)
    yield _lost("leaderboard", f"100 cases, 4 entries, {third} by one", claims(100, 4, few, 2), few)
    rate = random_losses(few, 3)
    yield Cell("leaderboard, lost at random", "5 entries, 60 cases, 20% lost", "anytime", rate, 0.05, few)


def _lost(what: str, where: str, rates: tuple[float, float], rounds: int) -> Cell:
    """A cell of false claims without doubt; the note has those that ignore lost trials."""
    note = f"regardless of lost trials: {rates[1]:.3f}"
    return Cell(f"{what}, lost if wrong", where, "anytime", rates[0], 0.05, rounds, note)


def claims(cases: int, entries: int, rounds: int, seed: int) -> tuple[float, float]:
    """How often a false difference is claimed without doubt, and how often regardless of lost trials."""
    rng, sure, any_claim = np.random.default_rng(seed), 0, 0
    for _ in range(rounds):
        right = rng.random((entries, cases)) < 0.6
        gone = ~right[0] & (rng.random(cases) < 1 / 3)
        trials = [
            _trial(str(c), None if m == 0 and gone[c] else float(right[m, c]), m=m)
            for m in range(entries)
            for c in range(cases)
        ]
        if entries == 2:
            found = compare_levels(trials, "m").contrasts[0]
            any_claim += found.clear(0.05)
            sure += found.clear(0.05) and not found.overturnable
            continue
        ranks = [e for e in leaderboard(trials).entries if e.best is not None]
        any_claim += any((e.best, e.worst) != (1, entries) for e in ranks)
        sure += any((e.best_possible, e.worst_possible) != (1, entries) for e in ranks)
    return sure / rounds, any_claim / rounds


def term_claims(cases: int, levels: int, term: str, rounds: int, seed: int) -> tuple[float, float]:
    """How often `effects` claims a term that is not there: without doubt, and regardless of lost trials.

    Answers are lost if they are wrong under the first level of m, and the first of s, if there are several.
    """
    rng, sure, any_claim = np.random.default_rng(seed), 0, 0
    for _ in range(rounds):
        right = rng.random((2, levels, cases)) < 0.6
        gone = ~right[0, 0] & (rng.random(cases) < 1 / 3)
        trials = [
            _trial(str(c), None if m == s == 0 and gone[c] else float(right[m, s, c]), m=m, s=s)
            for m in range(2)
            for s in range(levels)
            for c in range(cases)
        ]
        test = next(one for one in effects(trials).tests if one.term == term)
        any_claim += test.p is not None and test.p <= 0.05
        sure += test.p is not None and test.p <= 0.05 and not test.lost
    return sure / rounds, any_claim / rounds


def random_losses(rounds: int, seed: int) -> float:
    """How often a leaderboard of equal entries tells any two apart, with trials lost at random."""
    rng, wrong = np.random.default_rng(seed), 0
    for _ in range(rounds):
        hard = rng.random(60)
        trials = [
            _trial(str(c), None if rng.random() < 0.2 else float(rng.random() < hard[c]), m=m)
            for m in range(5)
            for c in range(60)
        ]
        wrong += any((e.best, e.worst) != (1, 5) for e in leaderboard(trials).entries)
    return wrong / rounds


def _trial(case: str, value: float | None, slice: str | None = None, **factors: int) -> TrialResult:
    state = State.failed if value is None else State.succeeded
    scores = {} if value is None else {"s": Score("s", State.succeeded, value)}
    return TrialResult(
        id=f"{case} {factors}",
        agent="a",
        case_id=case,
        state=state,
        condition=factors,
        scores=scores,
        slice=slice,
    )
