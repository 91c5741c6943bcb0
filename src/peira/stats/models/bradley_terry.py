"""Strengths from pairwise comparisons: the Bradley-Terry model and Elo ratings.

Players are numbered from 0. `outcome` is 1 if the first player won, 0 if the second did, 0.5 for a tie.
Strengths are on the log-odds scale with mean 0: the log odds that i beats j are the difference of their
strengths.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from peira.stats import normal
from peira.stats.inputs import Codes, Floats, coded, finite, upper
from peira.stats.intervals.resampling import percentile

ELO = 400 / math.log(10)
"""Points on Elo's scale for each unit of log-odds."""


@dataclass(frozen=True)
class Strengths:
    """Estimated strength of each player with its interval.

    `covariance` serves intervals of differences between players. If some players never lost to, or never
    beat, the rest, the maximum likelihood estimate does not exist: strengths are then penalised by one
    pseudo-tie of every player with an average player, and the bounds are unknown.
    """

    strength: tuple[float, ...]
    low: tuple[float, ...] | None
    high: tuple[float, ...] | None
    covariance: Floats | None = field(compare=False)
    n: int
    method: str


def bradley_terry(
    first: ArrayLike,
    second: ArrayLike,
    outcome: ArrayLike,
    players: int,
    clusters: Iterable[Hashable] | None = None,
    level: float = 0.95,
) -> Strengths:
    """Fit the Bradley-Terry model by maximum likelihood, with Wald intervals.

    The covariance is the inverse information for independent judgements without ties, and the sandwich
    estimator over judgements (or `clusters` of them) otherwise.
    """
    one, two, won = _validated(first, second, outcome, players)
    z = normal.quantile(upper(level))
    wins = _wins(one, two, won, players)
    if not _connected(wins):
        penalised = _fit(wins, 1.0)
        return Strengths(_as_tuple(penalised), None, None, None, won.size, "bradley-terry, pulled")
    strength = _fit(wins, 0.0)
    curve = _information(wins, strength) + 1 / players
    covariance = inverse = np.asarray(np.linalg.inv(curve) - 1 / players, dtype=np.float64)
    if clusters is not None or bool(((won != 0) & (won != 1)).any()):
        codes, groups = coded(clusters, won.size)
        covariance = inverse @ _meat(one, two, won, strength, codes, groups) @ inverse
    half = z * np.sqrt(np.diag(covariance))
    low, high = _as_tuple(strength - half), _as_tuple(strength + half)
    return Strengths(_as_tuple(strength), low, high, covariance, won.size, "bradley-terry")


@dataclass(frozen=True)
class ControlledStrengths:
    """Strengths beside a covariate of each game, and its coefficient with standard error."""

    strengths: Strengths
    slope: float
    error: float


def bradley_terry_controlled(
    first: ArrayLike,
    second: ArrayLike,
    outcome: ArrayLike,
    players: int,
    covariate: ArrayLike,
    clusters: Iterable[Hashable] | None = None,
    level: float = 0.95,
) -> ControlledStrengths | None:
    """The Bradley-Terry model with a covariate: logit P(i beats j) = s_i - s_j + slope * covariate.

    The covariate is that of the first player over the second, such as how much longer its answer is; the
    strengths are those at a covariate of 0. Errors are sandwich ones over judgements or clusters. None if the
    maximum likelihood estimate does not exist.
    """
    one, two, won = _validated(first, second, outcome, players)
    given = finite(np.asarray(covariate, dtype=np.float64))
    matrix = np.zeros((won.size, players + 1))
    rows = np.arange(won.size)
    matrix[rows, one], matrix[rows, two], matrix[:, -1] = 1.0, -1.0, given
    # Only differences of strengths are identified: their sum is fixed at 0.
    fixed = np.zeros((players + 1, players + 1))
    fixed[:players, :players] = 1 / players
    if not _connected(_wins(one, two, won, players)) or float(np.ptp(given)) == 0:
        return None
    beta = _logistic(matrix, won, fixed)
    if beta is None:
        return None
    chance = 1 / (1 + np.exp(-(matrix @ beta)))
    curve = matrix.T @ (matrix * (chance * (1 - chance))[:, None]) + fixed
    if float(np.linalg.eigvalsh(curve)[0]) < 1e-9 * won.size:
        return None
    codes, groups = coded(clusters, won.size)
    scores = np.zeros((groups, players + 1))
    np.add.at(scores, codes, matrix * (won - chance)[:, None])
    inverse = np.linalg.inv(curve)
    robust = inverse @ (scores.T @ scores * (groups / max(1, groups - 1))) @ inverse
    strength, covariance = beta[:-1] - beta[:-1].mean(), robust[:-1, :-1]
    half = normal.quantile(upper(level)) * np.sqrt(np.maximum(np.diag(covariance), 0))
    low, high = _as_tuple(strength - half), _as_tuple(strength + half)
    found = Strengths(
        _as_tuple(strength), low, high, covariance, won.size, "bradley-terry, length-controlled"
    )
    return ControlledStrengths(found, float(beta[-1]), float(robust[-1, -1]) ** 0.5)


def _logistic(matrix: Floats, won: Floats, fixed: Floats) -> Floats | None:
    """Logistic regression by Newton's method; None if it does not converge to finite coefficients."""
    beta = np.zeros(matrix.shape[1])
    for _ in range(100):
        chance = 1 / (1 + np.exp(-(matrix @ beta)))
        slope = matrix.T @ (won - chance) - fixed @ beta
        step = np.linalg.lstsq(
            matrix.T @ (matrix * (chance * (1 - chance))[:, None]) + fixed, slope, rcond=None
        )[0]
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        beta = beta + step
        if float(np.abs(beta).max()) > 30:
            return None
        if float(np.abs(step).max()) < 1e-10:
            found: Floats = beta
            return found
    return None


def bradley_terry_bootstrap(
    first: ArrayLike,
    second: ArrayLike,
    outcome: ArrayLike,
    players: int,
    clusters: Iterable[Hashable] | None = None,
    level: float = 0.95,
    seed: int = 0,
    resamples: int = 1_000,
) -> Strengths:
    """Fit the Bradley-Terry model, with percentile bootstrap intervals over judgements or clusters.

    Resamples without a maximum likelihood estimate are penalised (see `Strengths`), so that a player who may
    be unbeatable gets a wide interval.
    """
    one, two, won = _validated(first, second, outcome, players)
    upper(level)
    codes, groups = coded(clusters, won.size)
    wins = _wins(one, two, won, players)
    if not _connected(wins) or groups < 2:
        return bradley_terry(one, two, won, players, clusters=codes.tolist(), level=level)
    rng, strength, draws = np.random.default_rng(seed), _fit(wins, 0.0), []
    for _ in range(resamples):
        weights = np.bincount(rng.integers(0, groups, groups), minlength=groups)[codes].astype(np.float64)
        again = _wins(one, two, won, players, weights)
        draws.append(_fit(again, 0.0 if _connected(again) else 1.0))
    low, high = percentile(np.array(draws), level)
    return Strengths(
        _as_tuple(strength), _as_tuple(low), _as_tuple(high), None, won.size, "bradley-terry, bootstrap"
    )


def elo(
    first: ArrayLike, second: ArrayLike, outcome: ArrayLike, players: int, step: float = 32.0
) -> tuple[float, ...]:
    """Elo ratings after these games in this order, starting at 1,000.

    A win moves at most `step` points.

    Ratings depend on the order of the games and have no interval: prefer `bradley_terry`.
    """
    rating = [1000.0] * players
    one, two, won = _validated(first, second, outcome, players)
    for i, j, result in zip(one.tolist(), two.tolist(), won.tolist(), strict=True):
        expected = 1 / (1 + math.exp((rating[j] - rating[i]) / ELO))
        rating[i] += step * (result - expected)
        rating[j] -= step * (result - expected)
    return tuple(rating)


def _validated(
    first: ArrayLike, second: ArrayLike, outcome: ArrayLike, players: int
) -> tuple[Codes, Codes, Floats]:
    """The inputs as arrays.

    Raises ValueError for unequal lengths, unknown players or outcomes outside [0, 1].
    """
    one, two = np.asarray(first, dtype=np.intp), np.asarray(second, dtype=np.intp)
    won = finite(np.asarray(outcome, dtype=np.float64))
    if not one.shape == two.shape == won.shape or won.ndim != 1 or won.size == 0:
        raise ValueError("need as many outcomes as pairs of players, and at least one")
    if bool(
        (np.minimum(one, two) < 0).any() or (np.maximum(one, two) >= players).any() or (one == two).any()
    ):
        raise ValueError(f"players are numbered from 0 to {players - 1}, and nobody plays against himself")
    if bool(((won < 0) | (won > 1)).any()):
        raise ValueError("an outcome lies between 0 (lost) and 1 (won)")
    return one, two, won


def _wins(one: Codes, two: Codes, won: Floats, players: int, weights: Floats | None = None) -> Floats:
    """The matrix of weighted wins of each player (row) over each other player (column)."""
    counts = np.ones(won.size) if weights is None else weights
    cells = np.concatenate([one * players + two, two * players + one])
    amounts = np.concatenate([counts * won, counts * (1 - won)])
    return np.bincount(cells, amounts, players**2).astype(np.float64, copy=False).reshape(players, players)


def _connected(wins: Floats) -> bool:
    """Whether the win graph is strongly connected: then the estimate exists."""
    from scipy.sparse.csgraph import connected_components

    return int(connected_components(wins > 0, connection="strong")[0]) == 1


def _fit(wins: Floats, penalty: float) -> Floats:
    """Newton's method; `pull` is the weight of a pseudo-tie of each player with one of strength 0."""
    games, strength = wins + wins.T, np.zeros(len(wins))
    for _ in range(100):
        own = 1 / (1 + np.exp(-strength))
        slope = (wins - games * _chance(strength)).sum(axis=1) + penalty * (0.5 - own)
        # Without a penalty only differences are identified; the constant makes the information invertible.
        curve = _information(wins, strength) + (np.diag(penalty * own * (1 - own)) if penalty else 1.0)
        step = np.linalg.solve(curve, slope)
        # Far from the maximum a full step may overshoot.
        step *= min(1.0, 2.0 / max(float(np.abs(step).max()), 1e-300))
        strength = strength + step
        if float(np.abs(step).max()) < 1e-10:
            break
    found: Floats = strength - strength.mean()
    return found


def _as_tuple(values: Floats) -> tuple[float, ...]:
    """An array as a tuple of Python floats."""
    return tuple(float(value) for value in values)


def _chance(strength: Floats) -> Floats:
    """The matrix of modelled probabilities that each player (row) beats each other player (column)."""
    found: Floats = 1 / (1 + np.exp(strength[None, :] - strength[:, None]))
    return found


def _information(wins: Floats, strength: Floats) -> Floats:
    """The Fisher information of the strengths."""
    chance = _chance(strength)
    weight = (wins + wins.T) * chance * (1 - chance)
    found: Floats = np.diag(weight.sum(axis=1)) - weight
    return found


def _meat(one: Codes, two: Codes, won: Floats, strength: Floats, codes: Codes, groups: int) -> Floats:
    """The middle matrix of the sandwich estimator over clusters, with factor G/(G-1)."""
    residual = won - 1 / (1 + np.exp(strength[two] - strength[one]))
    slopes = np.zeros((groups, strength.size))
    np.add.at(slopes, (codes, one), residual)
    np.add.at(slopes, (codes, two), -residual)
    found: Floats = slopes.T @ slopes * (groups / max(1, groups - 1))
    return found
