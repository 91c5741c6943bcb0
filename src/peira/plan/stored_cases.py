"""Large sets of cases as JSON, each decoded when it is needed: a third of the memory of objects, and less.

A plan of many cases is made with them, and one that is read back has them, so that a run holds its cases in
the form in which they are stored.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from io import BytesIO
from itertools import accumulate, pairwise
from typing import overload

import msgspec

from peira.core.codec import encode
from peira.core.garbage_collector import collection_paused
from peira.errors import StoreDamaged
from peira.plan.trials import PlannedCase

LARGE = 16 * 2**20
"""From so many bytes on, cases that are read back are held as they are stored."""
MANY = 50_000
"""From so many cases on, those of a new plan are held like that."""
_decode_case = msgspec.json.Decoder(PlannedCase).decode
_split_cases = msgspec.json.Decoder(list[msgspec.Raw]).decode


class StoredCases(Sequence[PlannedCase]):
    """A JSON array of cases."""

    def __init__(self, data: bytes, starts: array[int]) -> None:
        """`starts` says where each case begins in `data`, and where the next one would."""
        self.data, self._view, self._starts = data, memoryview(data), starts

    @classmethod
    def of(cls, data: bytes) -> StoredCases:
        """Those of a JSON array, which has no blanks."""
        sizes = array("Q", (memoryview(case).nbytes for case in _split_cases(data)))
        starts = array("Q", accumulate((n + 1 for n in sizes), initial=1))
        if starts[-1] != len(data) - (not sizes):
            raise StoreDamaged("the cases of this plan are not stored as peira writes them")
        return cls(data, starts)

    @classmethod
    def made_of(cls, cases: Iterable[PlannedCase]) -> StoredCases:
        """These cases, which need not all be there at the same time."""
        out, starts, end = BytesIO(b"["), array("Q", [1]), 1  # its content is taken without a copy
        out.seek(end)
        with collection_paused():
            for case in cases:
                end += out.write(b"%b," % encode(case))
                starts.append(end)
        out.seek(max(end - 1, 1))
        out.write(b"]")
        return cls(out.getvalue(), starts)

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, at: int) -> PlannedCase: ...
    @overload
    def __getitem__(self, at: slice) -> list[PlannedCase]: ...
    def __getitem__(self, at: int | slice) -> PlannedCase | list[PlannedCase]:
        starts = self._starts
        if type(at) is int and 0 <= at < len(starts) - 1:  # as it is for each trial
            return _decode_case(self._view[starts[at] : starts[at + 1] - 1])
        if isinstance(at, slice):
            return [self[one] for one in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        return self[int(at) % len(self)]

    def __iter__(self) -> Iterator[PlannedCase]:
        for first, end in pairwise(self._starts):
            yield _decode_case(self._view[first : end - 1])
