from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from statsmodels.formula.api import ols

from peira.stats.models.variance_components import components, crossed, paired_components

# NIST StRD, analysis of variance, SiRstv: silicon resistivity by five instruments, five measurements each
SIRSTV = [
    [196.3052, 196.1240, 196.1890, 196.2569, 196.3403],
    [196.3042, 196.3825, 196.1669, 196.3257, 196.0422],
    [196.1303, 196.2005, 196.2889, 196.0343, 196.1811],
    [196.2795, 196.1748, 196.1494, 196.1485, 195.9885],
    [196.2119, 196.1051, 196.1850, 196.0052, 196.2090],
]
RNG = np.random.default_rng(17)


def test_nists_certified_values():
    found = components(np.ravel(SIRSTV), np.repeat(np.arange(5), 5))
    within, between = 1.08318280000000e-02, 1.27865654000000e-02
    assert found.within == pytest.approx(within, rel=1e-9)
    assert found.between == pytest.approx((between - within) / 5, rel=1e-8)
    assert found.correlation == pytest.approx(found.between / (found.between + found.within))


def test_a_large_offset_changes_nothing():
    values, cases = np.ravel(SIRSTV), np.repeat(np.arange(5), 5)
    one, two = components(values, cases), components(values + 1e6, cases)
    assert (two.between, two.within) == pytest.approx((one.between, one.within), rel=1e-5)


def test_unequal_repeats_by_simulation():
    repeats = RNG.integers(1, 8, 60)
    cases = np.repeat(np.arange(60), repeats)
    found = [
        components(RNG.normal(0, 2, 60)[cases] + RNG.normal(0, 3, cases.size), cases) for _ in range(300)
    ]
    assert np.mean([one.between for one in found]) == pytest.approx(4, rel=0.05)
    assert np.mean([one.within for one in found]) == pytest.approx(9, rel=0.03)


def test_one_case_with_most_of_the_repeats():
    cases = np.repeat(np.arange(12), [2] * 11 + [40])
    found = [components(RNG.normal(0, 2, 12)[cases] + RNG.normal(size=62), cases) for _ in range(600)]
    assert np.mean([one.between for one in found]) == pytest.approx(4, rel=0.1)


def test_what_more_repeats_would_buy():
    found = components(np.ravel(SIRSTV), np.repeat(np.arange(5), 5))
    assert found.error(5, 5) == pytest.approx(math.sqrt((found.between + found.within / 5) / 5))


@pytest.mark.parametrize(
    ("values", "cases", "between", "within"),
    [
        ([1, 2, 3], "abc", None, None),
        ([1, 2, 3], "aaa", None, 1.0),
        ([1], "a", None, None),
        ([2, 2, 2, 2], "aabb", 0.0, 0.0),
    ],
)
def test_what_the_data_cannot_tell(values, cases, between, within):
    found = components(values, cases)
    assert (found.between, found.within) == (between, within)
    assert found.correlation is None


def full(conditions: int, repeats: int, cases: int = 300):
    shape = (cases, conditions, repeats)
    values = (
        RNG.normal(0, 1.5, (cases, 1, 1))
        + np.linspace(0, 1, conditions)[:, None]
        + RNG.normal(0, 0.8, (cases, conditions, 1))
        + RNG.normal(0, 0.5, shape)
    )
    case, condition, _ = np.indices(shape)
    return values.ravel(), case.ravel(), condition.ravel()


def test_a_crossed_table_shares_out_its_variance():
    found = crossed(*full(3, 4))
    assert found.case == pytest.approx(2.25, rel=0.2)
    assert found.interaction == pytest.approx(0.64, rel=0.2)
    assert found.repeat == pytest.approx(0.25, rel=0.1)
    assert found.condition == pytest.approx(0.25, rel=0.4)


def test_mean_squares_agree_with_statsmodels():
    values, cases, conditions = full(3, 2, cases=8)
    data = pd.DataFrame({"y": values, "case": cases, "condition": conditions})
    table = sm.stats.anova_lm(ols("y ~ C(case) * C(condition)", data).fit())["mean_sq"]
    found = crossed(values, cases, conditions)
    cell, left = table["C(case):C(condition)"], table["Residual"]
    assert found.repeat == pytest.approx(left)
    assert found.interaction == pytest.approx(max(0, (cell - left) / 2))
    assert found.case == pytest.approx(max(0, (table["C(case)"] - cell) / 6))
    assert found.condition == pytest.approx(max(0, (table["C(condition)"] - cell) / 16))


def test_a_table_with_holes_is_not_answered():
    values, cases, conditions = full(3, 1, cases=6)
    assert crossed(values, cases, conditions).repeat is None
    assert crossed(values[1:], cases[1:], conditions[1:]) is None
    assert crossed([1, 2], "ab", "aa") is None


def test_paired_components_for_planning():
    values, cases, conditions = full(2, 5, cases=2000)
    sides = [(values[conditions == side], cases[conditions == side]) for side in (0, 1)]
    between, one, two = paired_components(*sides[0], *sides[1])
    assert between == pytest.approx(2 * 0.64, rel=0.1)
    assert (one, two) == pytest.approx((0.25, 0.25), rel=0.1)
    assert paired_components([1, 2], "ab", [3, 4], "ab") == (None, None, None)
    assert paired_components([1, 2], "aa", [3, 4], "bb")[0] is None
