"""Calibration of designed studies: effects, effect sizes, split plots and response surfaces."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from cells import Bounds, Cell, Rng, covered, rejected

from peira.analysis.effects.factor_effects import effects
from peira.analysis.effects.split_plots import strata
from peira.analysis.effects.surface import surface
from peira.core.log.events import State
from peira.results.trials import Score, TrialResult
from peira.stats.effect_sizes import cliffs_delta, cohen_dz, hedges_g
from peira.stats.intervals.means import two_way
from peira.stats.intervals.quantiles import clustered_quantile
from peira.stats.tests.bayes import matched as posterior
from peira.stats.tests.mcnemar import matched_odds_ratio
from peira.stats.tests.two_proportions import odds_ratio


def rest(quick: bool) -> Iterator[Cell]:
    """Coverage of the intervals and rejection rates of the tests."""
    rounds = 30 if quick else 2000
    for seed, (method, where, draw, truth) in enumerate(_intervals()):
        yield Cell(method, where, "coverage", covered(draw, truth, rounds, seed), 0.95, rounds)
    times = 12 if quick else 600
    for seed, (method, where, test) in enumerate(_tests()):
        yield Cell(method, where, "rejection", *rejected(test, times, seed), times)


def _intervals() -> Iterator[tuple[str, str, Callable[[Rng], Bounds], float]]:
    """Method, situation, how to draw an interval, and the true value."""
    for n in (10, 50):
        yield "cohen dz", f"n {n}, normal, dz 0.5", partial(_dz, n), 0.5
        yield "hedges g", f"n {n} and {n}, normal, d 0.5", partial(_g, n), 0.5
        yield "cliff's delta", f"n {n} and {n}, normal, d 0.5", partial(_cliff, n), 0.27632639
    for n in (30, 100):
        yield "odds ratio, matched", f"n {n}, won 0.3, lost 0.15", partial(_matched, n), 2.0
        yield "odds ratio", f"n {n} and {n}, p 0.8 and 0.5", partial(_odds, n), 4.0
        yield "posterior of a difference", f"n {n}, won 0.3, lost 0.15", partial(_posterior, n), 0.15
    for cases, repeats, own in ((25, 4, 0.5), (100, 3, 0.2)):
        where = f"{cases} cases x {repeats}, correlation {own}"
        yield "median, clustered", where, partial(_median, cases, repeats, own), 0.0
    for cases, prompts in ((30, 10), (100, 20)):
        yield (
            "two-way clustered",
            f"{cases} cases x {prompts} prompts",
            partial(_two_way, cases, prompts),
            0.0,
        )
    for cases in (12, 40):
        yield "surface, best point", f"{cases} cases x 5 values", partial(_best, cases), 0.3


def _tests() -> Iterator[tuple[str, str, Callable[[Rng], float | None]]]:
    """Method, situation, and how to draw a p-value under the null hypothesis."""
    for cases, lost in ((12, 0.0), (40, 0.0), (40, 0.2)):
        where = f"3 levels x 2, {cases} cases, {lost:.0%} lost"
        yield "effects, whole term", where, partial(_term, cases, lost)
    for cases, plots in ((1, 6), (8, 4), (20, 6)):
        yield (
            "split plot, whole plots",
            f"{plots} plots a level, {cases} cases",
            partial(_plots, cases, plots),
        )


def _dz(n: int, rng: Rng) -> Bounds:
    return _ends(cohen_dz(rng.normal(0.5, 1, n), np.zeros(n)))


def _g(n: int, rng: Rng) -> Bounds:
    return _ends(hedges_g(rng.normal(0.5, 1, n), rng.normal(0, 1, n)))


def _cliff(n: int, rng: Rng) -> Bounds:
    return _ends(cliffs_delta(rng.normal(0.5, 1, n), rng.normal(0, 1, n)))


def _matched(n: int, rng: Rng) -> Bounds:
    won, lost, _ = rng.multinomial(n, [0.3, 0.15, 0.55])
    return _ends(matched_odds_ratio(int(won), int(lost)))


def _odds(n: int, rng: Rng) -> Bounds:
    return _ends(odds_ratio(int(rng.binomial(n, 0.8)), n, int(rng.binomial(n, 0.5)), n))


def _posterior(n: int, rng: Rng) -> Bounds:
    won, lost, _ = rng.multinomial(n, [0.3, 0.15, 0.55])
    return _ends(posterior(int(won), int(lost), n))


def _median(cases: int, repeats: int, own: float, rng: Rng) -> Bounds:
    labels = np.repeat(np.arange(cases), repeats)
    noise = rng.normal(size=labels.size)
    values = np.sqrt(own) * rng.normal(size=cases)[labels] + np.sqrt(1 - own) * noise
    return _ends(clustered_quantile(values, labels.tolist(), 0.5))


def _two_way(cases: int, prompts: int, rng: Rng) -> Bounds:
    one, two = np.repeat(np.arange(cases), prompts), np.tile(np.arange(prompts), cases)
    values = rng.normal(size=cases)[one] + 0.5 * rng.normal(size=prompts)[two] + rng.normal(size=one.size)
    return _ends(two_way(values, one.tolist(), two.tolist()))


def _best(cases: int, rng: Rng) -> Bounds:
    values = (0.0, 0.25, 0.5, 0.75, 1.0)
    own = rng.normal(0, 0.3, cases)
    trials = [
        _trial(c, own[c] - (x - 0.3) ** 2 + 0.2 * rng.normal(), x=x) for c in range(cases) for x in values
    ]
    return _ends(surface(trials).settings[0])


def _term(cases: int, lost: float, rng: Rng) -> float | None:
    reacts = rng.normal(0, 0.5, (cases, 3))
    trials = [
        _trial(c, reacts[c, m] + rng.normal(), m=m, s=s)
        for c in range(cases)
        for m in range(3)
        for s in range(2)
        if rng.random() >= lost
    ]
    return effects(trials).tests[0].p


def _plots(cases: int, plots: int, rng: Rng) -> float | None:
    own = rng.normal(0, 1, 2 * plots)
    # With a single case its own reaction is the effect of interest, not error.
    reacts = rng.normal(0, 0.5 if cases > 1 else 0.0, (cases, 2))
    trials = [
        _trial(c, reacts[c, p % 2] + own[p] + rng.normal(), plot=str(p), tool=p % 2, s=s)
        for c in range(cases)
        for p in range(2 * plots)
        for s in range(2)
    ]
    return strata(trials).line("tool").p


def _trial(case: int, value: float, plot: str = "", **factors: float) -> TrialResult:
    score = {"score": Score("score", State.succeeded, float(value))}
    return TrialResult(
        id="", agent="a", case_id=str(case), state=State.succeeded, condition=factors, scores=score, plot=plot
    )


def _ends(found: Any) -> Bounds:
    return found.low, found.high
