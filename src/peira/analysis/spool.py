"""Rows that are read once and written twice: they wait in a temporary file while their columns become known.

Which columns a flat table has, and of what kind each is, is known only after the last trial. Reading trials
is slow, and they may change meanwhile; reading them here again is quick, and they cannot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from tempfile import TemporaryFile
from types import TracebackType

import msgspec

from peira.core.ids import Json

WHOLE = 2**63
_SIZE = 8
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class Spool:
    """Keeps rows as they pass through `keep`; iterating gives them again, as often as wanted."""

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115 - closed as this is
        self.kinds: dict[str, set[str]] = {}
        """Of every column, what was seen in it: bool, int, float, str or json. None is in any."""
        self.rows = 0

    def keep(self, rows: Iterable[Mapping[str, Json]]) -> Spool:
        for row in rows:
            for name, value in row.items():
                seen = self.kinds.setdefault(name, set())
                if value is not None:
                    seen.add(kind_of(value))
            data = _encode(row)
            self._file.write(len(data).to_bytes(_SIZE, "little") + data)
            self.rows += 1
        return self

    def __iter__(self) -> Iterator[dict[str, Json]]:
        return (row for group in self.groups(1, 1) for row in group)

    def groups(self, most: int, most_bytes: int) -> Iterator[list[dict[str, Json]]]:
        """The rows, so many at a time, or fewer if they are long."""
        self._file.seek(0)
        group, held = [], 0
        for _ in range(self.rows):
            size = int.from_bytes(self._file.read(_SIZE), "little")
            group.append(_decode(self._file.read(size)))
            held += size
            if len(group) >= most or held >= most_bytes:
                yield group
                group, held = [], 0
        if group:
            yield group

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def kind_of(value: Json) -> str:
    """What a value other than None is to a table: bool, int, float, str, or json for everything else."""
    if isinstance(value, int) and not isinstance(value, bool):
        return "int" if -WHOLE <= value < WHOLE else "json"
    name = type(value).__name__
    return name if name in ("bool", "float", "str") else "str" if isinstance(value, str) else "json"
