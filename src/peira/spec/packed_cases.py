"""Large sets of cases in a few arrays: what was written of each as JSON, and its digests as bytes.

A case of two short texts takes 90 bytes, a third of what it takes as an object. The study, its plan and its
run share one such set; a case is made of it when it is asked for.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import accumulate, islice
from typing import overload

import msgspec

from peira.core.codec import encode
from peira.core.ids import Json, canonical, digest_bytes
from peira.spec.case import ID_DIGITS, Case, seen_digest

CHUNK = 1_000
"""Cases that are decoded together where all of them are read."""
_SEEN, _NAME = 32, ID_DIGITS // 2
"""Bytes of a digest, and of its first digits."""


class CaseRecord(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """What is written of a case; its `id` only if that is not kept as a number."""

    input: Json
    expected: Json = None
    id: str | None = None
    cluster: str | None = None
    slice: str | None = None
    metadata: dict[str, Json] | None = None
    judged_by: tuple[str, ...] = ()
    """Digests of the case's own evaluators, in a plan that is read back."""


IdentifiedCase = tuple[str, str, CaseRecord]
"""A case with its id, and the digest of what an agent receives of it."""
_decode_record = msgspec.json.Decoder(CaseRecord).decode
_decode_records = msgspec.json.Decoder(list[CaseRecord]).decode
_NO_NAME = "0" * ID_DIGITS


class CaseColumns:
    """The columns of a set of cases: records, ids and digests. Cases are added, then only read."""

    def __init__(self) -> None:
        self._written = BytesIO()
        self._records = b""
        self._starts = array("Q", [0])
        self._names = bytearray()
        """The digits of ids that are digests of inputs, as bytes; 0 where the record has the id."""
        self._seen = bytearray()
        self._earlier: Sequence[int] | None = None
        """For each case how many before it have its name; None if no name is there twice."""

    def add(self, records: Sequence[CaseRecord], names: Iterable[str], seen: Iterable[str]) -> None:
        """Add cases; a name are the digits of an id, "" if the record has the id."""
        written = list(map(encode, records))
        self._starts.extend(
            islice(accumulate((len(one) + 1 for one in written), initial=self._starts[-1]), 1, None)
        )
        self._written.writelines((b",".join(written), b","))
        self._names += bytes.fromhex("".join([name or _NO_NAME for name in names]))
        self._seen += bytes.fromhex("".join(seen))

    def close(self) -> None:
        """All cases are added."""
        self._records, self._written = self._written.getvalue(), BytesIO()  # without a copy
        if len(self._seen) != _SEEN * len(self):
            raise ValueError("every case must have a digest of its own")

    def number_equal_names(self) -> list[int]:
        """Tell ids apart that are digests of equal inputs; the positions of all but the first of each."""
        import numpy as np  # slow to import, and there are many cases

        names = np.frombuffer(self._names, np.uint64)
        order = np.argsort(names, kind="stable")
        named = names[order]
        first = np.append([True], named[1:] != named[:-1]) | (named == 0)
        if first.all():
            return []
        places = np.arange(len(named))
        earlier = np.empty(len(named), np.uint32)
        earlier[order] = places - np.maximum.accumulate(np.where(first, places, 0))
        self._earlier = array("I", earlier.tobytes())
        return np.flatnonzero(earlier).tolist()

    def see(self, at: int, seen: str) -> None:
        """Replace the digest of a case."""
        self._seen[_SEEN * at : _SEEN * (at + 1)] = bytes.fromhex(seen)

    def _numbered(self, at: int, name: str) -> str:
        """The id of a case whose record has none."""
        return f"{name}-{earlier}" if self._earlier and (earlier := self._earlier[at]) else name

    def __len__(self) -> int:
        return len(self._starts) - 1

    def __getitem__(self, at: int) -> IdentifiedCase:
        starts = self._starts
        record = _decode_record(self._records[starts[at] : starts[at + 1] - 1])
        if (id := record.id) is None:
            id = self._numbered(at, self._names[_NAME * at : _NAME * (at + 1)].hex())
        return id, self._seen[_SEEN * at : _SEEN * (at + 1)].hex(), record

    def __iter__(self) -> Iterator[IdentifiedCase]:
        for at in range(0, len(self), CHUNK):
            end = min(at + CHUNK, len(self))
            records = _decode_records(b"[%b]" % self._records[self._starts[at] : self._starts[end] - 1])
            names = _split(self._names[_NAME * at : _NAME * end].hex(), 2 * _NAME)
            if self._earlier:
                names = list(map(self._numbered, range(at, end), names))
            ids = [
                name if record.id is None else record.id for record, name in zip(records, names, strict=True)
            ]
            seen = _split(self._seen[_SEEN * at : _SEEN * end].hex(), 2 * _SEEN)
            yield from zip(ids, seen, records, strict=True)


def _split(digits: str, size: int) -> list[str]:
    """A text in parts of this size."""
    return [digits[at : at + size] for at in range(0, len(digits), size)]


class PackedCases(Sequence[Case]):
    """Many cases of a study, none of which has evaluators of its own; equal to a tuple of the same cases."""

    def __init__(self, cases: Iterable[Case]) -> None:
        """Raises ValueError at a case with evaluators."""
        self.columns, cases = CaseColumns(), iter(cases)
        self._with_ids = False
        while some := list(islice(cases, CHUNK)):
            self._add(some)
        self.columns.close()
        for at in self.columns.number_equal_names():
            self.columns.see(at, seen_digest(self[at], self.columns[at][0]))

    def _add(self, cases: Sequence[Case]) -> None:
        names, seen = list[str](), list[str]()
        for case in cases:
            if case.evaluators:
                raise ValueError("packed cases have no evaluators of their own")
            input = canonical(case.input)
            name = "" if case.id else digest_bytes(input)[:ID_DIGITS]
            names.append(name)
            seen.append(seen_digest(case, case.id or name, input))
            self._with_ids |= not name
        self.columns.add(list(map(_record, cases)), names, seen)

    def __len__(self) -> int:
        return len(self.columns)

    @overload
    def __getitem__(self, at: int) -> Case: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Case, ...]: ...
    def __getitem__(self, at: int | slice) -> Case | tuple[Case, ...]:
        if isinstance(at, slice):
            return tuple(self[one] for one in range(*at.indices(len(self))))
        return _case(self.columns[range(len(self))[at]][2])

    def __iter__(self) -> Iterator[Case]:
        return (_case(record) for _, _, record in self.columns)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PackedCases | tuple):
            return NotImplemented
        return len(self) == len(other) and all(a == b for a, b in zip(self, other, strict=True))

    __hash__ = None  # type: ignore[assignment]

    def repeated_ids(self) -> dict[str, int]:
        """The ids that several cases have, and how many."""
        if not self._with_ids:  # those that are made of inputs are told apart
            return {}
        import numpy as np

        hashes = np.fromiter((hash(id) for id, _, _ in self.columns), np.int64, len(self))
        hashes.sort()
        alike = set(hashes[1:][hashes[1:] == hashes[:-1]].tolist())
        ids = (id for id, _, _ in self.columns if hash(id) in alike) if alike else ()
        return {id: n for id, n in Counter(ids).items() if n > 1}


def _record(case: Case) -> CaseRecord:
    return CaseRecord(case.input, case.expected, case.id, case.cluster, case.slice, case.metadata or None)


def _case(record: CaseRecord) -> Case:
    return Case(
        record.input,
        record.expected,
        id=record.id,
        cluster=record.cluster,
        slice=record.slice,
        metadata=record.metadata or {},
    )
