"""Result values in each form: plain text, Markdown, HTML, JSON, LaTeX, CSV, and files of these."""

from __future__ import annotations

import csv as comma_separated
import io
import os
from collections.abc import Callable, Iterator, Mapping
from operator import methodcaller
from pathlib import Path
from typing import Any

import msgspec

from peira.core.files import write_whole
from peira.core.text import grid as layout
from peira.core.text import latex as tex
from peira.core.text.result_value import ResultValue, TextGrid
from peira.core.text.secrets import without_keys
from peira.core.text.terminal import printable
from peira.core.text.words import wrapped
from peira.errors import Invalid


def plain_tables(value: ResultValue, width: int | None) -> str:
    """The tables as plain text, within this width if one is given; else `nothing`."""
    tables = [
        layout.plain(*grid) if width is None else layout.fitted(*grid, width, value.keys)
        for grid in value.grids()
    ]
    return "\n\n".join(tables) or value.nothing


def text(value: ResultValue, width: int | None) -> str:
    """The value as plain text."""
    tables = value.plain_tables(width)
    lines = list(filter(None, [value.title, tables]))
    said = [] if value.sentence is None else value.sentence.split("\n")
    lines += [""] if said and tables not in ("", value.nothing) else []
    below = (*said, *value.remarks)
    lines += below if width is None else [wrapped(line, width) for line in below]
    return printable(without_keys("\n".join(lines)))


def markdown(value: ResultValue) -> str:
    """The tables as Markdown, and one paragraph per line of text."""
    tables = [layout.markdown(*grid) for grid in value.grids()]
    above, below = _lines(value, bool(tables))
    return without_keys("\n\n".join([*map(layout.prose, above), *tables, *map(layout.prose, below)]))


def html(value: ResultValue) -> str:
    """The value as HTML, without a page around it."""
    tables = [layout.html_table(*grid) for grid in value.grids()]
    above, below = _lines(value, bool(tables))
    return without_keys("".join([*map(layout.html_line, above), *tables, *map(layout.html_line, below)]))


def json(value: ResultValue) -> str:
    """The value as one JSON document."""
    return without_keys(msgspec.json.encode(value.document(), enc_hook=_plain).decode())


def _plain(value: object) -> object:
    """What msgspec cannot encode by itself, as what it can."""
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} in a document")


def latex(value: ResultValue) -> str:
    """The tables in LaTeX, and one paragraph per line of text."""
    tables = [tex.tabular(*_printable(grid)) for grid in value.grids()]
    above, below = _lines(value, bool(tables))
    lines = [[tex.escaped(printable(line)) for line in part] for part in (above, below)]
    return without_keys("\n\n".join([*lines[0], *tables, *lines[1]]))


def csv(value: ResultValue) -> str:
    """The tables as CSV."""
    made = io.StringIO()
    for number, grid in enumerate(value.grids()):
        made.write("\r\n" if number else "")
        comma_separated.writer(made).writerows([grid.header, *grid.rows])
    return without_keys(made.getvalue())


def save(value: ResultValue, file: Path, force: bool) -> Path:
    """Write the value to a file, in the form that its ending says."""
    form = ENDINGS.get(file.suffix.lower())
    if form is None:
        raise Invalid(f"{file.name!r} must end in one of {', '.join(ENDINGS)}")
    if not force and os.path.lexists(file):
        raise Invalid(f"{file} is there already; overwrite it with --force, or force=True")
    write_whole(file, form(value).rstrip("\n").encode() + b"\n")
    return file


def _lines(value: ResultValue, tabled: bool) -> tuple[list[str], list[str]]:
    """The non-empty lines above and below the tables."""
    return list(filter(None, value.title.split("\n"))), list(filter(None, _below(value, tabled)))


def _below(value: ResultValue, tabled: bool) -> Iterator[str]:
    """The lines below the tables."""
    if not tabled:
        yield value.nothing
    yield from (value.sentence or "").split("\n")
    yield from value.remarks


def _printable(grid: TextGrid) -> TextGrid:
    """A table without control characters."""
    rows = [[printable(cell) for cell in row] for row in grid.rows]
    return TextGrid([printable(cell) for cell in grid.header], rows)


def _page(value: ResultValue) -> str:
    """The value as an HTML page."""
    style = "body{font-family:sans-serif}td,th{text-align:left;padding:.2em .8em}"
    head = f'<meta charset="utf-8"><title>peira</title><style>{style}</style>'
    return f"<!doctype html><html><head>{head}</head><body>{value._repr_html_()}</body></html>"


ENDINGS: dict[str, Callable[[Any], str]] = {
    ".txt": str,
    ".md": methodcaller("markdown"),
    ".html": _page,
    ".tex": methodcaller("latex"),
    ".csv": methodcaller("csv"),
    ".json": methodcaller("to_json"),
}
"""What `save` writes for each ending of a file's name."""
