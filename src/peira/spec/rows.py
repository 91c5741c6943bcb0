"""The rows of data files, one by one: JSONL and CSV are read as they stream, documents as a whole.

What is wrong with a file is gathered, by place, so that everything can be told at once.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.spec.files import read_document

SHOWN = 50
KEPT = 1000
BOM = b"\xef\xbb\xbf"
_decode = msgspec.json.Decoder().decode


class Row(NamedTuple):
    """One record: the name of its file, its line or number there, and what it says."""

    file: str
    number: int
    value: Json


class Problems:
    """What is wrong, by file and line. Holds a bounded number of them, and counts the rest."""

    def __init__(self) -> None:
        self._found: list[tuple[int, int, str]] = []
        self._files: dict[str, int] = {}
        self.count = 0

    def add(self, file: str, number: int, problem: str) -> None:
        self.count += 1
        if self.count <= KEPT:
            nth = self._files.setdefault(file, len(self._files))
            self._found.append((nth, number, f"{file}:{number}: {problem}"))

    def lines(self) -> list[str]:
        """The first of them in the order of the files, and how many more there are."""
        shown = [text for _, _, text in sorted(self._found, key=lambda found: found[:2])[:SHOWN]]
        more = self.count - len(shown)
        return [*shown, f"... and {more} more like these"] if more else shown

    def refuse(self) -> None:
        """Invalid, with all of them, if there are any."""
        if self.count:
            raise Invalid(self.lines())


def read_rows(path: Path, problems: Problems, needs: Collection[str] = ()) -> Iterator[Row]:
    """The rows of a file; a line that cannot be read is a problem, and is left out.

    `needs` are columns that a table must have.
    """
    read = READERS.get("".join(path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:]).lower())
    if read is None:
        raise Invalid(f"{path.name} is no case file; use one of {', '.join(READERS)}")
    try:
        yield from read(path, problems, needs)
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not UTF-8 (at byte {_bad_byte(path)})") from None


def _bad_byte(path: Path) -> int:
    before = 0
    with path.open("rb") as file:
        for line in file:
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return before + error.start
            before += len(line)
    return before


def _jsonl(path: Path, problems: Problems, needs: Collection[str]) -> Iterator[Row]:
    name = path.name
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if number == 1:
                line = line.removeprefix(BOM)
            if not line.isspace() and line:
                try:
                    yield Row(name, number, _decode(line))
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    problems.add(name, number, str(error))


def _csv(path: Path, problems: Problems, needs: Collection[str]) -> Iterator[Row]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        lines = _lines(csv.reader(file, strict=True), path.name)
        _, header = next(lines, (1, list[str]()))
        for column in dict.fromkeys(name for name in header if header.count(name) > 1):
            problems.add(path.name, 1, f"the column {column!r} is there twice")
        for column in sorted(set(needs) - set(header)):
            hint = nearest(column, header) if header else ""
            problems.add(path.name, 1, f"there is no column {column!r}{hint}")
        problems.refuse()
        for number, cells in lines:
            if cells and len(cells) != len(header):
                problems.add(path.name, number, f"{len(cells)} cells under {len(header)} columns")
            elif cells:
                yield Row(path.name, number, dict(zip(header, cells, strict=True)))


def _lines(reader: Any, name: str) -> Iterator[tuple[int, list[str]]]:
    while True:
        number = reader.line_num + 1
        try:
            yield number, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise Invalid(f"{name}:{number}: {error}") from None


def _document(path: Path, problems: Problems, needs: Collection[str]) -> Iterator[Row]:
    found = read_document(path)
    if isinstance(found, dict) and set(found) == {"cases"}:
        found = found["cases"]
    if not isinstance(found, list):
        raise Invalid(f"{path.name} must hold a list of cases (or only the key `cases`, with that list)")
    for number, value in enumerate(found, 1):
        yield Row(path.name, number, value)


READERS: dict[str, Callable[[Path, Problems, Collection[str]], Iterator[Row]]] = {
    ".jsonl": _jsonl,
    ".jsonl.gz": _jsonl,
    ".json": _document,
    ".csv": _csv,
    ".yaml": _document,
    ".yml": _document,
    ".toml": _document,
}
