"""The rule `racing`: levels significantly worse than another are dropped, until one is left.

Each pair of levels has a confidence sequence for its difference, at a level such that all comparisons of the
best with the others hold jointly: the best level is dropped with probability at most alpha. With a `margin`
it also stops once no other level can be better than the leader by that much.
"""

from __future__ import annotations

import math
from itertools import combinations

from pydantic import Field

from peira.core.looks import Arm, Look, Question, Standing, Unit, arms_of
from peira.core.registry import Registry
from peira.spec.values import SMALLEST_SHARE
from peira.stopping.rule import LevelRule, difference

GROWTH = 1.1
"""Ratio of the sample sizes of successive looks; many levels have many pairs to compare."""


class Racing(LevelRule):
    alpha: float = Field(default=0.05, ge=SMALLEST_SHARE, le=1 - SMALLEST_SHARE)
    margin: float | None = Field(default=None, gt=0)
    least: int = Field(default=10, ge=2)

    def watch(self, question: Question) -> RacingWatch:
        """A monitor of the race for one run."""
        return RacingWatch(self, question)


class RacingWatch:
    """Monitors the competing levels of one run, unit by unit."""

    def __init__(self, rule: Racing, question: Question) -> None:
        from peira.stats.sequential.monitoring import AnytimeMonitor

        self._arms, self._rule = arms_of(question.conditions, rule.by), rule
        self._sign = 1 if question.maximize else -1
        width, level = rule.range[1] - rule.range[0], 1 - rule.alpha / max(1, len(self._arms) - 1)
        pairs = list(combinations(self._arms, 2))
        self._pairs = {pair: AnytimeMonitor(width, level, 1) for pair in pairs}
        self._groups = {(one, two): one.against(two) for one, two in pairs}
        self._dropped: list[Arm] = []
        self._units = self._looks = 0
        self._next, self._answer = rule.least, ""

    def take(self, unit: Unit) -> Look | None:
        """Add the results of one unit; returns a look if one is due."""
        self._units += 1
        for pair, sequence in self._pairs.items():
            if (found := difference(unit, self._groups[pair])) is not None:
                ends = (found.worst, found.best) if self._sign > 0 else (-found.best, -found.worst)
                sequence.add(*ends)
        if self._units < self._next:
            return None
        self._next = max(self._units + 1, math.ceil(GROWTH * self._units))
        return self._look()

    def finish(self) -> Look:
        """The final look, when no more units will come."""
        return self._look()

    def _look(self) -> Look:
        """Drop the levels that lost, and report the leader and the rest."""
        self._looks += 1
        ends = {pair: sequence.now() for pair, sequence in self._pairs.items()}
        for (one, two), seen in ends.items():
            loser = two if seen.low > 0 else one if seen.high < 0 else None
            if loser is not None and loser not in self._dropped:
                self._dropped.append(loser)
        left = [arm for arm in self._arms if arm not in self._dropped]
        standings = self._against_leader(left, {pair: (s.mean, s.low, s.high) for pair, s in ends.items()})
        self._pairs = {p: f for p, f in self._pairs.items() if not {*p} & {*self._dropped}}
        given_up = tuple(sorted(number for arm in self._dropped for number in arm.conditions))
        dropped = tuple(arm.label for arm in self._dropped)
        answer = self._answered(left, standings)
        return Look(self._looks, self._units, standings, given_up, dropped, answer)

    def _against_leader(
        self, left: list[Arm], ends: dict[tuple[Arm, Arm], tuple[float | None, float, float]]
    ) -> tuple[Standing, ...]:
        """The differences of the leader, the level behind no other, from each remaining one."""
        behind = {
            one if (mean or 0) < 0 else two
            for (one, two), (mean, _, _) in ends.items()
            if one in left and two in left
        }
        leader = next((arm for arm in left if arm not in behind), left[0] if left else None)
        found = []
        for (one, two), (mean, low, high) in ends.items():
            if leader in (one, two) and (one in left and two in left):
                turn, other = (1, two) if leader is one else (-1, one)
                low, high = (low, high) if turn > 0 else (-high, -low)
                shown = self._shown(None if mean is None else turn * mean, low, high)
                found.append(Standing(self._rule.by, leader.label, other.label, *shown))
        return tuple(found)

    def _shown(self, mean: float | None, low: float, high: float) -> tuple[float | None, float, float]:
        """The interval in the direction of the score."""
        if self._sign > 0:
            return mean, low, high
        return (None if mean is None else -mean), -high, -low

    def _answered(self, left: list[Arm], standings: tuple[Standing, ...]) -> str:
        """The conclusion, if one level is left or leads by the margin; else ""."""
        if len(left) == 1:
            return f"{left[0].label} is best"
        margin = self._rule.margin
        lows = [one.low if self._sign > 0 else -one.high for one in standings]
        if margin is not None and lows and all(low > -margin for low in lows):
            return f"{standings[0].first} leads, and no other is better by {margin:g}"
        return ""


def register(registry: Registry) -> None:
    """Register the rule `racing`."""
    registry.add("stop", "racing", Racing)
