"""The trials of a plan, indexed without being held in memory; and reuse at baseline levels.

A layout is pure identity: it needs no code and no agent, so stored work can be read, counted and scored again
from the manifest alone. Trials are numbered condition by condition, then case by case, then repeat by repeat;
anchors, which are further repeats of the first trial, come last.

A trial at the baseline level of an added factor that has no result of its own is looked up under its identity
without that factor. The store decides whether the result may be reused: a result lent to one value of a
factor is never lent to another.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import accumulate, combinations
from typing import NamedTuple

import msgspec

from peira.core.context import SeenCase
from peira.core.ids import Json, canonical, compose, composer, digest
from peira.plan.conditions import Condition as Condition
from peira.plan.conditions import Crossed
from peira.plan.order import ORDER_VERSION, RunOrder, Sequences, in_order
from peira.spec.factors import Factor

MOST_COMPOSERS = 20_000
"""Maximum number of cached id composers."""


class PlannedCase(msgspec.Struct, frozen=True, gc=False):
    """A case with its id and digests; `judged_by` are digests of its own evaluators."""

    id: str
    seen: str
    """The digest of what an agent receives of the case."""
    input: Json
    expected: Json = None
    cluster: str | None = None
    slice: str | None = None
    metadata: dict[str, Json] = {}
    judged_by: tuple[str, ...] = ()
    """Digests of the case's own evaluators."""

    def as_seen(self) -> SeenCase:
        """The part of the case that an agent receives."""
        return SeenCase(self.input, self.id, self.slice, self.cluster, self.metadata)


class Place(NamedTuple):
    """A trial in its layout: index, condition, case and repeat."""

    number: int
    """The index of the trial in its layout."""
    condition: Condition
    case: PlannedCase
    repeat: int
    """The repeat number, counted over all replicates of the condition."""


class Layout(msgspec.Struct, frozen=True, dict=True):
    """The trials of a plan: conditions x cases x repeats, their order and the selected ones."""

    conditions: Sequence[Condition]
    """The admissible conditions, as a list or lazily (`Crossed`)."""
    case_sets: Mapping[str, Sequence[PlannedCase]]
    """The cases by label of their set."""
    repeats: int
    """Repeats of every case under every replicate of a condition."""
    seed: int
    generation: int
    """Raised to run trials again that have results."""
    chosen: array[int] | None = None
    """The indices of the selected trials; None if all are."""
    order: str = "random"
    """The run order: "random", "interleaved", "cases" or "given"."""
    anchors: int = 0
    """The number of anchors."""
    sequences: Sequences = ()
    """For crossover designs, the order in which each case receives the conditions."""
    order_version: int = ORDER_VERSION
    """Which permutations the run order is made of; a stored plan keeps its own."""

    def trials_of(self, condition: Condition) -> int:
        """The number of trials of a condition."""
        return len(self.case_sets[condition.cases]) * self.repeats * condition.replicates

    @cached_property
    def _even(self) -> int:
        """The number of trials per condition if it is constant and known without counting; else 0."""
        sizes = {len(cases) for cases in self.case_sets.values()}
        if not isinstance(self.conditions, Crossed) or len(sizes) != 1:
            return 0
        return sizes.pop() * self.repeats

    @cached_property
    def _ends(self) -> list[int]:
        """The cumulative numbers of trials by condition."""
        return list(accumulate(map(self.trials_of, self.conditions)))

    def start(self, at: int) -> int:
        """The index of the first trial of the condition at this position."""
        return at * self._even if self._even else self._ends[at - 1] if at else 0

    @cached_property
    def anchored(self) -> int:
        """The index of the first anchor: the number of trials without anchors."""
        return self.start(len(self.conditions)) if len(self.conditions) else 0

    @property
    def size(self) -> int:
        """The number of trials of the study, selected or not."""
        return self.anchored + (self.anchors if self.anchored else 0)

    def __len__(self) -> int:
        """The number of trials that this plan runs."""
        return self.size if self.chosen is None else len(self.chosen)

    def place(self, index: int) -> Place:
        """The trial at an index."""
        condition, case, repeat = self.located(index)
        return Place(index, condition, self.case_sets[condition.cases][case], repeat)

    def located(self, index: int) -> tuple[Condition, int, int]:
        """The condition of the trial at an index, the position of its case in its set, and its repeat."""
        if index >= self.anchored:
            return self._anchor(index)
        at = index // self._even if self._even else bisect_right(self._ends, index)
        condition = self.conditions[at]
        case, repeat = divmod(index - self.start(at), self.repeats * condition.replicates)
        return condition, case, condition.first * self.repeats + repeat

    def _anchor(self, index: int) -> tuple[Condition, int, int]:
        """An anchor: a repeat of the first trial beyond those of the study."""
        condition, case, _ = self.located(0)
        beyond = sum(c.replicates for c in self._alike(condition)) * self.repeats
        return condition, case, beyond + index - self.anchored

    def _alike(self, condition: Condition) -> Iterator[Condition]:
        """The conditions with the same agent and factors."""
        if isinstance(self.conditions, Crossed):
            yield condition
        else:
            key = condition.agent_digest, condition.digest
            yield from (c for c in self.conditions if (c.agent_digest, c.digest) == key)

    def trial_id(self, place: Place) -> str:
        """The id of a trial: a digest of agent, condition, case, repeat, seed and generation."""
        condition = place.condition
        key = condition.agent_digest, condition.digest
        make = self._composers.get(key)
        if make is None:
            if len(self._composers) >= MOST_COMPOSERS:
                self._composers.clear()
            make = self._composers[key] = composer("trial", *key, self.seed, self.generation)
        return make(f"{place.case.seen} {place.repeat}")

    @cached_property
    def _composers(self) -> dict[tuple[str, str], Callable[..., str]]:
        """Id composers by agent and condition."""
        return {}

    def scope(self, place: Place) -> str:
        """The scope of a trial's recorded calls, which does not depend on the agent's code."""
        condition = place.condition
        # Labelled agents are levels of a factor, too: calls recorded for one are not replayed for another.
        known = condition.digest if condition.shown == condition.factors else digest(condition.shown)
        return compose("scope", known, digest(place.case.id), place.repeat, self.seed, self.generation)

    def indexes(self) -> Iterable[int]:
        """The indices of the selected trials."""
        return range(self.size) if self.chosen is None else self.chosen

    def places(self) -> Iterator[Place]:
        """The selected trials in index order."""
        if self.chosen is not None:
            yield from map(self.place, self.chosen)
            return
        number = 0
        for condition in self.conditions:
            first = condition.first * self.repeats
            repeats = range(first, first + self.repeats * condition.replicates)
            for case in self.case_sets[condition.cases]:
                for repeat in repeats:
                    yield Place(number, condition, case, repeat)
                    number += 1
        yield from map(self.place, range(number, self.size))

    def in_run_order(self) -> Iterator[int]:
        """The indices of the planned trials in run order."""
        return in_order(self)

    def at(self, position: int) -> int:
        """The index of the planned trial at a position of the run order, without those before it."""
        return self._run_order.at(position)

    @cached_property
    def _run_order(self) -> RunOrder:
        return RunOrder(self)


# Reuse at baseline levels


MOST_ADDED = 4
"""Maximum number of factors at their baseline; each doubles the number of ids to look up."""


class Baselines:
    """Finds earlier identities of trials, from before factors were added at their baseline level."""

    def __init__(self, factors: Sequence[Factor], layout: Layout) -> None:
        self._values = {
            f.name: digest(f.baseline_level.value) for f in factors if f.baseline_level is not None
        }
        self._layout = layout
        self._formers: dict[str, list[tuple[Condition, str]]] = {}

    def former(self, place: Place) -> tuple[tuple[str, str], ...]:
        """Ids under which the trial may be recorded, each with the factors missing there."""
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
        """The condition without these factors, and their values as canonical JSON."""
        left = {name: value for name, value in condition.factors.items() if name not in dropped}
        added: dict[str, Json] = {name: condition.factors[name] for name in sorted(dropped)}
        former = _replaced(condition, left)
        return former, canonical(added).decode()


def _replaced(condition: Condition, factors: dict[str, Json]) -> Condition:
    return Condition(condition.agent, condition.agent_digest, factors, digest(factors), condition.cases)
