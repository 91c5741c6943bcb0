"""A smaller plan that is still an experiment: balanced over conditions, cases and repeats.

Trials are taken in rounds. A round is one case and repeat under every condition, so that comparisons
stay paired; rounds go through all cases once before any is repeated. A last round that does not fit
is filled so that the levels of every factor stay as even as can be. The tail is never simply cut.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from peira.core.ids import Json, digest
from peira.plan.conditions import Condition
from peira.plan.layout import Layout, Place
from peira.plan.order import shuffled


def limited(layout: Layout, most: int) -> Layout:
    """At most `most` trials of the layout, balanced."""
    if most >= len(layout):
        return layout
    taken: list[int] = []
    levels: Counter[str] = Counter()
    for cells in _rounds(layout):
        room = most - len(taken)
        if room <= 0:
            break
        taken += cells.values() if room >= len(cells) else _fill(layout, cells, room, levels)
        for at in cells:
            levels.update(_levels(layout.conditions[at]))
    return replace(layout, chosen=array("Q", sorted(taken)))


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


def _fill(layout: Layout, cells: Mapping[int, int], room: int, levels: Counter[str]) -> list[int]:
    """The part of a last round that keeps the counts of levels most even."""
    counts, left, taken = Counter(levels), dict(cells), []
    for _ in range(room):
        at = min(left, key=lambda c: (sum(counts[level] for level in _levels(layout.conditions[c])), c))
        counts.update(_levels(layout.conditions[at]))
        taken.append(left.pop(at))
    return taken


def _levels(condition: Condition) -> list[str]:
    return [f"{name}={digest(value)}" for name, value in condition.shown.items()]


def where(layout: Layout, keeps: Callable[[Mapping[str, Json]], bool]) -> Layout:
    """Only the trials whose facts (factors, agent, case, slice, cluster, repeat) satisfy the predicate."""
    kept = array("Q", (place.number for place in layout.places() if keeps(facts(place))))
    return replace(layout, chosen=kept)


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
