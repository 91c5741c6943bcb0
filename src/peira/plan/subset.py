"""A smaller plan that is still an experiment: balanced over conditions, cases and repeats.

Trials are taken in rounds. A round is one case and repeat under every condition, so that comparisons
stay paired; rounds go through all cases once before any is repeated. A last round that does not fit
is filled so that the levels of every factor stay as even as can be. The tail is never simply cut.

Where there are too many combinations to list, a round would be more than anybody runs: there, trials are
spread evenly over levels, cases and repeats at once.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice

from peira.core.ids import Json, digest
from peira.plan.conditions import Condition, Crossed
from peira.plan.even import Even
from peira.plan.layout import Layout, Place
from peira.plan.order import shuffled

MOST_WEIGHED = 2_000
"""In a round of more conditions, the evenest is not looked for trial by trial."""


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
    taken: list[int] = []
    done: Counter[int] = Counter()
    for cells in _rounds(layout):
        room = most - len(taken)
        if room < len(cells):
            kept = _fill(layout, cells, room, done) if room else []
            return taken + [cells[at] for at in kept]
        taken += cells.values()
        done.update(cells.keys())
    return taken


def _rounds(layout: Layout) -> Iterator[dict[int, int]]:
    """Each round: the number of a condition -> the index of its trial in this round."""
    allowed = None if layout.chosen is None else set(layout.chosen)
    orders = {
        label: list(shuffled(len(cases), layout.seed, "subset")) for label, cases in layout.case_sets.items()
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


def _fill(layout: Layout, cells: Iterable[int], room: int, done: Mapping[int, int]) -> list[int]:
    """The conditions of a last round that keep levels most even; `done` counts those of earlier rounds."""
    rank = {at: nth for nth, at in enumerate(_ranked(layout.conditions, layout.seed))}
    left = sorted(cells, key=rank.__getitem__)
    if len(layout.conditions) > MOST_WEIGHED:
        return left[:room]
    weights = _Weights(layout.conditions, done)
    kept = []
    for _ in range(room):
        at = min(left, key=lambda at: (*weights.excess(at), rank[at]))
        weights.add(at)
        left.remove(at)
        kept.append(at)
    return kept


def _ranked(conditions: Sequence[Condition], seed: int) -> Iterator[int]:
    """The numbers of the conditions: evenly if they are all combinations of their levels, else at random."""
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
        return (places[levels] for levels in Even(list(map(len, values.values())), seed))
    return shuffled(len(conditions), seed, "last round")


class _Weights:
    """How often each level was taken so far."""

    def __init__(self, conditions: Sequence[Condition], done: Mapping[int, int]) -> None:
        self._levels = list(map(_levels, conditions))
        self._counts: dict[str, dict[str, int]] = {}
        for at, levels in enumerate(self._levels):
            for name, key in levels:
                counts = self._counts.setdefault(name, {})
                counts[key] = counts.get(key, 0) + done.get(at, 0)
        self._least = {name: min(counts.values()) for name, counts in self._counts.items()}

    def excess(self, at: int) -> tuple[int, int]:
        """By how much its levels are ahead of the least taken ones: at the most, and in sum."""
        ahead = [self._counts[name][key] - self._least[name] for name, key in self._levels[at]]
        return max(ahead, default=0), sum(ahead)

    def add(self, at: int) -> None:
        for name, key in self._levels[at]:
            self._counts[name][key] += 1
            self._least[name] = min(self._counts[name].values())


def _levels(condition: Condition) -> list[tuple[str, str]]:
    return [(name, digest(value)) for name, value in sorted(condition.shown.items())]


def _spread(layout: Layout, crossed: Crossed) -> Iterator[int]:
    """Every trial once: agents and case sets take turns, within each the levels, cases and repeats do."""
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
    """For each agent and case set, its trials in an even order."""
    before = 0
    for grid in crossed.grids:
        for nth, label in enumerate(crossed.cases):
            sizes = [*map(len, grid.levels.values()), len(layout.case_sets[label]), layout.repeats]
            yield _trials(layout, crossed, sizes, before, nth)
        before += len(grid)


def _trials(layout: Layout, crossed: Crossed, sizes: list[int], before: int, nth: int) -> Iterator[int]:
    for *levels, case, repeat in Even(sizes, layout.seed):
        combination = 0
        for size, level in zip(sizes, levels, strict=False):
            combination = combination * size + level
        at = _position(crossed, (before + combination) * len(crossed.cases) + nth)
        if at is not None:
            yield layout.start(at) + case * layout.repeats + repeat


def _position(crossed: Crossed, combination: int) -> int | None:
    """Where a combination stands among the admissible ones; None if it is not."""
    if crossed.kept is None:
        return combination
    at = bisect_left(crossed.kept, combination)
    return at if at < len(crossed.kept) and crossed.kept[at] == combination else None


Facts = Mapping[str, Json]


def where(
    layout: Layout, keeps: Callable[[Facts], bool], more: Callable[[Place], Facts] | None = None
) -> Layout:
    """Only the trials whose facts (factors, agent, case, slice, cluster, repeat, and `more`) satisfy the
    predicate."""

    def fits(place: Place) -> bool:
        return keeps({**facts(place), **more(place)} if more else facts(place))

    return replace(layout, chosen=array("Q", (place.number for place in layout.places() if fits(place))))


def facts(place: Place) -> dict[str, Json]:
    """What a `where` expression may name."""
    return {
        "agent": place.condition.agent,
        **place.condition.shown,
        "case": place.case.id,
        "slice": place.case.slice,
        "cluster": place.case.cluster,
        "repeat": place.repeat,
    }
