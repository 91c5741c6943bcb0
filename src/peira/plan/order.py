"""Run order: seeded permutations, blocking, interleaving, and sequences within cases.

- random: shuffled by the seed, within each block and whole plot if there are any; blocks and plots are
  themselves in random order.
- interleaved: in rounds. A round is one case and repeat under every condition, shuffled, so that drift during
  the run affects all conditions alike.
- cases: case by case (cluster by cluster), so that each is complete early: all its trials, shuffled.
- given: in index order. It is not randomised, and the plan says so.

In a crossover, where each case receives the conditions in its own sequence, all first periods come before all
second periods. Anchors are spread evenly over the whole run.

Every order is equally likely over the seeds. Up to `MOST_DRAWN` indices are drawn one by one without
replacement (Fisher and Yates). More are permuted by a Feistel network over the next power of two, which needs
no memory; values outside the range are permuted again until they fall inside (cycle walking).

Plans before order version 2 used a Feistel network of four rounds for every size, which preferred some
orders; a stored plan keeps the version it was made with, and so resumes in its own order.
"""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from hashlib import sha256
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from peira.plan.conditions import Crossed

if TYPE_CHECKING:
    from peira.plan.trials import Layout


# Seeded permutations


ORDER_VERSION = 2
"""The version of the run order of new plans."""
MOST_DRAWN = 1 << 16
"""Up to this many indices are drawn without replacement."""
MIX = 0x9E3779B97F4A7C15
"""Multiplier of the round functions."""
MASK = (1 << 64) - 1
_FIRST_ROUNDS, _ROUNDS = 4, 12
BLOCK = 1 << 12
"""Positions of a large order that are permuted together."""
_Round = Callable[[Any, int], Any]
"""Mixes half of the bits with a round key: of one integer, or of an array of unsigned 64-bit integers."""


def shuffled(size: int, seed: int, salt: str = "", version: int = ORDER_VERSION) -> Iterator[int]:
    """A pseudo-random permutation of range(size), determined by seed, salt and version."""
    if size <= 1:
        return iter(range(size))
    if version == 1:
        return _network(size, _keys(f"peira order {seed} {salt}", _FIRST_ROUNDS), _weakly_mixed)
    text = f"peira order {version} {seed} {salt}"
    return _drawn(size, text) if size <= MOST_DRAWN else _network(size, _keys(text, _ROUNDS), _mixed)


def permutation(size: int, seed: int, salt: str = "", version: int = ORDER_VERSION) -> Callable[[int], int]:
    """The same as `shuffled`, as a function of the position; large ones are not held in memory."""
    if size <= MOST_DRAWN:
        return list(shuffled(size, seed, salt, version)).__getitem__
    text, rounds, mixed = f"peira order {version} {seed} {salt}", _ROUNDS, _mixed
    if version == 1:
        text, rounds, mixed = f"peira order {seed} {salt}", _FIRST_ROUNDS, _weakly_mixed
    keys, bits = _keys(text, rounds), (size - 1).bit_length()
    return lambda position: _walk(position, size, bits, keys, mixed)


def _drawn(size: int, text: str) -> Iterator[int]:
    """Draw the indices one by one without replacement; each place holds its own index until it is moved."""
    moved: dict[int, int] = {}
    numbers = _numbers(text)
    for place in range(size):
        # 64 bits for at most 2^16 indices: the chances of any two differ by less than 2^-48.
        other = place + (next(numbers) * (size - place) >> 64)
        yield moved.get(other, other)
        moved[other] = moved.pop(place, place)


def _numbers(text: str) -> Iterator[int]:
    """Independent numbers of 64 bits."""
    for block in count():
        material = sha256(f"{text} {block}".encode()).digest()
        yield from (int.from_bytes(material[at : at + 8], "big") for at in range(0, 32, 8))


def _keys(text: str, rounds: int) -> tuple[int, ...]:
    """The round keys; their number must be even."""
    material = b"".join(
        sha256((text if not block else f"{text} {block}").encode()).digest()
        for block in range(-(-rounds // 4))
    )
    return tuple(int.from_bytes(material[8 * i : 8 * i + 8], "big") for i in range(rounds))


def _network(size: int, keys: tuple[int, ...], mixed: _Round) -> Iterator[int]:
    """The permutation of range(size) by a Feistel network with cycle walking, block by block."""
    import numpy as np

    bits = (size - 1).bit_length()
    for start in range(0, size, BLOCK):
        indices: Any = _permute(
            np.arange(start, min(start + BLOCK, size), dtype=np.uint64), bits, keys, mixed
        )
        while len(outside := np.flatnonzero(indices >= size)):
            indices[outside] = _permute(indices[outside], bits, keys, mixed)
        yield from indices.tolist()


def _walk(position: int, size: int, bits: int, keys: tuple[int, ...], mixed: _Round) -> int:
    """The index at a position: values outside the range are permuted again."""
    index: int = _permute(position, bits, keys, mixed)
    while index >= size:
        index = _permute(index, bits, keys, mixed)
    return index


def _permute(value: Any, bits: int, keys: tuple[int, ...], mixed: _Round) -> Any:
    """The Feistel permutation of `bits`-bit numbers, one or an array; the halves may differ in width."""
    low = bits // 2
    high = bits - low
    left, right = value >> low, value & ((1 << low) - 1)
    for key in keys:
        left, right = right, left ^ (mixed(right, key) & ((1 << high) - 1))
        low, high = high, low
    return left << low | right


def _weakly_mixed(half: Any, key: int) -> Any:
    """The round function of version 1."""
    mixed = ((half + key) * MIX) & MASK
    mixed ^= mixed >> 29
    return (mixed * MIX & MASK) >> 17


def _mixed(half: Any, key: int) -> Any:
    """The round function: the finaliser of SplitMix64."""
    mixed = ((half ^ key) + MIX) & MASK
    mixed = ((mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9) & MASK
    mixed = ((mixed ^ mixed >> 27) * 0x94D049BB133111EB) & MASK
    return (mixed ^ mixed >> 31) >> 20


# Run orders


ORDERS = ("random", "interleaved", "cases", "given")
Sequences = tuple[tuple[int, ...], ...]
"""For each sequence group, the indices of the conditions in period order; cases are assigned in turn."""


def in_order(layout: Layout) -> Iterator[int]:
    """The indices of all planned trials in run order."""
    others = _without_anchors(layout)
    return _spread(others, layout) if layout.anchors else others


def _without_anchors(layout: Layout) -> Iterator[int]:
    """The run order of the trials that are not anchors."""
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
    """The indices that are selected in the layout."""
    if layout.chosen is None:
        return order
    wanted = set(layout.chosen)
    return (index for index in order if index in wanted)


def _random(layout: Layout) -> Iterator[int]:
    """Random order within randomly ordered segments."""
    segments = _segments(layout, _unanchored(layout))
    for at in shuffled(len(segments), layout.seed, "segments", layout.order_version):
        name, segment = segments[at]
        for position in shuffled(len(segment), layout.seed, name, layout.order_version):
            yield segment[position]


class RunOrder:
    """The run order of a layout by position, for those who execute parts of it.

    Orders that are random throughout, or as given, need neither time nor memory for what comes before; of
    others all indices up to the last one that was asked for are held.
    """

    def __init__(self, layout: Layout) -> None:
        self._size = len(layout)
        self._anchors = [i for i in layout.indexes() if i >= layout.anchored] if layout.anchors else []
        self._places = _anchor_positions(len(self._anchors), self._size - len(self._anchors))
        self._starts: list[int] = []
        self._parts: list[tuple[Sequence[int], Callable[[int], int]]] = []
        self._known = array("Q")
        self._rest: Iterator[int] = iter(())
        if layout.order == "given":
            numbers = layout.indexes() if not self._anchors else list(_without_anchors(layout))
            self._add(cast("Sequence[int]", numbers), lambda position: position)
        elif layout.order == "random" and not layout.sequences:
            segments = _segments(layout, _unanchored(layout))
            for at in shuffled(len(segments), layout.seed, "segments", layout.order_version):
                name, segment = segments[at]
                self._add(segment, permutation(len(segment), layout.seed, name, layout.order_version))
        else:
            self._rest = _without_anchors(layout)

    def _add(self, numbers: Sequence[int], order: Callable[[int], int]) -> None:
        last = self._starts[-1] + len(self._parts[-1][0]) if self._parts else 0
        self._starts.append(last)
        self._parts.append((numbers, order))

    def __len__(self) -> int:
        return self._size

    def at(self, position: int) -> int:
        """The index of the trial at a position of the run order."""
        if not 0 <= position < self._size:
            raise IndexError(f"there is no position {position}: the plan has {self._size} trials")
        before = bisect_left(self._places, position)
        if before < len(self._places) and self._places[before] == position:
            return self._anchors[before]
        return self._unspread(position - before)

    def _unspread(self, position: int) -> int:
        """The index at a position of the order without anchors."""
        if self._parts:
            part = bisect_right(self._starts, position) - 1
            numbers, order = self._parts[part]
            return numbers[order(position - self._starts[part])]
        while len(self._known) <= position:
            self._known.append(next(self._rest))
        return self._known[position]


def _anchor_positions(anchors: int, rest: int) -> list[int]:
    """The positions of anchors, as `_spread` distributes them among the others."""
    step = rest / max(1, anchors - 1)
    found = []
    for at in range(anchors):
        before = min(rest, math.ceil(at * step))
        found.append(before + at)
    return found


def _unanchored(layout: Layout) -> Sequence[int]:
    """The indices of the selected trials that are not anchors."""
    if layout.chosen is None:
        return range(layout.anchored)
    return [index for index in layout.chosen if index < layout.anchored]


def _segments(layout: Layout, numbers: Sequence[int]) -> list[tuple[str, Sequence[int]]]:
    """The trials grouped by block and whole plot."""
    if isinstance(layout.conditions, Crossed) or not any(c.block or c.plot for c in layout.conditions):
        return [("", numbers)]
    found: dict[str, list[int]] = {}
    for index in numbers:
        condition = layout.place(index).condition
        name = f"{condition.block}/{condition.plot}" if condition.plot else condition.block
        found.setdefault(name, []).append(index)
    return list(found.items())


def _rounds(layout: Layout) -> Iterator[int]:
    """Rounds of one case and repeat under every condition, shuffled."""
    conditions = layout.conditions
    most = max((len(cases) for cases in layout.case_sets.values()), default=0)
    for turn in shuffled(most * layout.repeats, layout.seed, "rounds", layout.order_version):
        case, repeat = divmod(turn, layout.repeats)
        for at in shuffled(len(conditions), layout.seed, f"round {turn}", layout.order_version):
            condition = conditions[at]
            if case < len(layout.case_sets[condition.cases]):
                start = layout.start(at) + case * layout.repeats * condition.replicates
                for replicate in range(condition.replicates):
                    yield start + replicate * layout.repeats + repeat


def _by_case(layout: Layout) -> Iterator[int]:
    """Case by case; cases of one cluster, in any case set, are treated as one case."""
    groups: dict[str | tuple[str, int], list[tuple[str, int]]] = {}
    for label, cases in layout.case_sets.items():
        for number, case in enumerate(cases):
            key = (label, number) if case.cluster is None else case.cluster
            groups.setdefault(key, []).append((label, number))
    units = list(groups.values())
    for at in shuffled(len(units), layout.seed, "cases", layout.order_version):
        trials = [index for place in units[at] for index in _of_case(layout, *place)]
        for position in shuffled(len(trials), layout.seed, f"case {at}", layout.order_version):
            yield trials[position]


def _of_case(layout: Layout, label: str, case: int) -> Iterator[int]:
    """The indices of all trials of one case."""
    for at, condition in enumerate(layout.conditions):
        if condition.cases == label:
            repeats = layout.repeats * condition.replicates
            start = layout.start(at) + case * repeats
            yield from range(start, start + repeats)


def _by_period(layout: Layout) -> Iterator[int]:
    """Period by period; cases are assigned to sequences in turn, and shuffled within a period."""
    for repeat in range(layout.repeats):
        for period in range(max(map(len, layout.sequences))):
            places = list(_period(layout, period, repeat))
            for at in shuffled(len(places), layout.seed, f"period {repeat} {period}", layout.order_version):
                yield places[at]


def _period(layout: Layout, period: int, repeat: int) -> Iterator[int]:
    """The indices of the trials of one period."""
    for cases in layout.case_sets.values():
        for case in range(len(cases)):
            sequence = layout.sequences[case % len(layout.sequences)]
            if period < len(sequence):
                yield layout.start(sequence[period]) + case * layout.repeats + repeat


def _spread(order: Iterator[int], layout: Layout) -> Iterator[int]:
    """The trials with the anchors evenly distributed among them, one first and one last."""
    anchors = [i for i in layout.indexes() if i >= layout.anchored]
    if not anchors:
        yield from order
        return
    rest = len(layout) - len(anchors)
    step = rest / max(1, len(anchors) - 1)
    remaining = list(reversed(anchors))
    for done, index in enumerate(order):
        while remaining and done >= (len(anchors) - len(remaining)) * step:
            yield remaining.pop()
        yield index
    yield from reversed(remaining)
