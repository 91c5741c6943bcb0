"""Options shared by the commands that compare and rank, and how these show their findings."""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec
import typer

from peira.analysis.ranking.leaderboard import varying
from peira.analysis.results import Results
from peira.app.store.view import Opened
from peira.cli.options import share
from peira.cli.output import CommandOutput, terminal_width
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
    """A finding: text by `text`, within a width if one is given, JSON by `to_json`."""

    def text(self, width: int | None = None) -> str: ...

    def to_json(self) -> str: ...


def results_of(opened: Opened, run: str, reduce: str = "", latest: bool = False) -> Results:
    """The results of a run (by default the newest), with repeats reduced if `reduce` is given."""
    results = opened.results(run, latest)
    return results.reduced(reduce) if reduce else results


def show(found: Presentable, as_json: bool) -> None:
    """Write a finding to standard output, as text or as JSON."""
    out = CommandOutput(as_json)
    out.document(msgspec.Raw(found.to_json().encode()))
    out.text(found.text(terminal_width()))


def only_factor(results: Results) -> str:
    """The one factor that varies; Invalid if there are none or several."""
    names = varying(results.trials)
    if len(names) != 1:
        raise Invalid(f"--by: name what to compare: {', '.join(names) or 'nothing varies in this run'}")
    return names[0]
