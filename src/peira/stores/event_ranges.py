"""Where the events about a task are: a few short ranges of the log, kept in the task's own row.

So the record of one task is read without an index of events by task, which would write a page of its own for
every event: ids are random. The row of a task is written with each of its events anyway.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise

EventRange = tuple[int, int, int]
"""The number of a run, and the first and the last sequence number in it."""
GAP = 1000
"""Events of others within a range before it is closed: so many are passed over in about a millisecond."""
MOST = 64
"""Ranges of one task; beyond it, the two of one run that are nearest become one."""


def extended(ranges: tuple[EventRange, ...], run: int, seq: int) -> tuple[EventRange, ...]:
    """The ranges, newest first, with one more event."""
    if ranges:
        of, first, last = ranges[0]
        if of == run and first <= seq <= last + GAP:
            newest = (run, first, seq if seq > last else last)
            return (newest,) if len(ranges) == 1 else (newest, *ranges[1:])
        if len(ranges) >= MOST:
            ranges = _joined(ranges)
    return ((run, seq, seq), *ranges)


def _joined(ranges: tuple[EventRange, ...]) -> tuple[EventRange, ...]:
    """The ranges with the two nearest of one run joined; as they are if each is of another run."""
    pairs = [
        (newer[1] - older[2], at)
        for at, (newer, older) in enumerate(pairwise(ranges))
        if newer[0] == older[0]
    ]
    if not pairs:
        return ranges
    _, at = min(pairs)
    newer, older = ranges[at : at + 2]
    joined = newer[0], min(newer[1], older[1]), max(newer[2], older[2])
    return (*ranges[:at], joined, *ranges[at + 2 :])


def text(ranges: Sequence[EventRange]) -> str:
    """The ranges as they are stored: run:first-last, newest first."""
    if len(ranges) == 1:
        [(run, first, last)] = ranges
        return f"{run}:{first}-{last}"
    return " ".join([f"{run}:{first}-{last}" for run, first, last in ranges])


def parse(stored: str | None) -> tuple[EventRange, ...]:
    """The ranges of a stored text; ValueError if it is none."""
    return tuple(_parse_one(one) for one in stored.split()) if stored else ()


def _parse_one(stored: str) -> EventRange:
    run, _, seqs = stored.partition(":")
    first, _, last = seqs.partition("-")
    return int(run), int(first), int(last)


def covers(stored: str | None, run: int, seq: int) -> bool:
    """Whether an event is in the ranges of a stored text; not if that cannot be read."""
    try:
        return any(of == run and first <= seq <= last for of, first, last in parse(stored))
    except ValueError:
        return False


def merged(ranges: Iterable[EventRange]) -> Iterator[EventRange]:
    """The same events in as few ranges as possible, in the order of the log."""
    current: EventRange | None = None
    for run, first, last in sorted(ranges):
        if current is not None and run == current[0] and first <= current[2] + GAP:
            current = run, current[1], max(last, current[2])
            continue
        if current is not None:
            yield current
        current = run, first, last
    if current is not None:
        yield current
