"""`peira slices`, `quantiles`, `ratio`, `surface`, `hypotheses` and `trust`: further analyses of a run."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from peira.analysis.results import Results
from peira.app.store.view import looking
from peira.cli.analysis_options import Level, Presentable, Score, show
from peira.cli.options import Json, RunName, Store
from peira.cli.output import CommandOutput, note
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
    with looking(store) as opened:
        show(opened.results(run).slices(by, score=score, level=level), as_json)


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
    with looking(store) as opened:
        found = opened.results(run)
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
    with looking(store) as opened:
        found = opened.results(run).ratio(top, bottom, *(by or ()), method=method, level=level)
        show(found, as_json)


def surface(
    run: RunName = "",
    factor: Annotated[
        list[str] | None,
        typer.Option("--factor", metavar="NAME", help="Over this factor; repeatable. Else all numbers."),
    ] = None,
    score: Score = None,
    lowest: Annotated[bool, typer.Option("--lowest", help="Less is better.")] = False,
    level: Level = 0.95,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Say where a score is best, over factors that are numbers.

    A second-order surface: the best setting within what was run and how sure that is, where the surface turns
    and how, and whether it fits. Needs three or more values of each factor.

    \b
    Examples:
      peira surface
      peira surface 3f2a91 --factor temperature --factor length --score match
    """
    with looking(store) as opened:
        found = opened.results(run).surface(*(factor or ()), score=score, level=level, lowest=lowest)
        show(found, as_json)


def hypotheses(run: RunName = "", store: Store = None, as_json: Json = False) -> None:
    """Say what became of the hypotheses that a study declared.

    Each is supported, rejected or undecided: by the declared test, at the declared alpha, with the declared
    correction over its plan. What a stopping rule followed is told as that rule saw it.

    \b
    Examples:
      peira hypotheses
      peira hypotheses 3f2a91 --json
    """
    with looking(store) as opened:
        show(opened.results(run).hypotheses(), as_json)


def trust(
    run: RunName = "",
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels", metavar="FILE", help="What people say: a CSV or JSONL file, or a field of metadata."
        ),
    ] = None,
    score: Score = None,
    cut: Annotated[
        float | None, typer.Option("--cut", metavar="X", help="Scores and labels of at least X are a yes.")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="FACTOR", help="Corrected means by this factor; repeatable."),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help="prediction-powered (default) or rogan-gladen.")
    ] = "prediction-powered",
    level: Level = 0.95,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Say how far a judge can be trusted: agreement, biases, corrected means.

    A row of the file is a label and the output it is about: its trial, or its case with as many of the
    factors and repeat as it takes. A CSV file of the results with a column `label` added is one. Without
    labels only what sways the judge is measured: the order of pairs, and length.

    \b
    Examples:
      peira trust 3f2a91 --labels labels.csv --by model
      peira trust --labels human --score judge --cut 0.5
      peira trust 8d01c4
    """
    out = CommandOutput(as_json)
    with looking(store) as opened:
        results = opened.results(run)
        if labels is None and (by or cut is not None):
            raise Invalid("--labels: say what people said; --by and --cut are about that")
        found = _findings(results, labels, score, cut, by or (), method, level)
        out.document({name: msgspec.Raw(one.to_json().encode()) for name, one in found.items()})
        out.text("\n\n".join(map(str, found.values())))
        if labels is None:
            note("with --labels: how far it agrees with people, and means corrected for its errors")


def _findings(
    results: Results,
    labels: str | None,
    score: str | None,
    cut: float | None,
    by: Sequence[str],
    method: str,
    level: float,
) -> dict[str, Presentable]:
    """The findings by name, in the order in which they are shown."""
    biases: Presentable = results.biases(labels=labels, score=score, level=level)
    if labels is None:
        return {"biases": biases}
    agreement = results.agreement(labels, score=score, cut=cut, level=level)
    found: dict[str, Presentable] = {"agreement": agreement, "biases": biases}
    if agreement.bias is not None:  # texts have no mean to correct
        found["corrected"] = results.corrected(labels, *by, score=score, cut=cut, method=method, level=level)
    return found
