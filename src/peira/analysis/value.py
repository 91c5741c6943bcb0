"""The base class of analysis results: shown as text, Markdown, HTML and JSON from one definition.

A result value is a frozen dataclass that derives from `ResultValue` and defines its parts: grids of text, a
sentence, remarks. All four forms are derived from these parts, so that they always show the same.
"""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from operator import methodcaller
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec

from peira.core.files import write_whole
from peira.core.text import grid as layout
from peira.core.text import latex
from peira.core.text.secrets import without_keys
from peira.core.text.terminal import printable
from peira.core.text.words import wrapped
from peira.errors import Invalid


class TextGrid(NamedTuple):
    """Rows of text cells under a header."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class ResultValue:
    """Derives `str()`, `markdown()`, notebook HTML and `to_json()` from a value's parts.

    A subclass overrides what it has: `title` (a line above), `grids`, `nothing` (shown if there are no
    grids), `sentence` (the conclusion, one line each), `remarks` (what must be known beside it; by default
    the field `notes`), and `document` if its JSON is more than its fields.
    """

    nothing: ClassVar[str] = ""
    """The text shown if there are no grids."""
    keys: ClassVar[int] = 1
    """The number of leading columns that say what a row of a table is about."""

    @property
    def title(self) -> str:
        """The line above the tables; empty for none."""
        return ""

    def grids(self) -> Sequence[TextGrid]:
        """The tables."""
        return ()

    @property
    def sentence(self) -> str | None:
        """The conclusion, one line per statement; None for none."""
        return None

    @property
    def remarks(self) -> Sequence[str]:
        """What must be known beside the conclusion."""
        notes: Sequence[str] = getattr(self, "notes", ())
        return notes

    def document(self) -> dict[str, Any]:
        """What `to_json` writes: the fields, and the sentence if there is one."""
        fields = asdict(self)  # type: ignore[call-overload]
        return fields if self.sentence is None else {**fields, "sentence": self.sentence}

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int | None = None) -> str:
        """The value as plain text, with its tables within this width, if one is given."""
        tables = [
            layout.plain(*grid) if width is None else layout.fitted(*grid, width, self.keys)
            for grid in self.grids()
        ]
        lines = [self.title] if self.title else []
        lines += ["\n\n".join(tables)] if tables else [self.nothing] if self.nothing else []
        said = [] if self.sentence is None else self.sentence.split("\n")
        lines += [""] if said and tables else []
        below = (*said, *self.remarks)
        lines += below if width is None else [wrapped(line, width) for line in below]
        return printable(without_keys("\n".join(lines)))

    def markdown(self) -> str:
        """The tables as Markdown, and one paragraph per line of text.

        Title first, then the tables (or `nothing`), sentence and remarks.
        """
        tables = [layout.markdown(*grid) for grid in self.grids()]
        above, below = self._lines(bool(tables))
        return without_keys("\n\n".join([*map(layout.prose, above), *tables, *map(layout.prose, below)]))

    def _repr_html_(self) -> str:
        """The value as HTML, for notebooks."""
        tables = [layout.html_table(*grid) for grid in self.grids()]
        above, below = self._lines(bool(tables))
        return without_keys("".join([*map(layout.html_line, above), *tables, *map(layout.html_line, below)]))

    def to_json(self) -> str:
        """The value as one JSON document."""
        return without_keys(msgspec.json.encode(self.document()).decode())

    def latex(self) -> str:
        """The tables in LaTeX (with booktabs), and one paragraph per line of text."""
        tables = [latex.tabular(*_printable(grid)) for grid in self.grids()]
        above, below = self._lines(bool(tables))
        lines = [[latex.escaped(printable(line)) for line in part] for part in (above, below)]
        return without_keys("\n\n".join([*lines[0], *tables, *lines[1]]))

    def csv(self) -> str:
        """The tables as CSV, an empty line between two; without the text around them."""
        made = io.StringIO()
        for number, grid in enumerate(self.grids()):
            made.write("\r\n" if number else "")
            csv.writer(made).writerows([grid.header, *grid.rows])
        return without_keys(made.getvalue())

    def save(self, path: str | PathLike[str], force: bool = False) -> Path:
        """Write the value to a file, in the form that its ending says: one of `ENDINGS`.

        Raises Invalid for any other ending, and if there is a file already and `force` is not given.
        """
        file = Path(path)
        form = ENDINGS.get(file.suffix.lower())
        if form is None:
            raise Invalid(f"{file.name!r} must end in one of {', '.join(ENDINGS)}")
        if not force and os.path.lexists(file):
            raise Invalid(f"{file} is there already; overwrite it with --force, or force=True")
        write_whole(file, form(self).rstrip("\n").encode() + b"\n")
        return file

    def _lines(self, tabled: bool) -> tuple[list[str], list[str]]:
        """The non-empty lines above and below the tables."""
        return list(filter(None, [self.title])), list(filter(None, self._below(tabled)))

    def _below(self, tabled: bool) -> Iterator[str]:
        """The lines below the tables."""
        if not tabled:
            yield self.nothing
        yield from (self.sentence or "").split("\n")
        yield from self.remarks


def _printable(grid: TextGrid) -> TextGrid:
    """A table without control characters."""
    rows = [[printable(cell) for cell in row] for row in grid.rows]
    return TextGrid([printable(cell) for cell in grid.header], rows)


def _page(value: ResultValue) -> str:
    """The value as an HTML page."""
    style = "body{font-family:sans-serif}td,th{text-align:left;padding:.2em .8em}"
    head = f'<meta charset="utf-8"><title>peira</title><style>{style}</style>'
    return f"<!doctype html><html><head>{head}</head><body>{value._repr_html_()}</body></html>"


ENDINGS: dict[str, Callable[[ResultValue], str]] = {
    ".txt": str,
    ".md": methodcaller("markdown"),
    ".html": _page,
    ".tex": methodcaller("latex"),
    ".csv": methodcaller("csv"),
    ".json": methodcaller("to_json"),
}
"""What `save` writes for each ending of a file's name."""
