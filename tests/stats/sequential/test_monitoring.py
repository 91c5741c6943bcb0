"""A difference followed on the way: what is decided holds at every look, whatever was lost."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm, t

from peira.stats.sequential.confidence_sequence import sequence
from peira.stats.sequential.monitoring import AnytimeMonitor, GroupSequentialMonitor, monitor


def fed(followed, values):
    for value in values:
        followed.add(value, value)
    return followed


differences = st.lists(st.sampled_from([-1.0, 0.0, 1.0]), min_size=1, max_size=150)


@given(differences)
def test_without_losses_it_is_the_confidence_sequence(values):
    found, known = fed(AnytimeMonitor(1.0, 0.95, 10), values).now(), sequence(values, -1, 1)
    assert (found.low, found.high) == (known.low, known.high)
    assert found.mean == pytest.approx(known.mean)


@given(differences, st.integers(0, 10**6))
def test_what_was_lost_can_only_widen(values, seed):
    """The interval with losses holds whatever the lost values would have been, near enough to check ends."""
    lost = np.random.default_rng(seed).random(len(values)) < 0.2
    followed = AnytimeMonitor(1.0, 0.95, 10)
    for value, gone in zip(values, lost, strict=True):
        followed.add(-1.0 if gone else value, 1.0 if gone else value)
    found = followed.now()
    worst = sequence(np.where(lost, -1.0, values), -1, 1)
    best = sequence(np.where(lost, 1.0, values), -1, 1)
    assert (found.low, found.high) == (min(worst.low, best.high), max(worst.low, best.high))


def test_looks_come_often_at_first_and_less_often_later():
    followed, looks = AnytimeMonitor(1.0, 0.95, 10), []
    for n in range(1, 5001):
        followed.add(0.0, 0.0)
        if followed.due():
            looks.append(n)
    assert looks[:5] == [10, 11, 12, 13, 14]
    assert all(later <= max(now + 1, 1.0101 * now + 1) for now, later in pairwise(looks))
    assert len(looks) < 600


# O'Brien-Fleming and Pocock spending at five equal looks (R, ldbounds; see test_spending)
PUBLISHED = {
    "obrien-fleming": [4.8769, 3.3569, 2.6803, 2.2898, 2.0310],
    "pocock": [2.4380, 2.4268, 2.4101, 2.3966, 2.3859],
}


@pytest.mark.parametrize("spending", PUBLISHED)
def test_planned_looks_have_the_published_boundaries(spending):
    rng, n = np.random.default_rng(2), 5000
    values = rng.uniform(-1, 1, n)  # so wide that Student's t does at every look
    followed, found = GroupSequentialMonitor(1.0, 0.95, 10, 5, n, spending), []
    for value in values:
        followed.add(value, value)
        if followed.due():
            seen = followed.now()
            found.append((seen.high - seen.low) / 2)
    expected = []
    for z, seen in zip(PUBLISHED[spending], range(1000, n + 1, 1000), strict=True):
        error = np.sqrt((values[:seen].var() * seen + 0.25) / (seen - 1) / seen)
        expected.append(t.isf(norm.sf(z), seen - 1) * error)
    assert found == pytest.approx(expected, rel=1e-4)


def test_an_early_look_is_left_out_and_its_alpha_kept_for_later():
    early = fed(GroupSequentialMonitor(1.0, 0.95, 50, 5, 100, "pocock"), [0.5] * 20)
    assert not early.due()
    assert (early.now().low, early.now().high) == (-1.0, 1.0)
    whole = GroupSequentialMonitor(1.0, 0.95, 100, 5, 100, "pocock")
    assert whole._limits == {100: pytest.approx(1.959964, abs=1e-6)}


def crossings(how, rounds, n, draw, seed):
    """How often an interval ever leaves 0 out, looked at whenever it is due."""
    rng, wrong = np.random.default_rng(seed), 0
    for _ in range(rounds):
        followed, crossed = monitor(1.0, 0.95, 10, how, n), False
        for value in draw(rng, n):
            followed.add(value, value)
            if followed.due():
                seen = followed.now()
                crossed = crossed or seen.low > 0 or seen.high < 0
        wrong += crossed
    return wrong / rounds


def discordant(share):
    def draw(rng, n):
        return rng.choice([-1.0, 0.0, 1.0], n, p=[share / 2, 1 - share, share / 2])

    return draw


@pytest.mark.parametrize("share", [0.1, 0.5])
@pytest.mark.parametrize("how", ["always", 5])
def test_nobody_is_told_of_a_difference_that_is_not_there(how, share):
    rounds = 150
    found = crossings(how, rounds, 200, discordant(share), 11)
    assert found <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / rounds)


def test_a_difference_that_is_there_is_seen_long_before_the_end():
    rng, ends = np.random.default_rng(4), []
    for _ in range(30):
        followed = AnytimeMonitor(1.0, 0.95, 10)
        for n, value in enumerate(rng.choice([-1.0, 0.0, 1.0], 1000, p=[0.1, 0.5, 0.4]), 1):
            followed.add(value, value)
            if followed.due() and followed.now().low > 0:
                ends.append(n)
                break
    assert len(ends) == 30
    assert np.mean(ends) < 120


def test_equal_values_are_no_proof_of_no_variance():
    followed = fed(GroupSequentialMonitor(1.0, 0.95, 10, 2, 20, "pocock"), [0.0] * 10)
    seen = followed.now()
    assert seen.low < -0.05
    assert seen.high > 0.05


def test_hope_fades_where_there_is_nothing_to_see():
    rng = np.random.default_rng(8)
    flat = fed(
        GroupSequentialMonitor(1.0, 0.95, 10, 2, 1000, "obrien-fleming"), rng.choice([-1.0, 1.0], 500)
    ).now()
    steep = fed(
        GroupSequentialMonitor(1.0, 0.95, 10, 2, 1000, "obrien-fleming"),
        rng.choice([-1, 1], 500, p=[0.4, 0.6]),
    ).now()
    assert flat.hope < 0.3 < 0.9 < steep.hope


def test_a_single_unit_says_nothing():
    seen = fed(GroupSequentialMonitor(1.0, 0.95, 10, 2, 1, "pocock"), [1.0]).now()
    assert (seen.low, seen.high) == (-1.0, 1.0)
