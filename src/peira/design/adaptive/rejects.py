"""Successive rejects: the worst level so far is given up at planned moments, so that a budget is spent where
it tells most (Audibert, Bubeck and Munos). It ends with one level, and promises no level of confidence.

Levels are ranked by their mean with every lost trial counted as badly as can be.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from peira.core.arms import Arm, arms_of
from peira.core.looks import Look, Question, Unit
from peira.design.adaptive.contest import Contest
from peira.design.adaptive.spans import mean
from peira.spec.study import Study


class Rejects(Contest):
    """`budget` is how often a level may meet a case, over all levels."""

    budget: int = Field(ge=2)

    def problems(self, study: Study) -> Iterator[str]:
        yield from super().problems(study)
        levels = next((len(f.levels) for f in study.factors if f.name == self.by), len(study.agents))
        if self.budget < levels:
            yield f"budget: must let each of the {levels} levels meet a case, not {self.budget}"

    def watch(self, question: Question) -> Rejecting:
        return Rejecting(self, question)


class Rejecting:
    def __init__(self, rule: Rejects, question: Question) -> None:
        from peira.stats.spending import successive_rejects

        self._left, self._gone = arms_of(question.conditions, rule.by), list[Arm]()
        self._sign = 1 if question.maximize else -1
        self._conditions = {arm: arm.conditions for arm in self._left}
        self._sums = dict.fromkeys(self._left, 0.0)
        several = len(self._left) > 1
        self._drops = successive_rejects(len(self._left), rule.budget) if several else []
        self._units = self._looks = 0

    def take(self, unit: Unit) -> Look | None:
        self._units += 1
        for arm in self._left:
            found = mean(unit, self._conditions[arm])
            if found is not None:
                self._sums[arm] += found.worst if self._sign > 0 else -found.best
        due = [at for at in self._drops if at <= self._units]
        for _ in due:
            self._drop()
        self._drops = self._drops[len(due) :]
        return self._look() if due else None

    def _drop(self) -> None:
        # Of equals the one that comes later goes.
        worst = min(reversed(self._left), key=lambda arm: self._sums[arm])
        self._left.remove(worst)
        self._gone.append(worst)

    def finish(self) -> Look:
        return self._look()

    def _look(self) -> Look:
        self._looks += 1
        given_up = tuple(sorted(number for arm in self._gone for number in arm.conditions))
        dropped = tuple(arm.label for arm in self._gone)
        answer = f"{self._left[0].label} is left" if len(self._left) == 1 else ""
        return Look(self._looks, self._units, (), given_up, dropped, answer)
