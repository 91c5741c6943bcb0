"""Power: against statsmodels where it has the formula, and against simulation where it has not."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import FTestAnovaPower, TTestIndPower, TTestPower

from peira.analysis.effects.factor_effects import effects
from peira.core.log.events import State
from peira.core.space import Dimension, Point, Space
from peira.design.diagnose.design_matrix import DesignMatrix, design_matrix
from peira.design.diagnose.effect_power import (
    Assumed,
    EffectPower,
    cells,
    chance,
    powers,
    shift,
    t_chance,
)
from peira.design.diagnose.efficiency import fit
from peira.design.factorial.fractional import FractionalFactorial
from peira.design.factorial.full import FullFactorial
from peira.design.model import INTERCEPT, Term, parse
from peira.errors import Invalid
from peira.results.trials import Score, TrialResult
from peira.stats.tests.paired import paired_t

SIMULATIONS = 3000


def of(levels: int, assumed: Assumed) -> EffectPower:
    """One factor, each level once."""
    space = Space((Dimension("a", tuple(range(levels))),))
    seen = design_matrix(space, FullFactorial().points(space, 0))
    return powers(seen, parse("main", space), assumed)[0]


@pytest.mark.parametrize(("repeats", "effect", "noise"), [(5, 1.0, 1.0), (20, 0.5, 1.0), (64, 2.0, 4.0)])
def test_two_levels_have_the_power_of_the_t_test(repeats: int, effect: float, noise: float) -> None:
    found = of(2, Assumed(effect=effect, noise=noise, repeats=repeats))
    expected = TTestIndPower().power(effect / noise, repeats, 0.05)
    assert found.error_df == 2 * repeats - 2
    assert found.error == pytest.approx(noise * math.sqrt(2 / repeats))
    assert found.power == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("levels", [3, 4, 7])
@pytest.mark.parametrize(("repeats", "alpha"), [(4, 0.05), (15, 0.01)])
def test_several_levels_have_the_power_of_the_analysis_of_variance(
    levels: int, repeats: int, alpha: float
) -> None:
    """With two levels an effect apart and all others between them, the least favourable there is."""
    effect = 1.2
    found = of(levels, Assumed(effect=effect, repeats=repeats, alpha=alpha))
    size = math.sqrt(effect**2 / 2 / levels)
    expected = FTestAnovaPower().power(size, levels * repeats, alpha, k_groups=levels)
    assert found.df == levels - 1
    assert found.power == pytest.approx(expected, abs=1e-9)


def test_the_same_cases_under_two_conditions_have_the_power_of_the_paired_t_test() -> None:
    """Cases are blocks: with one repeat the differences of two conditions are all there is."""
    found = of(2, Assumed(effect=0.5, noise=1.0, cases=40))
    expected = TTestPower().power(0.5 / math.sqrt(2), 40, 0.05)
    assert found.error_df == 39
    assert found.power == pytest.approx(expected, abs=1e-9)


def test_cases_that_differ_in_the_effect_limit_what_repeats_can_do() -> None:
    """The paired t test on means over repeats, whose variance repeats lessen only in part."""
    for repeats in (1, 4, 1000):
        found = of(2, Assumed(effect=0.5, noise=1.0, case_noise=0.6, cases=40, repeats=repeats))
        deviation = math.sqrt(2 * (0.6**2 + 1 / repeats))
        expected = TTestPower().power(0.5 / deviation, 40, 0.05)
        assert found.error_df == 39
        assert found.power == pytest.approx(expected, abs=1e-9)


def test_a_two_level_fraction_sees_all_its_effects_alike() -> None:
    space = Space(tuple(Dimension(n, ("low", "high")) for n in "ABCDE"))
    seen = design_matrix(space, FractionalFactorial(runs=16).points(space, 0))
    found = powers(seen, parse("main", space), Assumed(effect=0.7, repeats=3))
    assert {round(one.error or 0, 12) for one in found} == {round(2 / math.sqrt(48), 12)}
    assert {one.error_df for one in found} == {48 - 6}


def uneven() -> DesignMatrix:
    """Some combinations are missing and others replicated, and there are two blocks."""
    space = Space(
        (Dimension("a", ("p", "q", "r")), Dimension("b", ("x", "y")), Dimension("t", low=0, high=1))
    )
    rows = [
        *[("p", "x", 0.0, "1"), ("p", "y", 1.0, "1"), ("q", "x", 1.0, "1"), ("q", "y", 0.0, "1")],
        *[("r", "x", 0.5, "1"), ("p", "x", 1.0, "2"), ("q", "x", 0.0, "2"), ("r", "y", 1.0, "2")],
        *[("r", "x", 0.0, "2"), ("p", "y", 0.2, "2")],
    ]
    return design_matrix(
        space,
        [
            Point({"a": a, "b": b, "t": t}, block=k, replicates=1 + (n % 3 == 0))
            for n, (a, b, t, k) in enumerate(rows)
        ],
    )


def least_favourable(seen: DesignMatrix, term: Term, terms: tuple[Term, ...], size: float) -> np.ndarray:
    """The parameters of the term that make a difference of that size and are hardest to see."""
    covariance = fit(seen, terms).of(term)
    at = cells(term, seen.space)
    differences = (at[:, None, :] - at[None, :, :]).reshape(-1, at.shape[1])
    worst = differences[((differences @ covariance) * differences).sum(axis=1).argmax()]
    return covariance @ worst * size / (worst @ covariance @ worst)


def simulated(
    seen: DesignMatrix, term: Term, terms: tuple[Term, ...], assumed: Assumed, alpha: float = 0.05
) -> float:
    """The share of simulated studies in which F on the model, blocks and cases is significant."""
    from scipy.stats import f as f_distribution

    rng = np.random.default_rng(7)
    times = np.array(seen.times)
    each = times * (1 if assumed.case_noise else assumed.repeats)
    rows = np.repeat(np.arange(len(times)), each)
    if assumed.case_noise:
        rows = np.arange(len(times))
    runs, cases = np.tile(rows, assumed.cases), np.repeat(np.arange(assumed.cases), len(rows))
    parts = [seen.matrix(terms), seen.block_columns]
    model = np.hstack([*(part[runs] for part in parts), np.eye(assumed.cases)[cases][:, 1:]])
    place = sum(seen.matrix([t]).shape[1] for t in terms[: terms.index(term)])
    own = slice(place, place + seen.matrix([term]).shape[1])
    assert assumed.effect is not None
    mean = model[:, own] @ least_favourable(seen, term, terms, assumed.effect)
    deviation = np.full(len(runs), assumed.noise)
    if assumed.case_noise:
        deviation = np.sqrt(assumed.case_noise**2 + assumed.noise**2 / (assumed.repeats * times[runs]))
        model, mean = model / deviation[:, None], mean / deviation
        deviation = np.ones(len(runs))
    answers = mean[:, None] + deviation[:, None] * rng.standard_normal((len(runs), SIMULATIONS))
    without = np.delete(model, np.r_[own], axis=1)

    def left(matrix: np.ndarray) -> np.ndarray:
        q, _ = np.linalg.qr(matrix)
        return ((answers - q @ (q.T @ answers)) ** 2).sum(axis=0)

    df, wide = len(runs) - np.linalg.matrix_rank(model), own.stop - own.start
    ratio = (left(without) - left(model)) / wide / (left(model) / df)
    return float((f_distribution.sf(ratio, wide, df) < alpha).mean())


@pytest.mark.parametrize("label", ["a", "b", "t", "a:b"])
@pytest.mark.parametrize(
    "assumed",
    [
        Assumed(effect=1.1, noise=1.0, cases=1, repeats=3),
        Assumed(effect=0.9, noise=1.3, cases=5, repeats=1),
        Assumed(effect=0.8, noise=0.8, case_noise=0.4, cases=4, repeats=2),
    ],
)
def test_simulated_studies_of_an_uneven_design_find_as_often_as_is_said(label: str, assumed: Assumed) -> None:
    seen = uneven()
    terms = parse("main + a:b", seen.space)
    term = next(term for term in terms if term.label == label)
    if assumed.case_noise:  # the fit that the least favourable effect is taken from has other weights
        seen = design_matrix(
            seen.space, [Point(dict(row), block=b) for row, b in zip(seen.rows, seen.blocks, strict=True)]
        )
    said = next(one for one in powers(seen, terms, assumed) if one.effect == label).power
    assert said is not None
    assert 0.1 < said < 0.995
    error = math.sqrt(said * (1 - said) / SIMULATIONS)
    assert abs(simulated(seen, term, terms, assumed) - said) < 4 * error


@given(
    df=st.integers(1, 30),
    left=st.integers(1, 5000),
    alpha=st.sampled_from([0.001, 0.05, 0.2]),
    power=st.sampled_from([0.5, 0.8, 0.99]),
)
@settings(max_examples=60, deadline=None)
def test_the_smallest_effect_is_seen_with_just_the_power(
    df: int, left: int, alpha: float, power: float
) -> None:
    found = shift(df, left, alpha, power)
    assert chance(found, df, left, alpha) == pytest.approx(power, abs=1e-6)


@given(repeats=st.integers(2, 30), factor=st.floats(1.01, 3))
@settings(max_examples=30, deadline=None)
def test_more_noise_less_power_and_more_repeats_more(repeats: int, factor: float) -> None:
    base = of(3, Assumed(effect=1.0, repeats=repeats))
    noisier = of(3, Assumed(effect=1.0, repeats=repeats, noise=factor))
    longer = of(3, Assumed(effect=1.0, repeats=repeats + 1))
    assert (noisier.power or 0) < (base.power or 0) < (longer.power or 0)
    assert (noisier.smallest or 0) == pytest.approx((base.smallest or 0) * factor)


@given(parts=st.lists(st.floats(-1, 1), min_size=5, max_size=5))
@settings(max_examples=60, deadline=None)
def test_no_effect_of_the_same_size_is_harder_to_see(parts: list[float]) -> None:
    """Whatever the pattern over the levels, its noncentrality is no less than the least favourable one's."""
    seen = uneven()
    terms = parse("main", seen.space)
    made, term = fit(seen, terms), terms[1]
    values = cells(term, seen.space) @ np.array(parts[:2])
    size = values.max() - values.min()
    if size < 1e-3:
        return
    noncentrality = np.array(parts[:2]) @ np.linalg.inv(made.of(term)) @ np.array(parts[:2])
    said = powers(seen, terms, Assumed())[0].error
    assert said is not None
    assert noncentrality >= (size / said) ** 2 * (1 - 1e-9)


def test_nothing_is_said_where_nothing_is_left_to_tell_the_noise_by() -> None:
    found = of(3, Assumed(effect=1.0))
    assert found.error_df == 0
    assert found.error is not None
    assert found.power is None
    assert found.smallest is None


def test_a_term_that_cannot_be_estimated_has_no_power() -> None:
    space = Space(tuple(Dimension(n, ("low", "high")) for n in "ABC"))
    seen = design_matrix(space, FractionalFactorial(runs=4).points(space, 0))
    found = powers(seen, parse("main + A:B", space), Assumed(effect=1.0, repeats=5))
    assert [one.power is None for one in found] == [False, False, True, True]


def test_a_factor_confounded_with_blocks_has_no_power() -> None:
    space = Space((Dimension("a", ("x", "y")), Dimension("b", ("x", "y"))))
    rows = [("x", "x", "1"), ("x", "y", "1"), ("y", "x", "2"), ("y", "y", "2"), ("y", "y", "3")]
    points = [Point({"a": a, "b": b}, block=block) for a, b, block in rows]
    found = powers(design_matrix(space, points), parse("main", space), Assumed(effect=1.0, repeats=5))
    assert found[0].power is None
    assert found[1].power is not None


def test_every_problem_with_what_is_assumed_is_told() -> None:
    with pytest.raises(Invalid) as caught:
        Assumed(effect=-1, noise=0, alpha=1.5, power=2, cases=0, repeats=1.5)  # type: ignore[arg-type]
    assert [problem.partition(":")[0] for problem in caught.value.problems] == [
        *["effect", "noise", "alpha", "power", "cases", "repeats"]
    ]


def test_the_intercept_has_no_power() -> None:
    space = Space((Dimension("a", (1, 2)),))
    found = powers(
        design_matrix(space, FullFactorial().points(space, 0)),
        (INTERCEPT, *parse("main", space)[1:]),
        Assumed(repeats=2),
    )
    assert [one.effect for one in found] == ["a"]


def test_cases_are_the_sample_however_many_runs_there_are() -> None:
    """16 runs on 3 cases leave two degrees of freedom: 17.9%, where the residual's 38 would promise 39%."""
    space = Space(tuple(Dimension(name, ("off", "on")) for name in "ABCDEF"))
    seen = design_matrix(space, FractionalFactorial(runs=16).points(space, 0))
    found = powers(seen, parse("main", space), Assumed(effect=0.2, noise=0.4, cases=3))[0]
    error = 0.4 * math.sqrt(4 / 48)
    critical = stats.t.ppf(0.975, 2)
    expected = stats.nct.sf(critical, 2, 0.2 / error) + stats.nct.cdf(-critical, 2, 0.2 / error)
    assert (found.error_df, found.error) == (2, pytest.approx(error))
    assert expected == pytest.approx(0.179, abs=1e-3)
    assert expected - 2e-3 < found.power < expected  # the rest is lost where three cases look skewed


def test_several_levels_on_cases_have_the_power_of_hotellings_test() -> None:
    space = Space((Dimension("A", ("x", "y", "z")), Dimension("B", ("off", "on"))))
    seen = design_matrix(space, FullFactorial().points(space, 0))
    found = powers(seen, parse("main", space), Assumed(effect=0.5, cases=12))[0]
    assert (found.df, found.error_df) == (2, 10)
    shifted = 0.25 / (found.error or 1.0) ** 2
    assert found.power == pytest.approx(stats.ncf.sf(stats.f.ppf(0.95, 2, 10), 2, 10, shifted), abs=1e-9)


@pytest.mark.parametrize(("cases", "testable"), [(2, False), (5, False), (6, True), (9, True)])
def test_a_crossed_factor_on_few_cases_is_tested_by_flips_of_signs(cases: int, testable: bool) -> None:
    """Of n cases the smallest p is 2 / 2^n; with six, all must have the same sign."""
    space = Space(tuple(Dimension(name, ("off", "on")) for name in "ABC"))
    seen = design_matrix(space, FullFactorial().points(space, 0))
    found = powers(seen, parse("interactions", space), Assumed(effect=0.6, cases=cases))[0]
    assert (found.smallest is not None) is testable
    size = 0.6 / (found.error or 1.0) / math.sqrt(cases)
    if cases == 6:
        assert found.power == pytest.approx(stats.norm.cdf(size) ** 6, abs=0.03)
    if not testable:
        assert found.power == 0


@pytest.mark.parametrize("cases", [10, 12, 18])
def test_a_crossed_factor_on_some_cases_has_the_power_of_the_adjusted_t(cases: int) -> None:
    """Few normal samples look skewed by chance, and the analysis allows for it."""
    rng, size, rounds = np.random.default_rng(cases), 3.2 / math.sqrt(cases), 3000
    studies = rng.normal(size, 1.0, (rounds, cases))
    seen = sum((paired_t(one, np.zeros(cases), skewed=True).p or 1.0) <= 0.05 for one in studies) / rounds
    plain = chance(3.2**2, 1, cases - 1, 0.05)
    assert t_chance(3.2**2, cases, 0.05) == pytest.approx(seen, abs=0.045)
    assert t_chance(3.2**2, cases, 0.05) < plain - 0.01


def test_the_smallest_effect_of_some_cases_is_found_as_often_as_it_says() -> None:
    space = Space((Dimension("A", ("off", "on")),))
    seen = design_matrix(space, FullFactorial().points(space, 0))
    smallest = powers(seen, parse("main", space), Assumed(cases=12, power=0.8))[0].smallest
    assert smallest is not None
    again = powers(seen, parse("main", space), Assumed(effect=smallest, cases=12))[0].power
    assert again == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize("cases", [8, 12])
def test_a_contrast_on_few_cases_has_the_power_that_is_found_in_the_model(cases: int) -> None:
    """The values of few normal cases seem to agree or to be skewed by chance, which costs power."""
    space = Space(tuple(Dimension(name, ("off", "on")) for name in "ABC"))
    runs = tuple(FullFactorial().points(space, 0))[1:]
    seen, size = design_matrix(space, runs), 1.6 * (8 / cases) ** 0.5
    found = powers(seen, parse("main", space), Assumed(effect=size, cases=cases))[0]
    rng, rounds, clear = np.random.default_rng(cases), 300, 0
    for _ in range(rounds):
        own = rng.normal(size=cases)
        trials = [
            _trial(case, run.factors, own[case] + size * (run.factors["A"] == "on") + rng.normal())
            for case in range(cases)
            for run in runs
        ]
        clear += next(test.p or 1.0 for test in effects(trials).tests if test.term == "A") <= 0.05
    assert found.power == pytest.approx(clear / rounds, abs=0.05)
    assert found.power < chance(size**2 / (found.error or 1.0) ** 2, 1, cases - 1, 0.05) - 0.005


def _trial(case: int, run: Mapping[str, object], value: float) -> TrialResult:
    scores = {"score": Score("score", State.succeeded, value)}
    key = f"{case} {sorted(run.items())}"
    return TrialResult(
        id=key, agent="a", case_id=str(case), state=State.succeeded, condition=run, scores=scores
    )
