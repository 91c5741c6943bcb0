"""Planning numbers, from a run and from a deviation; and the gate."""

from __future__ import annotations

import json
import math
from xml.etree import ElementTree

import numpy as np
import pytest
from statsmodels.stats.power import TTestIndPower, TTestPower

from peira.analysis.gates import Bound, NoWorse, judge
from peira.analysis.power import PowerQuestion, plan_for, plan_from
from peira.errors import Invalid


def test_cases_needed_agree_with_statsmodels():
    found = plan_for(0.5, PowerQuestion(difference=0.2, cases=30)).rows[0]
    reference = TTestPower()
    assert found.needed == math.ceil(reference.solve_power(0.4, alpha=0.05, power=0.8))
    assert found.power == pytest.approx(reference.power(0.4, 30, 0.05), abs=1e-6)
    smallest = reference.solve_power(nobs=30, alpha=0.05, power=0.8) * 0.5
    assert found.smallest == pytest.approx(smallest, rel=1e-4)
    apart = plan_for(0.5, PowerQuestion(difference=0.2), unpaired=True).rows[0]
    assert apart.needed == math.ceil(TTestIndPower().solve_power(0.4, alpha=0.05, power=0.8))


def test_an_earlier_run_gives_the_spread(trial):
    rng = np.random.default_rng(0)
    gaps = rng.normal(0.1, 1, 50)
    made = [trial(c, float(g) if m == "b" else 0.0, model=m) for c, g in enumerate(gaps) for m in "ab"]
    found = plan_from(made, "model", PowerQuestion())
    row = found.rows[0]
    assert (row.label, row.cases) == ("b - a", 50)
    assert row.deviation == pytest.approx(gaps.std(ddof=1))
    assert row.difference == pytest.approx(gaps.mean())
    assert f"you would need {row.needed - 50:,} more" in found.sentence
    assert json.loads(found.to_json())["rows"][0]["needed"] == row.needed


def test_repeats_remove_only_what_repeats_leave(trial):
    rng = np.random.default_rng(1)
    gap = rng.normal(size=400)
    made = [
        trial(c, (m == "b") * gap[c] + rng.normal(0, 2), model=m, repeat=r)
        for c in range(400)
        for m in "ab"
        for r in range(3)
    ]
    once, often = (plan_from(made, "model", PowerQuestion(repeats=r)).rows[0].deviation for r in (1, 10_000))
    assert once == pytest.approx(3, rel=0.1)
    assert often == pytest.approx(1, rel=0.15)


@pytest.mark.parametrize(
    ("values", "note"),
    [([None, None], "fewer than two"), ([1], "fewer than two"), ([0.5] * 4, "no spread")],
)
def test_what_cannot_be_planned_from_says_so(trial, values, note):
    made = [trial(c, v, model=m) for c, v in enumerate(values) for m in "ab"]
    found = plan_from(made, "model", PowerQuestion())
    assert note in found.sentence
    assert str(found)


def test_repeats_cannot_be_asked_about_where_nothing_is_repeated(trial):
    made = [trial(c, c * (m == "a") % 3, model=m) for c in range(9) for m in "ab"]
    assert "nothing is repeated" in plan_from(made, "model", PowerQuestion(repeats=2)).sentence


def test_bad_questions_are_refused():
    with pytest.raises(Invalid) as caught:
        PowerQuestion(difference=0, cases=1, repeats=0, alpha=0.9)
    assert len(caught.value.problems) == 4
    with pytest.raises(Invalid, match="deviation"):
        plan_for(0, PowerQuestion())


def right(trial, n, of, lost=0):
    made = [trial(c, c < n) for c in range(of)]
    return made + [trial(of + c, None) for c in range(lost)]


def test_a_gate_asks_for_the_bound_not_the_mean(trial):
    good = judge(right(trial, 95, 100), [Bound("match", 0.89, "min"), Bound("match", 0.99, "max")])
    assert [check.met for check in good.checks] == [True, True]
    # 95 of 100 lie above 0.8977 with 95% confidence: 19 of 20 lie above 0.784.
    # R: binom.test(95, 100, alternative = "greater")$conf.int
    close = judge(right(trial, 95, 100), [Bound("match", 0.9, "min")])
    assert "above 0.8977 with 95% confidence" in str(close)
    assert not close.met
    small = judge(right(trial, 19, 20), [Bound("match", 0.9, "min")])
    assert not small.met
    assert "the mean is 0.95, above 0.7" in str(small)


def test_twelve_of_twelve_do_not_show_four_fifths(trial):
    # R: binom.test(12, 12, alternative = "greater")$conf.int
    found = judge(right(trial, 12, 12), [Bound("match", 0.8, "min")])
    assert not found.met
    assert "above 0.7791 with 95% confidence" in str(found)
    repeats = [trial(c, 1, repeat=r) for c in range(12) for r in range(5)]
    assert "above 0.7791" in str(judge(repeats, [Bound("match", 0.8, "min")]))


def test_time_and_cost_have_no_exact_bound_and_the_gate_says_so(trial):
    seconds = [trial(c, 1, took=1.0 + 30 * (c == 0) + c / 100) for c in range(40)]
    assert "skewed: Student's t may promise too much" in str(judge(seconds, [Bound("took", 9, "max")]))


def test_lost_trials_are_the_worst(trial):
    demand = [Bound("match", 0.85, "min")]
    assert judge(right(trial, 95, 100), demand).met
    assert not judge(right(trial, 95, 100, lost=20), demand).met
    assert not judge(right(trial, 0, 0, lost=5), demand).met
    seconds = [trial(c, c, took=1.0) for c in range(9)] + [trial(9, None)]
    assert not judge(seconds, [Bound("took", 5, "max")]).met
    assert judge([*seconds[:-1], trial(9, 1, took=2.0)], [Bound("took", 5, "max")]).met


def test_no_worse_than_another_run(trial):
    now, before = right(trial, 180, 200), right(trial, 181, 200)
    assert judge(now, [NoWorse("b" * 64, before, "match", 0.05)]).met
    assert not judge(now, [NoWorse("b" * 64, before, "match", 0.005)]).met
    assert not judge(right(trial, 100, 200), [NoWorse("b" * 64, before, "match", 0.05)]).met
    elsewhere = [trial(f"other {c}", None) for c in range(5)]
    assert not judge(now, [NoWorse("b" * 64, elsewhere, "match", 0.05)]).met


def test_less_time_is_not_worse(trial):
    slow, quick = ([trial(c, 1, took=base * (1 + c / 100)) for c in range(20)] for base in (5.0, 1.0))
    assert judge(quick, [NoWorse("b" * 64, slow, "took", 0.5)]).met
    assert not judge(slow, [NoWorse("b" * 64, quick, "took", 0.5)]).met
    later = [trial(c, 1, repeat=1, took=5.0) for c in range(20)]
    constant = [trial(c, 1, took=4.0) for c in range(20)]
    assert "no spread" in str(judge(later, [NoWorse("b" * 64, constant, "took", 0.5)]))


def test_the_same_trials_are_no_worse_however_few(trial):
    few = right(trial, 2, 3)
    assert judge(few, [NoWorse("b" * 64, few, "match", 0.001)]).met


def test_the_gate_speaks_junit(trial):
    found = judge(right(trial, 5, 10), [Bound("match", 0.9, "min"), Bound("match", 0.05, "min")])
    suite = ElementTree.fromstring(found.junit("quiz <1>"))
    assert (suite.attrib["name"], suite.attrib["tests"], suite.attrib["failures"]) == ("quiz <1>", "2", "1")
    assert [case.find("failure") is None for case in suite] == [False, True]
    assert json.loads(found.to_json())["met"] is False
    assert ElementTree.fromstring(found.junit("quiz", took=3.0)).attrib["time"] == "3.000"
