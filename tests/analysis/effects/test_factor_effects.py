"""Effects, analysis of variance and mixed models, against analyses written independently."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from itertools import product

import numpy as np
import pytest
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import anova_lm

from peira.analysis.effects.mixed_models import _crossed_error
from peira.analysis.effects.regression import CaseModel, CodedFactor, table_of
from peira.analysis.table.measures import measure
from peira.errors import Invalid, Unknown
from peira.report.sections.answer import lost_terms


def correct(gsm8k):
    """A row for each problem: small and large by plain, small and large by verified."""
    found = {(t.case_id, t.condition["size"], t.condition["method"]): t.scores["match"].value for t in gsm8k}
    cases = sorted({case for case, _, _ in found})
    order = [("6b", "finetuning"), ("175b", "finetuning"), ("6b", "verification"), ("175b", "verification")]
    return np.array([[found[case, *cell] for cell in order] for case in cases], dtype=float)


def t_interval(differences):
    found = stats.ttest_1samp(differences, 0)
    return (differences.mean(), *found.confidence_interval(), found.pvalue)


def shown(effects, term):
    one = effects.effect(term)
    return (one.estimate.mean, one.estimate.low, one.estimate.high, one.p)


def test_a_published_factorial_agrees_with_a_reference_analysis(gsm8k):
    table, found = correct(gsm8k), gsm8k.effects()
    assert len(table) == 1319
    small_plain, large_plain, small_verified, large_verified = table.T
    expected = {
        "size": (large_plain - small_plain + large_verified - small_verified) / 2,
        "method": (small_verified - small_plain + large_verified - large_plain) / 2,
        "size x method": (large_verified - small_verified) - (large_plain - small_plain),
    }
    for term, differences in expected.items():
        assert shown(found, term) == pytest.approx(t_interval(differences), abs=1e-9), term
    means = {(m.factor, m.level): m.estimate for m in found.means}
    assert means["size", "175b"].mean == pytest.approx((large_plain.mean() + large_verified.mean()) / 2)
    assert all(m.low < m.mean < m.high for m in means.values())
    assert "size x method" in found.sentence


def test_the_comparison_of_a_published_factorial_agrees_too(gsm8k):
    table = correct(gsm8k)
    found = gsm8k.compare("size").contrasts[0].difference
    differences = (table[:, 1] - table[:, 0] + table[:, 3] - table[:, 2]) / 2
    assert (found.mean, found.low, found.high) == pytest.approx(t_interval(differences)[:3], abs=1e-9)


def noisy(trial, seed=0, lose=0):
    """Three models by two styles on twenty cases, with effects, noise and a few cells lost."""
    rng = np.random.default_rng(seed)
    level = rng.normal(size=20)
    trials = [
        trial(c, float(level[c] + 0.5 * (m == "b") + 0.3 * s + rng.normal()), model=m, style=s)
        for c in range(20)
        for m in "abc"
        for s in (0, 1)
    ]
    return [t for t in trials if t.id not in {t.id for t in rng.permutation(np.array(trials, object))[:lose]}]


def frame(trials):
    import pandas

    rows = [{"case": t.case_id, **t.condition, "y": t.scores["match"].value} for t in trials]
    return pandas.DataFrame(rows)


@pytest.mark.parametrize("lose", [0, 9])
@pytest.mark.parametrize("kind", [2, 3])
def test_analysis_of_variance_agrees_with_statsmodels(trial, results, kind, lose):
    trials = noisy(trial, lose=lose)
    found = results(trials).anova(type=kind)
    model = ols("y ~ C(case, Sum) + C(model, Sum) * C(style, Sum)", frame(trials)).fit()
    reference = anova_lm(model, typ=kind)
    names = ("C(model, Sum)", "C(style, Sum)", "C(model, Sum):C(style, Sum)")
    for source, name in zip(found.sources, names, strict=True):
        row = reference.loc[name]
        assert (source.df, source.squares, source.f, source.p) == pytest.approx(
            (row["df"], row["sum_sq"], row["F"], row["PR(>F)"]), rel=1e-7
        )
    residual = reference.loc["Residual"]
    assert (found.error_df, found.error_squares) == pytest.approx((residual["df"], residual["sum_sq"]))


def test_lost_cells_leave_the_effects_of_least_squares(trial, results):
    trials = noisy(trial, lose=15)
    found = results(trials).effects()
    model = ols("y ~ C(case, Sum) + C(model, Sum) * C(style, Sum)", frame(trials)).fit()
    assert found.effect("style").estimate.mean == pytest.approx(-2 * model.params["C(style, Sum)[S.0]"])
    assert found.effect("model").estimate.mean == pytest.approx(model.params["C(model, Sum)[S.a]"])


def test_hotelling_decides_about_a_factor_of_three_levels(trial, results):
    trials = noisy(trial)
    wide = frame(trials).groupby(["case", "model"])["y"].mean().unstack()
    gaps = np.stack([wide["b"] - wide["a"], wide["c"] - wide["a"]], axis=1)
    t2 = len(gaps) * gaps.mean(0) @ np.linalg.solve(np.cov(gaps.T), gaps.mean(0))
    f = t2 * (len(gaps) - 2) / (2 * (len(gaps) - 1))
    found = next(test for test in results(trials).effects().tests if test.term == "model")
    assert (found.f, found.df_error) == pytest.approx((f, len(gaps) - 2))
    assert found.p == pytest.approx(stats.f.sf(f, 2, len(gaps) - 2))


def test_aliased_terms_are_named_and_not_estimated(trial, results):
    rng = np.random.default_rng(1)
    trials = [trial(c, rng.normal(), a=a, b=b, c=a * b) for c in range(8) for a in (-1, 1) for b in (-1, 1)]
    found = results(trials).effects()
    assert [one.term for one in found.effects] == ["a", "b", "c"]
    assert "a x b cannot be told apart from c" in found.notes


def test_the_linear_mixed_model_of_a_full_table_has_the_same_effects(trial, results):
    trials = noisy(trial)
    linear, plain = results(trials).mixed(), results(trials).effects()
    for one, two in zip(linear.effects, plain.effects, strict=True):
        assert (one.term, one.label) == (two.term, two.label)
        assert one.estimate.mean == pytest.approx(two.estimate.mean, abs=1e-6)
        assert one.estimate.low < one.estimate.mean < one.estimate.high


def test_the_marginal_model_finds_the_odds_ratio_of_the_table(gsm8k):
    found = gsm8k.mixed(kind="marginal")
    share = correct(gsm8k).mean(axis=0)
    odds = np.log(share / (1 - share))
    interaction = (odds[3] - odds[2]) - (odds[1] - odds[0])
    assert found.effect("size x method").estimate.mean == pytest.approx(interaction, abs=1e-6)
    assert found.effect("size").estimate.mean == pytest.approx((odds[1] - odds[0] + odds[3] - odds[2]) / 2)


def test_perfect_separation_has_no_finite_odds(trial, results):
    found = results([trial(c, m == "b", model=m) for c in range(9) for m in "ab"]).mixed(kind="logistic")
    assert found.effects == ()
    assert found.sentence.startswith("No logistic mixed model: every answer with model=a is wrong")


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({}, "nothing can be said"),
        ({(c, m): None for c in range(5) for m in "ab"}, "No trial has a score"),
        ({(c, "a"): 1 for c in range(5)}, "No factor varies"),
    ],
    ids=["nothing", "all failed", "one level"],
)
def test_degenerate_results_say_so(trial, results, values, sentence):
    found = results([trial(c, value, model=m) for (c, m), value in values.items()]).effects()
    assert sentence in str(found)
    assert all(one.estimate.low is None and one.p is None for one in found.effects)
    assert json.loads(found.to_json())["score"] == found.score
    assert found.markdown()


@pytest.mark.parametrize(("cases", "p"), [(1, 1), (5, 0.0625)])
def test_yes_and_no_that_never_vary_are_judged_as_comparisons_judge_them(trial, results, cases, p):
    found = results([trial(c, m == "a", model=m) for c in range(cases) for m in "ab"])
    (effect,), (contrast,) = found.effects().effects, found.compare("model").contrasts
    assert (effect.estimate, effect.p) == (contrast.difference, pytest.approx(p))
    assert (effect.estimate.mean, effect.estimate.low) == (-1, -1)
    assert "not clear" in found.effects().sentence


def test_equal_scores_show_no_difference_and_no_made_up_certainty(trial, results):
    one = results([trial(c, 0.5, model=m) for c in range(5) for m in "ab"]).effects().effects[0]
    assert (one.estimate.mean, one.p) == (0, 1)
    assert one.estimate.low == pytest.approx(-(1 - 0.025 ** (1 / 5)))


@pytest.mark.parametrize(("high", "p"), [(0.5, 0.0154), (7.5, 2**-11)])
def test_a_difference_without_spread_is_a_difference(trial, results, high, p):
    one = (
        results([trial(c, high * (m == "a"), model=m) for c in range(12) for m in "ab"]).effects().effects[0]
    )
    assert (one.estimate.mean, one.p) == (-high, pytest.approx(p, rel=0.01))


def test_more_cases_or_more_repeats(trial, results):
    rng = np.random.default_rng(2)
    level = {(c, m): rng.normal() for c in range(40) for m in "ab"}

    def said(noise):
        trials = [
            trial(c, level[c, m] + noise * rng.normal(), model=m, repeat=r)
            for c in range(40)
            for m in "ab"
            for r in range(4)
        ]
        return results(trials).effects().variance

    quiet, loud = said(0.1), said(10.0)
    assert quiet.repeats < 0.02 < 0.2 < loud.repeats <= quiet.cases
    assert "more cases buy more" in quiet.sentence
    assert quiet.repeat == pytest.approx(0.01, rel=0.3)
    assert math.isclose(quiet.cases, 1 - 0.5**0.5)


def test_lost_trials_do_not_pass_for_noise_of_repeats(trial, results):
    def right(case, model):
        return None if (case, model) == (3, "b") else case % 3 == 0 or model == "b"

    trials = [trial(c, right(c, m), model=m, repeat=r) for c in range(12) for m in "ab" for r in range(2)]
    found = results(trials).effects().variance
    assert (found.repeat, found.repeats) == (0, 0)
    ragged = [t for t in trials if (t.case_id, t.condition["model"]) != ("1", "a") and int(t.case_id) < 2]
    assert results(ragged).effects().variance.repeat == 0


def test_bad_wishes_are_refused(trial, results):
    found = results([trial(c, 1, model=m) for c in range(3) for m in "ab"])
    with pytest.raises(Unknown, match="model"):
        found.effects("modle")
    with pytest.raises(Invalid, match="order"):
        found.effects(order=0, level=2)
    with pytest.raises(Invalid, match="type"):
        found.anova(type=1)
    with pytest.raises(Invalid, match="kind"):
        found.mixed(kind="probit")


SIRSTV = """
196.3052 196.1240 196.1890 196.2569 196.3403
196.3042 196.3825 196.1669 196.3257 196.0422
196.1303 196.2005 196.2889 196.0343 196.1811
196.2795 196.1748 196.1494 196.1485 195.9885
196.2119 196.1051 196.1850 196.0052 196.2090
"""


def test_a_certified_analysis_of_variance(trial, results):
    """NIST StRD, "SiRstv": resistivity of silicon wafers by five instruments, with certified values."""
    rows = [[float(value) for value in line.split()] for line in SIRSTV.split("\n") if line]
    made = [trial(f"{i} {j}", v, instrument=str(i)) for i, row in enumerate(rows) for j, v in enumerate(row)]
    found = results(made).anova()
    assert (found.sources[0].df, found.error_df) == (4, 20)
    assert found.sources[0].squares == pytest.approx(5.11462616000000e-02, rel=1e-9)
    assert found.error_squares == pytest.approx(2.16636560000000e-01, rel=1e-9)
    assert found.sources[0].f == pytest.approx(1.18046237440255, rel=1e-9)


def test_the_variance_of_conditions_is_shared_out_to_factors(trial, results):
    """Known deviations: model 2, prompt 1, cases 3, repeats 0.5, no interaction of model and prompt."""
    rng = np.random.default_rng(3)
    models, prompts, cases = rng.normal(0, 2, 30), rng.normal(0, 1, 30), rng.normal(0, 3, 60)
    trials = [
        trial(c, models[m] + prompts[p] + cases[c] + 0.5 * rng.normal(), r, model=m, prompt=p)
        for c in range(60)
        for m in range(10)
        for p in range(6)
        for r in range(2)
    ]
    found = results(trials).effects("model", "prompt", order=1).variance
    factors = dict(found.factors)
    assert sum(factors.values()) == pytest.approx(found.condition)
    assert factors["model"] == pytest.approx(models[:10].var(ddof=1), rel=0.2)
    assert factors["prompt"] == pytest.approx(prompts[:6].var(ddof=1), rel=0.3)
    assert factors["model x prompt"] < 0.01
    assert found.repeat == pytest.approx(0.25, rel=0.1)
    assert sum(found.shares.values()) == pytest.approx(1)
    assert found.sources.startswith(
        "variance, estimated (with approximate 95% intervals): model 49% [42%, 57%], case 48%"
    )


def test_repeats_that_agree_are_repeats(trial, results) -> None:
    """Where nothing varied but the condition, repeats were said not to be there."""
    found = results(
        trial(case, model == "b", repeat=repeat, model=model)
        for case in ("x", "y")
        for model in ("a", "b")
        for repeat in range(3)
    )
    text = str(found.effects())
    assert "agree with each other" in text
    assert "Nothing is repeated" not in text
    once = results(trial(case, model == "b", model=model) for case in ("x", "y") for model in ("a", "b"))
    assert "Nothing is repeated" in str(once.effects())


def test_a_missing_statsmodels_is_an_error_with_advice() -> None:
    """It was a note below a table without numbers, and the command succeeded."""
    code = (
        "import sys; sys.modules['statsmodels'] = None\n"
        "from peira import study, run\n"
        "def echo(case, n): return case.input if n else ''\n"
        "from peira import Study\n"
        "made = Study(name='s', agent=echo, cases=[('a', 'a'), ('b', 'b'), ('c', 'd')],\n"
        "             factors={'n': [0, 1]}, evaluators=['exact'], repeats=2)\n"
        "from peira.stores.memory import MemoryStore\n"
        "run(made, store=MemoryStore(), progress=False).mixed()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'peira[stats]'" in done.stderr


def losing(trial):
    """38 of 48 trials; the same data as in the R code below."""
    return [
        trial(
            c,
            float((7 * c + 5 * m * m + 3 * s + 11 * c * m * s + 2 * c * s + c * c * m) % 17),
            m=f"m{m}",
            s=s,
        )
        for s in range(2)
        for m in range(3)
        for c in range(8)
        if (3 * c + 2 * m + s) % 5
    ]


def test_marginal_means_of_an_incomplete_table_are_those_of_emmeans(trial, results):
    """R 4.2.2, emmeans 1.8.4:
    d <- expand.grid(case = 0:7, m = 0:2, s = 0:1)
    d$y <- with(d, (7*case + 5*m*m + 3*s + 11*case*m*s + 2*case*s + case*case*m) %% 17)
    d <- d[with(d, (3*case + 2*m + s) %% 5) != 0, ]
    for (n in names(d)[1:3]) d[[n]] <- factor(d[[n]])
    fit <- lm(y ~ case + m * s, d); emmeans(fit, "m"); emmeans(fit, "s"); pairs(emmeans(fit, "m"))"""
    given = results(losing(trial))
    found = {(one.factor, one.level): one.estimate.mean for one in given.effects().means}
    expected = {"m0": 8.94324834250, "m1": 8.33345172601, "m2": 9.42698698184}
    assert [found["m", level] for level in expected] == pytest.approx(list(expected.values()), rel=1e-10)
    assert [found["s", level] for level in "01"] == pytest.approx([8.55670463629, 9.24575339728], rel=1e-10)
    pairs = {(c.first, c.second): c.difference.mean for c in given.compare("m").contrasts}
    assert pairs["m1", "m0"] == pytest.approx(-0.609796616488, rel=1e-10)
    assert pairs["m2", "m0"] == pytest.approx(0.483738639341, rel=1e-10)


def test_degrees_of_freedom_of_a_term_are_those_of_the_dense_formulas(trial):
    """Pustejovsky and Tipton (2018), with cases as columns, and every unit's linear form written out."""
    table = table_of(measure(losing(trial)))
    found = CaseModel(table, ["m", "s"], 2).fit()
    place = found.kept.places[0]
    weights = found.weights(place, np.eye(2))

    x = np.hstack([*(term.columns for term in found.kept.terms), np.eye(8)[table.cases]])
    inverse = np.linalg.pinv(x.T @ x)
    rest = np.eye(len(x)) - x @ inverse @ x.T
    c = np.zeros((x.shape[1], 2))
    c[place] = np.eye(2)
    values, vectors = np.linalg.eigh(c.T @ inverse @ c)
    c = c @ vectors / np.sqrt(values)
    forms = []
    for unit in range(8):
        rows = table.units == unit
        own, turned = np.linalg.eigh(rest[np.ix_(rows, rows)])
        root = turned @ np.diag([v**-0.5 if v > 1e-9 else 0.0 for v in own]) @ turned.T
        forms.append(rest[:, rows] @ root @ x[rows] @ inverse @ c)
    total = 0.0
    for one, other in product(forms, repeat=2):
        inner = one.T @ other
        total += float(np.outer(np.diag(inner), np.diag(inner)).sum() + (inner * inner.T).sum())
    assert found.leverage.degrees(weights) == pytest.approx(6 / total, rel=1e-9)
    assert found.leverage.degrees(weights) < 7


def test_a_marginal_mean_stays_between_the_ends_of_the_score(trial, results):
    """Nearly perfect, and a fifth of the trials lost: an adjusted mean and its interval do not pass 1."""
    rng = np.random.default_rng(3)
    trials = [
        trial(c, float(rng.random() < (0.97 if m else 0.6)), m=m, s=s)
        for c, m, s in product(range(12), range(2), range(2))
        if rng.random() > 0.2
    ]
    for one in results(trials).effects().means:
        assert 0 <= one.estimate.low <= one.estimate.mean <= one.estimate.high <= 1


def test_many_units_do_not_hide_that_few_carry_an_effect(trial, results):
    """Four of three hundred cases have more than one level: three degrees of freedom, not 299."""
    rng = np.random.default_rng(1)
    kept = [(c, m) for c in range(300) for m in (range(3) if c < 4 else [c % 3])]
    (test,) = results([trial(c, rng.normal(), m=m) for c, m in kept]).effects().tests
    assert test.df_error == pytest.approx(2)


def components_study(trial, cases=30, seed=0):
    rng = np.random.default_rng(seed)
    own, reaction = rng.normal(size=cases), rng.normal(0, 0.7, size=(cases, 2))
    return [
        trial(c, float(own[c] + reaction[c, m] + 0.5 * m + rng.normal()), repeat=r, m=m)
        for c, m, r in product(range(cases), range(2), range(2))
    ]


def test_shares_of_the_variance_have_intervals(trial, results):
    found = results(components_study(trial)).effects().variance
    known = {name: (low, high) for name, low, high in found.intervals}
    assert set(known) == set(found.shares)
    for name, share in found.shares.items():
        assert 0 <= known[name][0] <= share <= known[name][1] <= 1
        assert known[name][0] < known[name][1]
    assert "variance, estimated (with approximate 95% intervals): " in found.sources
    low, high = found.repeats_interval
    assert low < found.repeats < high
    assert f"({low:.0%} to {high:.0%})" in found.sentence


def test_the_intervals_of_shares_hold_the_truth_about_as_often_as_they_say(trial, results):
    """Cases 1, case x condition 0.49, repeats 1, conditions 0.125: an approximate interval, at 30 cases."""
    truth = {"case": 1.0, "case x condition": 0.49, "repeat": 1.0, "condition": 0.125}
    held, rounds = dict.fromkeys(truth, 0), 60
    for seed in range(rounds):
        for name, low, high in results(components_study(trial, seed=seed)).effects().variance.intervals:
            held[name] += low <= truth[name] / sum(truth.values()) <= high
    assert min(held.values()) / rounds >= 0.85


def test_too_few_cases_have_no_intervals_of_shares_and_say_so(trial, results):
    found = results(components_study(trial, cases=4)).effects().variance
    assert found.intervals == ()
    assert "too few cases for intervals" in found.sources


def test_factors_and_their_interaction_have_intervals_too(trial, results):
    rng = np.random.default_rng(4)
    noise = rng.normal(size=(12, 2, 2))
    trials = [
        trial(c, float(noise[c, a, b] + a + c / 12), a=a, b=b)
        for c, a, b in product(range(12), (0, 1), (0, 1))
    ]
    found = results(trials).effects().variance
    assert {name for name, _, _ in found.intervals} == {
        "a",
        "b",
        "a x b",
        "case",
        "case x condition and repeat",
    }


def crossed_samples(trial):
    """Twelve cases of six documents before three judges; the data of the R code below."""
    found = []
    for n in range(72):
        case, judge, a = n // 6, n % 3, (n // 3) % 2
        value = float((7 * case + 3 * judge + 5 * a * case + n * n) % 13)
        about = {"document": f"d{case // 2}"}
        found.append(trial(case, value, metadata=about, a=a, judge=f"j{judge}"))
    return found


def test_cases_documents_and_judges_are_crossed_samples(trial, results):
    """R 4.2.2, lme4 1.1-31, sandwich 3.0-2:
    n <- 0:71; case <- n %/% 6; doc <- case %/% 2; judge <- n %% 3; a <- (n %/% 3) %% 2
    y <- (7*case + 3*judge + 5*a*case + n*n) %% 13; x <- ifelse(a == 0, 1, -1)
    lmer(y ~ x + (1|case) + (1|judge) + (1|doc), REML = TRUE)
    fit <- lm(y ~ x); vcovCL(fit, cluster = data.frame(case, doc, judge), type = "HC0")   # not positive
    for (g in list(case, doc, judge)) sqrt(diag(vcovCL(fit, cluster = g, type = "HC0")))"""
    given = results(crossed_samples(trial))
    found = given.mixed("a", random=["judge", "document"])
    assert found.effect("a").estimate.mean == pytest.approx(2 * 0.1805555556, rel=1e-6)
    (variances,) = [note for note in found.notes if note.startswith("variances: ")]
    assert "case 1.232 (10%), judge 0.941" in variances
    assert "residual 9.926" in variances
    assert (
        found.effect("a").estimate.method == "mixed model, reml, case and judge and document random, robust"
    )
    same = given.mixed("a", random=["judge", "metadata.document"]).effect("a").estimate
    assert (same.mean, same.low) == (found.effect("a").estimate.mean, found.effect("a").estimate.low)


def test_crossed_clusters_have_the_covariance_of_sandwich(trial):
    """The R values of the test above: errors clustered in three ways, never less than in any one way."""
    n = np.arange(72)
    case, judge, a = n // 6, n % 3, (n // 3) % 2
    y = ((7 * case + 3 * judge + 5 * a * case + n * n) % 13).astype(float)
    x = np.column_stack([np.ones(72), np.where(a == 0, 1.0, -1.0)])
    bread = np.linalg.inv(x.T @ x)
    influence = x * (y - x @ (bread @ x.T @ y))[:, None] @ bread
    random = [
        CodedFactor("case", tuple(map(str, range(12))), case),
        CodedFactor("doc", tuple(map(str, range(6))), case // 2),
        CodedFactor("judge", tuple("012"), judge),
    ]
    errors = [_crossed_error(influence, random, 2.0, weights).error for weights in np.eye(2)]
    assert errors == pytest.approx([0.6719983557446, 0.411563871624], rel=1e-9)
    assert _crossed_error(influence, random[::2], 2.0, np.eye(2)[0]).error == pytest.approx(
        TWO_WAYS, rel=1e-9
    )


TWO_WAYS = 0.7201536170588
"""sqrt(diag(vcovCL(fit, cluster = data.frame(case, judge), type = "HC0")))[1]"""


def test_contrasts_of_grades_from_1_to_5_may_exceed_one(trial, results):
    """They were cut at the largest difference of scores from 0 to 1."""
    rng = np.random.default_rng(0)
    grades = {"a": 1, "b": 3, "c": 5}
    trials = [
        trial(c, float(np.clip(grades[m] + rng.integers(-1, 2), 1, 5)), model=m)
        for c in range(40)
        for m in grades
    ]
    (low,) = [one for one in results(trials).effects().effects if one.label == "a"]
    assert low.estimate.low < low.estimate.mean < -1.2


@pytest.mark.parametrize("lost", [0.0, 0.1])
def test_scores_that_could_fail_unseen_are_not_told_apart_from_tight_ones(trial, results, lost):
    """Twelve cases without a failure of a level that fails in one of twenty: t was sure, the bound is not."""
    rng = np.random.default_rng(1)
    trials = [
        trial(c, 0.95 if a == "x" else float(rng.normal(0.9025, 0.01)), A=a, B=b)
        for c, a, b in product(range(12), "xy", "pq")
        if rng.random() >= lost
    ]
    found = results(trials)
    (contrast,) = found.compare("A").contrasts
    assert contrast.difference.method.startswith("bounded")
    assert contrast.p > 0.05
    assert found.effects().effect("A").estimate == contrast.difference
    assert next(test.p for test in found.effects().tests if test.term == "A") == contrast.p


def test_yes_no_answers_under_several_conditions_keep_the_power_of_t(trial, results):
    """Twelve cases under eight other conditions: the values within cases show that none is far off."""
    rng = np.random.default_rng(2)
    trials = [
        trial(c, bool(rng.random() < (0.8 if a == "y" else 0.4)), A=a, B=b)
        for c, a, b in product(range(12), "xy", range(8))
    ]
    (contrast,) = results(trials).compare("A").contrasts
    assert contrast.test == "paired t, clustered"
    assert contrast.p < 0.001


@pytest.mark.parametrize(
    ("value", "whole"),
    [
        (lambda case, level: 10.0 * (level == "a"), "condition"),
        (lambda case, level: float(case), "case"),
    ],
)
def test_a_source_that_has_all_of_the_variance_has_no_interval(trial, results, value, whole):
    """Whichever cases are drawn, its share is 100%: that does not say that nothing else varies."""
    found = results([trial(c, value(c, m), m=m) for c in range(20) for m in "ab"]).effects().variance
    assert found.shares[whole] == 1
    assert found.intervals == ()
    assert found.sources.startswith(f"variance, estimated (no intervals: one source has all of it): {whole}")


def test_what_was_never_seen_to_vary_has_no_interval_of_its_share(trial, results):
    """Repeats that always agree."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(20, 2))
    trials = [trial(c, values[c, m], repeat=r, m=m) for c in range(20) for m in range(2) for r in range(2)]
    found = results(trials).effects().variance
    assert {name for name, _, _ in found.intervals} == set(found.shares) - {"repeat"}
    assert "repeat 0% [unknown]" in found.sources
    assert ["repeat", "0% [unknown]"] in found.grids()[0].rows


def test_few_cases_are_marked_in_every_row_of_scores_within_limits_too(trial, results):
    """Values under eight conditions show what there is, and t is used; fourteen cases stay few."""
    rng = np.random.default_rng(4)
    given = [
        trial(c, float(rng.uniform(0.2, 0.8)), m=m, s=s, u=u)
        for c, m, s, u in product(range(14), range(2), range(2), range(2))
    ]
    found = results(given[1:-1]).effects()
    methods = [one.estimate.method for one in found.effects]
    assert not any(method.startswith("bounded") for method in methods)
    assert all(method.endswith("(few)") for method in methods)


def losing_wrong_answers(trial, levels, seed=3, share=0.5):
    """Answers that do not depend on the condition; under the first of all, wrong ones are lost."""
    rng = np.random.default_rng(seed)
    return [
        trial(c, None if m == s == 0 and not right and rng.random() < share else float(right), m=m, s=s)
        for c, m, s in product(range(200), range(2), range(levels))
        for right in [bool(rng.random() < 0.6)]
    ]


@pytest.mark.parametrize(("levels", "term"), [(1, "m"), (2, "m x s"), (3, "m x s"), (3, "s")])
def test_what_lost_trials_could_overturn_is_said_first_by_effects(trial, results, levels, term):
    given = losing_wrong_answers(trial, levels, share=0.5 if levels == 1 else 0.9)
    lost = sum(not one.scores for one in given)
    found = results(given).effects()
    (test,) = [one for one in found.tests if one.term == term]
    assert test.p <= 0.05
    assert test.lost == lost
    lines = found.sentence.splitlines()
    assert any(line.startswith(f"{lost} lost trials could overturn this: {term} ") for line in lines)
    if " x " in term:
        assert lost_terms(found).startswith(f"{lost} lost trials could overturn ")
        assert term in lost_terms(found)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_what_no_lost_trials_could_overturn_is_clear(trial, results, levels):
    rng = np.random.default_rng(6)
    given = [
        trial(
            c,
            None if c < 3 and m == s == 0 else float(rng.random() < 0.9 - 0.7 * (m and s == levels - 1)),
            m=m,
            s=s,
        )
        for c, m, s in product(range(200), range(2), range(levels))
    ]
    found = results(given).effects()
    assert all(one.lost == 0 for one in found.tests)
    assert any(one.p < 0.001 for one in found.tests)
    assert "could overturn" not in found.sentence


def test_lost_values_without_known_ends_could_overturn_everything(trial, results):
    rng = np.random.default_rng(6)
    given = [
        trial(c, None if c == m == 0 else float(rng.normal(9 + m, 0.5)), m=m)
        for c, m in product(range(50), range(2))
    ]
    (test,) = results(given).effects().tests
    assert test.p < 0.001
    assert test.lost == 1


def test_other_models_say_that_they_do_not_test_what_lost_trials_could_overturn(trial, results):
    said = "what lost trials could overturn is not tested here: effects and comparisons say it"
    given, full = (results(losing_wrong_answers(trial, 2, share=share)) for share in (0.5, 0.0))
    for made, there in ((given, True), (full, False)):
        assert (said in made.anova().notes) is there
        assert (said in made.mixed().notes) is there
