"""The base class of what is shown to people: as text, Markdown, HTML and JSON from one definition.

A result value derives from `ResultValue` and defines its parts: a title, tables of text, a sentence, remarks.
All forms are derived from these parts, so that they always show the same.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from os import PathLike
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import msgspec

import peira.core.text as package


class TextGrid(NamedTuple):
    """Rows of text cells under a header."""

    header: Sequence[str]
    rows: Sequence[Sequence[str]]


class ResultValue:
    """Derives `str()`, `markdown()`, notebook HTML and `to_json()` from a value's parts.

    A subclass overrides what it has: `title` (lines above), `grids`, `nothing` (shown if there are no
    grids), `sentence` (the conclusion, one line each), `remarks` (what must be known beside it; by default
    the field `notes`), and `document` if its JSON is more than the fields of its dataclass or struct.
    """

    nothing: ClassVar[str] = ""
    """The text shown if there are no grids."""
    keys: ClassVar[int] = 1
    """The number of leading columns that say what a row of a table is about."""

    @property
    def title(self) -> str:
        """The lines above the tables; empty for none."""
        return ""

    def grids(self) -> Sequence[TextGrid]:
        """The tables."""
        return ()

    def plain_tables(self, width: int | None = None) -> str:
        """The tables in plain text, or `nothing` if there are none; empty for no line at all.

        A subclass overrides it if a terminal shows lines where Markdown and notebooks have tables.
        """
        return package.rendering.plain_tables(self, width)

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
        if isinstance(self, msgspec.Struct):
            fields: dict[str, Any] = msgspec.to_builtins(self)
        else:
            fields = asdict(self)  # type: ignore[call-overload]
        return fields if self.sentence is None else {**fields, "sentence": self.sentence}

    def __str__(self) -> str:
        return self.text()

    def text(self, width: int | None = None) -> str:
        """The value as plain text, with its tables within this width, if one is given."""
        return package.rendering.text(self, width)

    def markdown(self) -> str:
        """The tables as Markdown, and one paragraph per line of text.

        Title first, then the tables (or `nothing`), sentence and remarks.
        """
        return package.rendering.markdown(self)

    def _repr_html_(self) -> str:
        """The value as HTML, for notebooks."""
        return package.rendering.html(self)

    def to_json(self) -> str:
        """The value as one JSON document."""
        return package.rendering.json(self)

    def latex(self) -> str:
        """The tables in LaTeX (with booktabs), and one paragraph per line of text."""
        return package.rendering.latex(self)

    def csv(self) -> str:
        """The tables as CSV, an empty line between two; without the text around them."""
        return package.rendering.csv(self)

    def save(self, path: str | PathLike[str], force: bool = False) -> Path:
        """Write the value to a file, in the form that its ending says: one of `rendering.ENDINGS`.

        Raises Invalid for any other ending, and if there is a file already and `force` is not given.
        """
        return package.rendering.save(self, Path(path), force)
