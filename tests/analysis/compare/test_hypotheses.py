"""Hypotheses: tested as declared, and never more sure than the declared plan allows."""

from __future__ import annotations

import json

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from peira.analysis.compare.hypotheses import decide
from peira.analysis.results import Results
from peira.errors import Invalid
from peira.results.aims import Aims
from peira.spec.aims import AnalysisPlan, Hypothesis, Outcome


def trials(trial, shift, n=40, seed=0):
    """Models with these mean scores on the same cases."""
    rng = np.random.default_rng(seed)
    level = rng.normal(size=n)
    return [
        trial(c, float(level[c] + mean + rng.normal()), model=m)
        for m, mean in shift.items()
        for c in range(n)
    ]


def verdicts(found):
    return {one.hypothesis: one.verdict for one in found.found}


def values(made, model):
    return np.array([t.scores["match"].value for t in made if t.condition["model"] == model])


def test_a_hypothesis_is_supported_rejected_or_undecided(trial):
    made = trials(trial, {"a": 0, "b": 2, "c": 0}, seed=1)
    aims = Aims(
        hypotheses=(
            Hypothesis("up", factor="model", levels=("b", "a"), direction="greater"),
            Hypothesis("down", factor="model", levels=("b", "a"), direction="less"),
            Hypothesis("same", factor="model", levels=("a", "c"), direction="greater"),
            Hypothesis("any", factor="model"),
            Hypothesis("top", factor="model", levels=("b",), direction="greater"),
            Hypothesis("chain", factor="model", levels=("b", "a", "c"), direction="greater"),
        )
    )
    found = decide(made, aims)
    assert verdicts(found) == {
        "up": "supported",
        "down": "rejected",
        "same": "undecided",
        "any": "supported",
        "top": "supported",
        "chain": "undecided",
    }
    up = found.found[0]
    one_sided = stats.ttest_rel(values(made, "b"), values(made, "a"), alternative="greater")
    assert up.p == pytest.approx(one_sided.pvalue)
    assert "up is supported: p = " in found.sentence
    assert json.loads(found.to_json())["found"][0]["verdict"] == "supported"
    assert "| up |" in found.markdown()


def test_the_plan_decides_test_alpha_and_correction(trial):
    made = trials(trial, {"a": 0, "b": 0.4, "c": 0.5, "d": 0.6}, seed=3)
    family = tuple(Hypothesis(m, factor="model", levels=(m, "a"), direction="greater") for m in "bcd")
    plan = AnalysisPlan("main", test="wilcoxon", alpha=0.01, correction="holm")
    found = decide(made, Aims((), family, (plan,))).found
    alone = [stats.wilcoxon(values(made, m) - values(made, "a"), alternative="greater").pvalue for m in "bcd"]
    assert [one.p for one in found] == pytest.approx(alone)
    assert [one.adjusted for one in found] == pytest.approx(list(multipletests(alone, method="holm")[1]))
    assert {one.alpha for one in found} == {0.01}
    for one in found:
        assert (one.verdict == "supported") == (one.adjusted <= 0.01)


def test_a_hypothesis_keeps_the_alpha_it_names(trial):
    made = trials(trial, {"a": 0, "b": 0.1})
    aims = Aims((), (Hypothesis("h", factor="model", alpha=0.2),), (AnalysisPlan("main", alpha=0.01),))
    assert decide(made, aims).found[0].alpha == 0.2


def test_dunnett_takes_the_whole_plan_as_its_family(trial):
    made = trials(trial, {"a": 0, "b": 1.5, "c": -1.5, "d": 0})
    family = tuple(Hypothesis(m, factor="model", levels=(m, "a"), direction="greater") for m in "bcd")
    found = decide(made, Aims((), family, (AnalysisPlan("main", correction="dunnett"),)))
    assert verdicts(found) == {"b": "supported", "c": "rejected", "d": "undecided"}
    alone = decide(made, Aims((), (Hypothesis("d", factor="model", levels=("d", "a")),)))
    joint = decide(made, Aims((), tuple(Hypothesis(m, factor="model", levels=(m, "a")) for m in "bcd"),
                              (AnalysisPlan("main", correction="dunnett"),)))  # fmt: skip
    assert joint.found[2].adjusted > alone.found[0].adjusted


def test_tukey_needs_every_pair(trial):
    made = trials(trial, {"a": 0, "b": 2, "c": 0})
    plan = AnalysisPlan("main", correction="tukey")
    whole = Aims((), (Hypothesis("all", factor="model"),), (plan,))
    assert verdicts(decide(made, whole)) == {"all": "supported"}
    part = Aims((), (Hypothesis("h1", factor="model", levels=("b", "a")),
                     Hypothesis("h2", factor="model", levels=("c", "a"))), (plan,))  # fmt: skip
    assert "every pair" in decide(made, part).found[0].reason


def test_outcomes_name_what_is_measured(trial):
    made = [
        trial(c, 1, model=m, metrics={"words": float(c + 5 * (m == "b"))}) for c in range(9) for m in "ab"
    ]
    outcomes = (Outcome("length", metric="words"), Outcome("match"))
    h = Hypothesis("h", outcome="length", factor="model", levels=("b", "a"), direction="greater")
    found = decide(made, Aims(outcomes, (h,))).found[0]
    assert (found.outcome, found.verdict) == ("words", "supported")


@pytest.mark.parametrize(
    ("hypothesis", "reason"),
    [
        (Hypothesis("h", statement="it is better"), "names no factor"),
        (Hypothesis("h", factor="model", direction="greater"), "which level of model"),
        (Hypothesis("h", factor="model", levels=("a", "z")), "no level 'z'"),
        (Hypothesis("h", factor="model", outcome="nothing"), "no score 'nothing'"),
    ],
)
def test_what_cannot_be_tested_is_undecided_and_says_why(trial, hypothesis, reason):
    found = decide(trials(trial, {"a": 0, "b": 9}), Aims((), (hypothesis,))).found[0]
    assert found.verdict == "undecided"
    assert reason in found.sentence


@pytest.mark.parametrize("value", [None, 1, 0.5])
def test_degenerate_results_decide_nothing(trial, value):
    made = [trial(c, value, model=m) for c in range(4) for m in "ab"]
    for direction in ("different", "greater"):
        h = Hypothesis("h", factor="model", levels=("a", "b"), direction=direction)
        assert verdicts(decide(made, Aims((), (h,)))) == {"h": "undecided"}


def test_a_mistaken_name_is_told_with_the_nearest():
    with pytest.raises(Invalid) as caught:
        AnalysisPlan("main", test="wilcoxn", correction="hulm")
    assert [problem.partition("; ")[2] for problem in caught.value.problems] == [
        "did you mean 'wilcoxon'?",
        "did you mean 'holm'?",
    ]
    with pytest.raises(Invalid, match="leave out 'sign'"):
        AnalysisPlan("main", test="sign", correction="tukey")


def test_aims_are_read_from_what_a_run_keeps():
    kept = {
        "hypotheses": [{"id": "h", "factor": "x"}],
        "analysis_plans": [{"name": "p", "hypotheses": ["h"]}],
    }
    aims = Aims.of(kept)
    assert [(plan.name, [h.id for h in family]) for plan, family in aims.families()] == [("p", ["h"])]
    assert aims.declares("x", "match")
    assert not aims.declares("y", "match")
    assert Aims.of(None) == Aims()


def test_what_was_not_declared_is_exploratory(trial):
    made = [trial(c, c % 3, model=m, style=s) for c in range(9) for m in "ab" for s in "xy"]
    aims = Aims(hypotheses=(Hypothesis("h", factor="model"),))
    found = Results(lambda: iter(made), run_id="r", study="s", status="completed", counts={}, aims=aims)
    said = "exploratory: the study declares no hypothesis about style"
    assert said in found.compare("style").remarks
    assert not any("exploratory" in note for note in found.compare("model").remarks)
    assert said in found.effects().remarks
    assert verdicts(found.hypotheses()) == {"h": "undecided"}
