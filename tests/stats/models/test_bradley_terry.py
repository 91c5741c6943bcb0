from __future__ import annotations

import math

import choix
import numpy as np
import pytest

from peira.stats.models.bradley_terry import (
    bradley_terry,
    bradley_terry_bootstrap,
    bradley_terry_controlled,
    elo,
)

# Agresti, Categorical Data Analysis: American League East, 1987; row beat column so often.
BASEBALL = np.array(
    [
        [0, 7, 9, 7, 7, 9, 11],
        [6, 0, 7, 5, 11, 9, 9],
        [4, 6, 0, 7, 7, 8, 12],
        [6, 8, 6, 0, 6, 7, 10],
        [6, 2, 6, 7, 0, 7, 12],
        [4, 4, 5, 6, 6, 0, 6],
        [2, 4, 1, 3, 1, 7, 0],
    ]
)


def games(wins):
    pairs = [(i, j) for (i, j), count in np.ndenumerate(wins) for _ in range(count)]
    return [i for i, _ in pairs], [j for _, j in pairs], [1] * len(pairs)


def test_the_published_baseball_season():
    # R, BradleyTerry2: summary(BTm(cbind(home.wins, away.wins), ...)), Baltimore as the reference
    found = bradley_terry(*games(BASEBALL), 7)
    strength = np.array(found.strength)
    assert strength - strength[-1] == pytest.approx([1.581, 1.436, 1.294, 1.248, 1.108, 0.684, 0], abs=5e-4)
    c = found.covariance
    errors = np.sqrt(np.diag(c)[:-1] + c[-1, -1] - 2 * c[:-1, -1])
    assert errors == pytest.approx([0.3433, 0.3396, 0.3367, 0.3359, 0.3339, 0.3319], abs=5e-5)


def test_agrees_with_choix():
    rng = np.random.default_rng(61)
    truth = rng.normal(size=6)
    one, two = np.array([rng.choice(6, 2, replace=False) for _ in range(400)]).T
    won = rng.random(400) < 1 / (1 + np.exp(truth[two] - truth[one]))
    theirs = choix.ilsr_pairwise(6, [(i, j) if w else (j, i) for i, j, w in zip(one, two, won, strict=True)])
    found = bradley_terry(one, two, won, 6)
    assert found.strength == pytest.approx(theirs - theirs.mean(), abs=1e-6)


def test_intervals_hold_the_truth():
    rng = np.random.default_rng(63)
    truth = np.array([0.8, 0.2, -0.3, -0.7])
    held = total = 0
    for _ in range(200):
        one, two = np.array([rng.choice(4, 2, replace=False) for _ in range(120)]).T
        won = rng.random(120) < 1 / (1 + np.exp(truth[two] - truth[one]))
        found = bradley_terry(one, two, won, 4)
        held += sum(a <= t <= b for a, t, b in zip(found.low, truth, found.high, strict=True))
        total += 4
    assert 0.92 < held / total < 0.98


def test_ties_are_half_a_win_each_and_make_it_surer():
    tied = bradley_terry([0, 1] * 50, [1, 0] * 50, [0.5] * 60 + [1, 0] * 20, 2)
    split = bradley_terry([0, 1] * 50, [1, 0] * 50, [1, 1] * 30 + [1, 0] * 20, 2)
    assert tied.strength == pytest.approx(split.strength)
    assert tied.high[0] - tied.low[0] < 0.8 * (split.high[0] - split.low[0])


def test_judgements_of_one_case_count_once():
    one, two, won = games(BASEBALL)
    thrice = [part * 3 for part in (one, two, won)]
    alone = bradley_terry(one, two, won, 7, clusters=range(len(won)))
    together = bradley_terry(*thrice, 7, clusters=[*range(len(won))] * 3)
    assert together.low == pytest.approx(alone.low, abs=1e-9)
    model = bradley_terry(one, two, won, 7)
    assert alone.low == pytest.approx(model.low, abs=0.1)


def test_the_bootstrap_agrees_with_the_covariance():
    one, two, won = games(BASEBALL)
    found, exact = bradley_terry_bootstrap(one, two, won, 7, resamples=300), bradley_terry(one, two, won, 7)
    for low, high, other_low, other_high in zip(found.low, found.high, exact.low, exact.high, strict=True):
        assert high - low == pytest.approx(other_high - other_low, rel=0.25)
    assert found == bradley_terry_bootstrap(one, two, won, 7, resamples=300)


def test_who_never_lost_has_no_known_strength():
    found = bradley_terry([0, 0, 1], [1, 2, 2], [1, 1, 1], 3)
    assert found.method == "bradley-terry, pulled"
    assert (found.low, found.high, found.covariance) == (None, None, None)
    assert found.strength[0] > found.strength[1] > found.strength[2]
    assert math.isfinite(found.strength[0])
    assert bradley_terry_bootstrap([0, 0, 1], [1, 2, 2], [1, 1, 1], 3).low is None


def test_players_who_never_met():
    assert bradley_terry([0, 1, 2, 3], [1, 0, 3, 2], [1, 1, 1, 1], 4).low is None


def test_elo_by_hand():
    # Equal players: half of 32. Then 1016 beats 984: expected 0.5459.
    assert elo([0], [1], [1], 2) == (1016.0, 984.0)
    assert elo([0, 0], [1, 1], [1, 1], 2)[0] == pytest.approx(1016 + 32 * (1 - 0.545922), abs=1e-4)
    assert sum(elo([0, 1, 2], [1, 2, 0], [1, 0.5, 0], 3)) == pytest.approx(3000)


@pytest.mark.parametrize(
    "wrong",
    [
        ([], [], [], 2),
        ([0], [0], [1], 2),
        ([0], [2], [1], 2),
        ([0], [1], [2], 2),
        ([0, 1], [1], [1], 2),
    ],
)
def test_wrong_input_is_refused(wrong):
    with pytest.raises(ValueError, match=r"need|numbered|outcome"):
        bradley_terry(*wrong)


def test_strengths_beside_a_covariate_are_those_of_r():
    """R 4.2.2, sandwich 3.0-2:
    n <- 0:59; one <- n %% 3; two <- (one + 1 + (n %/% 3) %% 2) %% 3; d <- (37*n) %% 101 - 45
    won <- ifelse((7*n + 3*one + (d > 0)*5) %% 11 > 4, 1, 0); won[n %% 10 == 9] <- 0.5
    z <- tanh(d / sd(d)); x <- matrix(0, 60, 3); x[cbind(n+1, one+1)] <- 1; x[cbind(n+1, two+1)] <- -1
    fit <- glm(won ~ x[,1] + x[,2] + z - 1, family = binomial)
    b <- c(coef(fit)[1:2], 0); c(b - mean(b), coef(fit)[3])
    v <- vcovCL(fit, cluster = n %/% 2, type = "HC0"); sqrt(v[3,3]); sqrt(v[1,1])"""
    n = np.arange(60)
    one = n % 3
    two, d = (one + 1 + (n // 3) % 2) % 3, (37 * n) % 101 - 45.0
    won = ((7 * n + 3 * one + (d > 0) * 5) % 11 > 4).astype(float)
    won[n % 10 == 9] = 0.5
    covariate = np.tanh(d / d.std(ddof=1))
    found = bradley_terry_controlled(one, two, won, 3, covariate, clusters=(n // 2).tolist())
    expected = (0.66274210964351, -0.66003757709828, -0.00270453254523)
    assert found.strengths.strength == pytest.approx(expected, abs=1e-9)
    assert (found.slope, found.error) == pytest.approx((-0.08222251298230, 0.43022221729), rel=1e-5)
    covariance = found.strengths.covariance
    gap = covariance[0, 0] + covariance[2, 2] - 2 * covariance[0, 2]
    assert gap**0.5 == pytest.approx(0.39228150936, rel=1e-5)


def test_without_variation_of_the_covariate_there_is_nothing_to_control():
    assert bradley_terry_controlled([0, 1, 0], [1, 0, 1], [1, 1, 0], 2, [0.0, 0.0, 0.0]) is None
    assert bradley_terry_controlled([0, 0, 0], [1, 1, 1], [1, 1, 1], 2, [0.1, 0.0, 0.3]) is None
