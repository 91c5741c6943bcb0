"""The order in which trials are run, so that nothing that drifts lines up with a factor.

- random: shuffled by the seed, within each block and each whole plot if there are any; blocks and plots
  are themselves in random order.
- interleaved: in rounds. A round is one case and repeat under every condition, shuffled; whatever drifts
  during the run meets all conditions alike.
- cases: case by case (cluster by cluster), so that each is complete early: all its trials, shuffled.
- given: as numbered. It is not randomised, and the plan says so.

Where each case meets the conditions in a sequence of its own (crossover), first periods come before second
ones. Anchors are spread evenly over the whole run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from peira.plan.conditions import Crossed
from peira.plan.order import shuffled

if TYPE_CHECKING:
    from peira.plan.layout import Layout

ORDERS = ("random", "interleaved", "cases", "given")
Sequences = tuple[tuple[int, ...], ...]
"""For each kind of case, the places of the conditions it meets, in order; cases take turns."""


def in_order(layout: Layout) -> Iterator[int]:
    """Every number of a planned trial once."""
    return _spread(_without_anchors(layout), layout)


def _without_anchors(layout: Layout) -> Iterator[int]:
    if layout.order == "given":
        return (index for index in layout.indexes() if index < layout.anchored)
    if layout.sequences:
        return _chosen(_by_period(layout), layout)
    if layout.order == "interleaved":
        return _chosen(_rounds(layout), layout)
    if layout.order == "cases":
        return _chosen(_by_case(layout), layout)
    return _random(layout)


def _chosen(order: Iterator[int], layout: Layout) -> Iterator[int]:
    if layout.chosen is None:
        return order
    wanted = set(layout.chosen)
    return (index for index in order if index in wanted)


def _random(layout: Layout) -> Iterator[int]:
    numbers: Sequence[int] = range(layout.anchored)
    if layout.chosen is not None:
        numbers = [index for index in layout.chosen if index < layout.anchored]
    segments = _segments(layout, numbers)
    for at in shuffled(len(segments), layout.seed, "segments"):
        name, segment = segments[at]
        for position in shuffled(len(segment), layout.seed, name):
            yield segment[position]


def _segments(layout: Layout, numbers: Sequence[int]) -> list[tuple[str, Sequence[int]]]:
    """The trials of one block and whole plot together."""
    if isinstance(layout.conditions, Crossed) or not any(c.block or c.plot for c in layout.conditions):
        return [("", numbers)]
    found: dict[str, list[int]] = {}
    for index in numbers:
        condition = layout.place(index).condition
        name = f"{condition.block}/{condition.plot}" if condition.plot else condition.block
        found.setdefault(name, []).append(index)
    return list(found.items())


def _rounds(layout: Layout) -> Iterator[int]:
    conditions = layout.conditions
    most = max((len(cases) for cases in layout.case_sets.values()), default=0)
    for turn in shuffled(most * layout.repeats, layout.seed, "rounds"):
        case, repeat = divmod(turn, layout.repeats)
        for at in shuffled(len(conditions), layout.seed, f"round {turn}"):
            condition = conditions[at]
            if case < len(layout.case_sets[condition.cases]):
                start = layout.start(at) + case * layout.repeats * condition.replicates
                for replicate in range(condition.replicates):
                    yield start + replicate * layout.repeats + repeat


def _by_case(layout: Layout) -> Iterator[int]:
    """Cases of a cluster, in whichever set, are one case here."""
    groups: dict[str | tuple[str, int], list[tuple[str, int]]] = {}
    for label, cases in layout.case_sets.items():
        for number, case in enumerate(cases):
            key = (label, number) if case.cluster is None else case.cluster
            groups.setdefault(key, []).append((label, number))
    units = list(groups.values())
    for at in shuffled(len(units), layout.seed, "cases"):
        trials = [index for place in units[at] for index in _of_case(layout, *place)]
        for position in shuffled(len(trials), layout.seed, f"case {at}"):
            yield trials[position]


def _of_case(layout: Layout, label: str, case: int) -> Iterator[int]:
    for at, condition in enumerate(layout.conditions):
        if condition.cases == label:
            repeats = layout.repeats * condition.replicates
            start = layout.start(at) + case * repeats
            yield from range(start, start + repeats)


def _by_period(layout: Layout) -> Iterator[int]:
    """The cases in turn take the sequences; within a period the cases come at random."""
    for repeat in range(layout.repeats):
        for period in range(max(map(len, layout.sequences))):
            places = list(_period(layout, period, repeat))
            for at in shuffled(len(places), layout.seed, f"period {repeat} {period}"):
                yield places[at]


def _period(layout: Layout, period: int, repeat: int) -> Iterator[int]:
    for cases in layout.case_sets.values():
        for case in range(len(cases)):
            sequence = layout.sequences[case % len(layout.sequences)]
            if period < len(sequence):
                yield layout.start(sequence[period]) + case * layout.repeats + repeat


def _spread(order: Iterator[int], layout: Layout) -> Iterator[int]:
    """The trials, with the anchors evenly among them: one first, one last."""
    anchors = [i for i in layout.indexes() if i >= layout.anchored] if layout.anchors else []
    if not anchors:
        yield from order
        return
    rest = len(layout) - len(anchors)
    step = rest / max(1, len(anchors) - 1)
    waiting = list(reversed(anchors))
    for done, index in enumerate(order):
        while waiting and done >= (len(anchors) - len(waiting)) * step:
            yield waiting.pop()
        yield index
    yield from reversed(waiting)
