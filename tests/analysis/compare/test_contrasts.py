"""Comparisons: paired where they can be, tested as the data demand, honest about what is not known."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.multitest import multipletests

from peira.analysis.compare.contrasts import compare_levels
from peira.analysis.compare.tests import TESTS
from peira.core.log.events import State
from peira.errors import Invalid, Unknown
from peira.results.trials import Score, TrialResult
from peira.spec import aims


def sides(trial, first, second, **more):
    """Two models, each with these values on cases 0, 1, ..."""
    return [
        trial(case, value, model=model, **more)
        for model, values in (("a", first), ("b", second))
        for case, value in enumerate(values)
    ]


def only(comparison):
    (found,) = comparison.contrasts
    return found


def test_graded_scores_are_compared_by_a_paired_t(trial, results):
    rng = np.random.default_rng(0)
    one, two = rng.normal(size=30), rng.normal(0.3, 1, size=30)
    found = only(results(sides(trial, one, two)).compare("model", "b", "a"))
    reference = stats.ttest_rel(two, one)
    low, high = reference.confidence_interval()
    assert found.p == pytest.approx(reference.pvalue)
    assert (found.difference.low, found.difference.high) == pytest.approx((low, high))
    assert found.effect.value == pytest.approx((two - one).mean() / (two - one).std(ddof=1))
    assert (found.paired, found.pairing, found.n, found.units) == (True, "case", 30, 30)
    assert found.better == pytest.approx(1 - reference.pvalue / 2)


def test_few_cases_of_an_unbounded_measure_are_compared_by_every_flip_of_signs(trial, results):
    one, two = [1.1, 5.5, 0.7, 0.9, 6.3, 0.2], [1.4, 5.6, 0.9, 0.95, 6.8, 0.1]
    found = only(results(sides(trial, one, two)).compare("model"))
    exact = stats.permutation_test(
        (np.array(two), np.array(one)),
        lambda a, b: (a - b).mean(),
        permutation_type="samples",
        n_resamples=np.inf,
    )
    assert found.p == pytest.approx(exact.pvalue)
    assert found.test == "sign-flip permutation (exact)"


def test_yes_and_no_are_compared_by_mcnemar(trial, results):
    one = [True] * 30 + [False] * 20
    two = [True] * 25 + [False] * 5 + [True] * 15 + [False] * 5
    found = results(sides(trial, one, two))
    assert only(found.compare("model")).test == "mcnemar exact"
    classical = mcnemar([[25, 5], [15, 5]], exact=True)
    assert only(found.compare("model", test="mcnemar conditional")).p == pytest.approx(classical.pvalue)


def test_repeats_are_averaged_within_a_case(trial, results):
    rng = np.random.default_rng(1)
    values = rng.normal(size=(20, 2, 3))
    trials = [
        trial(c, values[c, m, r], repeat=r, model="ab"[m])
        for c in range(20)
        for m in range(2)
        for r in range(3)
    ]
    found = only(results(trials).compare("model"))
    means = values.mean(axis=2)
    assert (found.n, found.p) == (20, pytest.approx(stats.ttest_rel(means[:, 1], means[:, 0]).pvalue))


def test_cases_of_one_cluster_are_one_unit_of_evidence(trial, results):
    rng = np.random.default_rng(2)
    trials = [trial(c, rng.normal(), model=m, cluster=str(c // 4)) for c in range(80) for m in "ab"]
    found = results(trials).compare("model")
    assert (only(found).units, only(found).unit, only(found).n) == (20, "cluster", 80)
    assert "20 clusters" in found.sentence


def test_other_factors_are_matched_or_averaged_over(trial, results):
    crossed = [trial(c, c % 3 / 2, model=m, style=s) for c in range(9) for m in "ab" for s in "xy"]
    assert only(results(crossed).compare("model")).pairing == "case and condition"
    halved = [t for t in crossed if (t.condition["model"] == "a") == (t.condition["style"] == "x")]
    found = only(results(halved).compare("model"))
    assert (found.paired, found.pairing) == (True, "case, averaged over the other factors")


def test_sides_without_a_case_in_common_are_not_paired(trial, results):
    rng = np.random.default_rng(4)
    one, two = rng.normal(size=20), rng.normal(size=25)
    trials = [trial(f"a{i}", v, model="a") for i, v in enumerate(one)]
    trials += [trial(f"b{i}", v, model="b") for i, v in enumerate(two)]
    found = results(trials).compare("model")
    assert only(found).p == pytest.approx(stats.ttest_ind(two, one, equal_var=False).pvalue)
    assert "not paired: the sides have no case in common" in found.remarks
    with pytest.raises(Invalid, match="no case in common"):
        results(trials).compare("model", paired=True)


def test_shared_calls_are_told_and_forbid_an_unpaired_test(trial, results):
    trials = sides(trial, [0.0] * 5, [0.5] * 5)
    called = [
        TrialResult(**{**{f: getattr(t, f) for f in t.__struct_fields__}, "calls": (t.case_id, t.id)})
        for t in trials
    ]
    found = results(called).compare("model")
    assert only(found).shared == 0.5
    assert "b and a share 50% of their calls" in found.remarks
    with pytest.raises(Invalid, match="share 50% of their calls"):
        results(called).compare("model", paired=False)
    with pytest.raises(Invalid, match="share 50%"):
        results(called).compare("model", test="mann-whitney")


def test_runs_are_paired_on_what_both_did(trial, results):
    one = results([trial(c, c % 2, model=m) for c in range(10) for m in "ab"], "1" * 64)
    two = results([trial(c, c % 3 > 0, model=m) for c in range(5, 15) for m in "ab"], "2" * 64)
    found = one.compare(two)
    assert (only(found).n, only(found).units, only(found).unmatched) == (10, 5, 20)
    assert only(found).shared == 0.5  # half of the trials have the same identity
    assert only(found).first == "1" * 12


@pytest.mark.parametrize(
    ("correction", "name"), [("holm", "holm"), ("bh", "fdr_bh"), ("bonferroni", "bonferroni")]
)
def test_a_family_is_corrected(trial, results, correction, name):
    rng = np.random.default_rng(4)
    found = results([trial(c, rng.normal(m / 3), model=m) for c in range(20) for m in range(4)])
    alone = found.compare("model", correction=None)
    together = found.compare("model", correction=correction)
    expected = multipletests([one.p for one in alone.contrasts], method=name)[1]
    assert [one.adjusted for one in together.contrasts] == pytest.approx(list(expected))
    wider = [
        a.difference.high - b.difference.high
        for a, b in zip(together.contrasts, alone.contrasts, strict=True)
    ]
    assert all(gap > 0 for gap in wider) if correction != "bh" else wider == [0] * 6


def test_dunnett_and_tukey_take_the_family_they_are_for(trial, results):
    rng = np.random.default_rng(5)
    found = results([trial(c, rng.normal(m == 3), model=m) for c in range(30) for m in range(4)])
    against = found.compare("model", baseline=0, correction="dunnett")
    every = found.compare("model", correction="tukey")
    assert [one.second for one in against.contrasts] == ["0"] * 3
    assert len(every.contrasts) == 6
    alone = found.compare("model", baseline=0, correction=None)
    for joint, one in zip(against.contrasts, alone.contrasts, strict=True):
        assert joint.difference.high > one.difference.high
        assert joint.difference.mean == pytest.approx(one.difference.mean)
    with pytest.raises(Invalid, match="baseline"):
        found.compare("model", correction="dunnett")
    with pytest.raises(Invalid, match="every pair"):
        found.compare("model", baseline=0, correction="tukey")


KINDS = {
    "normal": lambda rng, m: rng.normal(m == 3),
    "log-normal": lambda rng, m: float(rng.lognormal(m == 3)),
    "yes or no": lambda rng, m: float(rng.random() < (0.9 if m == 3 else 0.5)),
    "mostly perfect": lambda rng, m: 1.0 if rng.random() < 0.8 else float(rng.random()),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("cases", "shared"), [(7, True), (12, True), (40, True), (15, False)])
def test_joint_corrections_are_never_less_cautious_than_the_contrast_alone(
    trial, results, kind, cases, shared
):
    rng = np.random.default_rng(cases)
    made = [
        trial(c if shared else f"{m}.{c}", KINDS[kind](rng, m), model=m)
        for c in range(cases)
        for m in range(4)
        if rng.random() > 0.05
    ]
    for query in ({"baseline": 0, "correction": "dunnett"}, {"correction": "tukey"}):
        joint = results(made).compare("model", **query).contrasts
        plain = results(made).compare("model", **{**query, "correction": None}).contrasts
        for one, two in zip(joint, plain, strict=True):
            assert one.p == two.p
            assert one.adjusted >= two.p
            assert one.difference.low <= two.difference.low + 1e-9
            assert one.difference.high >= two.difference.high - 1e-9
            if shared and two.test.startswith(("paired t", "t,", "bounded")):
                assert one.difference.excludes_zero == one.clear(0.05)


def test_lost_trials_are_bounds_and_never_dropped_in_silence(trial, results):
    trials = sides(trial, [1, 1, 1, 0, None], [1, 0, None, 0, 1])
    found = results(trials).compare("model", "a", "b")
    bounds = only(found).bounds
    assert (only(found).n, bounds.lost) == (3, 2)
    assert bounds.low == pytest.approx((0 + 1 + 0 + 0 - 1) / 5)
    assert bounds.high == pytest.approx((0 + 1 + 1 + 0 + 0) / 5)
    assert bounds.lowest < bounds.low < only(found).difference.mean < bounds.high < bounds.highest
    assert "with 2 lost trials at worst or best the difference lies between 0.00 and 0.40" in str(found)


def test_a_margin_asks_whether_the_difference_matters(trial, results):
    rng = np.random.default_rng(6)
    base = rng.normal(size=200)
    found = results(sides(trial, base, base + rng.normal(0, 0.05, size=200))).compare("model", margin=0.05)
    assert only(found).equivalent.answer == only(found).not_worse.answer == "within"
    assert "equivalent within 0.05" in found.sentence
    loose = only(results(sides(trial, [0.0, 0.1, 0.3], [0.4, 0.0, 0.2])).compare("model", margin=0.01))
    assert loose.equivalent.answer == "undecided"


def test_how_many_more_cases_it_would_take(trial, results):
    rng = np.random.default_rng(7)
    one = rng.normal(size=40)
    found = results(sides(trial, one, one + rng.normal(0.1, 1, size=40))).compare("model")
    assert only(found).more_cases > 0
    assert f"about {only(found).more_cases:,} more cases" in found.sentence


@pytest.mark.parametrize(
    ("first", "second", "sentence"),
    [
        ([1], [0], "cannot be told apart"),
        ([0.3], [0.5], "cannot be told apart"),
        ([1] * 9, [1] * 9, "cannot be told apart"),
        ([0.5] * 9, [0.5] * 9, "cannot be told apart"),
        ([0.4] * 30, [0.5] * 30, "cannot be told apart"),
        ([0.2] * 30, [0.5] * 30, "b scores higher than a"),
        ([7.0] * 30, [7.5] * 30, "b scores higher than a"),
        ([True] * 9, [False] * 9, "lower than a"),
        ([None] * 3, [None] * 3, "cannot be compared"),
        ([1, 0, 1], [None] * 3, "cannot be compared"),
    ],
    ids=[
        "one yes or no",
        "one case",
        "all right",
        "all equal",
        "a small difference without spread",
        "no spread",
        "no spread, unbounded",
        "separated",
        "all failed",
        "one failed",
    ],
)
def test_degenerate_results_say_so(trial, results, first, second, sentence):
    found = results(sides(trial, first, second)).compare("model", margin=0.1)
    assert sentence in found.sentence
    document = json.loads(found.to_json())
    assert document["contrasts"][0]["first"] == "b"
    assert found.markdown()
    assert "<table>" in found._repr_html_()


def test_slices_scores_and_levels_are_named(trial, results):
    def judged(case, model, **scores):
        made = {name: Score(name, State.succeeded, value) for name, value in scores.items()}
        return trial(case, 0, model=model, scores=made, slice="easy" if case < 5 else "hard")

    found = results(
        [
            judged(c, m, match=c % 2, judge={"tone": c / 9, "style": 0.5}, word="x")
            for c in range(9)
            for m in (1, 2)
        ]
    )
    assert only(found.compare("model", score="judge.tone", slice="easy")).n == 5
    assert only(found.compare("model", score="word=x")).difference.mean == 0
    assert only(found.compare("model", score="took")).n == 9
    with pytest.raises(Invalid, match=r"several scores; name one of match, judge.tone, judge.style"):
        found.compare("model")
    with pytest.raises(Invalid, match="has parts"):
        found.compare("model", score="judge")
    for wrong in ({"score": "mach"}, {"slice": "hrad", "score": "match"}):
        with pytest.raises(Unknown, match=r"match|hard"):
            found.compare("model", **wrong)
    with pytest.raises(Unknown, match="no level '3'"):
        found.compare("model", 3, score="match")
    with pytest.raises(Invalid, match="with itself"):
        found.compare("model", 1, 1, score="match")
    with pytest.raises(Unknown, match="paired t"):
        found.compare("model", test="paired", score="match")


def test_bad_wishes_are_refused_all_at_once(trial, results):
    with pytest.raises(Invalid) as caught:
        results(sides(trial, [1], [0])).compare("model", level=1, margin=-1, correction="hulm")
    assert len(caught.value.problems) == 3


def test_plans_may_name_every_test_there_is():
    assert set(aims.TESTS) == set(TESTS)


@settings(max_examples=40)
@given(
    st.lists(st.tuples(st.booleans() | st.none(), st.booleans() | st.none()), min_size=1, max_size=12),
    st.booleans(),
)
def test_swapping_the_sides_turns_the_sign(pairs, graded):
    scale = 0.7 if graded else 1

    def made(turn):
        return [
            TrialResult(
                id=f"{case} {side}",
                agent="x",
                case_id=str(case),
                condition={"model": side},
                state=State.failed if value is None else State.succeeded,
                scores={} if value is None else {"s": Score("s", State.succeeded, scale * value)},
            )
            for case, values in enumerate(pairs)
            for side, value in zip("ab", values[::turn], strict=True)
        ]

    one, two = (only(compare_levels(made(turn), "model", "a", "b")) for turn in (1, -1))
    assert one.n == two.n == sum(None not in pair for pair in pairs)
    assert one.p == pytest.approx(two.p)
    if one.difference is not None and two.difference is not None:
        assert one.difference.mean == pytest.approx(-two.difference.mean)
        if one.difference.low is not None:
            assert one.difference.low == pytest.approx(-two.difference.high, abs=1e-6)


def test_levels_that_look_the_same_stay_apart(trial, results):
    """1 and "1"; and long prompts that differ only at their end."""
    long = "Answer the question as well as you can, and think before you do: "
    levels = [1, "1", f"{long}slowly", f"{long}quickly"]
    found = results([trial(c, (c + i) % 3, prompt=level) for c in range(9) for i, level in enumerate(levels)])
    assert len(found.compare("prompt").contrasts) == 6
    assert len({one.label for one in found.leaderboard().entries}) == 4
    assert len(found.slices("prompt").slices) == 4
    chosen = only(found.compare("prompt", f"{long}quickly", 1))
    assert chosen.first.endswith("(2)")
    assert chosen.second == "1"
    assert len({one.label for one in found.effects().effects}) == 4


def test_agents_that_take_different_factors_are_paired_by_case(trial, results):
    trials = [trial(c, c % 2, agent="planner", style=s) for c in range(9) for s in "xy"]
    trials += [trial(c, 0, agent="direct") for c in range(9)]
    found = only(results(trials).compare("agent"))
    assert (found.first, found.second, found.n) == ("direct", "planner", 9)
    assert found.pairing == "case, averaged over the other factors"


def test_what_lost_trials_could_overturn_is_said_first(trial, results):
    """Failures that depend on the answer: b seems better only because its wrong answers are lost."""
    rng = np.random.default_rng(1)
    trials = []
    for c in range(400):
        right = {m: rng.random() < 0.6 for m in "ab"}
        trials.append(trial(c, right["a"], model="a"))
        trials.append(trial(c, right["b"] if right["b"] or rng.random() < 0.5 else None, model="b"))
    found = results(trials).compare("model")
    contrast = found.contrasts[0]
    assert contrast.clear(0.05)
    assert contrast.overturnable
    assert found.sentence.startswith(
        f"{contrast.bounds.lost} lost trials could overturn this: b scores higher"
    )
    assert json.loads(found.to_json())["contrasts"][0]["overturnable"] is True


def test_without_lost_trials_nothing_is_overturned(trial, results):
    found = only(results(sides(trial, [True] * 9, [False] * 9)).compare("model"))
    assert not found.overturnable
