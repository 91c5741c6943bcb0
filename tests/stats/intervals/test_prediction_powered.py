from __future__ import annotations

import numpy as np
import pytest

from peira.stats.intervals.means import mean_t
from peira.stats.intervals.prediction_powered import prediction_powered, rogan_gladen

RNG = np.random.default_rng(41)


def sample(n, right=0.85, share=0.6):
    truth = RNG.random(n) < share
    return truth.astype(float), np.where(RNG.random(n) < right, truth, ~truth).astype(float)


def test_untuned_by_its_formula():
    truth, judged = sample(80)
    _, rest = sample(900)
    found = prediction_powered(truth, judged, rest, tuned=False)
    assert found.mean == pytest.approx(rest.mean() + (truth - judged).mean())
    error = np.sqrt(rest.var(ddof=1) / 900 + (truth - judged).var(ddof=1) / 80)
    assert (found.high - found.low) / 2 / error == pytest.approx(1.985, abs=0.01)


def test_tuning_never_loses_to_the_truths_alone():
    truth, judged = sample(80)
    noise = RNG.random(900)
    useless = prediction_powered(truth, RNG.random(80), noise)
    alone = mean_t(truth)
    assert useless.high - useless.low < 1.06 * (alone.high - alone.low)
    perfect = prediction_powered(truth, truth, sample(100_000, 1.0)[1])
    assert perfect.high - perfect.low < 0.1 * (alone.high - alone.low)
    assert prediction_powered(truth, judged * 0, noise * 0).mean == pytest.approx(truth.mean())


def test_the_weight_is_the_one_that_makes_it_surest():
    # Angelopoulos, Duchi and Zrnic (2023): cov(truth, judged) / ((1 + n/N) var(judged))
    truth, judged = sample(80)
    _, rest = sample(240)
    together = np.cov(truth, judged)[0, 1]
    weight = together / ((1 + 80 / 240) * np.concatenate([judged, rest]).var(ddof=1))
    assert 0 < weight < 1
    expected = truth.mean() + weight * (rest.mean() - judged.mean())
    assert prediction_powered(truth, judged, rest).mean == pytest.approx(expected)


def test_right_however_wrong_the_judge():
    """A judge that says yes far too often: its own share is far off, the corrected one is not."""
    for tuned in (True, False):
        held = 0
        for _ in range(400):
            truth = (RNG.random(60) < 0.3).astype(float)
            judged = np.maximum(truth, RNG.random(60) < 0.5)
            hidden = RNG.random(600) < 0.3
            found = prediction_powered(truth, judged, np.maximum(hidden, RNG.random(600) < 0.5), tuned)
            held += found.low <= 0.3 <= found.high
        assert 0.92 < held / 400 < 0.98


def test_a_perfect_judge_needs_no_correction():
    found = rogan_gladen(30, 100, 10_000, 10_000, 10_000, 10_000)
    assert found.mean == pytest.approx(0.3)
    # Wilson's interval at 30 of 100 is 0.219 to 0.396; this one is Agresti and Coull's
    assert (found.low, found.high) == pytest.approx((0.219, 0.396), abs=0.002)


def test_the_textbook_herd():
    # R, epiR: epi.prev(pos = 23, tested = 150, se = 0.96, sp = 0.89): "5.1 cases per 100 cows"
    assert rogan_gladen(23, 150, 96, 100, 89, 100).mean == pytest.approx(0.051, abs=5e-4)


def test_lang_and_reiczigels_limits():
    # R, after CI4TruePrevalence_15_03_2013.r (Lang and Reiczigel 2014): CI_Binom(200, 60, 40, 36, 60, 51)
    z = 1.959964
    p, se, sp = (60 + z * z / 2) / (200 + z * z), 37 / 42, 52 / 62
    prevalence = (p + sp - 1) / (se + sp - 1)
    parts = p * (1 - p) / (200 + z * z), se * (1 - se) / 42, sp * (1 - sp) / 62
    shift = 2 * z**2 * (prevalence * parts[1] - (1 - prevalence) * parts[2])
    error = np.sqrt(parts[0] + prevalence**2 * parts[1] + (1 - prevalence) ** 2 * parts[2]) / (se + sp - 1)
    found = rogan_gladen(60, 200, 36, 40, 51, 60)
    assert (found.low, found.high) == pytest.approx(
        (prevalence + shift - z * error, prevalence + shift + z * error), abs=1e-6
    )


@pytest.mark.parametrize(
    ("truth", "found_rate", "refused_rate", "of"), [(0.9, 0.9, 0.8, 50), (0.05, 0.7, 0.95, 100)]
)
def test_corrected_shares_hold_the_truth(truth, found_rate, refused_rate, of):
    held = 0
    says_yes = truth * found_rate + (1 - truth) * (1 - refused_rate)
    for _ in range(800):
        found = rogan_gladen(
            int(RNG.binomial(200, says_yes)),
            200,
            int(RNG.binomial(of, found_rate)),
            of,
            int(RNG.binomial(of, refused_rate)),
            of,
        )
        held += found.low <= truth <= found.high
    assert 0.93 < held / 800 < 0.985


def test_a_judge_that_guesses_tells_nothing():
    found = rogan_gladen(50, 100, 5, 10, 5, 10)
    assert (found.mean, found.low, found.high, found.method) == (0.5, 0.0, 1.0, "whole range")


def test_too_little_to_know():
    assert prediction_powered([1.0], [1.0], [1.0, 0.0]).method == "unknown"
    assert prediction_powered([1.0, 1.0], [1.0, 1.0], [1.0, 1.0]).low is None


def test_wrong_input_is_refused():
    with pytest.raises(ValueError, match="pairs"):
        prediction_powered([1.0], [1.0, 2.0], [1.0])
    with pytest.raises(ValueError, match="successes"):
        rogan_gladen(5, 4, 1, 2, 1, 2)
