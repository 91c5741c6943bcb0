"""Where commands write: results on standard output, words about them on standard error.

With --json standard output carries one document and nothing else: whatever the user's code, or a process
it starts, prints there goes to standard error.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, TextIO

import peira.analysis as rooms
from peira.core.text.terminal import printable, printable_json
from peira.models.secrets import without_keys

if TYPE_CHECKING:
    from peira.analysis.table.value import Table
    from peira.core.ids import Json

_documents: list[TextIO] = []


class CommandOutput:
    def __init__(self, as_json: bool = False) -> None:
        self.json = as_json
        self._document: TextIO | None = _given_away() if as_json else None

    def text(self, text: str) -> None:
        """A result, for people; not with --json."""
        if not self.json:
            print(printable(without_keys(text)), flush=True)

    def document(self, value: object) -> None:
        """The result, for programs; only with --json."""
        if self._document:
            self._document.write(printable_json(without_keys(encoded(value))) + "\n")
            self._document.flush()

    def raw(self, text: str) -> None:
        """A piece of a document that is written as it comes about."""
        if self._document:
            self._document.write(printable_json(without_keys(text)))
            self._document.flush()


def _given_away() -> TextIO:
    """Standard output for us alone; everybody else's now leads to standard error."""
    sys.stdout.flush()
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    _documents.append(ours)
    return ours


@contextmanager
def standard_output_kept() -> Iterator[None]:
    """Put standard output back at the end, for a caller that lives on."""
    stream, descriptor = sys.stdout, os.dup(1)
    try:
        yield
    finally:
        while _documents:
            _documents.pop().close()
        sys.stdout = stream
        os.dup2(descriptor, 1)
        os.close(descriptor)


def note(text: str) -> None:
    """Words beside the result."""
    sys.stdout.flush()
    print(printable(without_keys(text)), file=sys.stderr, flush=True)


def encoded(value: object, indent: int = 2) -> str:
    import msgspec  # slow, and help encodes nothing

    plain = msgspec.json.encode(value, enc_hook=_plain)
    return (msgspec.json.format(plain, indent=indent) if indent else plain).decode()


def _plain(value: object) -> object:
    if isinstance(value, (Mapping, MappingProxyType)):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} in a document")


def grid(header: Sequence[str], rows: Iterable[Sequence[Json]], width: int | None = None) -> str:
    """Columns. In a terminal (or with a `width`) long cells are folded to fit; elsewhere they are whole."""
    cells = [[rooms.grid.cell(value) for value in row] for row in rows]
    text = rooms.grid.plain(header, cells)
    room = width or _room()
    if room is None or max(map(len, text.splitlines())) <= room:
        return text
    return _folded(header, cells, room)


def fitted(line: str) -> str:
    """A line that a terminal does not break; elsewhere it is whole."""
    room = _room()
    return line if room is None or len(line) <= room else f"{line[: room - 1]}…"


def _room() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _folded(header: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> str:
    from rich.console import Console
    from rich.table import Table as Folding
    from rich.text import Text

    table = Folding(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for name in header:
        table.add_column(Text(name), overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def means(table: Table, width: int | None = None) -> str:
    """A table of means, each with its interval, and all that must be said beside it."""
    if not table.body:
        return str(table)
    return "\n".join([grid(*table.grid(), width), *table.notes])


def moment(at: float) -> str:
    """A time as people read it, here."""
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S") if at else "-"
