"""Output of commands: results on standard output, notes on standard error.

With --json, standard output gets one document and nothing else: what the user's code, or a process that it
starts, prints there is redirected to standard error.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, TextIO

import peira.analysis as analysis
from peira.core.text.secrets import without_keys
from peira.core.text.terminal import printable, printable_json
from peira.core.text.words import wrapped

if TYPE_CHECKING:
    from peira.analysis.table.value import Table
    from peira.core.ids import Json

_documents: list[TextIO] = []
SHORT, NARROW = 20, 10
"""The widest cells that are not folded, and the least width of a column of others."""


class CommandOutput:
    """Writes the result of a command, as text or as a JSON document."""

    def __init__(self, as_json: bool = False) -> None:
        self.json = as_json
        self._document: TextIO | None = _take_standard_output() if as_json else None

    def text(self, text: str) -> None:
        """Print a result as text; nothing with --json."""
        if not self.json:
            print(printable(without_keys(text)), flush=True)

    def document(self, value: object) -> None:
        """Print the result as a JSON document; only with --json."""
        if self._document:
            self._document.write(printable_json(without_keys(encoded(value))) + "\n")
            self._document.flush()

    def raw(self, text: str) -> None:
        """Print a piece of a document that is written incrementally."""
        if self._document:
            self._document.write(printable_json(without_keys(text)))
            self._document.flush()


def _take_standard_output() -> TextIO:
    """A stream to standard output; whatever others print there goes to standard error from now on."""
    sys.stdout.flush()
    ours = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    sys.stdout = sys.stderr
    _documents.append(ours)
    return ours


@contextmanager
def standard_output_kept() -> Iterator[None]:
    """Restore standard output at the end, for a caller that goes on in this process."""
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
    """Print a note on standard error."""
    sys.stdout.flush()
    print(printable(without_keys(text)), file=sys.stderr, flush=True)


def encoded(value: object, indent: int = 2) -> str:
    """A value as JSON text."""
    import msgspec  # slow, and help encodes nothing

    plain = msgspec.json.encode(value, enc_hook=_plain)
    return (msgspec.json.format(plain, indent=indent) if indent else plain).decode()


def _plain(value: object) -> object:
    if isinstance(value, (Mapping, MappingProxyType)):
        return dict(value)
    raise NotImplementedError(f"{type(value).__name__} in a document")


def grid(
    header: Sequence[str], rows: Iterable[Sequence[Json]], width: int | None = None, whole: bool = False
) -> str:
    """A table as text. Long cells are folded to fit a terminal (or `width`), and are whole elsewhere.

    Very long ones are cut, unless they are to be `whole`.
    """
    widest = 0 if whole else analysis.grid.WIDEST
    cells = [[analysis.grid.cell(value, widest) for value in row] for row in rows]
    text = analysis.grid.plain(header, cells)
    columns = width or terminal_width()
    if columns is None or max(map(len, text.splitlines())) <= columns:
        return text
    return _folded(header, cells, columns)


def fitted(line: str) -> str:
    """The line, cut to the width of a terminal; whole elsewhere."""
    columns = terminal_width()
    return line if columns is None or len(line) <= columns else f"{line[: columns - 1]}…"


def terminal_width() -> int | None:
    """The width of the terminal; None if standard output is not one."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _folded(header: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> str:
    """A table in which long cells are folded to the width."""
    from rich.console import Console
    from rich.table import Table as Folding
    from rich.text import Text

    table = Folding(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
    for name, columns in zip(header, _widths(header, cells, width), strict=True):
        table.add_column(Text(name), overflow="fold", width=columns)
    for row in cells:
        table.add_row(*map(Text, row))
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as captured:
        console.print(table)
    return "\n".join(line.rstrip() for line in captured.get().splitlines())


def _widths(header: Sequence[str], cells: Sequence[Sequence[str]], width: int) -> list[int | None]:
    """The widths of columns, such that numbers and other short cells are not folded, and long ones are.

    None for all of them, which leaves it to the library, if even that does not fit.
    """
    bodies = [max(map(len, column), default=0) for column in zip(*cells, strict=True)] or [0] * len(header)
    words = [max(map(len, name.split()), default=0) for name in header]
    natural = [max(len(name), body) for name, body in zip(header, bodies, strict=True)]
    found = [max(word, body if body <= SHORT else NARROW) for word, body in zip(words, bodies, strict=True)]
    left = width - sum(found) - 2 * (len(header) - 1)
    if left < 0:
        return [None] * len(header)
    while left > 0 and found != natural:
        at = min((n for n in range(len(found)) if found[n] < natural[n]), key=lambda n: found[n])
        found[at], left = found[at] + 1, left - 1
    return [*found]


def _filled(lines: Iterable[str], width: int | None) -> Iterator[str]:
    """The lines, broken between words to fit a terminal (or `width`); whole elsewhere."""
    columns = width or terminal_width()
    for line in lines:
        yield line if columns is None else wrapped(line, columns)


def means(table: Table, width: int | None = None) -> str:
    """A table of means with their intervals, and its notes."""
    if not table.body:
        return str(table)
    return "\n".join([grid(*table.grid(), width), *_filled(table.notes, width)])


def program() -> str:
    """How peira is called here: by its name, or by the path of the program if that is not found by it."""
    called = Path(sys.argv[0]) if sys.argv else Path()
    if called.stem != "peira" or not called.is_file():
        return "peira"
    found = shutil.which("peira")
    if found is not None and Path(found).resolve() == called.resolve():
        return "peira"
    return os.path.relpath(called) if called.resolve().is_relative_to(Path().resolve()) else str(called)


def moment(at: float) -> str:
    """A time stamp in local time."""
    return datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S") if at else "-"
