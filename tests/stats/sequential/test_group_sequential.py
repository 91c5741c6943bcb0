from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import norm

from peira.stats.sequential.group_sequential import boundaries, conditional_power, spend, successive_rejects

FIFTHS = [0.2, 0.4, 0.6, 0.8, 1.0]


# R, ldbounds: ldBounds(t = seq(0.2, 1, 0.2), iuse = c(1, 1)) and iuse = c(2, 2), alpha = c(0.025, 0.025)
@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("obrien-fleming", [4.8769, 3.3569, 2.6803, 2.2898, 2.0310]),
        ("pocock", [2.4380, 2.4268, 2.4101, 2.3966, 2.3859]),
    ],
)
def test_published_boundaries(kind, expected):
    found = boundaries(FIFTHS, 0.05, kind)
    assert [look.z for look in found] == pytest.approx(expected, abs=2e-4)
    assert found[-1].spent == pytest.approx(0.05)


def test_published_boundaries_of_one_side():
    # SeqBounds.jl: bounds([0.25, 0.5, 0.75, 1.0], 0.05), one-sided; two such sides together spend 0.1, and
    # crossing both is too rare to be seen
    found = boundaries([0.25, 0.5, 0.75, 1.0], 0.1)
    assert [look.z for look in found] == pytest.approx([3.74955, 2.53993, 2.01604, 1.72014], abs=2e-4)


def test_one_look_is_an_ordinary_test():
    for kind in ("obrien-fleming", "pocock"):
        assert boundaries([1.0], 0.05, kind)[0].z == pytest.approx(1.959964, abs=1e-6)


def test_all_looks_together_keep_alpha():
    rng = np.random.default_rng(3)
    looks = boundaries([0.1, 0.35, 0.4, 0.7, 1.0], 0.05, "pocock")
    times = np.array([look.fraction for look in looks])
    steps = rng.normal(size=(200_000, 5)) * np.sqrt(np.diff(times, prepend=0))
    z = steps.cumsum(axis=1) / np.sqrt(times)
    crossed = np.abs(z) > [look.z for look in looks]
    assert crossed.any(axis=1).mean() == pytest.approx(0.05, abs=0.0015)
    first = crossed[:, :2].any(axis=1).mean()
    assert first == pytest.approx(spend(0.35, 0.05, "pocock"), abs=0.001)


def test_a_look_too_early_never_rejects():
    found = boundaries([0.0005, 1.0])
    assert found[0].z > 8
    assert boundaries([1e-5, 1.0])[0].z == math.inf
    assert found[1].z == pytest.approx(1.959964, abs=1e-6)


def test_looks_that_were_not_planned():
    """Only what has been spent counts: a later look does not change an earlier boundary."""
    few, more = boundaries([0.3, 0.5]), boundaries([0.3, 0.5, 0.55, 1.0])
    assert [look.z for look in few] == [look.z for look in more[:2]]


def test_conditional_power_by_simulation():
    rng = np.random.default_rng(4)
    final = 1.0 * math.sqrt(0.5) + rng.normal(2.5 * 0.5, math.sqrt(0.5), 200_000)
    assert conditional_power(1.0, 0.5, 1.96, drift=2.5) == pytest.approx(
        (abs(final) > 1.96).mean(), abs=0.004
    )
    # With the trend going on: known closed form
    assert conditional_power(1.0, 0.5, 1.96) == pytest.approx(
        norm.sf((1.96 - math.sqrt(2)) / math.sqrt(0.5)), abs=1e-3
    )
    assert conditional_power(-1.3, 0.5, 1.96) == pytest.approx(conditional_power(1.3, 0.5, 1.96))


def test_successive_rejects_spends_its_budget():
    for arms, budget in ((2, 10), (4, 1000), (12, 600)):
        phases = successive_rejects(arms, budget)
        assert len(phases) == arms - 1
        assert phases == sorted(phases)
        assert sum(phases) + phases[-1] <= budget + arms
        assert sum(phases) + phases[-1] >= budget - arms


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: boundaries([]),
        lambda: boundaries([0.5, 0.5]),
        lambda: boundaries([0.5, 1.1]),
        lambda: boundaries([0.5, 1.0], 0),
        lambda: boundaries([0.5, 1.0], kind="obf"),
        lambda: conditional_power(1, 1, 1.96),
        lambda: successive_rejects(1, 10),
    ],
)
def test_wrong_input_is_refused(wrong):
    with pytest.raises(ValueError, match="need"):
        wrong()
