"""`peira slices`, `quantiles` and `ratio`: other numbers than means, each with its interval."""

from __future__ import annotations

from typing import Annotated

import typer

from peira.api.look import Opened
from peira.cli.asked import Level, Score, show
from peira.cli.options import Json, RunName, Store
from peira.errors import Invalid

By = Annotated[
    list[str] | None,
    typer.Option("--by", metavar="FACTOR", help="For each level of this factor, or agent; repeatable."),
]


def slices(
    run: RunName = "",
    by: Annotated[str, typer.Option("--by", metavar="FACTOR", help="Of this, instead of slices.")] = "slice",
    score: Score = None,
    level: Level = 0.95,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show the means of slices, small ones pulled towards the rest.

    A slice of three cases that are all right is no proof: its mean is pulled towards the others as far as its
    own evidence is weak.

    \b
    Examples:
      peira slices
      peira slices 3f2a91 --by cluster --score match
    """
    show(Opened(store).results(run).slices(by, score=score, level=level), as_json)


def quantiles(
    run: RunName = "",
    by: By = None,
    score: Annotated[
        str, typer.Option("--score", metavar="NAME", help="Of this number; else of the seconds taken.")
    ] = "took",
    q: Annotated[
        list[float] | None, typer.Option("--q", metavar="Q", help="Which (0.5, 0.9, 0.99); repeatable.")
    ] = None,
    level: Level = 0.95,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show medians and tails: of seconds, or of any number.

    Intervals assume nothing about the distribution, and count cases, not repeats of them.

    \b
    Examples:
      peira quantiles
      peira quantiles 3f2a91 --by model --q 0.5 --q 0.95
    """
    found = Opened(store).results(run)
    show(found.quantiles(score, *(by or ()), q=tuple(q or (0.5, 0.9, 0.99)), level=level), as_json)


def ratio(
    what: Annotated[
        str, typer.Argument(metavar="TOP/BOTTOM", help="Two numbers of each trial, as cost/match.")
    ],
    run: RunName = "",
    by: By = None,
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help="fieller (default), or delta.")
    ] = "fieller",
    level: Level = 0.95,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show one total per another: cost per success.

    Scores, cost, took, or metrics that agents report. Fieller's interval says when there are too few
    successes to bound the ratio.

    \b
    Examples:
      peira ratio cost/match
      peira ratio took/match 3f2a91 --by model
    """
    top, slash, bottom = what.partition("/")
    if not (top and slash and bottom):
        raise Invalid(f"TOP/BOTTOM: write two names with a slash between them, as cost/match; not {what!r}")
    found = Opened(store).results(run).ratio(top, bottom, *(by or ()), method=method, level=level)
    show(found, as_json)
