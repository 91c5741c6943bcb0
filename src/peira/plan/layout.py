"""Which trials there are, without holding them: conditions x cases x repeats, numbered.

A layout is pure identity: it needs no code and no agent, so stored work can be read, counted and
scored again from the manifest alone. Trials are numbered condition by condition, then case by case,
then repeat by repeat.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import NamedTuple

import msgspec

from peira.core.context import SeenCase
from peira.core.ids import Json, compose, composer, digest
from peira.plan.order import shuffled


class Condition(msgspec.Struct, frozen=True, gc=False):
    """One assignment of factors, for one agent. `factors` is what the agent gets and what counts."""

    agent: str
    agent_digest: str
    factors: dict[str, Json]
    digest: str
    cases: str = ""
    block: str = ""
    shown: dict[str, Json] = {}
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()


class PlannedCase(msgspec.Struct, frozen=True, gc=False):
    """A case with its id and digests; `judged_by` are digests of evaluators of its own."""

    id: str
    seen: str
    input: Json
    expected: Json = None
    cluster: str | None = None
    slice: str | None = None
    metadata: dict[str, Json] = {}
    judged_by: tuple[str, ...] = ()

    def as_seen(self) -> SeenCase:
        return SeenCase(self.input, self.id, self.slice, self.cluster, self.metadata)


class Place(NamedTuple):
    """Where a trial stands in its layout."""

    number: int
    condition: Condition
    case: PlannedCase
    repeat: int


@dataclass(frozen=True)
class Layout:
    conditions: Sequence[Condition]
    case_sets: Mapping[str, Sequence[PlannedCase]]
    repeats: int
    seed: int
    generation: int
    chosen: array[int] | None = None

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(len(self.case_sets[c.cases]) * self.repeats for c in self.conditions))

    @property
    def size(self) -> int:
        """All trials of the study, chosen or not."""
        return self._ends[-1] if self._ends else 0

    def __len__(self) -> int:
        """The trials this plan runs."""
        return self.size if self.chosen is None else len(self.chosen)

    def place(self, index: int) -> Place:
        at = bisect_right(self._ends, index)
        condition = self.conditions[at]
        offset = index - (self._ends[at - 1] if at else 0)
        case, repeat = divmod(offset, self.repeats)
        return Place(index, condition, self.case_sets[condition.cases][case], repeat)

    def trial_id(self, place: Place) -> str:
        key = place.condition.agent_digest, place.condition.digest
        make = self._composers.get(key)
        if make is None:
            make = self._composers[key] = composer("trial", *key, self.seed, self.generation)
        return make(place.case.seen, place.repeat)

    @cached_property
    def _composers(self) -> dict[tuple[str, str], Callable[..., str]]:
        return {}

    def scope(self, place: Place) -> str:
        """What a trial's calls are known by: not the agent's code."""
        parts = place.condition.digest, digest(place.case.id), place.repeat, self.seed, self.generation
        return compose("scope", *parts)

    def indexes(self) -> Iterable[int]:
        return range(self.size) if self.chosen is None else self.chosen

    def places(self) -> Iterator[Place]:
        return map(self.place, self.indexes())

    def in_run_order(self) -> Iterator[int]:
        """The indexes as they are to be run: shuffled by the seed, within each block if there are blocks."""
        start = 0
        for name, size in self._segments():
            for position in shuffled(size, self.seed, name):
                yield start + position if self.chosen is None else self.chosen[start + position]
            start += size

    def _segments(self) -> list[tuple[str, int]]:
        """Neighbouring conditions of one block, with how many of the planned trials they hold."""
        if not any(c.block for c in self.conditions):
            return [("", len(self))]
        counts: dict[str, int] = {}
        for index in self.indexes():
            block = self.place(index).condition.block
            counts[block] = counts.get(block, 0) + 1
        return list(counts.items())


def score_id(evaluator: str, takes: Sequence[str], facts: Mapping[str, str]) -> str:
    """A score is known by its evaluator and by everything that evaluator is handed (`takes`, sorted)."""
    return compose("score", evaluator, *[f"{name}={facts[name]}" for name in takes])
