"""Planning for yes/no answers and for clusters, against published figures and statsmodels."""

from __future__ import annotations

import pytest
from statsmodels.stats.power import NormalIndPower
from statsmodels.stats.proportion import proportion_effectsize

from peira.analysis.power import PowerQuestion, plan_for, plan_matched, plan_rates
from peira.errors import Invalid


def test_paired_answers():
    """Connor (1987) by its formula: (1.96 sqrt(0.2) + 0.8416 sqrt(0.2 - 0.01))^2 / 0.01 = 154.6."""
    (row,) = plan_matched(0.15, 0.05, PowerQuestion()).rows
    assert row.needed == pytest.approx(154.6, rel=0.06)
    (asked,) = plan_matched(0.15, 0.05, PowerQuestion(cases=row.needed)).rows
    assert asked.power >= 0.8
    assert asked.smallest == pytest.approx(0.1, rel=0.02)
    assert "do not differ" in plan_matched(0.1, 0.1, PowerQuestion()).sentence


def test_answers_to_other_cases():
    (row,) = plan_rates(0.8, 0.7, PowerQuestion()).rows
    theirs = NormalIndPower().solve_power(proportion_effectsize(0.8, 0.7), alpha=0.05, power=0.8)
    assert row.needed == pytest.approx(theirs, rel=0.02)
    assert "do not differ" in plan_rates(0.5, 0.5, PowerQuestion()).sentence


def test_clusters_inflate_the_variance():
    alone, four = (
        plan_for(0.4, PowerQuestion(difference=0.05), cluster=size, correlation=0.3).rows[0].needed
        for size in (1, 4)
    )
    assert four == pytest.approx(1.9 * alone, rel=0.01)


@pytest.mark.parametrize(
    "ask",
    [
        lambda: plan_matched(0.7, 0.6, PowerQuestion()),
        lambda: plan_matched(0.2, 0.1, PowerQuestion(difference=0.1)),
        lambda: plan_rates(1.2, 0.1, PowerQuestion()),
        lambda: plan_for(0.4, PowerQuestion(difference=0.1), cluster=0.5),
        lambda: plan_for(-1, PowerQuestion(difference=0.1), correlation=2),
    ],
)
def test_what_makes_no_sense(ask):
    with pytest.raises(Invalid):
        ask()
