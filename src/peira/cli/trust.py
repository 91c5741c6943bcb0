"""`peira trust`: how far a judge can be trusted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from peira.analysis.results import Results
from peira.api.look import Opened
from peira.cli.asked import Level, Score, Shown
from peira.cli.options import Json, RunName, Store
from peira.cli.output import Output, note
from peira.errors import Invalid


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
    out, results = Output(as_json), Opened(store).results(run)
    if labels is None and (by or cut is not None):
        raise Invalid("--labels: say what people said; --by and --cut are about that")
    found = _found(results, labels, score, cut, by or (), method, level)
    out.document({name: msgspec.Raw(one.to_json().encode()) for name, one in found.items()})
    out.text("\n\n".join(map(str, found.values())))
    if labels is None:
        note("with --labels: how far it agrees with people, and means corrected for its errors")


def _found(
    results: Results,
    labels: str | None,
    score: str | None,
    cut: float | None,
    by: Sequence[str],
    method: str,
    level: float,
) -> dict[str, Shown]:
    """By name, in the order in which they are shown."""
    biases: Shown = results.biases(labels=labels, score=score, level=level)
    if labels is None:
        return {"biases": biases}
    agreement = results.agreement(labels, score=score, cut=cut, level=level)
    found: dict[str, Shown] = {"agreement": agreement, "biases": biases}
    if agreement.bias is not None:  # texts have no mean to be corrected
        found["corrected"] = results.corrected(labels, *by, score=score, cut=cut, method=method, level=level)
    return found
