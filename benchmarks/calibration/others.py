"""Calibration of other methods: sequential looks, quantiles, ratios, judges, rankings and shrinkage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from cells import Bounds, Cell, Rng, covered
from means import warned_cell

from peira.analysis.table.intervals import mean_by
from peira.stats.agreement import krippendorff_alpha
from peira.stats.intervals.prediction_powered import prediction_powered, rogan_gladen
from peira.stats.intervals.quantiles import quantile
from peira.stats.intervals.ratios import fieller
from peira.stats.models.bradley_terry import bradley_terry
from peira.stats.models.random_effects import pool
from peira.stats.sequential.confidence_sequence import sequence
from peira.stats.sequential.group_sequential import boundaries
from peira.stats.values import Estimate

STRENGTHS = np.array([0.8, 0.2, -0.3, -0.7])


def looking(quick: bool) -> Iterator[Cell]:
    """Confidence sequences checked after every value, and group-sequential tests with five looks."""
    rounds, n = (100, 500) if quick else (500, 1000)
    for seed, p in enumerate((0.5, 0.9, 0.98)):
        wrong = 1 - covered(partial(_betting, n, p), p, rounds, seed)
        yield Cell("betting", f"{n} looks, p {p}", "anytime", wrong, 0.05, rounds)
    times = np.arange(1, 6) / 5
    paths = np.random.default_rng(9).normal(size=(100_000, 5)).cumsum(axis=1) / np.sqrt(5 * times)
    for kind in ("obrien-fleming", "pocock"):
        limits = [look.z for look in boundaries(times.tolist(), 0.05, kind)]
        wrong = float((np.abs(paths) > limits).any(axis=1).mean())
        yield Cell(f"spending, {kind}", "5 looks", "rejection", wrong, 0.05, 100_000)


def rest(quick: bool) -> Iterator[Cell]:
    """Coverage in all situations."""
    rounds = 400 if quick else 4000
    for seed, (method, where, draw, truth, best) in enumerate(situations()):
        yield Cell(method, where, "coverage", covered(draw, truth, rounds, seed), best, rounds)
    for seed, n in enumerate((30, 200)):
        draw_mean = partial(_bootstrapped, n)
        truth, times = float(np.exp(0.125)), rounds // 4
        yield warned_cell("bootstrap, if asked for", f"n {n}, lognormal 0.5", draw_mean, times, seed, truth)


def situations() -> Iterator[tuple[str, str, Callable[[Rng], Bounds], float, float]]:
    """Method, situation, how to draw an interval, the true value, and the best attainable coverage."""
    yield "median", "n 30, lognormal", partial(_latency, 30, 0.5), 1.0, 0.957
    yield "95th percentile", "n 100, lognormal", partial(_latency, 100, 0.95), float(np.exp(1.6448536)), 0.966
    for n in (20, 100):
        yield "fieller", f"n {n}, cost per success", partial(_per_success, n), 4.0, 0.95
    for n in (30, 100):
        yield "prediction-powered", f"{n} truths, 1,000 judged", partial(_powered, n), 0.7, 0.95
    for p in (0.5, 0.9):
        yield "rogan-gladen", f"n 200, p {p}", partial(_corrected, p), p, 0.95
    for n in (30, 100):
        yield "krippendorff alpha", f"{n} cases, 2 judges", partial(_agreeing, n), 0.6, 0.95
    yield "bradley-terry", "4 players, 150 judgements", _strongest, float(STRENGTHS[0]), 0.95
    yield "shrinkage", "12 slices", _pulled, 0.0, 0.95


def _betting(n: int, p: float, rng: Rng) -> Bounds:
    return _ends(sequence(rng.random(n) < p))


def _latency(n: int, q: float, rng: Rng) -> Bounds:
    return _ends(quantile(rng.lognormal(size=n), q))


def _per_success(n: int, rng: Rng) -> Bounds:
    return _ends(fieller(rng.gamma(2, 1, n), rng.random(n) < 0.5))


def _bootstrapped(n: int, rng: Rng) -> Estimate:
    units = [("case", str(at)) for at in range(n)]
    return mean_by("bootstrap", rng.lognormal(0, 0.5, n).tolist(), units, 0.95)


def _powered(n: int, rng: Rng) -> Bounds:
    truth, hidden = rng.random(n) < 0.7, rng.random(1000) < 0.7
    judged, rest = (np.where(rng.random(one.size) < 0.85, one, ~one) for one in (truth, hidden))
    return _ends(prediction_powered(truth, judged, rest))


def _corrected(p: float, rng: Rng) -> Bounds:
    said, found, refused = (int(rng.binomial(n, q)) for n, q in ((200, 0.7 * p + 0.2), (50, 0.9), (50, 0.8)))
    return _ends(rogan_gladen(said, 200, found, 50, refused, 50))


def _agreeing(n: int, rng: Rng) -> Bounds:
    one = rng.integers(0, 2, n)
    two = np.where(rng.random(n) < 0.8, one, 1 - one)
    return _ends(krippendorff_alpha(np.column_stack([one, two]).tolist()))


def _strongest(rng: Rng) -> Bounds:
    one, two = rng.permuted(np.tile(np.arange(4), (150, 1)), axis=1)[:, :2].T
    won = rng.random(150) < 1 / (1 + np.exp(STRENGTHS[two] - STRENGTHS[one]))
    found = bradley_terry(one, two, won, 4)
    return (found.low[0], found.high[0]) if found.low and found.high else (None, None)


def _pulled(rng: Rng) -> Bounds:
    """The interval relative to the slice's own true value, which differs every time."""
    truth, errors = rng.normal(0.6, 0.1, 12), rng.uniform(0.02, 0.3, 12)
    first = pool(rng.normal(truth, errors).tolist(), errors.tolist()).slices[0]
    return first.low - truth[0], first.high - truth[0]


def _ends(found: Any) -> Bounds:
    return found.low, found.high
