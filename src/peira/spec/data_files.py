"""Rows and cases from data files: JSONL and CSV are streamed, documents are read as a whole.

Problems are collected with the name of the file and the line, and raised together.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from peira.core.files import check_source
from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.spec.case import Case, as_case, gathered
from peira.spec.documents import read_document

SHOWN = 50
KEPT = 1000
LONGEST = 64 << 20
"""Bytes of a line; a small compressed file may hold one that fills the memory."""
BOM = b"\xef\xbb\xbf"
_decode = msgspec.json.Decoder().decode


class DataRow(NamedTuple):
    """One record: the name of its file, its line or number there, and its value."""

    file: str
    number: int
    value: Json


class Problems:
    """Problems of data files, by file and line; keeps a bounded number of them, and counts the rest."""

    def __init__(self) -> None:
        self._found: list[tuple[int, int, str]] = []
        self._files: dict[str, int] = {}
        self.count = 0

    def add(self, file: str, number: int, problem: str) -> None:
        """Add a problem at a line of a file."""
        self.count += 1
        if self.count <= KEPT:
            nth = self._files.setdefault(file, len(self._files))
            self._found.append((nth, number, f"{file}:{number}: {problem}"))

    def lines(self) -> list[str]:
        """The first problems in the order of files and lines, and how many more there are."""
        shown = [text for _, _, text in sorted(self._found, key=lambda found: found[:2])[:SHOWN]]
        more = self.count - len(shown)
        return [*shown, f"... and {more} more like these"] if more else shown

    def refuse(self) -> None:
        """Raise Invalid with all of them, if there are any."""
        if self.count:
            raise Invalid(self.lines())


def read_rows(path: Path, problems: Problems, needs: Collection[str] = ()) -> Iterator[DataRow]:
    """The rows of a file; a line that cannot be parsed is added to the problems and skipped.

    `needs` are columns that a table must have. Raises Invalid if the file cannot be read, is not UTF-8, or is
    of an unknown format.
    """
    read = READERS.get("".join(path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:]).lower())
    if read is None:
        raise Invalid(f"{path.name} is no case file; use one of {', '.join(READERS)}")
    check_source(path)
    try:
        yield from read(path, problems, needs)
    except (OSError, EOFError, zlib.error) as error:
        raise Invalid(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    except UnicodeDecodeError:
        raise Invalid(f"{path} is not UTF-8 (at byte {_bad_byte(path)})") from None


def _bad_byte(path: Path) -> int:
    """The position of the first byte that is not UTF-8."""
    before = 0
    with path.open("rb") as file:
        for line in file:
            try:
                line.decode()
            except UnicodeDecodeError as error:
                return before + error.start
            before += len(line)
    return before


def _jsonl(path: Path, problems: Problems, needs: Collection[str]) -> Iterator[DataRow]:
    """Rows of a JSONL file, possibly compressed with gzip."""
    name = path.name
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        for number, line in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), 1):
            if len(line) > LONGEST:
                raise Invalid(f"{name}:{number}: is longer than {LONGEST >> 20} MiB")
            if number == 1:
                line = line.removeprefix(BOM)
            if not line.isspace() and line:
                try:
                    yield DataRow(name, number, _decode(line))
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                    problems.add(name, number, str(error))


def _csv(path: Path, problems: Problems, needs: Collection[str]) -> Iterator[DataRow]:
    """Rows of a CSV file as tables of text; Invalid if its columns are wrong."""
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
                yield DataRow(path.name, number, dict(zip(header, cells, strict=True)))


def _lines(reader: Any, name: str) -> Iterator[tuple[int, list[str]]]:
    """The records of a CSV file with the lines they start on."""
    while True:
        number = reader.line_num + 1
        try:
            yield number, next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            raise Invalid(f"{name}:{number}: {error}") from None


def _document(path: Path, problems: Problems, needs: Collection[str]) -> Iterator[DataRow]:
    """The items of a list in a JSON, YAML or TOML file."""
    found = read_document(path)
    if isinstance(found, dict) and set(found) == {"cases"}:
        found = found["cases"]
    if not isinstance(found, list):
        raise Invalid(f"{path.name} must hold a list of cases (or only the key `cases`, with that list)")
    for number, value in enumerate(found, 1):
        yield DataRow(path.name, number, value)


READERS: dict[str, Callable[[Path, Problems, Collection[str]], Iterator[DataRow]]] = {
    ".jsonl": _jsonl,
    ".jsonl.gz": _jsonl,
    ".json": _document,
    ".csv": _csv,
    ".yaml": _document,
    ".yml": _document,
    ".toml": _document,
}


COLUMNS = ("input", "expected", "id", "cluster", "slice")


def read_cases(path: Path) -> Sequence[Case]:
    """The cases of a file; Invalid names the lines (or items) that are not cases."""
    problems = Problems()
    cases = gathered(cases_of(read_rows(path, problems, needs=("input",)), problems))
    problems.refuse()
    return cases


def cases_of(rows: Iterable[DataRow], problems: Problems) -> Iterator[Case]:
    """The cases that rows are without any mapping; rows that are not cases are added to the problems."""
    for row in rows:
        try:
            yield as_case(_plain(row))
        except Invalid as error:
            for problem in error.problems:
                problems.add(row.file, row.number, problem.lstrip(".: "))


def shortened(problems: list[str]) -> list[str]:
    """The first of the problems, and how many more there are."""
    more = len(problems) - SHOWN
    return problems if more <= 0 else [*problems[:SHOWN], f"... and {more} more like these"]


def _plain(row: DataRow) -> Json:
    """The value of a row as `as_case` takes it."""
    return _cells(row.value) if row.file.lower().endswith(".csv") else row.value


def _cells(cells: dict[str, str]) -> dict[str, Any]:
    """A CSV row as a case: unknown columns are metadata, and an empty known cell is left out.

    An empty `input` is kept.
    """
    known = {name: text for name, text in cells.items() if name in COLUMNS and (text or name == "input")}
    other = {name: text for name, text in cells.items() if name not in COLUMNS}
    return {**known, "metadata": other} if other else known
