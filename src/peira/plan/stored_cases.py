"""Large sets of planned cases, packed as those of a study are; and their stored form, a JSON array.

That array is five times as large in memory as what a case is about, so it is written and read in pieces.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, starmap
from typing import overload

import msgspec

from peira.core.codec import encode
from peira.core.ids import Json
from peira.errors import StoreDamaged
from peira.plan.trials import PlannedCase
from peira.spec.packed_cases import CaseColumns, CaseRecord

LARGE = 16 * 2**20
"""From so many bytes on, cases that are read back are packed."""
CHUNK = 1_000
"""Cases that are written together."""
_BETWEEN = b',{"id":"'
"""What stands between two cases, and often within one."""
_begins = re.compile(rb',\{"id":"(?:[^"\\]|\\.)*","seen":"[0-9a-f]{64}",').match
_NAME = re.compile("[0-9a-f]{16}").fullmatch
_NO_METADATA: dict[str, Json] = {}
_decode_cases = msgspec.json.Decoder(list[PlannedCase]).decode


class StoredCases(Sequence[PlannedCase]):
    """The cases of a large set, each made when it is asked for."""

    def __init__(self, columns: CaseColumns) -> None:
        self._columns = columns

    @classmethod
    def read(cls, pieces: Iterable[bytes]) -> StoredCases:
        """Those of a JSON array that comes in pieces. StoreDamaged if it is none of planned cases."""
        columns, rest = CaseColumns(), b""
        try:
            for piece in pieces:
                rest = _add_whole(columns, rest + piece)
            _add(columns, _decode_cases(rest))
            columns.close()
        except (msgspec.MsgspecError, ValueError) as problem:
            raise StoreDamaged("the cases of this plan are not stored as peira writes them") from problem
        return cls(columns)

    def pieces(self) -> Iterator[bytes]:
        """The JSON array in which they are stored, in pieces."""
        cases, before = iter(self), b"["
        while some := list(islice(cases, CHUNK)):
            yield before + encode(some)[1:-1]
            before = b","
        yield b"]" if len(self) else b"[]"

    def __len__(self) -> int:
        return len(self._columns)

    @overload
    def __getitem__(self, at: int) -> PlannedCase: ...
    @overload
    def __getitem__(self, at: slice) -> list[PlannedCase]: ...
    def __getitem__(self, at: int | slice) -> PlannedCase | list[PlannedCase]:
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        return _planned(*self._columns[at if at >= 0 else at + len(self)])

    def __iter__(self) -> Iterator[PlannedCase]:
        return starmap(_planned, self._columns)


def _planned(id: str, seen: str, record: CaseRecord) -> PlannedCase:
    return PlannedCase(
        id,
        seen,
        record.input,
        record.expected,
        record.cluster,
        record.slice,
        record.metadata or _NO_METADATA,
        record.judged_by,
    )


def _add_whole(columns: CaseColumns, data: bytes) -> bytes:
    """Add the cases that are whole in the beginning of an array; an array of the rest."""
    end = len(data)
    while (end := data.rfind(_BETWEEN, 0, end)) > 0:
        if _begins(data, end):
            try:
                cases = _decode_cases(data[:end] + b"]")
            except msgspec.DecodeError:  # that is within a case, too
                continue
            _add(columns, cases)
            return b"[" + data[end + 1 :]
    return data


def _add(columns: CaseColumns, cases: Sequence[PlannedCase]) -> None:
    names = [case.id if _NAME(case.id) else "" for case in cases]
    records = [
        CaseRecord(
            case.input,
            case.expected,
            None if name else case.id,
            case.cluster,
            case.slice,
            case.metadata or None,
            case.judged_by,
        )
        for case, name in zip(cases, names, strict=True)
    ]
    columns.add(records, names, [case.seen for case in cases])
