"""Which trials there are, without holding them: conditions x cases x repeats, numbered.

A layout is pure identity: it needs no code and no agent, so stored work can be read, counted and
scored again from the manifest alone. Trials are numbered condition by condition, then case by case,
then repeat by repeat; after them come the anchors, which are the first trial again and again.
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
from peira.plan.conditions import Condition as Condition
from peira.plan.conditions import Crossed
from peira.plan.sequence import Sequences, in_order

MOST_COMPOSERS = 20_000


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
    """`order` is how the trials are run: at "random" (within blocks), as "given", or "interleaved".
    `sequences` says in which order each case meets the conditions, where that matters."""

    conditions: Sequence[Condition]
    case_sets: Mapping[str, Sequence[PlannedCase]]
    repeats: int
    seed: int
    generation: int
    chosen: array[int] | None = None
    order: str = "random"
    anchors: int = 0
    sequences: Sequences = ()

    def trials_of(self, condition: Condition) -> int:
        return len(self.case_sets[condition.cases]) * self.repeats * condition.replicates

    @cached_property
    def _even(self) -> int:
        """How many trials each condition has, if that is the same for all without looking; else 0."""
        sizes = {len(cases) for cases in self.case_sets.values()}
        if not isinstance(self.conditions, Crossed) or len(sizes) != 1:
            return 0
        return sizes.pop() * self.repeats

    @cached_property
    def _ends(self) -> list[int]:
        return list(accumulate(map(self.trials_of, self.conditions)))

    def start(self, at: int) -> int:
        """The number of the first trial of the condition at this place."""
        return at * self._even if self._even else self._ends[at - 1] if at else 0

    @cached_property
    def anchored(self) -> int:
        """Where the anchors begin: the number of trials without them."""
        return self.start(len(self.conditions)) if len(self.conditions) else 0

    @property
    def size(self) -> int:
        """All trials of the study, chosen or not."""
        return self.anchored + (self.anchors if self.anchored else 0)

    def __len__(self) -> int:
        """The trials this plan runs."""
        return self.size if self.chosen is None else len(self.chosen)

    def place(self, index: int) -> Place:
        if index >= self.anchored:
            return self._anchor(index)
        at = index // self._even if self._even else bisect_right(self._ends, index)
        condition = self.conditions[at]
        repeats = self.repeats * condition.replicates
        case, repeat = divmod(index - self.start(at), repeats)
        own = self.case_sets[condition.cases][case]
        return Place(index, condition, own, condition.first * self.repeats + repeat)

    def _anchor(self, index: int) -> Place:
        """The first trial again: repeats of it beyond those that the study has."""
        first = self.place(0)
        beyond = sum(c.replicates for c in self._alike(first.condition)) * self.repeats
        return first._replace(number=index, repeat=beyond + index - self.anchored)

    def _alike(self, condition: Condition) -> Iterator[Condition]:
        if isinstance(self.conditions, Crossed):
            yield condition
        else:
            key = condition.agent_digest, condition.digest
            yield from (c for c in self.conditions if (c.agent_digest, c.digest) == key)

    def trial_id(self, place: Place) -> str:
        key = place.condition.agent_digest, place.condition.digest
        make = self._composers.get(key)
        if make is None:
            if len(self._composers) >= MOST_COMPOSERS:
                self._composers.clear()
            make = self._composers[key] = composer("trial", *key, self.seed, self.generation)
        return make(place.case.seen, place.repeat)

    @cached_property
    def _composers(self) -> dict[tuple[str, str], Callable[..., str]]:
        return {}

    def scope(self, place: Place) -> str:
        """What a trial's calls are known by: not the agent's code."""
        condition = place.condition
        # Agents under labels are levels of a factor, too: what one was told is not what another was told.
        known = condition.digest if condition.shown == condition.factors else digest(condition.shown)
        return compose("scope", known, digest(place.case.id), place.repeat, self.seed, self.generation)

    def indexes(self) -> Iterable[int]:
        return range(self.size) if self.chosen is None else self.chosen

    def places(self) -> Iterator[Place]:
        return map(self.place, self.indexes())

    def in_run_order(self) -> Iterator[int]:
        """The numbers of the planned trials, as they are to be run."""
        return in_order(self)


def score_id(evaluator: str, takes: Sequence[str], facts: Mapping[str, str]) -> str:
    """A score is known by its evaluator and by everything that evaluator is handed (`takes`, sorted)."""
    return compose("score", evaluator, *[f"{name}={facts[name]}" for name in takes])
