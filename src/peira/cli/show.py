"""`peira show`: the results of a run, its trials, its failures; or one trial, whole."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
import typer

from peira.analysis.export import record
from peira.analysis.results import Results
from peira.analysis.table import Table
from peira.analysis.trials import FailureRow
from peira.api.look import Opened
from peira.api.trial import trial as find_trial
from peira.cli.asked import Level, Reduce, Score, results_of
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
    score: Score = None,
    interval: Annotated[
        str,
        typer.Option(
            "--interval", metavar="NAME", help="bootstrap, t, exact, wilson, clopper-pearson; else what fits."
        ),
    ] = "",
    across: Annotated[
        str, typer.Option("--across", metavar="FACTOR", help="Its levels are a sample too, as cases are.")
    ] = "",
    level: Level = 0.95,
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
        if by or trials or failures or score or interval or across or reduce:
            raise Invalid(
                "TRIAL: one trial is shown whole; leave out --by, --trials, --failures and the like"
            )
        show_trial(find_trial(run, trial, store), out)
    else:
        results = results_of(Opened(store), run, reduce)
        asked: dict[str, Any] = {"score": score, "interval": interval, "across": across, "level": level}
        table = results.table(*by, **asked) if by else results_table(results, **asked)
        _all(results, table, trials, failures, out)


def _all(results: Results, table: Table, trials: bool, failures: bool, out: Output) -> None:
    document: dict[str, Any] = {**summary(results), "table": tabled(table)}
    parts = [headline(results), means(table)]
    if trials:
        document["trials"] = [record(one, results.run_id) for one in results]
        parts.append(_listed(results))
    if failures:
        found = results.failures
        document["failures"] = [_failure(row) for row in found]
        document["reliability"] = msgspec.Raw(results.reliability().to_json().encode())
        parts.append(f"{_failed(found)}\n{results.reliability()}")
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
