"""All tasks of a store, read in one pass, for those who want most of them.

Tasks are looked up by random ids, and each look-up reads a page of the index and one of the table: that takes
ten times as long as reading the next row. What is read is kept in a few arrays, about 100 bytes for a task,
and made into rows when it is asked for. Tasks with anything out of the ordinary are looked up as ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from peira.core.log.state import Task
from peira.stores.rows import UNREADABLE, plain_task

CHUNK = 50_000
"""Rows that are read at a time."""
_SCAN = """
SELECT substr(id, 1, 16), state, kind, class, owner, run, epoch, attempts,
    coalesce(interruptions, priority, not_before, reused_from, rest) IS NULL, result
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
        chunks = (fetch(_SCAN, (start, start + CHUNK - 1)) for start in range(1, last + 1, CHUNK))
        parts = [self._columns(chunk) for chunk in chunks if chunk]
        ids, *columns = (np.concatenate(part) for part in zip(*parts, strict=True))
        order = np.argsort(ids[:, 0], kind="stable")
        self._ids = ids[order, 0]
        self._columns_by_id = [ids[order, 1], *(column[order] for column in columns)]
        self._about = list(self._numbers)

    def _columns(self, chunk: Sequence[tuple[Any, ...]]) -> tuple[Any, ...]:
        """Ids, states, numbers in `_numbers`, and where the results are: chunk, start and size."""
        ids, states, *about, results = zip(*chunk, strict=True)
        numbers = self._numbers
        numbered = [numbers.setdefault(key, len(numbers)) for key in zip(*about, strict=True)]
        kept = [result or b"" for result in results]
        sizes = np.fromiter(map(len, kept), np.uint32, len(kept))
        self._results.append(b"".join(kept))
        return (
            np.frombuffer(b"".join(ids), np.uint64).reshape(-1, 2),
            np.array(states, np.uint8),
            np.array(numbered, np.uint32),
            np.full(len(kept), len(self._results) - 1, np.uint32),
            np.cumsum(sizes, dtype=np.uint32) - sizes,
            sizes,
        )

    def find(self, ids: Sequence[str]) -> dict[str, Task]:
        """As `Store.find` of tasks."""
        wanted = np.frombuffer(bytes.fromhex("".join([id[:32] for id in ids])), np.uint64).reshape(-1, 2)
        at = np.minimum(np.searchsorted(self._ids, wanted[:, 0]), len(self._ids) - 1)
        rest, *columns = (column[at] for column in self._columns_by_id)
        alike = self._ids[at] == wanted[:, 0]
        there = alike & (rest == wanted[:, 1])  # else the first bytes of two ids agree
        found: dict[str, Task] = {}
        others = []
        each = (column.tolist() for column in (alike, there, *columns))
        for id, is_alike, is_there, state, number, chunk, start, size in zip(ids, *each, strict=True):
            if not is_alike:
                continue
            kind, cls, owner, run, epoch, attempts, plain = self._about[number]
            if not (is_there and plain):
                others.append(id)
                continue
            stored = self._results[chunk][start : start + size]
            try:
                of = self._runs[run]
                found[id] = plain_task(id, kind, cls, state, epoch, owner, attempts, of, stored)
            except UNREADABLE:
                others.append(id)
        return found | self._find(others) if others else found
