"""`peira import`: existing outputs become trials."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer

import peira.app as app
from peira.analysis.table.value import Table
from peira.app.imports.intake import ImportResult
from peira.app.imports.outputs import import_outputs
from peira.app.session import Session
from peira.app.store.spending import RunAccount
from peira.cli import errors, run_summary
from peira.cli.options import Json, Progress, Store, chosen
from peira.cli.output import CommandOutput, note
from peira.cli.run_summary import next_command
from peira.cli.study_options import Evaluator, Transform, evaluators_and_transform, field_pairs
from peira.core.text.words import counted
from peira.errors import Invalid


def import_(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="JSONL, CSV, Parquet; a log of Inspect, samples of lm-eval, results of promptfoo, DeepEval "
            "or OpenAI evals.",
        ),
    ],
    study: Annotated[
        str | None,
        typer.Option(
            "--study", metavar="STUDY", help="Onto this study or run; else they make one of their own."
        ),
    ] = None,
    evaluator: Evaluator = None,
    transform: Transform = None,
    cases: Annotated[
        str | None,
        typer.Option("--cases", metavar="FILE", help="The cases, where the outputs do not hold them."),
    ] = None,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="What the study is called; else as the first file.")
    ] = "",
    field: Annotated[
        list[str] | None,
        typer.Option(
            "--map",
            "--field",
            metavar="PART=FIELD",
            help="Where a row has a part: output=answer.text. Repeatable.",
        ),
    ] = None,
    factor: Annotated[
        list[str] | None,
        typer.Option(
            "--factor",
            metavar="COLUMN",
            help="A column that is a factor (or `file`); no other one is. Repeatable.",
        ),
    ] = None,
    wide: Annotated[
        str | None,
        typer.Option(
            "--wide",
            metavar="FACTOR=COLUMN,COLUMN",
            help="Columns of outputs, one for each level: model=a,b.",
        ),
    ] = None,
    store: Store = None,
    as_json: Json = False,
    progress: Progress = None,
) -> int:
    """Take in outputs that were made elsewhere.

    They can be judged, compared and reported as any. A row has `output` (or `error`), `case` (an id) or
    `input`, and may have `expected`, `repeat`, `latency`, `cost`, `usage` and `metrics`; the other columns
    are factors. What the other tool scored is kept as scores (`inspect.match`), and its whole record is
    attached to the trial. With --study each output becomes the result of the trial it belongs to. Nothing is
    overwritten, importing again changes nothing, and what belongs nowhere is told line by line.

    \b
    Examples:
      peira import outputs.jsonl --transform last_number --evaluator numeric
      peira import outputs.csv --study capitals.py
      peira import logs/2026-11-02_capitals.eval --evaluator match
      peira import old.jsonl --map output=answer.text --factor model
      peira import answers.csv --wide model=gpt-5,claude --evaluator match
    """
    out = CommandOutput(as_json)
    judges, finds = evaluators_and_transform(evaluator, transform)
    with Session.find(store) as session:
        done = import_outputs(
            files,
            None if study is None else chosen(study, session),
            cases=cases,
            transform=finds,
            evaluators=judges or (),
            name=name,
            fields=field_pairs(field or ()),
            factors=factor or None,
            wide=_levels(wide),
            store=session,
            progress=progress,
        )
        account = app.account_of(session, done.results.run_id)
        table = done.results.table()
        out.document(_document(done, account, table))
        if study is None:
            shown = run_summary.text(done.results, account, table)
        else:
            shown = run_summary.headline(done.results, account)
        out.text(f"{_outcome_text(done)}\n\n{shown}")
        for score, same in done.offers.items():
            note(f"{score} is scored here by: --evaluator {shlex.quote(same)}")
        failed = errors.say(done.problems, 1) if done.refused else 0
        if study is not None and not failed:
            note(f"to judge them: {next_command('score', done.results.run_id, store)}")
        return failed or int(bool(done.failed))


def _levels(text: str | None) -> dict[str, list[str]]:
    """The factor and the columns of --wide."""
    if text is None:
        return {}
    factor, _, columns = text.partition("=")
    names = [name.strip() for name in columns.split(",") if name.strip()]
    if not factor or not names:
        raise Invalid(f"--wide {text}: write FACTOR=COLUMN,COLUMN, like model=gpt-5,claude")
    return {factor: names}


def _document(done: ImportResult, account: RunAccount, table: Table) -> dict[str, Any]:
    """The outcome as plain values."""
    return {
        **run_summary.summary(done.results, account),
        "imported_from": done.origin,
        "recorded": done.recorded,
        "failed": done.failed,
        "same": done.same,
        "refused": done.refused,
        "scores": done.scores,
        "offers": dict(done.offers),
        "problems": list(done.problems),
        "table": run_summary.tabled(table),
    }


def _outcome_text(done: ImportResult) -> str:
    """The outcome in one line."""
    facts = {
        f"{counted(done.recorded, 'output')} recorded": True,
        f"{counted(done.failed, 'failure')} recorded": done.failed,
        f"{counted(done.scores, 'score')} recorded": done.scores,
        f"{done.same:,} there already": done.same,
        f"{done.refused:,} refused": done.refused,
    }
    listed = ", ".join(text for text, count in facts.items() if count)
    return f"imported from {done.origin}: {listed}"
