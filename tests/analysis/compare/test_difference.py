"""One question, one answer: whoever tells the difference of two levels tells the same number and p."""

from __future__ import annotations

import random
import re
from itertools import permutations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.formula.api import ols

from peira.analysis.compare.hypotheses import decide
from peira.analysis.effects.regression import CaseModel, table_of
from peira.analysis.power import PowerQuestion, plan_from
from peira.analysis.results import Results
from peira.analysis.table.measures import measure
from peira.core.log.events import State
from peira.errors import Invalid
from peira.report.sections import scores as report_scores
from peira.report.sections._cells import point_cells
from peira.report.sections.answer import answer
from peira.report.sections.scores import ScoreQuery, scored
from peira.results.aims import Aims
from peira.results.trials import Score, TrialResult
from peira.spec.aims import Hypothesis
from peira.stats.values import remark_of

KINDS = ("yes or no", "shares", "numbers")


def made(cases, models, styles, repeats, kind, seed, lost=0.0, clusters=0, perfect=0):
    """A study of models by styles; the first `perfect` models are always right."""
    rng = random.Random(seed)
    skill = {model: rng.random() for model in models}
    hard = [rng.random() for _ in range(cases)]

    def value(case, model):
        chance = 1.0 if model in models[:perfect] else (skill[model] + hard[case]) / 2
        yes = float(rng.random() < chance)
        return {"yes or no": yes, "shares": round(yes * chance, 3), "numbers": 10 * yes + rng.gauss(0, 3)}[
            kind
        ]

    return [
        TrialResult(
            id=f"{case} {model} {style} {repeat}",
            agent="x",
            case_id=str(case),
            cluster=str(case % clusters) if clusters else None,
            condition={"model": model, **({"style": style} if len(styles) > 1 else {})},
            repeat=repeat,
            state=State.succeeded,
            scores={"s": Score("s", State.succeeded, value(case, model))},
        )
        for case, model, style, repeat in product(range(cases), models, styles, range(repeats))
        if rng.random() >= lost
    ]


def results_of(trials, aims=None):
    kept = list(trials)
    return Results(lambda: iter(kept), run_id="f" * 64, study="q", status="completed", counts={}, aims=aims)


def told(estimate, p):
    """A difference as it is compared here; None where nothing is known."""
    return pytest.approx((estimate.mean, estimate.low, estimate.high, p), abs=1e-12, nan_ok=True)


def near(number):
    return None if number is None else pytest.approx(number, rel=1e-6, abs=1e-9)


studies = st.builds(
    made,
    cases=st.integers(1, 14),
    models=st.just(("a", "b")),
    styles=st.sampled_from([("x",), ("x", "y"), ("x", "y", "z")]),
    repeats=st.integers(1, 3),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 10**6),
    lost=st.sampled_from([0.0, 0.0, 0.2]),
    clusters=st.sampled_from([0, 0, 3]),
    perfect=st.integers(0, 2),
)


@given(studies)
def test_everybody_tells_the_same_difference(trials):
    if len({trial.condition["model"] for trial in trials}) < 2:
        return
    hypothesis = Hypothesis(id="h", factor="model", levels=("b", "a"))
    found = results_of(trials, Aims(hypotheses=(hypothesis,)))
    (one,) = found.compare("model", "b", "a").contrasts
    if one.difference is None:
        return
    same = told(one.difference, one.p)

    effects = found.effects()
    effect = next((e for e in effects.effects if e.term == "model"), None)
    if effect is not None:
        turn = -1 if effect.label == "a - b" else 1
        ends = (effect.estimate.low, effect.estimate.high)[::turn]
        bounds = [None if end is None else turn * end for end in ends]
        assert (turn * effect.estimate.mean, *bounds, effect.p) == same
        assert next(test.p for test in effects.tests if test.term == "model") == effect.p

    (finding,) = found.hypotheses().found
    (contrast,) = finding.contrasts
    difference = contrast.difference
    assert (difference.mean, difference.low, difference.high, contrast.p) == same
    assert finding.p == one.p

    board = found.leaderboard("model")
    letters = {entry.label: set(entry.letters) for entry in board.entries}
    if one.model != "groups":
        assert (not letters["a"] & letters["b"]) == one.clear(0.05)

    (row,) = plan_from(trials, "model", PowerQuestion(), "b", "a").rows
    if not row.note and row.difference is not None:
        assert row.difference == pytest.approx(one.difference.mean)


@given(studies)
def test_the_headline_of_a_report_is_the_comparison(trials):
    if len({trial.condition["model"] for trial in trials}) < 2:
        return
    found = results_of(trials)
    names = [name for name in ("model", "style") if len({t.condition.get(name) for t in trials}) > 1]
    asked = ScoreQuery(tuple(names), 2, 0.95)
    scores = scored(found, report_scores.table_of(found, asked), (), asked)
    effects = scores[0].effects
    if effects is None or not any(e.term == "model" for e in effects.effects):
        return
    first, second = (m.level for m in effects.means if m.factor == "model")
    (one,) = found.compare("model", second, first).contrasts
    effect = effects.effect("model")
    assert (effect.estimate.mean, effect.estimate.low, effect.estimate.high, effect.p) == told(
        one.difference, one.p
    )
    said = answer(found, (), scores)
    verdict = "cannot be judged" if one.p is None else "changes by" if one.p <= 0.05 else "ot clear"
    assert re.search(verdict, said), said


@given(studies)
def test_a_difference_of_shares_lies_where_it_can(trials):
    found = results_of(trials)
    if any(not 0 <= t.scores["s"].value <= 1 for t in trials) or not trials:
        return
    effects = found.effects()
    for one in effects.effects:
        reach = 2 if " x " in one.term else 1
        for end in (one.estimate.mean, one.estimate.low, one.estimate.high):
            assert end is None or -reach <= end <= reach
    for name in {t.term for t in effects.tests if " x " not in t.term}:
        for contrast in found.compare(name).contrasts:
            estimate = contrast.difference
            for end in (estimate.mean, estimate.low, estimate.high) if estimate else ():
                assert end is None or -1 <= end <= 1


def test_the_example_that_had_two_answers(trial, results):
    """Five of eight cases lost: once -0.62 [-0.86, -0.10] and once -0.63 [-1.06, -0.19]."""
    trials = [trial(c, m == "a" or c > 4, model=m) for c in range(8) for m in "ab"]
    found = results(trials)
    (one,), effect = found.compare("model").contrasts, found.effects().effect("model")
    assert one.difference == effect.estimate
    assert effect.estimate.method == "tango"
    assert (effect.estimate.mean, effect.estimate.low, effect.estimate.high) == pytest.approx(
        (-0.625, -0.863, -0.098), abs=1e-3
    )
    assert effect.p == one.p == pytest.approx(0.029, abs=1e-3)


SMALL = [
    (levels, cases, repeats, perfect)
    for levels in (2, 3, 4)
    for cases in (1, 2, 3, 4, 6, 9)
    for repeats in (1, 2)
    for perfect in range(levels + 1)
]


@pytest.mark.parametrize(("levels", "cases", "repeats", "perfect"), SMALL)
def test_small_studies_have_effects_whatever_the_order_of_levels(levels, cases, repeats, perfect):
    """Two levels that are always right made the covariance singular, and the order of levels decided."""
    models = "abcd"[:levels]
    first, *_, last = orders(models)
    effects_agree(
        made(cases, models, ("x", "y"), repeats, "yes or no", cases % 3, perfect=perfect), [first, last]
    )


@pytest.mark.torture
@pytest.mark.parametrize(("levels", "cases", "repeats", "perfect"), SMALL)
def test_small_studies_have_effects_in_every_order_of_levels(levels, cases, repeats, perfect):
    models = "abcd"[:levels]
    for seed in range(3):
        trials = made(cases, models, ("x", "y"), repeats, "yes or no", seed, perfect=perfect)
        effects_agree(trials, orders(models))


def orders(models):
    return list(permutations(models))[:6]


def effects_agree(trials, orders):
    """Tests, effects and means are the same numbers in each of these orders of the models."""
    reference = None
    for order in orders:
        turned = sorted(trials, key=lambda t, order=order: (t.case_id, order.index(t.condition["model"])))
        found = results_of(turned).effects()
        assert str(found)
        tests = {(test.term, "test"): [test.df, test.f, test.p] for test in found.tests}
        alone = {
            (e.term, *sorted(e.label.split(" - "))): [e.p, abs(e.estimate.mean)]
            for e in found.effects
            if " x " not in e.term
        }
        means = {(m.factor, m.level): [m.estimate.mean] for m in found.means}
        shown = {key: list(map(near, numbers)) for key, numbers in (tests | alone | means).items()}
        reference = reference or shown
        assert tests | alone | means == reference


def test_two_perfect_levels_leave_the_third_to_be_judged(trial, results):
    """What never differs is one level twice: the test is that of the third against it."""
    wrong = (1, 4, 5, 8, 9, 12, 13, 15)
    trials = [trial(c, m != "c" or c not in wrong, model=m) for c in range(20) for m in "abc"]
    found = next(test for test in results(trials).effects().tests if test.term == "model")
    gaps = np.array([float(c in wrong) for c in range(20)])
    t = gaps.mean() / (gaps.std(ddof=1) / 20**0.5)
    assert (found.f, found.df, found.df_error) == (pytest.approx(t**2), 1, 19)


def test_levels_that_differ_without_a_spread_cannot_be_tested_together(trial, results):
    values = {"a": lambda c: 1.0, "b": lambda c: 0.0, "c": lambda c: float(c % 2)}
    trials = [trial(c, values[m](c), model=m) for c in range(12) for m in values]
    (found,) = results(trials).effects().tests
    assert found.p is None


def test_a_fraction_is_compared_in_the_model_of_its_design(trial, results):
    """Style makes the difference, and a has more of it: raw means would blame the model."""
    rng = np.random.default_rng(0)
    runs = [("a", "x"), ("a", "y"), ("a", "z"), ("b", "x"), ("b", "y")]
    trials = [
        trial(c, 5.0 * (s == "z") + c / 9 + rng.normal(), model=m, style=s)
        for c in range(20)
        for m, s in runs
    ]
    found = results(trials)
    (one,), effect = found.compare("model").contrasts, found.effects().effect("model")
    assert one.difference == effect.estimate
    assert (one.model, one.pairing) == ("design", "case, adjusted for the other factors")
    assert abs(one.difference.mean) < 1
    assert "compared by case, adjusted for the other factors" in found.compare("model").remarks


@pytest.mark.parametrize("lose", [7, 20])
def test_the_adjusted_difference_is_that_of_least_squares(trial, results, lose):
    import pandas

    rng = np.random.default_rng(3)
    cells = list(product(range(15), "ab", "xyz"))
    left = [cells[i] for i in sorted(rng.permutation(len(cells))[lose:])]
    trials = [trial(c, rng.normal() + c / 5 + (m == "b"), model=m, style=s) for c, m, s in left]
    rows = [{"case": t.case_id, **t.condition, "y": t.scores["match"].value} for t in trials]
    model = ols("y ~ C(case) + C(model, Sum) * C(style, Sum)", pandas.DataFrame(rows)).fit()
    (one,) = results(trials).compare("model", "b", "a").contrasts
    assert one.difference.mean == pytest.approx(-2 * model.params["C(model, Sum)[S.a]"])
    assert one.test.startswith("t, adjusted for the other factors")


@pytest.mark.parametrize("lose", [0, 9, 25])
def test_degrees_of_freedom_are_those_of_the_matrices_written_out(trial, lose):
    """Bell and McCaffrey's, with the annihilator of cases and terms as one dense matrix."""
    rng = np.random.default_rng(4)
    cells = list(product(range(10), "ab", "xyz"))
    left = [cells[i] for i in sorted(rng.permutation(len(cells))[lose:])]
    table = table_of(measure([trial(c, rng.normal(), model=m, style=s) for c, m, s in left]))
    found = CaseModel(table, ["model", "style"], 2).fit_for("model")
    weights = np.array([2.0])

    cases = np.eye(10)[table.cases]
    whole = np.hstack([*(term.columns for term in found.kept.terms), cases])
    inverse = np.linalg.pinv(whole.T @ whole)
    rest = np.eye(len(whole)) - whole @ inverse @ whole.T
    chosen = np.zeros(whole.shape[1])
    chosen[0] = 2.0
    columns = []
    for unit in range(table.groups):
        rows = table.units == unit
        values, vectors = np.linalg.eigh(rest[np.ix_(rows, rows)])
        root = vectors @ np.diag([v**-0.5 if v > 1e-9 else 0.0 for v in values]) @ vectors.T
        columns.append(rest[:, rows] @ root @ whole[rows] @ inverse @ chosen)
    products = np.array(columns) @ np.array(columns).T
    df = np.trace(products) ** 2 / (products**2).sum()
    spread = found.spread(found.kept.places[0], weights)
    assert spread.df == pytest.approx(df)
    assert spread.df <= 9 + 1e-9
    if not lose:
        assert spread.df == pytest.approx(9)


def test_a_factor_without_effect_in_a_fraction_is_rarely_called_clear(trial, results):
    """Half of 2 x 2 x 2 x 2 with a run left out: averages over the other factors mostly call it clear."""
    rng = np.random.default_rng(5)
    runs = [(m, s, t, m * s * t) for m in (-1, 1) for s in (-1, 1) for t in (-1, 1)][:-1]
    clear = raw = 0
    for _ in range(100):
        level, slope = rng.normal(size=12), rng.normal(0, 0.5, size=12)
        trials = [
            trial(c, level[c] + slope[c] * m + 2 * (s + t) + rng.normal(), model=m, style=s, tone=t, urgent=u)
            for c in range(12)
            for m, s, t, u in runs
        ]
        (one,) = results(trials).compare("model").contrasts
        assert one.model == "design"
        clear += one.clear(0.05)
        raw += results(trials).compare("model", paired=True).contrasts[0].clear(0.05)
    assert clear <= 12
    assert raw >= 50


def test_a_leaderboard_tells_apart_what_never_varies(trial, results):
    found = results([trial(c, m == "a", model=m) for c in range(30) for m in "ab"]).leaderboard()
    assert [(e.label, e.letters) for e in found.entries] == [("a", "a"), ("b", "b")]
    assert found.sentence == "a is best on match."


def test_entries_are_compared_on_the_cases_that_both_have(trial, results):
    """No case is common to all three."""
    there = {"a": range(40), "b": range(20), "c": range(20, 40)}
    trials = [trial(c, float(m == "a" or c % 5 == 0), model=m) for m, cases in there.items() for c in cases]
    found = results(trials).leaderboard()
    assert {e.label: e.letters for e in found.entries} == {"a": "a", "b": "b", "c": "b"}


def fraction(trial, cases=12, seed=2):
    """Four runs of three factors, the third strong: levels of `model` share no other condition."""
    rng = np.random.default_rng(seed)
    runs = [(0, 0, 0), (0, 1, 1), (1, 0, 1), (0, 1, 0)]
    return [
        trial(c, float(np.clip(0.5 + 0.2 * t + 0.1 * rng.normal(), 0, 1)), model=m, style=s, tone=t)
        for c in range(cases)
        for m, s, t in runs
    ]


def test_a_named_t_test_is_made_in_the_model_and_others_are_refused(trial, results):
    given = results(fraction(trial))
    open_, named = (given.compare("model", test=test).contrasts[0] for test in ("", "paired t"))
    assert open_.model == named.model == "design"
    assert (named.p, named.difference) == (open_.p, open_.difference)
    for wish in ({"test": "wilcoxon"}, {"interval": "bootstrap"}):
        with pytest.raises(Invalid, match="averages of 1 and 0 over different levels of the other factors"):
            given.compare("model", **wish)


def test_effect_size_and_bounds_are_of_the_adjusted_difference(trial, results):
    trials = fraction(trial)
    trials[7] = trial(1, None, model=0, style=1, tone=0)
    (one,) = results(trials).compare("model").contrasts
    assert one.model == "design"
    assert one.effect.value * one.difference.mean > 0
    assert one.bounds.lost == 1
    assert one.bounds.low <= one.difference.mean <= one.bounds.high
    assert one.bounds.high - one.bounds.low < 0.2


@pytest.mark.parametrize(("cases", "remark"), [(12, " (few)"), (30, "")])
def test_few_cases_are_marked_in_the_model_of_a_design_as_they_are_in_pairs(trial, results, cases, remark):
    """A measure without limits; a lost trial makes the difference that of the model."""
    rng = np.random.default_rng(1)
    trials = [
        trial(c, None if (c, m, s) == (0, 0, 0) else float(rng.normal(100, 10)), m=m, s=s)
        for c, m, s in product(range(cases), range(2), range(2))
    ]
    found = results(trials).compare("m").contrasts[0]
    assert found.model == "design"
    assert remark_of(found.difference.method) == remark
    shown = [row for row in results(trials).effects().grids()[0].rows if row[0] == "m"]
    assert all(row[2].endswith(f"]{remark}") for row in shown)
    paired = results([one for one in trials if one.case_id != "0"]).compare("m").contrasts[0]
    assert remark_of(paired.difference.method) == remark


def test_one_pair_of_yes_or_no_answers_says_nothing(trial, results):
    """Tango's interval ends at 0.59, which a true difference of 0.6 exceeds in one of five studies."""
    found = results([trial(0, m == "a", m=m) for m in "ba"]).compare("m")
    assert (found.contrasts[0].difference.low, found.contrasts[0].difference.high) == (-1, 1)
    assert found.contrasts[0].p == 1
    assert "1 pair\n" in str(found)
    assert "intervals: whole range" in str(found)


def test_an_interval_that_may_be_too_narrow_is_marked_in_hypotheses_and_reports(trial, results):
    rng = np.random.default_rng(1)
    trials = [trial(c, float(rng.normal(100, 10)), m=m) for c in range(12) for m in "ab"]
    aims = Aims(hypotheses=(Hypothesis("h", factor="m", levels=("a", "b")),))
    decided = decide(trials, aims)
    assert decided.grids()[0].rows[0][3].endswith("] (few)")
    found, asked = results(trials), ScoreQuery(("m",), 2, 0.95)
    reported = scored(found, report_scores.table_of(found, asked), decided.found, asked)[0]
    assert point_cells(reported.points)[0][1].endswith("] (few)")
