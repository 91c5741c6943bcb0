"""Lost trials that are missing at random: verdicts and intervals with and without imputation.

A's trial is lost the more often where B's answer to the same case is wrong: given B's answer, being lost does
not depend on A's. The notes have what the trials that ended say by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from cells import Cell, Rng

from peira.analysis.compare.contrasts import ComparisonOptions, compare_levels
from peira.analysis.compare.imputation import Missing
from peira.analysis.ranking.leaderboard import leaderboard
from peira.core.log.events import State
from peira.results.trials import Score, TrialResult

Kind = Literal["yes/no", "normal"]


def imputed(quick: bool) -> Iterator[Cell]:
    """Type I error of equal sides, coverage of a difference, and ranks of equal entries."""
    rounds = 40 if quick else 400
    kinds: tuple[Kind, ...] = ("yes/no", "normal")
    for seed, kind in enumerate(kinds):
        for cases in (30,) if quick else (20, 30, 100, 400):
            for shape in ("at random", "by the other side")[cases // 400 :]:
                yield from compared(kind, cases, shape, rounds, 10 * seed + cases)
    few = 20 if quick else 150
    wrong = [ranked(few, how, 5) for how in ("impute", "ended")]
    yield Cell("leaderboard, imputed", "4 entries, 60 cases, lost by the others", "anytime",
               wrong[0], 0.05, few, f"ended: {wrong[1]:.3f}")  # fmt: skip


def compared(kind: Kind, cases: int, shape: str, rounds: int, seed: int) -> Iterator[Cell]:
    """How often equal sides are told apart, and how often the interval holds a true difference."""
    where = f"{kind}, {cases} cases, a third of one side lost {shape}"
    for truth in (0.0, 0.15):
        rng, ways = np.random.default_rng(seed), ("impute", "ended")
        clear, held = dict.fromkeys(ways, 0), dict.fromkeys(ways, 0)
        for _ in range(rounds):
            trials = study(kind, cases, shape, truth, rng)
            for way in ways:
                found = _difference(trials, way)
                clear[way] += found[0] is not None and found[0] <= 0.05
                held[way] += found[1] is None or found[2] is None or found[1] <= truth <= found[2]
        count, rate = (held, "coverage") if truth else (clear, "rejection")
        note = f"ended: {count['ended'] / rounds:.3f}"
        share = count["impute"] / rounds
        best = 0.95 if truth else 0.05
        yield Cell("imputed difference", where, rate, share, best, rounds, note)  # type: ignore[arg-type]


def _difference(trials: list[TrialResult], way: str) -> tuple[float | None, float | None, float | None]:
    wish = ComparisonOptions(missing=way)  # type: ignore[arg-type]
    (one,) = compare_levels(trials, "m", "a", "b", wish=wish).contrasts
    assert one.difference is not None
    return one.p, one.difference.low, one.difference.high


def study(kind: Kind, cases: int, shape: str, truth: float, rng: Rng) -> list[TrialResult]:
    """Sides a and b on the same cases, whose answers go together; a is better by `truth`."""
    hard = rng.normal(size=cases)
    one, two = hard + rng.normal(size=cases), hard + rng.normal(size=cases)
    if kind == "yes/no":
        from scipy.stats import norm

        cut = norm.ppf([0.45 + truth, 0.45]) * 2**0.5
        one, two = (one < cut[0]).astype(float), (two < cut[1]).astype(float)
    else:
        one = one + truth
    low = two <= np.median(two) if kind == "normal" else two == 0
    chance = np.full(cases, 1 / 3) if shape == "at random" else np.where(low, 0.5, 0.1)
    gone = rng.random(cases) < chance
    return [
        _trial(c, m, None if m == "a" and gone[c] else float(value))
        for m, values in (("a", one), ("b", two))
        for c, value in enumerate(values)
    ]


def ranked(rounds: int, way: Missing | str, seed: int) -> float:
    """How often four equal entries are told apart, where two lose trials on cases that the others miss."""
    rng, wrong = np.random.default_rng(seed), 0
    for _ in range(rounds):
        hard = rng.normal(size=60)
        right = hard + rng.normal(size=(4, 60)) < 0
        chance = np.where((~right[2:]).any(axis=0), 0.5, 0.05)
        trials = [
            _trial(c, str(m), None if m < 2 and rng.random() < chance[c] else float(right[m, c]))
            for m in range(4)
            for c in range(60)
        ]
        board = leaderboard(trials, missing=way)  # type: ignore[arg-type]
        wrong += any((e.best, e.worst) != (1, 4) for e in board.entries)
    return wrong / rounds


def _trial(case: int, side: str, value: float | None) -> TrialResult:
    state = State.failed if value is None else State.succeeded
    scores = {} if value is None else {"s": Score("s", State.succeeded, value)}
    return TrialResult(
        id=f"{case} {side}", agent="a", case_id=str(case), state=state, condition={"m": side}, scores=scores
    )
