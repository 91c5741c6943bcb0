"""Stopping rules as used in studies: error rates under continuous monitoring, and savings.

The rules are fed simulated cases. Without a difference, the rate is how often they declare one at any look;
the note says how often an existing difference is found, after how many of the planned cases, and how many a
fixed-sample test of the same power would need.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from cells import Cell, Rng

from peira.core.looks import Claim, Look, Pair, Question, Span, Unit, arms_of
from peira.core.registry import registry
from peira.stats.power import cases_needed
from peira.stats.power import paired as on_the_same_cases

PLANNED = 1000
GAIN = 0.1
WAYS: dict[str, dict[str, Any]] = {
    "always": {},
    "5 looks, O'Brien-Fleming": {"looks": 5},
    "5 looks, Pocock": {"looks": 5, "spending": "pocock"},
    "5 looks, futility 0.1": {"looks": 5, "futility": 0.1},
    "always, margin 0.15": {"margin": 0.15},
}
"""Options of the rule `decided`."""
Draw = Callable[[Rng, float], Unit]


def deciding(quick: bool) -> Iterator[Cell]:
    """The rule `decided`, in several configurations and situations."""
    rounds = 50 if quick else 1000
    for seed, (way, options) in enumerate(WAYS.items()):
        for share in (0.1, 0.5):
            yield _decided(way, options, f"{share:g} of cases differ", paired(share), share, rounds, seed)
    yield _decided("always", {}, "scores in [0, 1]", graded, 1 / 6, rounds, 91)
    yield _decided("always", {}, "0.2 differ, 0.05 lost", lossy, 0.2, rounds, 92)


def _decided(
    way: str, options: dict[str, Any], situation: str, draw: Draw, variance: float, rounds: int, seed: int
) -> Cell:
    """The cell of one configuration in one situation."""
    rule = registry.make("stop", "decided", **options)
    rng = np.random.default_rng(seed)
    null = [_told(rule, draw, rng, 0.0) for _ in range(rounds)]
    wrong = sum(look.answer == "H1 supported" for look in null) / rounds
    real = [_told(rule, draw, rng, GAIN) for _ in range(max(20, rounds // 5))]
    power = sum(look.answer == "H1 supported" for look in real) / len(real)
    used = float(np.mean([look.units for look in real]))
    idle = float(np.mean([look.units for look in null]))
    wanted = min(max(power, 0.5), 0.99)
    fixed = cases_needed(on_the_same_cases(variance**0.5), GAIN, wanted=wanted)
    note = f"+{GAIN}: found {power:.2f} after {used:.0f} (fixed: {fixed}); no difference: {idle:.0f} used"
    return Cell(f"decided, {way}", f"{situation}, {PLANNED} planned", "anytime", wrong, 0.05, rounds, note)


def racing(quick: bool) -> Iterator[Cell]:
    """The rules `racing` and `successive_rejects`."""
    rounds = 40 if quick else 500
    for seed, shares in enumerate([(0.6, 0.5, 0.5), (0.7, 0.6, 0.5, 0.4, 0.3), (0.5, 0.5, 0.5)]):
        yield _raced("racing", {}, shares, rounds, seed)
    for budget in (500, 1000):
        yield _raced("successive_rejects", {"budget": budget}, (0.7, 0.6, 0.5, 0.4, 0.3), rounds, 7)


def _raced(name: str, options: dict[str, Any], shares: tuple[float, ...], rounds: int, seed: int) -> Cell:
    """The cell of one rule: how often the best level is dropped."""
    rule, rng = registry.make("stop", name, by="m", **options), np.random.default_rng(seed)
    lost = found = pulls = 0
    for _ in range(rounds):
        look, used = _run(rule, shares, rng)
        lost += "0" in look.dropped
        found += look.answer.startswith("0 ")
        pulls += used
    whole = PLANNED * len(shares)
    note = f"the best alone is left in {found / rounds:.2f}, after {pulls / rounds:.0f} of {whole} trials"
    promised = name == "racing"
    wrong = lost / rounds if promised else 0.0
    note += "" if promised else f"; given up in {lost / rounds:.3f} (no promise)"
    return Cell(name, f"{', '.join(map(str, shares))}{options or ''}", "anytime", wrong, 0.05, rounds, note)


def _run(rule: Any, shares: tuple[float, ...], rng: Rng) -> tuple[Look, int]:
    """Run one race like the engine: dropped levels are not run any more."""
    watch = rule.watch(Question(tuple({"m": str(n)} for n in range(len(shares))), PLANNED))
    gone: set[int] = set()
    used = 0
    for values in rng.random((PLANNED, len(shares))) < shares:
        unit = {n: Span(float(v), float(v)) for n, v in enumerate(values) if n not in gone}
        used += len(unit)
        look = watch.take(unit)
        if look is not None:
            gone = set(look.given_up)
            if look.answer:
                return look, used
    return watch.finish(), used


def _told(rule: Any, draw: Draw, rng: Rng, gain: float) -> Look:
    """Feed simulated cases to the rule until it stops."""
    arms = arms_of(({"m": "a"}, {"m": "b"}), "m")
    pair = Pair("a", "b", arms[0].against(arms[1]))
    question = Question(({"m": "a"}, {"m": "b"}), PLANNED, (Claim("H1", "different", 0.05, (pair,)),))
    watch = rule.watch(question)
    for _ in range(PLANNED):
        look = watch.take(draw(rng, gain))
        if look is not None and look.answer:
            return look
    return watch.finish()


def paired(share: float) -> Draw:
    """Yes/no outcomes on the same cases; the sides differ in this share of cases."""

    def draw(rng: Rng, gain: float) -> Unit:
        if rng.random() >= max(share, gain):
            return {0: Span(1.0, 1.0), 1: Span(1.0, 1.0)}
        first = float(rng.random() < 0.5 + gain / (2 * max(share, gain)))
        return {0: Span(first, first), 1: Span(1 - first, 1 - first)}

    return draw


def graded(rng: Rng, gain: float) -> Unit:
    """Independent scores between 0 and 1."""
    one, two = gain + (1 - gain) * rng.random(), (1 - gain) * rng.random()
    return {0: Span(one, one), 1: Span(two, two)}


def lossy(rng: Rng, gain: float) -> Unit:
    """The first side loses one trial in twenty."""
    unit = dict(paired(0.2)(rng, gain))
    return {**unit, 0: Span(0.0, 1.0)} if rng.random() < 0.05 else unit
