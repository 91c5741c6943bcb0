"""Ratios, quantiles and the share that fails."""

from __future__ import annotations

import json

import numpy as np
import pytest

from peira.core.log.events import State
from peira.errors import Invalid, Unknown
from peira.stats.intervals.proportions import rule_of_three
from peira.stats.intervals.quantiles import clustered_quantile, quantile
from peira.stats.intervals.ratios import delta, fieller


def priced(trial, n=40, right=3):
    for case in range(n):
        calls = {"calls": 1.0, "cost": 0.01 + 0.001 * (case % 5)}
        yield trial(case, case % right > 0, model="ab"[case % 2], metrics=calls, took=float(case))


def test_cost_per_success(trial, results):
    made = results(priced(trial))
    cost = [t.cost for t in made]
    right = [float(t.scores["match"].value) for t in made]
    for method, expected in (("fieller", fieller(cost, right)), ("delta", delta(cost, right))):
        (row,) = made.ratio("cost", "match", method=method).rows
        assert row.ratio.value == pytest.approx(sum(cost) / sum(right))
        assert (row.ratio.low, row.ratio.high) == (expected.low, expected.high)
    by = made.ratio("cost", "match", "model")
    assert [row.label for row in by.rows] == ["a", "b"]
    assert "cost per match [95% interval]" in str(by)
    assert json.loads(by.to_json())["rows"][0]["units"] == 20


def test_a_ratio_that_the_data_do_not_bound(trial, results):
    few = results(trial(case, case == 0, took=1.0 + case) for case in range(5))
    assert "[unbounded]" in str(few.ratio("took", "match"))
    none = results(trial(case, False, took=1.0) for case in range(5))
    assert "no match at all" in str(none.ratio("took", "match"))
    assert "nothing can be said" in str(results([trial("c", None)]).ratio("took", "match"))
    with pytest.raises(Unknown, match="fieller"):
        few.ratio("took", "match", method="filler")


def test_quantiles_of_seconds(trial, results):
    made = results(priced(trial))
    found = made.quantiles(q=(0.5, 0.99))
    expected = quantile(range(40), 0.5)
    assert found.rows[0].quantiles[0] == expected
    assert found.rows[0].quantiles[1].high is None
    assert "50% of took" in str(found)
    assert [row.label for row in made.quantiles("took", "model").rows] == ["a", "b"]
    with pytest.raises(Invalid, match="between 0 and 1"):
        made.quantiles(q=(0.5, 1.0))
    assert "nothing can be said" in str(results([trial("c", None)]).quantiles("match"))


def test_repeats_are_not_cases():
    """Ten repeats that are all the same say no more than one; a lone case says nothing of others."""
    rng = np.random.default_rng(0)
    values = rng.lognormal(size=30)
    repeated = clustered_quantile(np.repeat(values, 10), np.repeat(np.arange(30), 10).tolist(), 0.5)
    alone = quantile(values, 0.5)
    assert repeated.high - repeated.low > 0.8 * (alone.high - alone.low)
    assert clustered_quantile([1.0, 2.0, 3.0], ["a", "a", "a"], 0.5).low is None


@pytest.mark.parametrize(("cases", "repeats", "own"), [(25, 4, 0.7), (60, 3, 0.3), (30, 5, 0.0)])
def test_clustered_quantiles_hold_the_truth(cases, repeats, own):
    rng, held, rounds = np.random.default_rng(8), 0, 400
    labels = np.repeat(np.arange(cases), repeats)
    for _ in range(rounds):
        noise = rng.normal(size=cases * repeats)
        values = np.exp(np.sqrt(own) * rng.normal(size=cases)[labels] + np.sqrt(1 - own) * noise)
        found = clustered_quantile(values, labels.tolist(), 0.5)
        held += found.low <= 1.0 <= found.high
    assert held >= 0.94 * rounds - 2 * (rounds * 0.05 * 0.95) ** 0.5


def test_nothing_failed_is_not_nothing_fails(trial, results):
    made = results(trial(case, 1.0, repeat) for case in range(20) for repeat in range(3))
    (row,) = made.reliability().rows
    assert (row.failed, row.trials, row.units) == (0, 60, 20)
    assert row.share.high == rule_of_three(20) == pytest.approx(1 - 0.05 ** (1 / 20))
    assert "none of 60 trials of 20 cases failed; at most 0.14 would" in str(made.reliability())
    some = results([trial(1, None), *(trial(case, 1.0) for case in range(2, 9))])
    assert "1 of 8 trials of 8 cases failed: 0.12 [" in str(some.reliability())
    assert "nothing can be said" in str(results([trial(1, 1.0, state=State.queued)]).reliability())


def test_what_is_not_known_is_not_called_lost(trial, results):
    unpriced = [trial(case, True, metrics={"calls": 1.0}) for case in range(3)]
    shown = str(results(unpriced).table(score="cost"))
    assert "cost: not known for 3 trials" in shown
    assert "lost" not in shown
    mixed = [*unpriced, trial("x", None)]
    assert "cost: not known for 3 trials, and for 1 lost trial" in str(results(mixed).table(score="cost"))
