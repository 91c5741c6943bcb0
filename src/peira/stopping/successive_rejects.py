"""The rule `successive_rejects`: the worst level so far is dropped at planned sample sizes.

Levels are ranked by their mean, with every lost trial counted as the worst possible score.
"""

from __future__ import annotations

from collections.abc import Iterator

from pydantic import Field

from peira.core.looks import Arm, Look, Question, Unit, arms_of
from peira.core.registry import Registry
from peira.spec.study import Study
from peira.stopping.rule import LevelRule, mean


class Rejects(LevelRule):
    """`budget` is how often a level may meet a case, over all levels."""

    budget: int = Field(ge=2)

    def problems(self, study: Study) -> Iterator[str]:
        """Problems with the factor, the outcome and the budget."""
        yield from super().problems(study)
        levels = next((len(f.levels) for f in study.factors if f.name == self.by), len(study.agents))
        if self.budget < levels:
            yield f"budget: must let each of the {levels} levels meet a case, not {self.budget}"

    def watch(self, question: Question) -> RejectsWatch:
        """A monitor of the levels for one run."""
        return RejectsWatch(self, question)


class RejectsWatch:
    """Monitors the remaining levels of one run, unit by unit."""

    def __init__(self, rule: Rejects, question: Question) -> None:
        from peira.stats.sequential.group_sequential import successive_rejects

        self._left, self._dropped = arms_of(question.conditions, rule.by), list[Arm]()
        self._sign = 1 if question.maximize else -1
        self._conditions = {arm: arm.conditions for arm in self._left}
        self._sums = dict.fromkeys(self._left, 0.0)
        several = len(self._left) > 1
        self._drops = successive_rejects(len(self._left), rule.budget) if several else []
        self._units = self._looks = 0

    def take(self, unit: Unit) -> Look | None:
        """Add the results of one unit; returns a look if a level was dropped."""
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
        """Drop the level with the lowest mean."""
        # Ties: the later level is dropped.
        worst = min(reversed(self._left), key=lambda arm: self._sums[arm])
        self._left.remove(worst)
        self._dropped.append(worst)

    def finish(self) -> Look:
        """The final look, when no more units will come."""
        return self._look()

    def _look(self) -> Look:
        """The dropped levels, and the answer if one level is left."""
        self._looks += 1
        given_up = tuple(sorted(number for arm in self._dropped for number in arm.conditions))
        dropped = tuple(arm.label for arm in self._dropped)
        answer = f"{self._left[0].label} is left" if len(self._left) == 1 else ""
        return Look(self._looks, self._units, (), given_up, dropped, answer)


def register(registry: Registry) -> None:
    """Register the rule `successive_rejects`."""
    registry.add("stop", "successive_rejects", Rejects)
