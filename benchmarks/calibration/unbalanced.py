"""Calibration where analysis meets design: unbalanced designs, lost trials, and forecasts of power."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import product

import numpy as np
from cells import Bounds, Cell, Rng, covered, rejected
from shares import own

from peira.analysis.compare.contrasts import compare_levels
from peira.analysis.compare.hypotheses import decide
from peira.analysis.effects.factor_effects import effects
from peira.analysis.effects.mixed_models import mixed
from peira.analysis.effects.regression import CaseModel, table_of
from peira.analysis.table.measures import measure
from peira.core.contracts import DesignMethod
from peira.core.log.events import State
from peira.core.space import Dimension, Point, Space
from peira.design.auto.choice import Auto
from peira.design.diagnose.design_matrix import design_matrix
from peira.design.diagnose.effect_power import Assumed, powers
from peira.design.factorial.fractional import FractionalFactorial
from peira.design.factorial.full import FullFactorial
from peira.design.model import parse
from peira.design.optimal import DOptimal
from peira.design.screening import PlackettBurman
from peira.results.aims import Aims
from peira.results.trials import Score, TrialResult
from peira.spec.aims import Hypothesis
from peira.stats import student
from peira.stats.tests.paired import difference
from peira.stats.values import remark_of

Run = Mapping[str, object]
Test = Callable[[Sequence[TrialResult]], float | None]


def two_level(factors: int) -> Space:
    return Space(tuple(Dimension("ABCDEFGH"[n], ("off", "on")) for n in range(factors)))


def runs_of(design: DesignMethod, space: Space, leave: int = 0) -> tuple[Run, ...]:
    """The runs of a design, without the first `leave` of them."""
    return tuple(point.factors for point in design.points(space, 0))[leave:]


@cache
def designs() -> dict[str, tuple[Run, ...]]:
    """Designs whose other factors are not balanced between the levels of A."""
    five = two_level(5)
    asked = {"aims": ["A"], "effect": 0.2, "noise": 0.4, "power": 0.9, "cases": 10, "trials": 300}
    three = Space((*two_level(2).dimensions, Dimension("C", ("x", "y", "z"))))
    crossed = runs_of(FullFactorial(), three)
    kept = tuple(run for run in crossed if not (run["A"] == "on" and run["C"] == "z"))
    return {
        "7-run D-optimal, 5 factors": runs_of(DOptimal(runs=7, formula="main"), five),
        "half fraction of 5, 3 runs left out": runs_of(FractionalFactorial(runs=16), five, 3),
        "quarter fraction of 5, 1 run left out": runs_of(FractionalFactorial(runs=8), five, 1),
        "12-run Plackett-Burman, 6 factors": runs_of(PlackettBurman(runs=12), two_level(6)),
        "2 x 2 x 3 under a constraint": kept,
        "the docs' auto": runs_of(Auto(**asked), five),
    }


def levels(quick: bool) -> Iterator[Cell]:
    """A factor without effect, beside others that have one: how often it is called a difference."""
    rounds = 60 if quick else 400
    found = product(designs(), (10,) if quick else (10, 30), TESTS)
    for seed, (where, cases, method) in enumerate(found):
        draw = partial(null_factor, designs()[where], cases, TESTS[method])
        yield Cell(method, f"{where}, {cases} cases", "rejection", *rejected(draw, rounds, seed), rounds)


def null_factor(runs: Sequence[Run], cases: int, test: Test, rng: Rng) -> float | None:
    """The p-value for A, which has no effect; the other factors have, and cases react differently."""
    return test(study(runs, cases, {name: 1.0 for name in runs[0] if name != "A"}, rng, reaction=0.3))


def study(
    runs: Sequence[Run],
    cases: int,
    sizes: Mapping[str, float],
    rng: Rng,
    noise: float = 1.0,
    reaction: float = 0.0,
    repeats: int = 1,
) -> list[TrialResult]:
    """A study of these runs on every case; the second level of each factor adds its size."""
    first = {name: next(iter(runs))[name] for name in runs[0]}
    own = rng.normal(size=cases)
    reacts = {name: rng.normal(0, reaction, cases) for name in first}
    return [
        trial(
            case,
            own[case]
            + sum((sizes.get(n, 0.0) + reacts[n][case]) * (run[n] != first[n]) for n in run)
            + noise * rng.normal(),
            run,
            repeat,
        )
        for case in range(cases)
        for run in runs
        for repeat in range(repeats)
    ]


def trial(case: int, value: float, run: Run, repeat: int = 0) -> TrialResult:
    score = {"score": Score("score", State.succeeded, float(value))}
    key = f"{case} {sorted(run.items(), key=str)} {repeat}"
    return TrialResult(
        id=key,
        agent="a",
        case_id=str(case),
        state=State.succeeded,
        condition=run,
        scores=score,
        repeat=repeat,
    )


def by_compare(trials: Sequence[TrialResult]) -> float | None:
    return compare_levels(trials, "A").contrasts[0].p


def by_hypothesis(trials: Sequence[TrialResult]) -> float | None:
    return decide(trials, Aims(hypotheses=(Hypothesis("A helps", factor="A"),))).found[0].p


def by_effects(trials: Sequence[TrialResult]) -> float | None:
    return next((test.p for test in effects(trials).tests if test.term == "A"), None)


TESTS: dict[str, Test] = {"compare": by_compare, "hypothesis": by_hypothesis, "effects": by_effects}


def lost(quick: bool) -> Iterator[Cell]:
    """Terms without effect where trials are lost at random, or levels have different numbers of cases."""
    rounds = 60 if quick else 600
    for seed, (method, where, draw) in enumerate(_incomplete()):
        each = rounds * (5 if where.startswith("levels with") else 1)
        yield Cell(method, where, "rejection", *rejected(draw, each, seed), each)
    for seed, (cases, share) in enumerate(((12, 0.3), (30, 0.3), (30, 0.5))):
        where = f"3 levels x 2, {cases} cases, {share:.0%} lost"
        chance = covered(partial(marginal, cases, share), 0.0, rounds, seed)
        yield Cell("marginal mean", where, "coverage", chance, 0.95, rounds)
    for seed, ((shape, (scores, truth)), cases) in enumerate(product(SHAPES.items(), (12, 30))):
        where = f"3 levels x 2, {cases} cases, 20% lost: {shape}"
        chance = covered(partial(shaped, scores, cases), truth, rounds, seed)
        yield Cell("marginal mean", where, "coverage", chance, 0.95, rounds)


Shape = Callable[[Rng, int], Callable[[int], float]]


def _log_normal_cases(rng: Rng, cases: int) -> Callable[[int], float]:
    own = rng.lognormal(size=cases)
    return lambda case: float(own[case] + 0.5 * rng.normal())


def _log_normal_values(rng: Rng, cases: int) -> Callable[[int], float]:
    own = 0.3 * rng.normal(size=cases)
    return lambda case: float(own[case] + rng.lognormal())


def _mostly_right(rng: Rng, cases: int) -> Callable[[int], float]:
    own = rng.beta(4.5, 0.5, size=cases)
    return lambda case: float(rng.random() < own[case])


def _mostly_5(rng: Rng, cases: int) -> Callable[[int], float]:
    bad = rng.random(cases) < 0.1
    return lambda case: float(rng.integers(1, 3)) if bad[case] else 5.0 - (rng.random() < 0.1)


SHAPES: dict[str, tuple[Shape, float]] = {
    "log-normal cases": (_log_normal_cases, math.exp(0.5)),
    "log-normal values": (_log_normal_values, math.exp(0.5)),
    "yes/no, mostly right": (_mostly_right, 0.9),
    "grades, one case in ten is bad": (_mostly_5, 0.9 * 4.9 + 0.1 * 1.5),
}
"""Scores that do not depend on the condition, each drawn for a number of cases, with their mean."""


def shaped(shape: Shape, cases: int, rng: Rng) -> Bounds:
    """The marginal mean of a level, with a fifth of the trials lost."""
    value = shape(rng, cases)
    found = effects(
        [
            trial(c, value(c), {"m": f"m{m}", "s": f"s{s}"})
            for c, m, s in product(range(cases), range(3), range(2))
            if rng.random() >= 0.2
        ]
    ).means
    return (found[0].estimate.low, found[0].estimate.high) if found else (None, None)


def _incomplete() -> Iterator[tuple[str, str, Callable[[Rng], float | None]]]:
    """Method, situation, and how to draw a p-value under the null hypothesis."""
    for cases, share in ((12, 0.2), (12, 0.35), (12, 0.5), (30, 0.3)):
        for term in ("m", "s", "m x s"):
            where = f"{term} in 3 levels x 2, {cases} cases, {share:.0%} lost"
            yield "effects", where, partial(with_losses, cases, share, term)
    yield "effects", "3 levels, 4 of 30 cases complete", partial(few_complete, 3)
    yield "effects", "2 levels, 4 of 30 cases complete", partial(few_complete, 2)
    for sizes in ((5, 20), (3, 30), (4, 4, 30), (5, 10, 40), (3, 3, 3, 30)):
        yield "effects", f"levels with {sizes} cases", partial(uneven, sizes)
    for cases in (6, 12, 30):
        yield "linear mixed model", f"{cases} cases that react differently", partial(reacting, cases)


def with_losses(cases: int, share: float, term: str, rng: Rng) -> float | None:
    return next((test.p for test in effects(_losing(cases, share, rng)).tests if test.term == term), None)


def marginal(cases: int, share: float, rng: Rng) -> Bounds:
    found = effects(_losing(cases, share, rng)).means
    return (found[0].estimate.low, found[0].estimate.high) if found else (None, None)


def _losing(cases: int, share: float, rng: Rng) -> list[TrialResult]:
    own, reacts = rng.normal(size=cases), rng.normal(0, 0.5, (cases, 3))
    return [
        trial(c, own[c] + reacts[c, m] + rng.normal(), {"m": f"m{m}", "s": f"s{s}"})
        for c, m, s in product(range(cases), range(3), range(2))
        if rng.random() >= share
    ]


def few_complete(levels: int, rng: Rng) -> float | None:
    own = rng.normal(size=30)
    kept = [(c, m) for c in range(30) for m in (range(levels) if c < 4 else [c % levels])]
    found = effects([trial(c, own[c] + rng.normal(), {"m": f"m{m}"}) for c, m in kept])
    return found.tests[0].p


def uneven(sizes: Sequence[int], rng: Rng) -> float | None:
    levels = [f"m{m}" for m, size in enumerate(sizes) for _ in range(size)]
    return effects([trial(c, rng.normal(), {"m": m}) for c, m in enumerate(levels)]).tests[0].p


def reacting(cases: int, rng: Rng) -> float | None:
    """A mixed model of single trials: each case has its own effect of A, whose mean is 0."""
    runs = runs_of(FullFactorial(), two_level(2))
    found = mixed(study(runs, cases, {"B": 1.0}, rng, reaction=0.7, repeats=2))
    return next((one.p for one in found.effects if one.term == "A"), None)


Value = Callable[[Rng, bool], float]
SKEWED: dict[str, Value] = {
    "1 fails in 20, against a tight score": lambda rng, on: (
        float(np.clip(rng.normal(0.9025, 0.02), 0, 1)) if on else 0.95 * (rng.random() < 0.95)
    ),
    "log-normal, against a tight measure": lambda rng, on: (
        rng.normal(np.exp(0.5), 0.1) if on else rng.lognormal()
    ),
}
"""Values with the same mean under both levels of a factor: skewed, and tight."""


def skewed(quick: bool) -> Iterator[Cell]:
    """A skewed level against a tight one with the same mean, where the model of the design compares them.

    Skewed are the values, or the cases' reactions. What counts is a verdict without doubt; the note has those
    with doubt (a tail that few cases may hide), the rejection rate of Student's t in that model, and how
    often the comparison marked its values as few or skewed.
    """
    rounds = 100 if quick else 1500
    for seed, (value, cases) in enumerate(product(SKEWED, (12, 30))):
        where = f"2 x 2, {cases} cases, 10% lost: {value}"
        yield _beside_t(where, partial(_unlike, SKEWED[value], cases), rounds, seed)
    for seed, cases in enumerate((12, 30, 16, 20, 8, 10)):
        where = f"2 x 2, {cases} cases, 10% lost: log-normal reactions of cases"
        yield _beside_t(where, partial(_unlike_reactions, cases), 2 * rounds, seed)


def _beside_t(where: str, draw: Callable[[Rng], list[TrialResult]], rounds: int, seed: int) -> Cell:
    rng, found, doubted, plain, warned = np.random.default_rng(seed), 0, 0, 0, 0
    for _ in range(rounds):
        trials = draw(rng)
        contrast = compare_levels(trials, "A").contrasts[0]
        found += contrast.clear(0.05) and not contrast.hides_tail(0.05)
        doubted += contrast.hides_tail(0.05)
        plain += (_student(trials) or 1.0) <= 0.05
        warned += contrast.difference is not None and bool(remark_of(contrast.difference.method))
    note = f"with doubt {doubted / rounds:.3f} more; " if doubted else ""
    note += f"t: {plain / rounds:.3f}" + (f"; warned in {warned / rounds:.0%}" if warned else "")
    return Cell("compare", where, "rejection", found / rounds, 0.05, rounds, note)


def _unlike(value: Value, cases: int, rng: Rng) -> list[TrialResult]:
    return [
        trial(case, value(rng, bool(a)), {"A": a, "B": b})
        for case, a, b in product(range(cases), range(2), range(2))
        if rng.random() >= 0.1
    ]


def _unlike_reactions(cases: int, rng: Rng) -> list[TrialResult]:
    reacts, own = rng.lognormal(size=cases) - np.exp(0.5), rng.normal(size=cases)
    return [
        trial(case, own[case] + a * reacts[case] + 0.5 * rng.normal(), {"A": a, "B": b})
        for case, a, b in product(range(cases), range(2), range(2))
        if rng.random() >= 0.1
    ]


def _student(trials: Sequence[TrialResult]) -> float | None:
    """The p-value of A by Student's t in the model of the design."""
    fitted = CaseModel(table_of(measure(trials)), ["A", "B"], 2).fit_for("A")
    place = fitted.kept.places[0]
    spread = fitted.spread(place, np.array([2.0]))
    mean = 2.0 * float(fitted.beta[place][0])
    return None if spread is None else student.p_value(mean / spread.error, spread.df, "two-sided")


YES_NO = ((0.5, 0.5), (0.9, 0.8), (0.98, 0.9))
"""The chances of a yes on both sides."""


def several(quick: bool) -> Iterator[Cell]:
    """Coverage of differences of yes/no answers to each case under several conditions, and how often by t."""
    rounds = 100 if quick else 400
    cells = product((10,) if quick else (6, 12, 30), (4,) if quick else (2, 4, 8), YES_NO, (0.05, 0.5))
    for seed, (cases, others, shares, correlation) in enumerate(cells):
        rng, held, by_t = np.random.default_rng(seed), 0, 0
        codes = np.repeat(np.arange(cases), others).tolist()
        for _ in range(rounds):
            one, two = (
                (rng.random((cases, others)) < own(rng, p, correlation, cases)[:, None]).astype(float).ravel()
                for p in shares
            )
            found = difference(one, two, codes, limits=(0.0, 1.0))
            truth = shares[0] - shares[1]
            held += found.low is None or found.high is None or found.low <= truth <= found.high
            by_t += not found.method.startswith("bounded")
        where = f"{cases} cases x {others}, p {shares[0]} and {shares[1]}, correlation {correlation}"
        note = f"t in {by_t / rounds:.0%}"
        yield Cell("paired difference", where, "coverage", held / rounds, 0.95, rounds, note)


def forecasts(quick: bool) -> Iterator[Cell]:
    """How often a difference is found, beside the chance that the design promises for it."""
    rounds = 100 if quick else 600
    for seed, (label, runs, formula, assumed) in enumerate(_forecasts()):
        if quick and seed not in (0, 4, 5, 9):
            continue
        names = tuple(runs[0])
        space = Space(tuple(Dimension(n, tuple(dict.fromkeys(run[n] for run in runs))) for n in names))
        promised = powers(design_matrix(space, map(Point, runs)), parse(formula, space), assumed)[0].power
        rng = np.random.default_rng(seed)
        sizes = {"A": assumed.effect or 0.0}
        shape = partial(study, runs, assumed.cases, sizes, rng, assumed.noise, repeats=assumed.repeats)
        seen = [by_effects(shape()) for _ in range(rounds)]
        chance = sum(p is not None and p <= 0.05 for p in seen) / rounds
        where = f"{label} x {assumed.cases} cases x {assumed.repeats}, {assumed.effect:g}"
        yield Cell("effects", where, "power", chance, promised or 0.0, rounds)


def _forecasts() -> Iterator[tuple[str, tuple[Run, ...], str, Assumed]]:
    """Design, its runs and formula, and what is assumed of the trials."""
    fraction, full = (
        runs_of(FractionalFactorial(runs=16), two_level(6)),
        runs_of(FullFactorial(), two_level(3)),
    )
    for cases, repeats, effect in ((3, 1, 0.2), (3, 1, 0.6), (8, 1, 0.3), (20, 1, 0.1)):
        yield "16 of 64 runs", fraction, "main", Assumed(effect, 0.4, cases=cases, repeats=repeats)
    for cases, repeats, effect in ((2, 2, 0.5), (6, 2, 0.4), (8, 1, 0.5), (12, 2, 0.25), (30, 1, 0.2)):
        yield "8 runs", full, "interactions", Assumed(effect, 0.4, cases=cases, repeats=repeats)
    pair, four = (runs_of(FullFactorial(), two_level(factors)) for factors in (1, 2))
    for cases, repeats, effect in ((10, 1, 0.5), (12, 3, 0.3), (18, 1, 0.4)):
        yield "2 runs", pair, "main", Assumed(effect, 0.4, cases=cases, repeats=repeats)
    yield "4 runs", four, "interactions", Assumed(0.3, 0.4, cases=15)
    yield "7-run D-optimal", designs()["7-run D-optimal, 5 factors"], "main", Assumed(0.4, 0.4, cases=10)
    yield "the docs' auto", designs()["the docs' auto"], "interactions", Assumed(0.2, 0.4, cases=10)
