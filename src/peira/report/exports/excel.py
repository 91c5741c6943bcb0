"""CSV as spreadsheets open it: nothing in a cell is taken for a formula, every letter arrives, nothing is cut
off in silence.

Spreadsheets calculate what begins with =, +, -, @, a tab or a line break, also when a model wrote it. Such
texts get an apostrophe in front; numbers stay numbers.
"""

from __future__ import annotations

import codecs
import re
from pathlib import Path

from peira.analysis.export import FIXED, columns, flat, line, text
from peira.analysis.exporting import Makes
from peira.analysis.results import Results
from peira.analysis.spool import Spool
from peira.core.ids import Json
from peira.core.registry import Registry
from peira.errors import Invalid
from peira.report.exports.tidy import begins

LONGEST, MOST_ROWS, MOST_COLUMNS = 32_767, 1_048_576, 16_384
"""What a cell and a sheet hold."""
FORMULA = re.compile(
    r"\s*[=+\-@\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH HYPHEN-MINUS}"
    r"\N{FULLWIDTH COMMERCIAL AT}]|[\t\r\n]"
)
UNPRINTABLE = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f]")
BOM = codecs.BOM_UTF8.decode()


class Excel:
    makes: Makes = "file"
    suffixes: tuple[str, ...] = (".excel.csv",)

    def write(self, results: Results, path: Path) -> None:
        with Spool() as spool, path.open("w", newline="", encoding="utf-8") as file:
            run = results.run_id
            names = columns(spool.keep(flat(trial, run) for trial in results.stream()).kinds)
            _check(spool.rows + 1, len(names))
            file.write(BOM + line([cell(name) for name in names]))
            file.writelines(line([cell(row.get(name)) for name in names]) for row in spool)

    def owns(self, path: Path) -> bool:
        return begins(path, BOM + line(FIXED).rstrip())


def _check(rows: int, wide: int) -> None:
    if rows > MOST_ROWS or wide > MOST_COLUMNS:
        raise Invalid(
            f"a sheet holds {MOST_ROWS:,} rows and {MOST_COLUMNS:,} columns, and these results are "
            f"{rows:,} rows and {wide:,} columns; export them as csv or parquet"
        )


def cell(value: Json) -> str | None:
    """A value as a spreadsheet may show it."""
    said = text(value)
    if said is None or isinstance(value, (bool, int, float)):
        return said
    said = UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", said.replace("\r\n", "\n").replace("\r", "\n"))
    return _short(f"'{said}" if FORMULA.match(said) else said)


def _short(said: str) -> str:
    """As much as a cell holds, counted as spreadsheets do (in UTF-16), and a note of how much is missing."""
    if len(said) * 2 <= LONGEST:
        return said
    data = said.encode("utf-16-le")
    if len(data) <= 2 * LONGEST:
        return said
    note = f" [cut off here: {len(said):,} characters in all]"
    kept = data[: 2 * (LONGEST - len(note))].decode("utf-16-le", errors="ignore")
    return kept + note


def register(registry: Registry) -> None:
    registry.add("export", "excel", Excel)
