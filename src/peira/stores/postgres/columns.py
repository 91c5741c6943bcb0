"""The parameters of the function `put`: rows that the fold has changed, as one array for each column."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from peira.core.log.events import Record
from peira.core.log.state import touched
from peira.stores.fold import RowView
from peira.stores.postgres import arrays
from peira.stores.rows import SEQ_BITS, call_rows, task_row

Blob = tuple[bytes, str, bytes | None, int]
"""Digest, codec, bytes (None: outside the tables) and size."""
Span = tuple[int, int, int]
"""The place of a run among those of a commit, and the first and the last of its events that are meant."""


def spans_of(records: Sequence[Record], index: dict[str, int], first: dict[str, int]) -> dict[str, Span]:
    """Where among the records those about each task are."""
    found: dict[str, Span] = {}
    for record in records:
        head, offset = index[record.run], record.seq - first[record.run]
        for task in touched(record.event):
            known = found.get(task)
            found[task] = (head, offset, offset) if known is None else (head, known[1], offset)
    return found


def task_columns(
    view: RowView,
    ids: Sequence[str],
    number: Callable[[str], int],
    versions: Mapping[str, int],
    spans: Mapping[str, Span],
) -> list[Any]:
    """The columns of these tasks as they are in the view, in the order of their ids.

    `number` gives the number of a run, `versions` the versions of the rows in the table.
    """
    if not ids:
        return [None] * 19
    places = {id: place for place, id in enumerate(ids)}
    rows = [(*task_row(view.tasks[id], 0, number(view.tasks[id].run), ""), id) for id in sorted(places)]
    (_, keys, kinds, classes, states, epochs, owners, attempts, interruptions, priorities, times, runs,
     sources, rests, results, _, names) = zip(*rows, strict=True)  # fmt: skip
    return [
        arrays.bytea(keys),
        arrays.text(kinds),
        arrays.text(classes),
        arrays.smallint(states),
        arrays.integer(epochs),
        _unless_empty(arrays.text, owners),
        arrays.integer(attempts),
        _unless_empty(arrays.integer, interruptions),
        _unless_empty(arrays.integer, priorities),
        _unless_empty(arrays.double, times),
        arrays.integer(runs),
        _unless_empty(arrays.bytea, sources),
        _unless_empty(arrays.bytea, rests),
        _unless_empty(arrays.bytea, results),
        arrays.integer([versions.get(id, 0) + 1 for id in names]),
        arrays.integer([places[id] for id in names]),
        *(arrays.integer(column) for column in zip(*map(spans.__getitem__, names), strict=True)),
    ]


def call_columns(
    view: RowView,
    records: Sequence[Record],
    before: RowView,
    index: dict[str, int],
    first: dict[str, int],
    versions: Mapping[str, int],
) -> list[Any]:
    """The columns of the calls that these records have changed, in the order of their keys.

    `index` and `first` are the place of each run among those of the commit, and its next number before.
    """
    rows = call_rows(records, view.calls, index, lambda key: 0)
    rows = [row for row in rows if view.calls[row[1].hex()] is not before.calls.get(row[1].hex())]
    if not rows:
        return [None] * 14
    rows.sort(key=lambda row: row[1])
    (_, keys, tasks, names, states, values, blobs, rests, asked, models, inputs, outputs, costs) = zip(
        *rows, strict=True
    )
    runs = {i: run for run, i in index.items()}
    heads = [None if at is None else at >> SEQ_BITS for at in asked]
    offsets = [
        None if at is None or head is None else at - (head << SEQ_BITS) - first[runs[head]]
        for at, head in zip(asked, heads, strict=True)
    ]
    return [
        arrays.bytea(keys),
        arrays.bytea(tasks),
        arrays.text(names),
        arrays.text(states),
        _unless_empty(arrays.bytea, values),
        _unless_empty(arrays.text, blobs),
        _unless_empty(arrays.bytea, rests),
        _unless_empty(arrays.integer, heads),
        _unless_empty(arrays.integer, offsets),
        _unless_empty(arrays.text, models),
        _unless_empty(arrays.bigint, inputs),
        _unless_empty(arrays.bigint, outputs),
        _unless_empty(arrays.double, costs),
        arrays.integer([versions.get(key.hex(), 0) + 1 for key in keys]),
    ]


def blob_columns(blobs: Sequence[Blob]) -> list[Any]:
    """The columns of blobs."""
    if not blobs:
        return [None] * 4
    digests, codecs, data, sizes = zip(*blobs, strict=True)
    return [arrays.bytea(digests), arrays.text(codecs), arrays.bytea(data), arrays.bigint(sizes)]


def _unless_empty(make: Callable[[Any], Any], values: Sequence[Any]) -> Any:
    """The array of these values; None, which unnests to NULLs, if there are only those."""
    return None if not any(value is not None for value in values) else make(values)
