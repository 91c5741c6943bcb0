from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.inter_rater import cohens_kappa
from statsmodels.stats.inter_rater import fleiss_kappa as their_fleiss

from peira.stats.agreement import cohen_kappa, fleiss_kappa, krippendorff_alpha
from peira.stats.intervals.resampling import jackknife

# Krippendorff's worked example: four observers, twelve units. R, irr: kripp.alpha(nmm, "nominal") and so on
N = None
OBSERVERS = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, N, N, N],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, N, 3],
    [N, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, N],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, N],
]
UNITS = list(zip(*OBSERVERS, strict=True))

# Fleiss, Cohen and Everitt (1969): two psychiatrists on 200 patients
DIAGNOSES = np.array([[88, 14, 18], [10, 40, 10], [2, 6, 12]])

# Fleiss' kappa, the common worked example: ten subjects, fourteen raters, five categories
FOURTEEN = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]


def ratings(table):
    cells = [(i, j) for (i, j), count in np.ndenumerate(table) for _ in range(count)]
    return [i for i, _ in cells], [j for _, j in cells]


@pytest.mark.parametrize(("scale", "alpha"), [("nominal", 0.743), ("ordinal", 0.815), ("interval", 0.849)])
def test_krippendorffs_worked_example(scale, alpha):
    found = krippendorff_alpha(UNITS, scale)
    assert found.value == pytest.approx(alpha, abs=5e-4)
    assert found.low < found.value < found.high <= 1
    assert found.n == 11


@pytest.mark.parametrize(
    ("weights", "theirs"), [("none", None), ("linear", "linear"), ("quadratic", "quadratic")]
)
def test_cohens_kappa_agrees_with_statsmodels(weights, theirs):
    expected = cohens_kappa(DIAGNOSES, wt=theirs)
    found = cohen_kappa(*ratings(DIAGNOSES), weights, categories=[0, 1, 2])
    assert (found.value, found.low, found.high) == pytest.approx(
        (expected.kappa, expected.kappa_low, expected.kappa_upp)
    )


def test_the_published_kappa():
    assert cohen_kappa(*ratings(DIAGNOSES)).value == pytest.approx(0.492, abs=5e-4)


def test_fleiss_published_kappa():
    found = fleiss_kappa(FOURTEEN)
    assert found.value == pytest.approx(0.210, abs=5e-4)
    assert found.value == pytest.approx(their_fleiss(np.array(FOURTEEN)))
    assert found.low < found.value < found.high


def test_two_complete_judges_link_the_three():
    """With two ratings of each of many cases, nominal alpha and Fleiss' kappa are nearly the same."""
    rng = np.random.default_rng(31)
    one = rng.integers(0, 3, 3000)
    two = np.where(rng.random(3000) < 0.7, one, rng.integers(0, 3, 3000))
    alpha = krippendorff_alpha(list(zip(one.tolist(), two.tolist(), strict=True)))
    counts = [[int(a == k) + int(b == k) for k in range(3)] for a, b in zip(one, two, strict=True)]
    assert alpha.value == pytest.approx(fleiss_kappa(counts).value, abs=1e-3)
    assert alpha.value == pytest.approx(cohen_kappa(one.tolist(), two.tolist()).value, abs=1e-2)
    kappa = cohen_kappa(one.tolist(), two.tolist())
    assert alpha.high - alpha.low == pytest.approx(kappa.high - kappa.low, rel=0.15)


def test_intervals_hold_the_truth():
    rng = np.random.default_rng(33)
    held = 0
    for _ in range(400):
        one = rng.integers(0, 2, 60)
        two = np.where(rng.random(60) < 0.8, one, 1 - one)
        found = krippendorff_alpha(list(zip(one.tolist(), two.tolist(), strict=True)))
        held += found.low <= 0.6 <= found.high
    assert 0.92 < held / 400 < 0.98


def test_names_do_not_matter_on_a_nominal_scale():
    words = [[None if one is None else f"code {9 - one}" for one in row] for row in UNITS]
    assert krippendorff_alpha(words).value == pytest.approx(krippendorff_alpha(UNITS).value)


@given(st.integers(-5, 5), st.integers(1, 9))
def test_an_interval_scale_has_no_unit_and_no_origin(shift, factor):
    moved = [[None if one is None else one * factor + shift for one in row] for row in UNITS]
    assert krippendorff_alpha(moved, "interval").value == pytest.approx(
        krippendorff_alpha(UNITS, "interval").value
    )


def test_nothing_to_disagree_about():
    for found in (
        cohen_kappa(["yes"] * 5, ["yes"] * 5),
        fleiss_kappa([[3, 0], [3, 0]]),
        krippendorff_alpha([[1, 1], [1, 1], [1, 1]]),
        krippendorff_alpha([[1, None], [None, 2]]),
        krippendorff_alpha([]),
    ):
        assert (found.value, found.low, found.high, found.method) == (None, None, None, "unknown")


def test_perfect_agreement_has_a_value_but_no_interval():
    for found in (
        cohen_kappa(list("abab"), list("abab")),
        krippendorff_alpha([[1, 1], [2, 2], [1, 1], [2, 2]]),
    ):
        assert (found.value, found.low, found.high) == (1.0, None, None)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: cohen_kappa([1, 2], [1]),
        lambda: cohen_kappa([], []),
        lambda: cohen_kappa([1, 2], [1, 2], "linear"),
        lambda: cohen_kappa([1, 2], [1, 3], categories=[1, 2]),
        lambda: fleiss_kappa([[1, 2], [1, 1]]),
        lambda: fleiss_kappa([[1, 0]]),
        lambda: fleiss_kappa([]),
        lambda: cohen_kappa([1, 2], [1, 2], "squared", [1, 2]),
        lambda: krippendorff_alpha([[1, 2]], "ratio"),
        lambda: krippendorff_alpha([["a", "b"]], "ordinal"),
    ],
)
def test_wrong_input_is_refused(wrong):
    with pytest.raises(ValueError, match=r"need|outside"):
        wrong()


def test_the_jackknife_of_a_mean_is_its_standard_error():
    data = np.random.default_rng(35).normal(size=50)
    found = jackknife(lambda kept: float(data[kept].mean()), 50)
    assert found.error == pytest.approx(data.std(ddof=1) / np.sqrt(50))
    many = np.random.default_rng(36).normal(size=10_000)
    grouped = jackknife(lambda kept: float(many[kept].mean()), 10_000)
    assert grouped.error == pytest.approx(many.std(ddof=1) / 100, rel=0.15)
    assert jackknife(lambda kept: 1.0, 50) is None
    assert jackknife(lambda kept: 1.0, 2) is None
