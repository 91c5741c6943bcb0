"""Certified values of the NIST Statistical Reference Datasets, for what peira computes itself.

Digits are those of the log relative error: 9 means equal to nine significant digits. What is certified comes
from https://www.itl.nist.gov/div898/strd; the data sets SmLs are made by their rule.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from peira.analysis.effects.anova import anova
from peira.core.log.events import State
from peira.results.trials import Score, TrialResult
from peira.stats.models.surface import solve


def digits(found: float, certified: float) -> float:
    gap = abs(found - certified) / abs(certified) if certified else abs(found)
    return 15.0 if gap == 0 else min(15.0, -math.log10(gap))


def table(groups):
    """Every value a case of its own, in its group."""
    trials = [
        TrialResult(
            id="",
            agent="a",
            case_id=f"{group} {n}",
            state=State.succeeded,
            condition={"group": group},
            scores={"y": Score("y", State.succeeded, value)},
        )
        for group, values in enumerate(groups)
        for n, value in enumerate(values)
    ]
    found = anova(trials)
    (source,) = found.sources
    return source.squares, found.error_squares, source.f


SILICON = (
    (196.3052, 196.1240, 196.1890, 196.2569, 196.3403),
    (196.3042, 196.3825, 196.1669, 196.3257, 196.0422),
    (196.1303, 196.2005, 196.2889, 196.0343, 196.1811),
    (196.2795, 196.1748, 196.1494, 196.1485, 195.9885),
    (196.2119, 196.1051, 196.1850, 196.0052, 196.2090),
)
SILVER = tuple(
    [float(f"107.8681{part}") for part in text.split()]
    for text in (
        "568 465 572 785 446 903 526 494 616 587 519 486 419 569 508 672 385 518 662 424 360 333 610 477",
        "079 344 513 197 604 385 642 365 151 082 517 448 198 482 334 609 101 512 469 360 254 261 450 368",
    )
)


def test_silicon_resistivity():
    between, within, f = table(SILICON)
    assert digits(between, 5.11462616e-02) >= 10
    assert digits(within, 2.1663656e-01) >= 10
    assert digits(f, 1.18046237440255) >= 10


def test_atomic_weight_of_silver():
    """Seven leading digits are the same in all values: nine of fifteen are left, and none is lost."""
    between, within, f = table(SILVER)
    assert digits(between, 3.63834187500000e-09) >= 8
    assert digits(within, 1.04951729166667e-08) >= 8
    assert digits(f, 1.59467335677930e01) >= 8


def simon_lesage(offset: int, replicates: int) -> list[list[float]]:
    """Nine treatments; in each its centre, then in turn a tenth below and a tenth above it."""
    return [
        [float(f"{offset + 1}.{centre + step}") for step in (0, *(-1, 1) * (replicates // 2))]
        for centre in (4, 3, 5, 3, 5, 3, 5, 3, 5)
    ]


@pytest.mark.parametrize(
    ("offset", "replicates", "between", "within", "f", "least"),
    [
        (0, 21, 1.68, 1.80, 21.0, 12),
        (0, 201, 1.608e1, 1.80e1, 201.0, 12),
        (0, 2001, 1.6008e2, 1.80e2, 2001.0, 10),
        (999_999, 21, 1.68, 1.80, 21.0, 8),
        (999_999, 201, 1.608e1, 1.80e1, 201.0, 8),
        (999_999, 2001, 1.6008e2, 1.80e2, 2001.0, 8),
    ],
)
def test_simon_and_lesage(offset, replicates, between, within, f, least):
    found = table(simon_lesage(offset, replicates))
    for value, certified in zip(found, (between, within, f), strict=True):
        assert digits(value, certified) >= least


@pytest.mark.parametrize("replicates", [21, 201, 2001])
def test_what_lies_below_the_twelfth_digit_is_taken_for_rounding(replicates):
    """SmLs07 to 09: tenths on top of 10^12, of which a double keeps two or three digits. No F is made up."""
    assert table(simon_lesage(999_999_999_999, replicates))[2] is None


def regression(matrix, response):
    found = solve(np.asarray(matrix, dtype=float), np.asarray(response, dtype=float))
    assert found is not None
    df = len(response) - found.beta.size
    variance = found.squares / df
    return found.beta, np.sqrt(np.diag(found.bread) * variance), math.sqrt(variance)


NORRIS = """
0.1 0.2 338.8 337.4 118.1 118.2 888.0 884.6 9.2 10.1 228.1 226.5 668.5 666.3 998.5 996.3 449.1 448.6 778.9
777.0 559.2 558.2 0.3 0.4 0.1 0.6 778.1 775.5 668.8 666.9 339.3 338.0 448.9 447.5 10.8 11.6 557.7 556.0
228.3 228.1 998.0 995.8 888.8 887.6 119.6 120.2 0.3 0.3 0.6 0.3 557.6 556.8 339.3 339.1 888.0 887.2 998.5
999.0 778.9 779.0 10.2 11.1 117.6 118.3 228.9 229.2 668.4 669.1 449.2 448.9 0.2 0.5
"""


def test_norris():
    y, x = np.array(NORRIS.split(), dtype=float).reshape(-1, 2).T
    beta, errors, deviation = regression(np.column_stack([np.ones_like(x), x]), y)
    certified = (-0.262323073774029, 1.00211681802045), (0.232818234301152, 0.429796848199937e-03)
    for found, sure in zip((*beta, *errors), (*certified[0], *certified[1]), strict=True):
        assert digits(found, sure) >= 11
    assert digits(deviation, 0.884796396144373) >= 11


LONGLEY = """
60323 83.0 234289 2356 1590 107608 1947 61122 88.5 259426 2325 1456 108632 1948 60171 88.2 258054 3682 1616
109773 1949 61187 89.5 284599 3351 1650 110929 1950 63221 96.2 328975 2099 3099 112075 1951 63639 98.1
346999 1932 3594 113270 1952 64989 99.0 365385 1870 3547 115094 1953 63761 100.0 363112 3578 3350 116219
1954 66019 101.2 397469 2904 3048 117388 1955 67857 104.6 419180 2822 2857 118734 1956 68169 108.4 442769
2936 2798 120445 1957 66513 110.8 444546 4681 2637 121950 1958 68655 112.6 482704 3813 2552 123366 1959
69564 114.2 502601 3931 2514 125368 1960 69331 115.7 518173 4806 2572 127852 1961 70551 116.9 554894 4007
2827 130081 1962
"""


def test_longley():
    """Columns that are nearly combinations of each other: the classical trap."""
    data = np.array(LONGLEY.split(), dtype=float).reshape(-1, 7)
    beta, errors, deviation = regression(np.column_stack([np.ones(16), data[:, 1:]]), data[:, 0])
    certified = (
        (-3482258.63459582, 890420.383607373),
        (15.0618722713733, 84.9149257747669),
        (-0.358191792925910e-01, 0.334910077722432e-01),
        (-2.02022980381683, 0.488399681651699),
        (-1.03322686717359, 0.214274163161675),
        (-0.511041056535807e-01, 0.226073200069370),
        (1829.15146461355, 455.478499142212),
    )
    for found, error, (value, spread) in zip(beta, errors, certified, strict=True):
        assert digits(found, value) >= 9
        assert digits(error, spread) >= 9
    assert digits(deviation, 304.854073561965) >= 9


DEVIATIONS = (759, -2048, 2048, -2048, 2523, -2048, 2048, -2048, 1838, -2048, 2048)
WAMPLER = (
    2152.32624678170,
    2363.55173469681,
    779.343524331583,
    101.475507550350,
    5.64566512170752,
    0.112324854679312,
)


@pytest.mark.parametrize(("scale", "least"), [(1, 8), (100, 7), (10_000, 5)])
def test_wampler(scale, least):
    """A polynomial of the fifth degree: every coefficient is 1, under deviations of growing size."""
    x = np.arange(21.0)
    noise = np.array([*DEVIATIONS, *DEVIATIONS[-2::-1]], dtype=float)
    powers = np.column_stack([x**k for k in range(6)])
    beta, errors, deviation = regression(powers, powers.sum(axis=1) + scale * noise)
    for found, error, spread in zip(beta, errors, WAMPLER, strict=True):
        assert digits(found, 1.0) >= least
        assert digits(error, scale * spread) >= 8
    assert digits(deviation, scale * 2360.14502379268) >= 8


def test_columns_that_cannot_be_told_apart_have_no_solution():
    x = np.arange(5.0)
    assert solve(np.column_stack([x, 2 * x]), x) is None
    assert solve(np.ones((1, 2)), np.ones(1)) is None
    assert solve(np.zeros((3, 1)), np.ones(3)) is None
