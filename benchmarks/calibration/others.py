"""Everything else that is offered with an interval or a promise: looking on the way, quantiles, ratios, judges."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from cells import Cell, covered

from peira.stats.agreement import krippendorff_alpha
from peira.stats.betting import sequence
from peira.stats.bootstrap import bootstrap_mean
from peira.stats.judged import prediction_powered, rogan_gladen
from peira.stats.quantiles import quantile
from peira.stats.ratios import fieller
from peira.stats.shrinkage import pool
from peira.stats.spending import boundaries
from peira.stats.tournament import bradley_terry

Bounds = tuple[float | None, float | None]


def looking(quick: bool) -> Iterator[Cell]:
    """After every value; and at five planned looks."""
    rounds, n = (100, 500) if quick else (1000, 1000)
    for seed, p in enumerate((0.5, 0.9, 0.98)):

        def draw(rng: np.random.Generator) -> Bounds:
            found = sequence(rng.random(n) < p)
            return found.low, found.high

        wrong = 1 - covered(draw, p, rounds, seed)
        yield Cell("betting", f"{n} looks, p {p}", "anytime", wrong, 0.05, rounds)
    times = np.array([0.2, 0.4, 0.6, 0.8, 1.0])
    paths = np.random.default_rng(9).normal(size=(100_000, 5)).cumsum(axis=1) * np.sqrt(0.2) / np.sqrt(times)
    for kind in ("obrien-fleming", "pocock"):
        limits = [look.z for look in boundaries(times.tolist(), 0.05, kind)]
        wrong = float((np.abs(paths) > limits).any(axis=1).mean())
        yield Cell(f"spending, {kind}", "5 looks", "rejection", wrong, 0.05, 100_000)


def rest(quick: bool) -> Iterator[Cell]:
    rounds = 400 if quick else 4000
    for seed, (method, where, draw, truth, best) in enumerate(_situations()):
        yield Cell(method, where, "coverage", covered(draw, truth, rounds, seed), best, rounds)


def _situations() -> Iterator[tuple[str, str, object, float, float]]:
    def latency(rng: np.random.Generator, n: int, q: float) -> Bounds:
        found = quantile(rng.lognormal(size=n), q)
        return found.low, found.high

    yield "median", "n 30, lognormal", lambda rng: latency(rng, 30, 0.5), 1.0, 0.957
    yield "95th percentile", "n 100, lognormal", lambda rng: latency(rng, 100, 0.95), np.exp(1.6448536), 0.966

    def per_success(rng: np.random.Generator, n: int) -> Bounds:
        found = fieller(rng.gamma(2, 1, n), rng.random(n) < 0.5)
        return found.low, found.high

    for n in (20, 100):
        yield "fieller", f"n {n}, cost per success", lambda rng, n=n: per_success(rng, n), 4.0, 0.95

    def resampled(rng: np.random.Generator, n: int) -> Bounds:
        found = bootstrap_mean(rng.lognormal(0, 0.5, n), resamples=1000)
        return found.low, found.high

    for n in (30, 200):
        yield (
            "bootstrap BCa",
            f"n {n}, lognormal 0.5",
            lambda rng, n=n: resampled(rng, n),
            np.exp(0.125),
            0.95,
        )

    def powered(rng: np.random.Generator, n: int) -> Bounds:
        truth = (rng.random(n) < 0.7).astype(float)
        judged = np.where(rng.random(n) < 0.85, truth, 1 - truth)
        hidden = rng.random(1000) < 0.7
        found = prediction_powered(truth, judged, np.where(rng.random(1000) < 0.85, hidden, ~hidden))
        return found.low, found.high

    for n in (30, 100):
        yield "prediction-powered", f"{n} truths, 1,000 judged", lambda rng, n=n: powered(rng, n), 0.7, 0.95

    def corrected(rng: np.random.Generator, p: float) -> Bounds:
        says = p * 0.9 + (1 - p) * 0.2
        found = rogan_gladen(
            *(
                int(x)
                for x in (rng.binomial(200, says), 200, rng.binomial(50, 0.9), 50, rng.binomial(50, 0.8), 50)
            )
        )
        return found.low, found.high

    for p in (0.5, 0.9):
        yield "rogan-gladen", f"n 200, p {p}", lambda rng, p=p: corrected(rng, p), p, 0.95

    def agreeing(rng: np.random.Generator, n: int) -> Bounds:
        one = rng.integers(0, 2, n)
        found = krippendorff_alpha(
            list(zip(one.tolist(), np.where(rng.random(n) < 0.8, one, 1 - one).tolist(), strict=True))
        )
        return found.low, found.high

    for n in (30, 100):
        yield "krippendorff alpha", f"{n} cases, 2 judges", lambda rng, n=n: agreeing(rng, n), 0.6, 0.95

    def strongest(rng: np.random.Generator) -> Bounds:
        truth = np.array([0.8, 0.2, -0.3, -0.7])
        one, two = rng.permuted(np.tile(np.arange(4), (150, 1)), axis=1)[:, :2].T
        found = bradley_terry(one, two, rng.random(150) < 1 / (1 + np.exp(truth[two] - truth[one])), 4)
        return (found.low[0], found.high[0]) if found.low and found.high else (None, None)

    yield "bradley-terry", "4 players, 150 judgements", strongest, 0.8, 0.95

    def pulled(rng: np.random.Generator) -> Bounds:
        truth, errors = rng.normal(0.6, 0.1, 12), rng.uniform(0.02, 0.3, 12)
        one = pool(rng.normal(truth, errors).tolist(), errors.tolist()).slices[0]
        return one.low - truth[0], one.high - truth[0]

    yield "shrinkage", "12 slices", pulled, 0.0, 0.95
