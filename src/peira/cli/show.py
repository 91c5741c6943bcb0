"""`peira show`: the results of a run, its trials, its failures; or one trial, whole."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from peira.analysis.export import record
from peira.analysis.results import Results
from peira.analysis.trials import FailureRow
from peira.api.look import Opened
from peira.api.trial import trial as find_trial
from peira.cli.asked import Reduce, results_of
from peira.cli.ending import headline, results_table, summary, tabled
from peira.cli.options import Json, RunName, Store
from peira.cli.output import Output, grid, means
from peira.cli.told import pairs, scored
from peira.cli.trial import show_trial
from peira.core.ids import short
from peira.errors import Invalid

By = Annotated[
    list[str] | None,
    typer.Option(
        "--by", metavar="FACTOR", help="Means by this factor, or by agent, case, slice, cluster; repeatable."
    ),
]


def show(
    run: RunName = "",
    trial: Annotated[
        str,
        typer.Argument(metavar="[TRIAL]", help="The first digits of a trial's id: all there is about it."),
    ] = "",
    by: By = None,
    trials: Annotated[
        bool, typer.Option("--trials", help="Every trial, with its output and scores.")
    ] = False,
    failures: Annotated[bool, typer.Option("--failures", help="What failed, and why.")] = False,
    reduce: Reduce = "",
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show the results of a run, its trials, or one of them.

    Means stand with their 95% intervals, and with what failed beside them.

    \b
    Examples:
      peira show
      peira show 3f2a91 --by model --by style
      peira show 3f2a91 --failures
      peira show 3f2a91 --reduce pass@5
      peira show 3f2a91 8d01c4
    """
    out = Output(as_json)
    if trial:
        if by or trials or failures or reduce:
            raise Invalid("TRIAL: one trial is shown whole; leave out --by, --trials, --failures, --reduce")
        show_trial(find_trial(run, trial, store), out)
    else:
        _all(results_of(Opened(store), run, reduce), by or (), trials, failures, out)


def _all(results: Results, by: Iterable[str], trials: bool, failures: bool, out: Output) -> None:
    table = results.table(*by) if by else results_table(results)
    document: dict[str, Any] = {**summary(results), "table": tabled(table)}
    parts = [headline(results), means(table)]
    if trials:
        document["trials"] = [record(one, results.run_id) for one in results]
        parts.append(_listed(results))
    if failures:
        found = results.failures
        document["failures"] = [_failure(row) for row in found]
        parts.append(_failed(found))
    out.document(document)
    out.text("\n\n".join(parts))


def _listed(results: Results) -> str:
    rows = [
        [short(one.id), pairs(one.condition), one.case_id, one.repeat, scored(one), one.output]
        for one in results
    ]
    return grid(["trial", "condition", "case", "repeat", "scores", "output"], rows)


def _failure(row: FailureRow) -> dict[str, Any]:
    return {
        "trial": row.trial.id,
        "case": row.trial.case_id,
        "condition": row.trial.condition,
        "repeat": row.trial.repeat,
        "stage": row.stage,
        "score": row.score or None,
        "state": row.state.value,
        "failure": row.failure,
        "attempts": row.trial.attempts,
    }


def _failed(rows: list[FailureRow]) -> str:
    if not rows:
        return "no failures"
    lines = [
        [
            short(r.trial.id),
            r.score or r.stage,
            pairs(r.trial.condition),
            r.trial.case_id,
            r.trial.repeat,
            _why(r),
        ]
        for r in rows
    ]
    return grid(["trial", "stage", "condition", "case", "repeat", "why"], lines)


def _why(row: FailureRow) -> str:
    return f"{row.failure.type}: {row.failure.message}" if row.failure else row.state.value
