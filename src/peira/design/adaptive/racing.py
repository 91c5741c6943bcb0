"""Racing: levels that are clearly worse than another are given up, until one is left.

Each pair has an interval for its difference that holds at every look, at a level that makes all comparisons
of the best with the others hold together: the best is given up with a chance of at most alpha. With a
`margin` it also stops once no other can be better than the leader by that much.
"""

from __future__ import annotations

import math
from itertools import combinations

from pydantic import Field

from peira.core.arms import Arm, arms_of
from peira.core.looks import Look, Question, Standing, Unit
from peira.design.adaptive.contest import Contest
from peira.design.adaptive.spans import difference

GROWTH = 1.1
"""Looks come after each tenth more: with many levels there are many pairs to look at."""


class Racing(Contest):
    alpha: float = Field(default=0.05, gt=0, lt=1)
    margin: float | None = Field(default=None, gt=0)
    least: int = Field(default=10, ge=2)

    def watch(self, question: Question) -> Race:
        return Race(self, question)


class Race:
    def __init__(self, rule: Racing, question: Question) -> None:
        from peira.stats.sequential import Always

        self._arms, self._rule = arms_of(question.conditions, rule.by), rule
        self._sign = 1 if question.maximize else -1
        width, level = rule.range[1] - rule.range[0], 1 - rule.alpha / max(1, len(self._arms) - 1)
        pairs = list(combinations(self._arms, 2))
        self._pairs = {pair: Always(width, level, 1) for pair in pairs}
        self._groups = {(one, two): one.against(two) for one, two in pairs}
        self._gone: list[Arm] = []
        self._units = self._looks = 0
        self._next, self._answer = rule.least, ""

    def take(self, unit: Unit) -> Look | None:
        self._units += 1
        for pair, followed in self._pairs.items():
            if (found := difference(unit, self._groups[pair])) is not None:
                ends = (found.worst, found.best) if self._sign > 0 else (-found.best, -found.worst)
                followed.add(*ends)
        if self._units < self._next:
            return None
        self._next = max(self._units + 1, math.ceil(GROWTH * self._units))
        return self._look()

    def finish(self) -> Look:
        return self._look()

    def _look(self) -> Look:
        self._looks += 1
        ends = {pair: followed.now() for pair, followed in self._pairs.items()}
        for (one, two), seen in ends.items():
            loser = two if seen.low > 0 else one if seen.high < 0 else None
            if loser is not None and loser not in self._gone:
                self._gone.append(loser)
        left = [arm for arm in self._arms if arm not in self._gone]
        standings = self._against_leader(left, {pair: (s.mean, s.low, s.high) for pair, s in ends.items()})
        self._pairs = {p: f for p, f in self._pairs.items() if not {*p} & {*self._gone}}
        given_up = tuple(sorted(number for arm in self._gone for number in arm.conditions))
        dropped = tuple(arm.label for arm in self._gone)
        answer = self._answered(left, standings)
        return Look(self._looks, self._units, standings, given_up, dropped, answer)

    def _against_leader(
        self, left: list[Arm], ends: dict[tuple[Arm, Arm], tuple[float | None, float, float]]
    ) -> tuple[Standing, ...]:
        """The leader of those left with each other one: whoever nobody is ahead of."""
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
        """In the score's own direction."""
        if self._sign > 0:
            return mean, low, high
        return (None if mean is None else -mean), -high, -low

    def _answered(self, left: list[Arm], standings: tuple[Standing, ...]) -> str:
        if len(left) == 1:
            return f"{left[0].label} is best"
        margin = self._rule.margin
        lows = [one.low if self._sign > 0 else -one.high for one in standings]
        if margin is not None and lows and all(low > -margin for low in lows):
            return f"{standings[0].first} leads, and no other is better by {margin:g}"
        return ""
