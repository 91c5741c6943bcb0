"""Choosing trials by what an earlier run found: its failures, or the cases it scored low on.

A trial of the plan is told by the earlier trials that agree with it: on the case, and on every factor that
both have. Repeats of those are taken together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from peira.core.ids import Json, digest
from peira.plan.layout import Place


class Past(NamedTuple):
    """An earlier trial: `failed` if it has no output; its scores that are numbers."""

    condition: Mapping[str, Json]
    case: str
    failed: bool
    scores: Mapping[str, float]


@dataclass
class _Sum:
    trials: int = 0
    failed: int = 0
    scores: dict[str, list[float]] = field(default_factory=dict)

    def add(self, past: Past) -> None:
        self.trials += 1
        self.failed += past.failed
        for name, value in past.scores.items():
            self.scores.setdefault(name, []).append(value)

    def facts(self) -> dict[str, Json]:
        means = {f"score.{name}": sum(values) / len(values) for name, values in self.scores.items()}
        return {"earlier.trials": self.trials, "earlier.failed": self.failed, **means}


class Earlier:
    """What the run of this id found. `names` are the facts that it gives of a trial: `earlier.trials` and
    `earlier.failed` are counts, `score.NAME` is the mean of a score."""

    def __init__(self, run: str, past: Iterable[Past]) -> None:
        self.run = run
        self._past = list(past)
        self._factors = {name for one in self._past for name in one.condition}
        scores = {f"score.{name}" for one in self._past for name in one.scores}
        self.names = frozenset({"earlier.trials", "earlier.failed", *scores})
        self._tables: dict[frozenset[str], dict[str, dict[str, Json]]] = {}

    def facts(self, place: Place) -> Mapping[str, Json]:
        """Of a trial that the run says nothing about, no score is known."""
        shown = place.condition.shown
        shared = frozenset(self._factors & shown.keys())
        if shared not in self._tables:
            self._tables[shared] = self._table(shared)
        return self._tables[shared].get(_key(shared, shown, place.case.id), _Sum().facts())

    def _table(self, shared: frozenset[str]) -> dict[str, dict[str, Json]]:
        sums: dict[str, _Sum] = {}
        for past in self._past:
            sums.setdefault(_key(shared, past.condition, past.case), _Sum()).add(past)
        return {key: found.facts() for key, found in sums.items()}


def _key(shared: frozenset[str], condition: Mapping[str, Json], case: str) -> str:
    return digest([case, {name: condition[name] for name in shared if name in condition}])
