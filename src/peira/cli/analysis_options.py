"""Options shared by the commands that compare and rank, and how these show their findings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, NamedTuple, Protocol

import msgspec
import typer

from peira.analysis.results import Results
from peira.analysis.table.groups import varying
from peira.app.store.view import Opened
from peira.cli.options import Json, share
from peira.cli.output import CommandOutput, note, terminal_width
from peira.errors import Invalid

Score = Annotated[
    str | None,
    typer.Option("--score", metavar="NAME", help="Which score, or cost, took, or a metric agents report."),
]
Factor = Annotated[
    str | None, typer.Option("--by", metavar="FACTOR", help="Compare the levels of this factor, or agent.")
]
First = Annotated[str | None, typer.Option("--first", metavar="LEVEL", help="This level ...")]
Second = Annotated[str | None, typer.Option("--second", metavar="LEVEL", help="... with this one.")]
Lowest = Annotated[bool, typer.Option("--lowest", help="Less is better.")]
Level = Annotated[
    float,
    typer.Option("--level", metavar="P", callback=share, help="Confidence of intervals (0.95)."),
]


Reduce = Annotated[
    str,
    typer.Option(
        "--reduce",
        metavar="NAME",
        help="Make the repeats of a case one: majority, best, pass@k, pass^k, at_least_k, consistency.",
    ),
]


class Presentable(Protocol):
    """A finding: text by `text`, within a width if one is given, JSON by `to_json`, a file by `save`."""

    def text(self, width: int | None = None) -> str: ...

    def to_json(self) -> str: ...

    def save(self, path: str, force: bool = False) -> Path: ...


class Presentation(NamedTuple):
    """Where findings go, and in which form."""

    output: Annotated[
        str | None,
        typer.Option("-o", "--output", metavar="FILE", help="Write it: .md, .html, .tex, .csv, .json, .txt."),
    ] = None
    force: Annotated[bool, typer.Option("--force", help="With -o: overwrite a file that is there.")] = False
    as_json: Json = False


TERMINAL = Presentation()
"""Text, on the terminal."""


def results_of(opened: Opened, run: str, reduce: str = "", latest: bool = False) -> Results:
    """The results of a run (by default the newest), with repeats reduced if `reduce` is given."""
    results = opened.results(run, latest)
    return results.reduced(reduce) if reduce else results


def show(found: Presentable, presentation: Presentation) -> None:
    """Write a finding to standard output, as text or as JSON, and to a file if one is named."""
    out = CommandOutput(presentation.as_json)
    if presentation.output is not None:
        note(f"written to {found.save(presentation.output, presentation.force)}")
    out.document(msgspec.Raw(found.to_json().encode()))
    out.text(found.text(terminal_width()))


def only_factor(results: Results) -> str:
    """The one factor that varies; Invalid if there are none or several."""
    names = varying(results.trials)
    if len(names) != 1:
        raise Invalid(f"--by: name what to compare: {', '.join(names) or 'nothing varies in this run'}")
    return names[0]
