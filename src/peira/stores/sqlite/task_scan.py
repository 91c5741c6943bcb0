"""All tasks of a store, read in one pass, for those who want most of them.

Tasks are looked up by random ids, and each look-up reads a page of the index and one of the table: that takes
ten times as long as reading the next row. What is read is kept in a few arrays, about 100 bytes for a task,
and made into rows or outcomes when these are asked for. Tasks with anything out of the ordinary are looked up
as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from peira.core.codec import decode_result, decode_results
from peira.core.contracts import TaskOutcome
from peira.core.log.events import Result, State
from peira.core.log.state import NO_RESULT, Task
from peira.stores.rows import STATES, UNREADABLE, plain_task

CHUNK = 2_000
"""Rows that are read at a time: few enough to stay in the cache of the processor while columns are made."""
_SCAN = """
SELECT substr(id, 1, 16), state, kind, class, owner, run, epoch, attempts,
    coalesce(interruptions, priority, not_before, reused_from, rest) IS NULL, reused_from IS NULL, result
FROM task WHERE n BETWEEN ? AND ? ORDER BY n
"""
Fetch = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]
"""Executes a statement and returns all rows."""


class TaskScan:
    """The tasks of a store as they were when it was made."""

    def __init__(self, fetch: Fetch, find: Callable[[Sequence[str]], dict[str, Task]]) -> None:
        """`find` looks tasks up one by one."""
        self._find = find
        self._runs: dict[int, str] = {n: id for n, id in fetch("SELECT n, id FROM run", ())}  # noqa: C416
        self._numbers: dict[tuple[Any, ...], int] = {}
        """What few tasks differ in (kind, class, owner, run, epoch, attempts, whether plain), numbered."""
        self._results: list[bytes] = []
        """The results of the tasks of each chunk, joined."""
        [(last,)] = fetch("SELECT coalesce(max(n), 0) FROM task", ())
        ids = np.empty((last, 2), np.uint64)
        self._states, self._about_numbers = np.empty(last, np.uint8), np.empty(last, np.uint32)
        self._chunks, self._starts, self._sizes = (np.empty(last, np.uint32) for _ in range(3))
        count = 0
        for start in range(1, last + 1, CHUNK):
            if chunk := fetch(_SCAN, (start, start + CHUNK - 1)):
                count = self._add(chunk, ids, count)
        self._rows = np.argsort(ids[:count, 0], kind="stable").astype(np.uint32)
        """The rows of the other arrays, by id."""
        self._ids, self._rest = ids[self._rows, 0], ids[self._rows, 1]
        self._about = list(self._numbers)

    def _add(self, chunk: Sequence[tuple[Any, ...]], all_ids: NDArray[Any], at: int) -> int:
        """Put the columns of a chunk into the arrays, from `at` on; the end of what is there then."""
        ids, states, *about, results = zip(*chunk, strict=True)
        numbers, end = self._numbers, at + len(chunk)
        kept = [result or b"" for result in results]
        sizes = np.fromiter(map(len, kept), np.uint32, len(kept))
        all_ids[at:end] = np.frombuffer(b"".join(ids), np.uint64).reshape(-1, 2)
        self._states[at:end] = states
        self._about_numbers[at:end] = [
            numbers.setdefault(key, len(numbers)) for key in zip(*about, strict=True)
        ]
        self._chunks[at:end] = len(self._results)
        self._starts[at:end] = np.cumsum(sizes, dtype=np.uint32) - sizes
        self._sizes[at:end] = sizes
        self._results.append(b"".join(kept))
        return end

    def _found(self, ids: Sequence[str]) -> tuple[list[bool], list[bool], NDArray[Any]]:
        """Whether there is a task whose id begins alike, whether it is that one, and its row."""
        wanted = np.frombuffer(bytes.fromhex("".join([id[:32] for id in ids])), np.uint64).reshape(-1, 2)
        first = wanted[:, 0]
        order = np.argsort(first)  # near ones are near in memory
        at = np.empty(len(first), np.intp)
        at[order] = np.searchsorted(self._ids, first[order])
        np.minimum(at, len(self._ids) - 1, out=at)
        alike = self._ids[at] == first
        there = alike & (self._rest[at] == wanted[:, 1])  # else the first bytes of two ids agree
        return alike.tolist(), there.tolist(), self._rows[at]

    def _stored(self, rows: NDArray[Any]) -> list[bytes]:
        """The stored results of these rows; empty where there is none."""
        joined, columns = self._results, (self._chunks, self._starts, self._sizes)
        places = zip(*(column[rows].tolist() for column in columns), strict=True)
        return [joined[chunk][start : start + size] for chunk, start, size in places]

    def find(self, ids: Sequence[str]) -> dict[str, Task]:
        """As `Store.find` of tasks."""
        alike, there, rows = self._found(ids)
        found: dict[str, Task] = {}
        others = []
        each = self._states[rows].tolist(), self._about_numbers[rows].tolist(), self._stored(rows)
        for id, is_alike, is_there, state, number, stored in zip(ids, alike, there, *each, strict=True):
            if not is_alike:
                continue
            kind, cls, owner, run, epoch, attempts, plain, _ = self._about[number]
            if not (is_there and plain):
                others.append(id)
                continue
            try:
                of = self._runs[run]
                found[id] = plain_task(id, kind, cls, state, epoch, owner, attempts, of, stored)
            except UNREADABLE:
                others.append(id)
        return found | self._find(others) if others else found

    def states(self, ids: Sequence[str]) -> list[State | None]:
        """The state of each task; None if there is none."""
        if not ids:
            return []
        alike, there, rows = self._found(ids)
        codes = self._states[rows].tolist()
        found = [STATES[code] if is_there else None for is_there, code in zip(there, codes, strict=True)]
        if alike != there:
            others = [at for at in range(len(ids)) if alike[at] and not there[at]]
            tasks = self._find([ids[at] for at in others])
            for at in others:
                if (task := tasks.get(ids[at])) is not None:
                    found[at] = task.state
        return found

    def outcomes(self, ids: Sequence[str]) -> list[TaskOutcome | None]:
        """The outcome of each task; None if there is none."""
        if not ids:
            return []
        alike, there, rows = self._found(ids)
        states = self._states[rows].tolist()
        about = [self._about[number] for number in self._about_numbers[rows].tolist()]
        found: list[TaskOutcome | None] = []
        others: list[int] = []
        results = _decoded(self._stored(rows))
        runs = self._runs
        for at, is_there, state, of, result in zip(
            range(len(ids)), there, states, about, results, strict=True
        ):
            if is_there and of[7] and result is not None and (run := runs.get(of[3])) is not None:
                found.append(TaskOutcome(STATES[state], of[5], run, "", result))
            else:
                found.append(None)
                if alike[at]:
                    others.append(at)
        if others:
            tasks = self._find([ids[at] for at in others])
            for at in others:
                if (task := tasks.get(ids[at])) is not None:
                    found[at] = TaskOutcome(
                        task.state, task.attempts, task.run, task.reused_from, task.result
                    )
        return found


def _decoded(stored: Sequence[bytes]) -> Sequence[Result | None]:
    """The results of these bytes, None for those that cannot be read; many are decoded in one call."""
    if all(stored):
        try:
            return decode_results(b"[%b]" % b",".join(stored))
        except msgspec.MsgspecError:
            pass
    return [_one_decoded(one) if one else NO_RESULT for one in stored]


def _one_decoded(stored: bytes) -> Result | None:
    try:
        return decode_result(stored)
    except UNREADABLE:
        return None
