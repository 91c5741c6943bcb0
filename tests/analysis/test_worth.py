"""What more cases are worth: the published formula, forecasts that come true, and what is said of them."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.errors import Invalid
from tests.analysis.conftest import gathered, one


def study(gaps, cases=400, seed=0, shift=0.0, cost=0.01):
    """Levels whose differences to the first have these exact means and deviation 1."""
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(cases, len(gaps)))
    noise = (noise - noise.mean(axis=0)) / noise.std(axis=0, ddof=1)
    level = rng.normal(size=cases)
    trials = [one(c, float(level[c]), m="m0", metrics={"cost": cost, "calls": 1}) for c in range(cases)]
    return trials + [
        one(c, float(level[c] + gap + noise[c, k]), m=f"m{k + 1}", metrics={"cost": cost, "calls": 1})
        for k, gap in enumerate(gaps)
        for c in range(cases)
    ]


def test_the_expected_gain_is_raiffa_and_schlaifers():
    """R 4.2.2, the unit normal linear loss integral (Raiffa and Schlaifer 1961):
    n <- 400; m <- 200; d <- 0.04; s <- sqrt(1/n * m/(n+m)); z <- d/s
    c(s * (dnorm(z) - z * pnorm(-z)), pnorm(-z)); s <- 1/sqrt(n); z <- d/s; s * (dnorm(z) - z * pnorm(-z))
    0.001092441859 0.082928330171; 0.006010361695
    The spread is not known here: Student's t with 399 degrees of freedom is close."""
    found = gathered(study([0.04])).worth("m", 200)
    s, d = math.sqrt(1 / 400 * 200 / 600), 0.04
    loss = [_loss(d, s), _loss(d, 1 / 20)]
    assert (found.gain, found.most) == pytest.approx(loss, rel=0.05)
    assert found.changes == pytest.approx(_tail(d / s), abs=0.01)
    assert found.leader == "m1"


def _tail(z):
    return 0.5 * math.erfc(z / 2**0.5)


def _loss(d, s):
    z = d / s
    return s * (math.exp(-z * z / 2) / math.sqrt(2 * math.pi) - z * _tail(z))


def test_widths_shrink_as_the_root_of_the_cases():
    (row,) = gathered(study([0.04])).worth("m", 1200).rows
    assert row.expected / row.width == pytest.approx(0.5, rel=0.01)
    assert row.narrowest < row.expected < row.widest


def test_forecasts_come_true():
    """Over effects drawn from a wide prior: the share that is clear after 30 more cases, and that changes."""
    rng = np.random.default_rng(3)
    said, clear, changed, gained, rounds = [], 0, 0, 0.0, 150
    for _ in range(rounds):
        truth, first, more = rng.normal(0, 0.6), 30, 30
        values = truth + rng.normal(size=first + more)
        trials = [one(c, float(v) * (m == "b"), m=m) for c, v in enumerate(values[:first]) for m in "ab"]
        found = gathered(trials).worth("m", more)
        (row,) = found.rows
        said.append((row.clear, found.changes, found.gain))
        error = values.std(ddof=1) / values.size**0.5
        clear += abs(values.mean() / error) > 2.0
        before, after = values[:first].mean() > 0, values.mean() > 0
        changed += before != after
        gained += abs(truth) * (1 if after == (truth > 0) else -1) - abs(truth) * (
            1 if before == (truth > 0) else -1
        )
    forecast = np.mean(said, axis=0)
    assert clear / rounds == pytest.approx(forecast[0], abs=0.08)
    assert changed / rounds == pytest.approx(forecast[1], abs=0.06)
    assert gained / rounds / 2 == pytest.approx(forecast[2] / 2, abs=0.02)


def test_money_is_set_against_the_gain():
    given = gathered(study([0.0], cost=0.01))
    found = given.worth("m", 100, per_point=10_000)
    assert found.cost.mean == pytest.approx(2.0)
    assert found.net[0] == pytest.approx(10_000 * found.gain - 2)
    assert "They pay." in found.sentence
    assert "They do not pay." in given.worth("m", 100, per_point=0.001).sentence
    assert json.loads(found.to_json())["gain"] == found.gain


def test_the_level_that_is_chosen_is_named_with_its_factor_where_it_is_a_number():
    shots = [one(c, float((c * level) % 7), shots=level) for c in range(40) for level in (0, 2)]
    assert "change the choice of shots=2 with" in gathered(shots).worth("shots", 50).sentence
    assert "change the choice of m1 with" in gathered(study([0.1])).worth("m", 50).sentence


def test_of_several_levels_any_may_overtake():
    two, three = (gathered(study(gaps)).worth("m", 100) for gaps in ([0.1], [0.1, 0.1]))
    assert len(three.rows) == 2
    assert three.changes > two.changes
    assert three.most >= three.gain > two.gain


def test_less_can_be_better():
    found = gathered(study([0.5])).worth("m", 50, lowest=True)
    assert found.leader == "m0"
    assert found.gain < 1e-6


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 1000), st.floats(-0.5, 0.5), st.integers(1, 400))
def test_more_cases_never_gain_less_and_never_more_than_knowing(seed, gap, more):
    given = gathered(study([gap], cases=25, seed=seed))
    few, many = given.worth("m", more), given.worth("m", 2 * more)
    assert 0 <= few.gain <= many.gain + 1e-12
    assert many.gain <= many.most + 1e-12
    assert few.gain_low <= few.gain_high


def test_bad_wishes_are_refused_at_once():
    given = gathered(study([0.1], cases=5))
    with pytest.raises(Invalid) as caught:
        given.worth("m", 0, per_point=-1.0, level=3)
    assert len(caught.value.problems) == 3
    with pytest.raises(Invalid, match="nothing to choose"):
        gathered([one(c, 1.0, m="a") for c in range(4)]).worth("m", 5)
