"""A factor added to a finished study: its baseline stands for "as it was before the factor was there".

A trial at the baseline that has no result of its own is looked for under the identity it had without
the added factor. Whether a result may be taken over so is for the store to say: a result that was
lent to one value of a factor is never lent to another.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from peira.core.ids import Json, canonical, digest
from peira.plan.layout import Condition, Layout, Place
from peira.spec.factors import Factor

MOST_ADDED = 4
"""How many factors at their baseline are considered; each one doubles the identities to look under."""


class Baselines:
    def __init__(self, factors: Sequence[Factor], layout: Layout) -> None:
        self._values = {
            f.name: digest(f.baseline_level.value) for f in factors if f.baseline_level is not None
        }
        self._layout = layout
        self._formers: dict[str, list[tuple[Condition, str]]] = {}

    def former(self, place: Place) -> tuple[tuple[str, str], ...]:
        """Ids under which the trial may be recorded, each with the factors it lacks there."""
        if not self._values:
            return ()
        condition = place.condition
        if condition.digest not in self._formers:
            self._formers[condition.digest] = self._conditions(condition)
        found = self._formers[condition.digest]
        return tuple((self._layout.trial_id(place._replace(condition=c)), added) for c, added in found)

    def _conditions(self, condition: Condition) -> list[tuple[Condition, str]]:
        """The condition without one, two, ... of the factors that are at their baseline."""
        at_baseline = [
            name
            for name, value in condition.factors.items()
            if name in self._values and digest(value) == self._values[name]
        ][:MOST_ADDED]
        subsets = (s for size in range(1, len(at_baseline) + 1) for s in combinations(at_baseline, size))
        return [self._without(condition, set(dropped)) for dropped in subsets]

    def _without(self, condition: Condition, dropped: set[str]) -> tuple[Condition, str]:
        left = {name: value for name, value in condition.factors.items() if name not in dropped}
        added: dict[str, Json] = {name: condition.factors[name] for name in sorted(dropped)}
        former = _replaced(condition, left)
        return former, canonical(added).decode()


def _replaced(condition: Condition, factors: dict[str, Json]) -> Condition:
    return Condition(condition.agent, condition.agent_digest, factors, digest(factors), condition.cases)
