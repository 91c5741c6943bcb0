"""All tasks of a store, read in one pass, for those who want most of them.

Tasks are looked up by random ids, and each look-up reads a page of the index and one of the table: that takes
ten times as long as reading the next row. SQLite joins the ids and the results of tasks that are otherwise
equal, so that few values are made of many rows; they are kept as they come, with 28 bytes for each task, and
made into rows or outcomes when these are asked for. Tasks with anything out of the ordinary are looked up as
ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import apsw
import msgspec
import numpy as np
from numpy.typing import NDArray

from peira.core.codec import decode_result, decode_results
from peira.core.contracts import TaskOutcome
from peira.core.log.events import Result, State
from peira.core.log.state import NO_RESULT, Task
from peira.stores.rows import STATES, UNREADABLE, plain_task

CHUNK = 10_000
"""Rows that are read at a time."""
_SCAN = """
SELECT state, kind, class, owner, run, epoch, attempts,
    coalesce(interruptions, priority, not_before, reused_from, rest) IS NULL AS plain,
    reused_from IS NULL AS own,
    group_concat(hex(substr(id, 1, 16)), ''), group_concat(length(CAST(coalesce(result, '') AS BLOB))),
    CAST(group_concat(coalesce(result, ''), '') AS BLOB)
FROM task WHERE n BETWEEN ? AND ?
GROUP BY state, kind, class, owner, run, epoch, attempts, plain, own
"""
Fetch = Callable[[str, tuple[Any, ...]], list[tuple[Any, ...]]]
"""Executes a statement and returns all rows."""


class AlikeTasks(NamedTuple):
    """What tasks of one chunk have in common, and their results, joined."""

    state: int
    kind: str
    cls: str
    owner: str | None
    run: int
    epoch: int
    attempts: int
    plain: bool
    own: bool
    """Whether the results were not taken over from other tasks."""
    results: bytes


class TaskScan:
    """The tasks of a store as they were when it was made."""

    def __init__(self, fetch: Fetch, find: Callable[[Sequence[str]], dict[str, Task]]) -> None:
        """`find` looks tasks up one by one."""
        self._find = find
        self._runs: dict[int, str] = {n: id for n, id in fetch("SELECT n, id FROM run", ())}  # noqa: C416
        self._alike: list[AlikeTasks] = []
        [(last,)] = fetch("SELECT coalesce(max(n), 0) FROM task", ())
        ids, rest = np.empty(last, np.uint64), np.empty(last, np.uint64)
        self._starts, self._sizes = np.empty(last, np.uint32), np.empty(last, np.uint32)
        firsts, count = [], 0
        for chunk in _chunks(fetch, 1, last):
            for *about, digits, sizes, results in chunk:
                firsts.append(count)
                self._alike.append(AlikeTasks._make((*about, results)))
                each = np.fromstring(sizes, np.uint32, sep=",")
                end = count + len(each)
                both = np.frombuffer(bytes.fromhex(digits), np.uint64)
                ids[count:end], rest[count:end] = both[::2], both[1::2]
                self._sizes[count:end], self._starts[count:end] = each, np.cumsum(each) - each
                count = end
        self._firsts = np.array(firsts, np.uint32)
        """The first rows of all that are alike."""
        self._codes = np.array([one.state for one in self._alike], np.uint8)
        self._rows = np.argsort(ids[:count], kind="stable").astype(np.uint32)
        """The rows of the other arrays, by id."""
        ids = ids[self._rows]
        self._ids, self._rest = ids, rest[self._rows]

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

    def _alike_at(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Where it says what these rows have in common with others."""
        return np.searchsorted(self._firsts, rows, "right") - 1

    def _stored(self, rows: NDArray[Any]) -> tuple[list[AlikeTasks], list[bytes]]:
        """What is known of these rows, and their stored results, empty where there is none."""
        alike = self._alike
        about = [alike[at] for at in self._alike_at(rows).tolist()]
        starts = self._starts[rows]
        places = zip(about, starts.tolist(), (starts + self._sizes[rows]).tolist(), strict=True)
        return about, [one.results[start:end] for one, start, end in places]

    def find(self, ids: Sequence[str]) -> dict[str, Task]:
        """As `Store.find` of tasks."""
        alike, there, rows = self._found(ids)
        found: dict[str, Task] = {}
        others = []
        for id, is_alike, is_there, about, stored in zip(ids, alike, there, *self._stored(rows), strict=True):
            if not is_alike:
                continue
            state, kind, cls, owner, run, epoch, attempts, plain, _, _ = about
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
        codes = self._codes[self._alike_at(rows)].tolist()
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
        about, stored = self._stored(rows)
        found: list[TaskOutcome | None] = []
        others: list[int] = []
        runs = self._runs
        for at, is_there, of, result in zip(range(len(ids)), there, about, _decoded(stored), strict=True):
            if is_there and of.own and result is not None and (run := runs.get(of.run)) is not None:
                found.append(TaskOutcome(STATES[of.state], of.attempts, run, "", result))
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


def _chunks(fetch: Fetch, first: int, last: int) -> Iterator[list[tuple[Any, ...]]]:
    """The tasks from `first` to `last`; of fewer at a time if their results are too long to be joined."""
    for start in range(first, last + 1, CHUNK):
        end = min(start + CHUNK - 1, last)
        try:
            yield fetch(_SCAN, (start, end))
        except apsw.TooBigError:
            middle = (start + end) // 2
            yield from _chunks(fetch, start, middle)
            yield from _chunks(fetch, middle + 1, end)


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
