"""The base class of analysis results: shown as text, Markdown, HTML and JSON from one definition.

A result value is a frozen dataclass that derives from `ResultValue` and defines its parts: grids of text, a
sentence, remarks. All four forms are derived from these parts, so that they always show the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, ClassVar, NamedTuple

import msgspec

from peira.core.text import grid as layout
from peira.core.text.terminal import printable
from peira.models.secrets import without_keys


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
        if self.sentence is not None:
            lines += ["", self.sentence] if tables else [self.sentence]
        return printable(without_keys("\n".join([*lines, *self.remarks])))

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

    def _lines(self, tabled: bool) -> tuple[list[str], list[str]]:
        """The non-empty lines above and below the tables."""
        return list(filter(None, [self.title])), list(filter(None, self._below(tabled)))

    def _below(self, tabled: bool) -> Iterator[str]:
        """The lines below the tables."""
        if not tabled:
            yield self.nothing
        yield from (self.sentence or "").split("\n")
        yield from self.remarks
