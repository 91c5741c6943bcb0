"""Confidence sequences of running means, of randomised contrasts, and of goals."""

from __future__ import annotations

import math

import numpy as np
import pytest

from peira.stats.sequential.goals import goal_status, window
from peira.stats.sequential.randomisation import (
    ArmPredictions,
    RandomisedContrast,
    best_arm_chances,
    floored,
)
from peira.stats.sequential.running_mean import LEAST, RunningMean, UnboundedRunningMean


def fed(values, scale=1.0, level=0.95):
    found = RunningMean(scale, level)
    total = 0.0
    for n, value in enumerate(values):
        found.add(value, (0.5 + total) / (n + 1))
        total += value
    return found


def test_the_closed_form_is_the_mixture_of_supermartingales():
    """Integrated over lambda numerically: a gamma distribution of lambda, cut off at 1 / scale."""
    from scipy.integrate import quad

    one = RunningMean(2.0)
    rho, c = one._prior, 2.0

    def density(x):  # of lambda, up to a constant: gamma in (1 / c - lambda)
        return (1 - c * x) ** (rho / c**2 - 1) * math.exp(-(1 - c * x) * rho / c**2)

    norm = quad(density, 0, 1 / c)[0]
    for s, v in ((3.0, 5.0), (20.0, 40.0), (60.0, 900.0)):

        def wealth(x, s=s, v=v):
            psi = (-math.log1p(-c * x) - c * x) / c**2
            return math.exp(x * s - psi * v) * density(x) / norm

        mixed = quad(wealth, 0, 1 / c - 1e-12, epsabs=0, epsrel=1e-8, limit=500)[0]
        assert float(one.log_wealth(s, v)) == pytest.approx(math.log(mixed), rel=1e-4)


def test_p_values_and_intervals_agree():
    found = fed([1.0, 0.0, 1.0, 1.0] * 60)
    now = found.now()
    assert now.mean == 0.75
    assert found.above(now.low) == pytest.approx(0.025, rel=1e-4)
    assert found.below(now.high) == pytest.approx(0.025, rel=1e-4)
    assert found.above(now.low + 0.01) > 0.025
    assert found.above(0.9) == 1.0
    assert 0.6 < now.low < 0.7 < 0.8 < now.high < 0.87


def test_equal_values_are_known_soon_and_no_values_not_at_all():
    assert RunningMean(1.0).now().low == -math.inf
    sure = fed([1.0] * 200).now()
    assert sure.low > 0.93
    assert fed([1.0] * 50).now().low < sure.low


def test_values_without_limits_say_nothing_before_there_are_many():
    found = UnboundedRunningMean()
    for n in range(LEAST):
        assert found.now().low == -math.inf
        found.add(float(n % 7), 3.0)
    now = found.now()
    assert math.isfinite(now.low)
    assert found.above(now.low) == pytest.approx(0.025, rel=1e-3)


def contrast(arms, shares, level=0.95, weights=(1.0, -1.0), least=None):
    made = RandomisedContrast(weights, least or min(min(one) for one in shares), (0.0, 1.0), level)
    predictions = ArmPredictions(len(weights), (0.0, 1.0))
    for (arm, value), share in zip(arms, shares, strict=True):
        made.draw(predictions, arm, share[arm], value)
        if value is not None:
            predictions.add(arm, value)
    return made


def test_weights_make_up_for_uneven_traffic_that_means_do_not():
    """Evenings are easy and mostly go to the first arm: its plain mean is higher, the arms are equal."""
    rng = np.random.default_rng(4)
    units, shares = [], []
    for n in range(4000):
        easy = n % 2
        split = (0.9, 0.1) if easy else (0.1, 0.9)
        arm = int(rng.random() >= split[0])
        units.append((arm, float(rng.random() < (0.9 if easy else 0.1))))
        shares.append(split)
    plain = [np.mean([value for arm, value in units if arm == side]) for side in (0, 1)]
    assert plain[0] - plain[1] > 0.5
    now = contrast(units, shares).now()
    assert now.low < 0 < now.high
    assert abs(now.mean) < 0.1


def test_a_lost_unit_lies_between_worst_and_best_and_helps_nobody():
    units = [(n % 2, 1.0 - n % 2) for n in range(200)]
    even = [(0.5, 0.5)] * 200
    whole = contrast(units, even).now()
    some = [(arm, None if n % 20 < 2 else value) for n, (arm, value) in enumerate(units)]
    losing = contrast(some, even).now()
    assert losing.low < whole.low
    assert contrast([(0, None)] * 300, [(0.5, 0.5)] * 300).now().low == -1.0
    assert contrast(units, even).p < 1e-6


def test_arms_outside_the_contrast_change_its_count_only():
    made = contrast([(2, 1.0)] * 50, [(0.25, 0.25, 0.5)] * 50, weights=(1.0, -1.0, 0.0))
    assert (made.n, made.now().mean, made.p) == (50, 0.0, 1.0)


def test_chances_of_being_best_and_their_floor():
    even = best_arm_chances([10, 10], [5.0, 5.0], (0.0, 1.0))
    assert even == pytest.approx([0.5, 0.5], abs=1e-6)
    ahead = best_arm_chances([100, 100], [60.0, 40.0], (0.0, 1.0))
    assert ahead[0] > 0.99
    behind = best_arm_chances([100, 100], [60.0, 40.0], (0.0, 1.0), maximize=False)
    assert behind[1] == pytest.approx(ahead[0])
    rng = np.random.default_rng(1)
    drawn = np.column_stack([rng.beta(1 + s, 1 + 20 - s, 200_000) for s in (12, 10, 7)])
    share = (drawn.argmax(axis=1) == 0).mean()
    assert best_arm_chances([20, 20, 20], [12.0, 10.0, 7.0], (0.0, 1.0))[0] == pytest.approx(share, abs=0.005)
    assert floored([1.0, 0.0, 0.0], 0.1) == pytest.approx([0.8, 0.1, 0.1])


DAY = 86_400.0


def test_a_goal_is_met_missed_or_undecided():
    def status(share, n, relation=">=", **more):
        values = [(DAY * i / n, float((i * 37) % 100 < share * 100)) for i in range(n)]
        return goal_status(values, relation, 0.8, begin=0.0, now=DAY, over=7 * DAY, **more)

    assert status(0.95, 1000).verdict == "met"
    assert status(0.5, 1000).verdict == "missed"
    assert status(0.95, 10).verdict == "undecided"
    assert status(0.95, 1000, "<=").verdict == "missed"
    assert status(0.5, 1000, "<=").verdict == "met"
    empty = goal_status([], ">=", 0.8, begin=0.0, now=DAY)
    assert (empty.verdict, empty.mean, empty.low, empty.high) == ("undecided", None, 0.0, 1.0)


def test_lost_values_keep_a_goal_undecided():
    values = [(float(i), None if i % 5 == 0 else 1.0) for i in range(1000)]
    found = goal_status(values, ">=", 0.9, begin=0.0, now=2000.0)
    assert (found.verdict, found.lost, found.mean) == ("undecided", 200, 1.0)


def test_windows_move_on_and_each_has_less_error_to_spend():
    assert window(0.0, 5.0, 10.0) == (0, 0.0)
    assert window(0.0, 14.0, 10.0) == (0, 0.0)
    assert window(0.0, 15.0, 10.0) == (1, 5.0)
    assert window(0.0, 119.0, 10.0) == (21, 105.0)
    assert window(3.0, 1e9, None) == (0, 3.0)
    early = [(float(i), 0.0) for i in range(500)]
    late = [(1000.0 + i, 1.0) for i in range(500)]
    seen = goal_status([*early, *late], ">=", 0.8, begin=0.0, now=1500.0, over=500.0)
    assert (seen.verdict, seen.since, seen.n) == ("met", 1000.0, 500)
    alone = goal_status(late, ">=", 0.8, begin=1000.0, now=1500.0, over=500.0)
    assert alone.low > seen.low
