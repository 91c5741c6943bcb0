"""CSV for spreadsheets: no cell becomes a formula, and nothing is lost silently.

Spreadsheets evaluate texts that begin with =, +, -, @, a tab or a line break, even in model output (CSV
injection). Such texts are prefixed with an apostrophe; numbers stay numbers. A byte order mark makes
spreadsheets read UTF-8.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from peira.analysis.export_formats import Makes
from peira.analysis.results import Results
from peira.core.ids import Json
from peira.core.registry import Registry
from peira.errors import Invalid
from peira.report.exports.csv_files import begins
from peira.results.rows import OLDEST, Spool, columns, flat, line, text

LONGEST, MOST_ROWS, MOST_COLUMNS = 32_767, 1_048_576, 16_384
"""The limits of a spreadsheet: characters per cell, rows and columns per sheet."""
FORMULA = re.compile(
    r"\s*[=+\-@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH HYPHEN-MINUS}"
    r"\N{FULLWIDTH COMMERCIAL AT}]|[\t\r\n]"
)
"""Texts that a spreadsheet would evaluate."""
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
BOM = codecs.BOM_UTF8.decode()


class Excel:
    """CSV for spreadsheets; raises Invalid if the results exceed the size of a sheet."""

    makes: Makes = "file"
    suffixes: tuple[str, ...] = (".excel.csv",)

    def write(self, results: Results, path: Path) -> None:
        """Write the results, streaming the trials through a temporary file."""
        with Spool() as spool, path.open("w", newline="", encoding="utf-8") as file:
            run = results.run_id
            names = columns(spool.keep(flat(trial, run) for trial in results.stream()).kinds)
            _check(spool.rows + 1, len(names))
            file.write(BOM + line([cell(name) for name in names]))
            file.writelines(line([cell(row.get(name)) for name in names]) for row in spool)

    def owns(self, path: Path) -> bool:
        """Whether the file begins with a byte order mark and the fixed columns."""
        return begins(path, BOM + line(OLDEST).rstrip())


def _check(rows: int, wide: int) -> None:
    """Raise Invalid if the table exceeds the size of a sheet."""
    if rows > MOST_ROWS or wide > MOST_COLUMNS:
        raise Invalid(
            f"a sheet holds {MOST_ROWS:,} rows and {MOST_COLUMNS:,} columns, and these results are "
            f"{rows:,} rows and {wide:,} columns; export them as csv or parquet"
        )


def cell(value: Json) -> str | None:
    """A value as the safe text of a spreadsheet cell."""
    shown = text(value)
    if shown is None or isinstance(value, (bool, int, float)):
        return shown
    shown = UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", shown.replace("\r\n", "\n").replace("\r", "\n"))
    return _short(f"'{shown}" if FORMULA.match(shown) else shown)


def _short(whole: str) -> str:
    """The text cut to the length of a cell (in UTF-16 units) with a note of its full length."""
    if len(whole) * 2 <= LONGEST:
        return whole
    data = whole.encode("utf-16-le")
    if len(data) <= 2 * LONGEST:
        return whole
    note = f" [cut off here: {len(whole):,} characters in all]"
    kept = data[: 2 * (LONGEST - len(note))].decode("utf-16-le", errors="ignore")
    return kept + note


def register(registry: Registry) -> None:
    """Register the format."""
    registry.add("export", "excel", Excel)
