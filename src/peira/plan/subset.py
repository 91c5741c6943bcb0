"""Subsets of a plan: balanced limits, filters, and selection by the results of an earlier run.

A limited plan takes trials in rounds. A round is one case and repeat under every condition, so that
comparisons stay paired; rounds go through all cases once before any is repeated. The last round, if it does
not fit, is filled so that the levels of every factor stay as balanced as possible; it is never simply
truncated.

For a full factorial too large to list, a round would be too large: there, trials are spread evenly over
levels, cases and repeats at once. In any prefix of that order the counts of the levels of each factor differ
by at most one, and the trial at any position follows from the sizes alone.

A trial of the plan is matched with the earlier trials that agree on the case and on every factor that both
have; repeats are averaged.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, islice
from operator import mul
from typing import NamedTuple

import msgspec
from msgspec.structs import replace

from peira.core.ids import Json, digest
from peira.plan.conditions import Condition, Crossed
from peira.plan.order import shuffled
from peira.plan.trials import Layout, Place

_VERSION = 1
"""The permutations that choose a part of a study.

They decide which trials are run, not only when: with others, a study that ran before would choose anew.
"""


class BalancedOrder:
    """An order of all combinations of factors of these `sizes` in which every prefix is balanced.

    Each factor cycles through its levels; when that would repeat a combination, it is shifted by one. The
    seed determines the order of the levels.
    """

    def __init__(self, sizes: Sequence[int], seed: int) -> None:
        ends = list(accumulate(sizes, mul, initial=1))
        self._size = ends[-1]
        self._levels = [list(shuffled(size, seed, f"even {i}", _VERSION)) for i, size in enumerate(sizes)]
        # A factor and those before it repeat the same combinations after their least common multiple.
        self._turns = [
            (end, math.lcm(end // n, n) if n else 1, n) for end, n in zip(ends[1:], sizes, strict=True)
        ]

    def __len__(self) -> int:
        return self._size

    def at(self, place: int) -> tuple[int, ...]:
        """The level index of each factor at this position."""
        return tuple(
            levels[(place % end + place % end // again) % n]
            for levels, (end, again, n) in zip(self._levels, self._turns, strict=True)
        )

    def __iter__(self) -> Iterator[tuple[int, ...]]:
        return map(self.at, range(self._size))


# Results of an earlier run


class EarlierTrial(NamedTuple):
    """A trial of an earlier run: `failed` if it has no output; its numeric scores."""

    condition: Mapping[str, Json]
    case: str
    failed: bool
    """Whether the trial has no output."""
    scores: Mapping[str, float]
    """The numeric scores by name."""


class _Sum(msgspec.Struct):
    """Counts and scores of matching earlier trials."""

    trials: int = 0
    failed: int = 0
    scores: dict[str, list[float]] = msgspec.field(default_factory=dict)

    def add(self, past: EarlierTrial) -> None:
        """Add a matching trial."""
        self.trials += 1
        self.failed += past.failed
        for name, value in past.scores.items():
            self.scores.setdefault(name, []).append(value)

    def facts(self) -> dict[str, Json]:
        """The counts and mean scores under the names used in `where` expressions."""
        means = {f"score.{name}": sum(values) / len(values) for name, values in self.scores.items()}
        return {"earlier.trials": self.trials, "earlier.failed": self.failed, **means}


class EarlierRun:
    """The results of an earlier run, for selecting trials.

    `names` are the facts it provides for a trial: the counts `earlier.trials` and `earlier.failed`, and the
    mean `score.NAME` of each score.
    """

    def __init__(self, run: str, past: Iterable[EarlierTrial]) -> None:
        self.run = run
        self._past = list(past)
        self._factors = {name for one in self._past for name in one.condition}
        scores = {f"score.{name}" for one in self._past for name in one.scores}
        self.names = frozenset({"earlier.trials", "earlier.failed", *scores})
        self._tables: dict[frozenset[str], dict[str, dict[str, Json]]] = {}

    def facts(self, place: Place) -> Mapping[str, Json]:
        """The facts of matching earlier trials; without any, counts of 0 and no scores."""
        shown = place.condition.shown
        shared = frozenset(self._factors & shown.keys())
        if shared not in self._tables:
            self._tables[shared] = self._table(shared)
        return self._tables[shared].get(_key(shared, shown, place.case.id), _Sum().facts())

    def _table(self, shared: frozenset[str]) -> dict[str, dict[str, Json]]:
        """The facts by case and shared factors."""
        sums: dict[str, _Sum] = {}
        for past in self._past:
            sums.setdefault(_key(shared, past.condition, past.case), _Sum()).add(past)
        return {key: found.facts() for key, found in sums.items()}


def _key(shared: frozenset[str], condition: Mapping[str, Json], case: str) -> str:
    return digest([case, {name: condition[name] for name in shared if name in condition}])


# Balanced limits


MOST_WEIGHED = 2_000
"""Maximum number of conditions for which the last round is balanced trial by trial."""


def limited(layout: Layout, most: int) -> Layout:
    """At most `most` trials of the layout, balanced."""
    if most >= len(layout):
        return layout
    conditions, taken = layout.conditions, list[int]()
    if isinstance(conditions, Crossed):
        taken.extend(islice(_spread(layout, conditions), most))
    else:
        taken.extend(_in_rounds(layout, most))
    return replace(layout, chosen=array("Q", sorted(taken)))


def _in_rounds(layout: Layout, most: int) -> list[int]:
    """Whole rounds while they fit, then a balanced part of the next one."""
    taken: list[int] = []
    done: Counter[int] = Counter()
    for cells in _rounds(layout):
        free = most - len(taken)
        if free < len(cells):
            kept = _fill(layout, cells, free, done) if free else []
            return taken + [cells[at] for at in kept]
        taken += cells.values()
        done.update(cells.keys())
    return taken


def _rounds(layout: Layout) -> Iterator[dict[int, int]]:
    """The rounds, each a mapping from condition index to trial index."""
    allowed = None if layout.chosen is None else set(layout.chosen)
    orders = {
        label: list(shuffled(len(cases), layout.seed, "subset", _VERSION))
        for label, cases in layout.case_sets.items()
    }
    longest = max(map(len, orders.values()), default=0)
    most = max((c.replicates for c in layout.conditions), default=1)
    for repeat in range(layout.repeats * most):
        for nth in range(longest):
            cells = {}
            for at, condition in enumerate(layout.conditions):
                order = orders[condition.cases]
                if nth < len(order) and repeat < layout.repeats * condition.replicates:
                    index = layout.start(at) + order[nth] * layout.repeats * condition.replicates + repeat
                    if allowed is None or index in allowed:
                        cells[at] = index
            if cells:
                yield cells


def _fill(layout: Layout, cells: Iterable[int], free: int, done: Mapping[int, int]) -> list[int]:
    """The conditions of the last round that keep levels most balanced, given the counts in `done`."""
    rank = {at: nth for nth, at in enumerate(_ranked(layout.conditions, layout.seed))}
    left = sorted(cells, key=rank.__getitem__)
    if len(layout.conditions) > MOST_WEIGHED:
        return left[:free]
    counts = _LevelCounts(layout.conditions, done)
    kept = []
    for _ in range(free):
        at = min(left, key=lambda at: (*counts.excess(at), rank[at]))
        counts.add(at)
        left.remove(at)
        kept.append(at)
    return kept


def _ranked(conditions: Sequence[Condition], seed: int) -> Iterator[int]:
    """Condition indices: in balanced order if they are a full factorial, else shuffled."""
    values: dict[str, dict[str, int]] = {}
    for condition in conditions:
        for name, key in _levels(condition):
            values.setdefault(name, {}).setdefault(key, len(values[name]))
    even = math.prod(map(len, values.values())) == len(conditions)
    places = {
        tuple(values[name][key] for name, key in _levels(condition)): at
        for at, condition in enumerate(conditions)
    }
    if even and len(places) == len(conditions) and all(len(key) == len(values) for key in places):
        return (places[levels] for levels in BalancedOrder(list(map(len, values.values())), seed))
    return shuffled(len(conditions), seed, "last round", _VERSION)


class _LevelCounts:
    """How often each level has been taken so far."""

    def __init__(self, conditions: Sequence[Condition], done: Mapping[int, int]) -> None:
        self._levels = list(map(_levels, conditions))
        self._counts: dict[str, dict[str, int]] = {}
        for at, levels in enumerate(self._levels):
            for name, key in levels:
                counts = self._counts.setdefault(name, {})
                counts[key] = counts.get(key, 0) + done.get(at, 0)
        self._least = {name: min(counts.values()) for name, counts in self._counts.items()}

    def excess(self, at: int) -> tuple[int, int]:
        """By how much its levels exceed the least taken level: the maximum and the sum."""
        ahead = [self._counts[name][key] - self._least[name] for name, key in self._levels[at]]
        return max(ahead, default=0), sum(ahead)

    def add(self, at: int) -> None:
        for name, key in self._levels[at]:
            self._counts[name][key] += 1
            self._least[name] = min(self._counts[name].values())


def _levels(condition: Condition) -> list[tuple[str, str]]:
    return [(name, digest(value)) for name, value in sorted(condition.shown.items())]


def _spread(layout: Layout, crossed: Crossed) -> Iterator[int]:
    """All trials once: agents and case sets in turn, each in balanced order."""
    allowed = None if layout.chosen is None else set(layout.chosen)
    turns = list(_grids(layout, crossed))
    while turns:
        for turn in list(turns):
            index = next((i for i in turn if allowed is None or i in allowed), None)
            if index is None:
                turns.remove(turn)
            else:
                yield index


def _grids(layout: Layout, crossed: Crossed) -> Iterator[Iterator[int]]:
    """For each agent and case set, its trials in balanced order."""
    before = 0
    for grid in crossed.grids:
        for nth, label in enumerate(crossed.cases):
            sizes = [*map(len, grid.levels.values()), len(layout.case_sets[label]), layout.repeats]
            yield _trials(layout, crossed, sizes, before, nth)
        before += len(grid)


def _trials(layout: Layout, crossed: Crossed, sizes: list[int], before: int, nth: int) -> Iterator[int]:
    """The trials of one agent and case set in balanced order, as indices of the layout."""
    for *levels, case, repeat in BalancedOrder(sizes, layout.seed):
        combination = 0
        for size, level in zip(sizes, levels, strict=False):
            combination = combination * size + level
        at = _position(crossed, (before + combination) * len(crossed.cases) + nth)
        if at is not None:
            yield layout.start(at) + case * layout.repeats + repeat


def _position(crossed: Crossed, combination: int) -> int | None:
    """The index of a combination among the admissible ones; None if it is not admissible."""
    if crossed.kept is None:
        return combination
    at = bisect_left(crossed.kept, combination)
    return at if at < len(crossed.kept) and crossed.kept[at] == combination else None


# Filters


Facts = Mapping[str, Json]


def where(
    layout: Layout, keeps: Callable[[Facts], bool], more: Callable[[Place], Facts] | None = None
) -> Layout:
    """The trials whose facts satisfy the predicate.

    Facts are factors, agent, case, slice, cluster, repeat, and those of `more`.
    """

    def fits(place: Place) -> bool:
        return keeps({**facts(place), **more(place)} if more else facts(place))

    return replace(layout, chosen=array("Q", (place.number for place in layout.places() if fits(place))))


def facts(place: Place) -> dict[str, Json]:
    """The names and values that a `where` expression may use."""
    return {
        "agent": place.condition.agent,
        **place.condition.shown,
        "case": place.case.id,
        "slice": place.case.slice,
        "cluster": place.case.cluster,
        "repeat": place.repeat,
    }
