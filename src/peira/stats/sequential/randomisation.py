"""Comparison of arms among which units were drawn at random with known probabilities, at every look.

The estimate is augmented inverse-propensity weighting: each unit says, of every arm, the prediction for that
arm, plus, of the arm it was given, the error of the prediction divided by the probability of that arm. Its
expectation is the unit's effect, whatever the prediction, as long as prediction and probabilities depend on
earlier units only: the traffic may follow the evidence. The confidence sequence is that of `RunningMean`: it
covers the mean effect over the units so far at every look, also if effects drift.

A unit without a value has the bounds of what it could have been: the lower end of the interval assumes the
worst for the contrast, the upper end the best, so that losing units cannot help an arm.
"""

from __future__ import annotations

from collections.abc import Sequence

from peira.stats.sequential.running_mean import BracketedMean

JOBS = 250
"""The number of units at which intervals are to be narrowest, with equal shares and scores of 0 and 1."""

Limits = tuple[float, float]


class ArmPredictions:
    """The prediction of the next value of each arm: the mean of its values so far.

    Before its first value it is the middle of the limits, or the mean of all values if there are none.
    """

    def __init__(self, arms: int, limits: Limits | None = None) -> None:
        self._limits = limits
        self.counts, self.sums = [0] * arms, [0.0] * arms

    def of(self, arm: int) -> float:
        """The prediction for an arm."""
        if self._limits is not None:
            return (sum(self._limits) / 2 + self.sums[arm]) / (1 + self.counts[arm])
        if self.counts[arm]:
            return self.sums[arm] / self.counts[arm]
        n = sum(self.counts)
        return sum(self.sums) / n if n else 0.0

    def add(self, arm: int, value: float) -> None:
        """Learn from a value."""
        self.counts[arm] += 1
        self.sums[arm] += value


class RandomisedContrast(BracketedMean):
    """The confidence sequence of a weighted sum of arm means, as units arrive in the order of their drawing.

    `weights` are those of the arms: 1 and -1 for a difference. `least_share` is a lower limit of the
    probability of every arm in the contrast, known in advance. `limits` are the least and the greatest value;
    without them the sequence is asymptotic, and units without a value are left out.
    """

    def __init__(
        self, weights: Sequence[float], least_share: float, limits: Limits | None, level: float = 0.95
    ) -> None:
        self._weights, self._limits = tuple(weights), limits
        if limits is None:
            super().__init__(None, level)
            return
        width, share = limits[1] - limits[0], 1 / len(self._weights)
        typical = JOBS * (width / 2) ** 2 * sum(weight**2 for weight in self._weights) / share
        reach = width * sum(map(abs, self._weights)) / 2
        super().__init__(max(map(abs, self._weights)) * width / least_share, level, typical, (-reach, reach))

    def draw(self, predictions: ArmPredictions, arm: int, share: float, value: float | None) -> None:
        """Add the next unit: its arm, the probability of drawing that, and its value, if it has one.

        The predictions must not have learnt from it yet.
        """
        weight = self._weights[arm]
        if value is not None:
            ends = value, value
        elif self._limits is not None:
            ends = self._limits if weight >= 0 else self._limits[::-1]
        else:
            return
        expected = sum(w * predictions.of(one) for one, w in enumerate(self._weights) if w)
        errors = [weight * (end - predictions.of(arm)) / share if weight else 0.0 for end in ends]
        self.add(expected + errors[0], expected + errors[1], expected)


def best_arm_chances(
    counts: Sequence[int], sums: Sequence[float], limits: Limits, maximize: bool = True
) -> list[float]:
    """The posterior probability of each arm to have the best mean, as Thompson sampling draws it.

    Beta posteriors with a uniform prior, of scores scaled to lie between 0 and 1.
    """
    import numpy as np
    from scipy.special import betainc

    least, width = limits[0], limits[1] - limits[0]
    grid = np.linspace(0.0, 1.0, 2001)
    below = []
    for count, total in zip(counts, sums, strict=True):
        wins = min(max((total - least * count) / width, 0.0), float(count))
        wins = wins if maximize else count - wins
        below.append(betainc(1 + wins, 1 + count - wins, grid))
    mass = [np.diff(one) for one in below]
    middle = [(one[1:] + one[:-1]) / 2 for one in below]
    found = []
    for arm, own in enumerate(mass):
        rest = [one for other, one in enumerate(middle) if other != arm]
        found.append(float((own * np.prod(rest, axis=0)).sum()))
    total = sum(found)
    return [one / total for one in found]


def floored(shares: Sequence[float], floor: float) -> list[float]:
    """These probabilities with a floor: a mixture with the uniform distribution, so that none is below it."""
    return [floor + (1 - len(shares) * floor) * share for share in shares]
