"""`peira gate`: pass or fail, for continuous integration."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from peira.analysis.results import Results
from peira.app.store.view import Opened, looking
from peira.cli.analysis_options import TERMINAL, Level, Presentation, show
from peira.cli.options import Latest, RunName, Store, Where, restricted
from peira.core.files import write_whole
from peira.errors import Invalid


def gate(
    run: RunName = "",
    least: Annotated[
        list[str] | None,
        typer.Option("--min", metavar="SCORE=X", help="The mean is at least X; repeatable."),
    ] = None,
    most: Annotated[
        list[str] | None,
        typer.Option("--max", metavar="SCORE=X", help="The mean is at most X; repeatable."),
    ] = None,
    no_worse_than: Annotated[
        list[str] | None,
        typer.Option(
            "--no-worse-than",
            metavar="RUN:SCORE:X",
            help="Not lower than there by X (cost, took: higher).",
        ),
    ] = None,
    where: Where = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Also write JUnit XML there.")
    ] = None,
    level: Level = 0.95,
    latest: Latest = False,
    store: Store = None,
    shown: Presentation = TERMINAL,
) -> None:
    """Exit with 1 unless the results meet these demands, with confidence.

    A mean that looks good on few cases does not pass: its bound must. Trials that failed count as the worst.

    \b
    Examples:
      peira gate --min match=0.8
      peira gate --min match=0.8 --where model=small --where "slice == 'hard'"
      peira gate 3f2a91 --no-worse-than 8d01c4:match:0.02 --junit gate.xml
    """
    with looking(store) as opened:
        if not (least or most or no_worse_than):
            raise Invalid("name at least one demand: --min, --max or --no-worse-than")
        if not 0.5 < level < 1:
            raise Invalid(f"--level: must lie between 0.5 and 1, not {level:g}")
        results = opened.results(run, latest)
        found = results.gate(
            min=_limits(least, "--min"),
            max=_limits(most, "--max"),
            no_worse_than=_no_worse(no_worse_than, opened),
            where=restricted(where),
            level=level,
        )
        if junit is not None:
            took = sum(trial.took or 0.0 for trial in results)
            write_whole(junit, found.junit(results.study, took).encode())
        show(found, shown)
        if not found.met:
            raise typer.Exit(1)


def _limits(given: Sequence[str] | None, option: str) -> dict[str, float]:
    """Limits by score, from SCORE=X."""
    found: dict[str, float] = {}
    for text in given or ():
        score, equals, limit = text.rpartition("=")
        if not equals or not score:
            raise Invalid(f"{option}: write SCORE=NUMBER, like match=0.8, not {text!r}")
        if score in found:
            raise Invalid(f"{option}: {score} is there twice")
        found[score] = _number(limit, option)
    return found


def _no_worse(given: Sequence[str] | None, opened: Opened) -> list[tuple[Results, str, float]]:
    """Demands from RUN:SCORE:X."""
    found = []
    for text in given or ():
        run, _, rest = text.partition(":")
        score, colon, margin = rest.rpartition(":")
        if not (run and score and colon):
            raise Invalid(f"--no-worse-than: write RUN:SCORE:MARGIN, like 8d01c4:match:0.02, not {text!r}")
        found.append((opened.results(run), score, _number(margin, "--no-worse-than")))
    return found


def _number(text: str, option: str) -> float:
    """The number in an option."""
    try:
        return float(text)
    except ValueError:
        raise Invalid(f"{option}: {text!r} is not a number") from None
