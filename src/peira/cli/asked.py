"""What the commands that compare and rank have in common: options, and how they show what they found."""

from __future__ import annotations

from typing import Annotated, Protocol

import msgspec
import typer

from peira.analysis.ranking import varying
from peira.analysis.results import Results
from peira.api.look import Opened
from peira.cli.output import Output
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
Level = Annotated[float, typer.Option("--level", metavar="P", help="Confidence of intervals (0.95).")]


Reduce = Annotated[
    str,
    typer.Option(
        "--reduce",
        metavar="NAME",
        help="Make the repeats of a case one: majority, best, pass@k, pass^k, at_least_k, consistency.",
    ),
]


class Shown(Protocol):
    """What was found: for people as text, for programs as JSON."""

    def to_json(self) -> str: ...


def results_of(opened: Opened, run: str, reduce: str = "") -> Results:
    """The results of a run, its repeats reduced if that is asked for."""
    results = opened.results(run)
    return results.reduced(reduce) if reduce else results


def show(found: Shown, as_json: bool) -> None:
    out = Output(as_json)
    out.document(msgspec.Raw(found.to_json().encode()))
    out.text(str(found))


def only_factor(results: Results) -> str:
    """The factor to compare by, if there is but one that varies."""
    names = varying(results.trials)
    if len(names) != 1:
        raise Invalid(f"--by: name what to compare: {', '.join(names) or 'nothing varies in this run'}")
    return names[0]
