"""Response surfaces: a published example, surfaces whose best point is known, and what cannot be fitted."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.optimize import minimize
from statsmodels.formula.api import ols

from peira.errors import Invalid
from peira.stats.models.surface import columns, highest

X1 = (-1, -1, 1, 1, 0, 0, 0, 0, 0, 1.414, -1.414, 0, 0)
X2 = (-1, 1, -1, 1, 0, 0, 0, 0, 0, 0, 0, 1.414, -1.414)
YIELD = (76.5, 77, 78, 79.5, 79.9, 80.3, 80, 79.7, 79.8, 78.4, 75.6, 78.5, 77)
"""The chemical process of Montgomery, Design and Analysis of Experiments (central composite)."""


def process(trial, results):
    rows = zip(X1, X2, YIELD, strict=True)
    return results(trial("vat", y, n, x1=a, x2=b) for n, (a, b, y) in enumerate(rows))


def test_a_published_surface_agrees_with_the_book_and_with_r(trial, results):
    """The book: highest at (0.389, 0.306), 80.21, curvatures -0.9641 and -1.4141, lack of fit F = 1.78.
    R 4.2.2: m <- lm(y ~ x1 + x2 + I(x1^2) + I(x2^2) + x1:x2); anova(m, lm(y ~ factor(paste(x1, x2))));
    xs <- -solve(B, b)/2; eigen(B); and its delta method, sqrt(diag(J %*% vcov(m) %*% t(J)))."""
    found = process(trial, results).surface()
    assert [one.best for one in found.settings] == pytest.approx([0.389230432963, 0.305846591380], rel=1e-9)
    assert found.value.mean == pytest.approx(80.2123930362, rel=1e-11)
    curves = [one.curvature.value / 1.414**2 for one in found.directions]
    assert curves == pytest.approx([-1.414286726476, -0.963498554502], rel=1e-10)
    halves = [(one.turns.high - one.turns.low) / 2 for one in found.settings]
    assert np.array(halves) / 2.364624251593 == pytest.approx([0.0487818396080, 0.0638905060675], rel=1e-9)
    assert (found.fits.f, found.fits.p) == pytest.approx((1.78851, 0.28856), rel=1e-4)
    assert (found.kind, found.inside) == ("maximum", True)
    assert "fits" in str(found)
    assert "x1 0.39 [" in found.sentence
    p = {one.term: one.p for one in found.coefficients}
    assert p["x1"] == pytest.approx(1.48448600789e-05, rel=1e-8)
    assert p["x1 x x2"] == pytest.approx(1.02519190765e-01, rel=1e-9)
    assert json.loads(found.to_json())["settings"][0]["factor"] == "x1"


def bowl(trial, results, cases=40, peak=0.3, noise=0.05, seed=0, other=("a",)):
    """A score that is highest at this temperature, whatever the case and the model."""
    rng = np.random.default_rng(seed)
    return results(
        trial(case, 1 - (t - peak) ** 2 + noise * rng.normal() + level + 0.1 * len(m), temperature=t, model=m)
        for case, level in enumerate(rng.normal(0, 0.3, cases))
        for t in (0.0, 0.25, 0.5, 0.75, 1.0)
        for m in other
    )


def test_cases_are_the_sample_and_errors_those_of_a_robust_fit(trial, results):
    """statsmodels: the same coefficients; robust errors of clusters, with its own correction, within 2%."""
    made = bowl(trial, results)
    found = made.surface()
    frame = made.frame()
    frame["x"], frame["y"] = frame["condition.temperature"] * 2 - 1, frame["score.match"]
    fit = ols("y ~ x + I(x ** 2)", frame).fit(
        cov_type="cluster", cov_kwds={"groups": frame["case"].astype("category").cat.codes}
    )
    assert [one.estimate.mean for one in found.coefficients] == pytest.approx(list(fit.params), rel=1e-9)
    halves = [(one.estimate.high - one.estimate.low) / 2 / 2.0227 for one in found.coefficients]
    assert halves == pytest.approx(list(fit.bse), rel=0.02)


def test_other_factors_are_averaged_over(trial, results):
    found = bowl(trial, results, other=("a", "bb")).surface("temperature")
    assert "averaged over model" in found.remarks
    assert found.settings[0].best == pytest.approx(0.3, abs=0.05)


def test_the_range_of_the_best_holds_the_truth(trial, results):
    held = sum(
        one.low <= 0.3 <= one.high
        for seed in range(200)
        for one in bowl(trial, results, cases=12, noise=0.2, seed=seed).surface().settings
    )
    assert held >= 184


def test_the_lowest_and_what_lies_at_an_end(trial, results):
    found = bowl(trial, results, peak=1.5).surface()
    assert found.settings[0].best == 1.0
    assert found.settings[0].edge > 0.9
    assert "look beyond" in str(found)
    assert bowl(trial, results, peak=0.3).surface(lowest=True).settings[0].best == 1.0


def test_a_surface_that_does_not_fit_says_so(trial, results):
    rng = np.random.default_rng(0)
    trials = [trial(case, float(t == 2) + 0.05 * rng.normal(), t=t) for case in range(30) for t in range(7)]
    assert "does NOT fit" in str(results(trials).surface())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda t: [t("c", None, x=1.0)], "No trial has a score"),
        (lambda t: [t(c, 1.0, x=x) for c in "ab" for x in (1, 2, 3)], "All scores are equal"),
        (lambda t: [t(c, float(x), x=x) for c in "ab" for x in (1, 2)], "three or more values"),
        (lambda t: [t(c, float(len(x)), x=x) for c in "ab" for x in ("p", "qq")], "No factor is a number"),
        (lambda t: [t("c", float(x), x=x) for x in (1, 2, 4)], "no error can be given"),
        (lambda t: [t("c", x * y, x=x, y=y) for x, y in ((1, 1), (2, 2), (3, 3))], "cannot tell its"),
    ],
)
def test_what_cannot_be_fitted_is_said(trial, results, make, said):
    found = results(make(trial)).surface()
    assert said in str(found)
    assert all(one.low is None for one in found.settings)


def test_texts_are_no_coordinates(trial, results):
    with pytest.raises(Invalid, match="not numbers"):
        results([trial("c", 1.0, x="a"), trial("c", 0.0, x="b")]).surface("x")


@given(st.lists(st.floats(-3, 3), min_size=6, max_size=6))
@example([0.0, 0.0, 0.0, 0.0, 0.0, 2.2250738585e-313])
def test_the_highest_point_of_the_square_is_the_highest(beta):
    """Against a numerical search from many starts."""
    coefficients = np.array(beta)
    best = highest(coefficients[None], 2)[0]
    assert (np.abs(best) <= 1).all()
    value = columns(best[None])[0] @ coefficients
    grid = np.stack(np.meshgrid(*[np.linspace(-1, 1, 21)] * 2), axis=-1).reshape(-1, 2)
    assert value >= (columns(grid) @ coefficients).max() - 1e-9
    start = grid[(columns(grid) @ coefficients).argmax()]
    found = minimize(lambda x: -columns(x[None])[0] @ coefficients, start, bounds=[(-1, 1)] * 2)
    assert value >= -found.fun - 1e-6
