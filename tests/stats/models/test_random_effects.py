from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.stats.models.random_effects import pool

# Rubin (1981): coaching in eight schools. Posterior means under flat priors, as published with Stan:
# 11.4, 7.9, 6.1, 7.7, 5.1, 6.1, 10.7, 8.5; the overall mean 7.9
SCHOOLS = [28, 8, -3, 7, -1, 1, 18, 12]
ERRORS = [15, 10, 16, 11, 9, 11, 10, 18]


def test_eight_schools():
    found = pool(SCHOOLS, ERRORS)
    expected = (11.4, 7.9, 6.1, 7.7, 5.1, 6.1, 10.7, 8.5)
    assert [one.mean for one in found.slices] == pytest.approx(expected, abs=0.1)
    assert found.overall == pytest.approx(7.9, abs=0.1)


def test_sure_slices_stay_and_unsure_ones_are_pulled():
    found = pool([0.2, 0.5, 0.8, 0.9], [0.01, 0.01, 0.01, 0.5])
    assert found.slices[0].weight > 0.99
    assert found.slices[3].weight < 0.6
    assert found.slices[3].mean < 0.8


def test_the_intervals_hold_the_slices_truths():
    rng = np.random.default_rng(19)
    held = total = 0
    for _ in range(200):
        truth = rng.normal(0.6, 0.1, 12)
        errors = rng.uniform(0.02, 0.3, 12)
        found = pool(rng.normal(truth, errors).tolist(), errors.tolist())
        held += sum(one.low <= value <= one.high for one, value in zip(found.slices, truth, strict=True))
        total += 12
    assert 0.93 < held / total < 0.98


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(1, 30)), min_size=3, max_size=10))
def test_everybody_lands_between_himself_and_the_rest(rows):
    means, errors = zip(*rows, strict=True)
    found = pool(means, errors)
    for own, one in zip(means, found.slices, strict=True):
        assert min(means) - 1e-9 <= one.mean <= max(means) + 1e-9
        assert one.low < one.mean < one.high
        assert 0 <= one.weight <= 1
        assert abs(one.mean - own) <= max(means) - min(means) + 1e-9


def test_few_slices_are_left_alone():
    found = pool([0.1, 0.9], [0.1, 0.0])
    assert [one.weight for one in found.slices] == [1.0, 1.0]
    assert (found.slices[1].low, found.slices[1].high, found.deviation) == (None, None, None)


def test_a_slice_without_spread_is_not_perfect():
    found = pool([0.5, 0.6, 1.0], [0.1, 0.05, 0.0])
    assert found.slices[2].low < 1.0 < found.slices[2].high + 0.2
    assert pool([1, 1, 1], [0, 0, 0]).slices[0].low is None


@pytest.mark.parametrize("wrong", [([1, 2], [1]), ([1, 2, 3], [1, -1, 1]), ([], [])])
def test_wrong_input_is_refused(wrong):
    with pytest.raises(ValueError, match="need"):
        pool(*wrong)
