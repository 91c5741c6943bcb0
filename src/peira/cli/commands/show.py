"""`peira show`: the results of a run, its trials, its failures, or everything about one trial."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Any

import msgspec
import typer

import peira.app as app
from peira.analysis.results import Results
from peira.analysis.table.value import Table
from peira.app.store.runs import is_run_id
from peira.app.store.spending import RunAccount
from peira.app.store.trial import TrialRecord, run_of_trial
from peira.app.store.trial import trial as find_trial
from peira.app.store.view import Opened, looking
from peira.cli.analysis_options import Level, Reduce, Score, results_of
from peira.cli.options import Json, Latest, RunName, Store
from peira.cli.output import CommandOutput, grid, means, moment
from peira.cli.render import pairs, scored, shown
from peira.cli.run_summary import headline, summary, tabled
from peira.core.chat.transcript import text_lines
from peira.core.ids import short
from peira.core.log.events import State
from peira.core.text.words import counted
from peira.engine.run_log import event_values
from peira.errors import Invalid, Unknown
from peira.results.causes import CAUSES
from peira.results.reasons import failure_reasons
from peira.results.rows import record
from peira.results.trials import FailureRow, TrialResult, end_word

MOST_LINES = 40
"""Lines of what a running command has printed."""


def show_trial(found: TrialRecord, out: CommandOutput) -> None:
    """Show everything about a trial."""
    result = found.result
    out.document(
        {
            **record(result, found.run),
            "seed": found.seed,
            "executed_by": found.executed_by or None,
            "transcript": msgspec.to_builtins(found.transcript.entries),
            **({"printed": dict(found.printed)} if found.printed else {}),
            "events": [event_values(one) for one in found.records],
        }
    )
    out.text("\n".join(_facts(found) + _history(found)))


def _facts(found: TrialRecord) -> list[str]:
    """The facts of a trial, one per line."""
    one = found.result
    reused = f", reused from run {short(found.executed_by)}" if one.reused and found.executed_by else ""
    facts = {
        "trial": one.id,
        "run": f"{short(found.run)}{reused}",
        "state": end_word(one.state),
        "agent": one.agent,
        "condition": pairs(one.condition),
        "case": f"{one.case_id}, repeat {one.repeat}, seed {found.seed}",
        "input": shown(one.input),
        "expected": "" if one.expected is None else shown(one.expected),
        "output": shown(one.output) if one.state is State.succeeded else "",
        "answer": _answer(one),
        "scores": scored(one) if one.scores else "",
        "metrics": pairs(one.metrics) if one.metrics else "",
        "about": pairs(one.about) if one.about else "",
        "took": f"{one.took:.3f} s in attempt {one.attempts}" if one.attempts else "",
        "queued": f"{one.queued:.3f} s in peira's queues, beside that" if one.queued >= 0.001 else "",
        "failure": f"{one.failure.type}: {one.failure.message}" if one.failure else "",
    }
    lines = [f"{name:<11}{_indented(fact)}" for name, fact in facts.items() if fact]
    return lines + ([f"\n{one.failure.trace.rstrip()}"] if one.failure and one.failure.trace else [])


def _answer(one: TrialResult) -> str:
    """The answer that the transform found; "" if the study has no transform."""
    if one.found is None or one.found.state is not State.succeeded:
        return "" if one.found is None else one.found.state.value
    return f"none ({one.no_answer})" if one.no_answer else shown(one.answer)


def _indented(text: str) -> str:
    return text.replace("\n", "\n" + " " * 11)


def _history(found: TrialRecord) -> list[str]:
    """The transcript; then steps, observations, attachments and earlier attempts, each with its time."""
    said = [f"  {line}".replace("\n", "\n  ") for line in text_lines(found.transcript)]
    lines: list[str] = ["", "transcript", *said] if said else []
    for stream, text in found.printed.items():
        last = text.splitlines()[-MOST_LINES:]
        lines += ["", f"printed so far ({stream}, its end)", *(f"  {line}" for line in last)]
    for title, rows in (
        ("steps", [[moment(r.at), r.event.name, _body(r.event.value, r.event.blob)] for r in found.steps]),  # type: ignore[union-attr, arg-type]
        ("observations", [[moment(r.at), r.event.name, _body(r.event.data)] for r in found.observations]),  # type: ignore[union-attr]
        ("attachments", [[a.name, f"{a.size:,} bytes", a.media, a.digest] for a in found.result.artifacts]),
        ("attempts", [[moment(r.at), *_attempt(r.event)] for r in found.attempts]),
    ):
        if rows:
            lines += ["", title, *(f"  {'  '.join(filter(None, row))}" for row in rows)]
    return lines


def _body(value: msgspec.Raw, blob: str = "") -> str:
    """A recorded value as text, or its blob's digest."""
    return f"(blob {short(blob)})" if blob else bytes(value).decode()


def _attempt(event: Any) -> list[str]:
    """How an attempt ended, as cells of a row."""
    failure = event.result.failure
    state = getattr(event, "state", "failed, tried again")
    return [f"attempt {event.epoch}: {state}", f"{failure.type}: {failure.message}" if failure else ""]


By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="FACTOR",
        help="Means by this factor, by agent, case, slice, cluster, or metadata; repeatable.",
    ),
]


def show(
    run: RunName = "",
    trial: Annotated[
        str,
        typer.Argument(
            metavar="[TRIAL]",
            help="The first digits of a trial's id: all there is about it. RUN may be left out.",
        ),
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
    traces: Annotated[
        bool, typer.Option("--traces", help="What failed, and why, with the tracebacks.")
    ] = False,
    reduce: Reduce = "",
    latest: Latest = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Show the results of a run, its trials, or one of them.

    Means with their 95% intervals, and how many trials failed.

    \b
    Examples:
      peira show
      peira show 3f2a91 --by model --by style
      peira show 3f2a91 --failures
      peira show 3f2a91 --traces
      peira show 3f2a91 --reduce pass@5
      peira show 8d01c4
    """
    out = CommandOutput(as_json)
    with looking(store) as opened:
        if run and not trial:
            run, trial = _run_and_trial(run, opened)
        if trial:
            if by or trials or failures or traces or score or interval or across or reduce:
                raise Invalid(
                    "TRIAL: one trial is shown whole; leave out --by, --trials, --failures and the like"
                )
            show_trial(find_trial(run, trial, opened.session, latest), out)
            return
        results = results_of(opened, run, reduce, latest)
        query: dict[str, Any] = {"score": score, "interval": interval, "across": across, "level": level}
        table = results.table(*(by or ()), **query)
        account = app.account_of(opened.session, results.run_id)
        _all(results, account, table, trials, failures or traces, traces, out)


def _run_and_trial(prefix: str, opened: Opened) -> tuple[str, str]:
    """A run; or, if no run has an id with this prefix, the newest run of a trial that has, and the trial."""
    if "@" in prefix or not is_run_id(prefix) or opened.runs(prefix=prefix, limit=1):
        return prefix, ""
    found = run_of_trial(prefix, opened.session)
    if not found:
        raise Unknown(
            f"no run and no trial {prefix!r} in this store (see `peira runs`, `peira show --trials`)"
        )
    return found, prefix


def _all(
    results: Results,
    account: RunAccount,
    table: Table,
    trials: bool,
    failures: bool,
    traces: bool,
    out: CommandOutput,
) -> None:
    """Show the results of a run: summary, table, and trials or failures if requested."""
    document: dict[str, Any] = {**summary(results, account), "table": tabled(table)}
    parts = [headline(results, account), means(table)]
    if trials:
        document["trials"] = [record(one, results.run_id) for one in results]
        parts.append(_listed(results))
    if failures:
        found = results.failures
        reasons = failure_reasons(found)
        document["failures"] = [_failure(row) for row in found]
        document["reasons"] = reasons
        causes = Counter(row.cause for row in found)
        document["causes"] = dict(causes.most_common())
        document["reliability"] = msgspec.Raw(results.reliability().to_json().encode())
        parts += ["\n".join([_causes(causes), *map(str, reasons)])] if reasons else []
        parts += _traces(found) if traces else []
        parts.append(f"{_failed(found)}\n{results.reliability()}")
    out.document(document)
    out.text("\n\n".join(parts))


def _causes(causes: Counter[str]) -> str:
    """How often each cause occurs, and what to do about it."""
    remedies = {cause.name: cause.remedy for cause in CAUSES}
    return "by cause: " + "; ".join(f"{n:,} {name} ({remedies[name]})" for name, n in causes.most_common())


def _listed(results: Results) -> str:
    """A table of all trials."""
    rows = [
        [short(one.id), pairs(one.condition), one.case_label, one.repeat, scored(one), one.output]
        for one in results
    ]
    return grid(["trial", "condition", "case", "repeat", "scores", "output"], rows)


def _failure(row: FailureRow) -> dict[str, Any]:
    """A failure as plain values."""
    return {
        "trial": row.trial.id,
        "case": row.trial.case_id,
        "condition": row.trial.condition,
        "repeat": row.trial.repeat,
        "stage": row.stage,
        "score": row.score or None,
        "state": row.state.value,
        "failure": row.failure,
        "cause": row.cause,
        "attempts": row.trial.attempts,
    }


def _failed(rows: list[FailureRow]) -> str:
    """A table of failures."""
    if not rows:
        return "no failures"
    lines = [
        [
            short(r.trial.id),
            r.score or r.stage,
            pairs(r.trial.condition),
            r.trial.case_label,
            r.trial.repeat,
            r.cause,
            _why(r),
        ]
        for r in rows
    ]
    return grid(["trial", "stage", "condition", "case", "repeat", "cause", "why"], lines, whole=True)


def _why(row: FailureRow) -> str:
    """How it ended, if it did not fail, and why."""
    word = "" if row.state is State.failed else end_word(row.state)
    why = f"{row.failure.type}: {row.failure.message}" if row.failure else ""
    return ": ".join(filter(None, (word, why)))


def _traces(rows: list[FailureRow]) -> list[str]:
    """The tracebacks of failures; one that several share is shown once."""
    same: dict[str, list[FailureRow]] = {}
    for row in rows:
        if row.failure and row.failure.trace:
            same.setdefault(row.failure.trace.rstrip(), []).append(row)
    return [
        f"{_some([short(row.trial.id) for row in found])}\n{trace}\n{_why(found[0])}"
        for trace, found in same.items()
    ]


def _some(ids: list[str]) -> str:
    """The first of these trials, and how many others there are."""
    return f"trial {ids[0]}" + (f" and {counted(len(ids) - 1, 'other')}" if len(ids) > 1 else "")
