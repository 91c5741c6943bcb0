"""What pages and the REST interface ask of a store: each is one function from the site to a document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec.structs import replace

import peira.app as app
from peira.analysis.cost import Bill
from peira.app.inbox import inbox as open_questions
from peira.app.store.runs import UNDER_WAY, find_run
from peira.app.store.spending import account_of
from peira.app.store.trial import printed_so_far
from peira.core.contracts import CallQuery, RunQuery
from peira.core.log.events import State, Status
from peira.core.log.state import Run
from peira.core.text.grid import cell
from peira.core.text.secrets import value_without_keys
from peira.core.text.words import HIDDEN, counted
from peira.engine.run_log import event_values
from peira.errors import Invalid
from peira.plan.conditions import LevelLabels
from peira.plan.manifest import Manifest
from peira.plan.provenance import read_provenance
from peira.results.reasons import failure_reasons
from peira.results.trials import failures as failures_of
from peira.web.reader import ComputedTable, SiteReader
from peira.web.rendering import case_title
from peira.web.rest.documents import (
    CallDocument,
    CallList,
    CallRow,
    EventList,
    FailureGroup,
    RunDetails,
    RunList,
    RunningTrial,
    RunProgress,
    RunSpending,
    ScoreSummary,
    TableDocument,
    TrialList,
    WaitingFor,
    run_summary,
)
from peira.web.site import Site
from peira.web.trial_search import TrialQuery, TrialSearch

MOST_RUNS, MOST_EVENTS, MOST_CALLS = 200, 1000, 2000
MOST_RUNNING, LINE = 12, 200
"""Trials under way that are shown, and characters of the last line of each."""
OVERALL = {"overall": True}
"""The options of the table with one row."""


class RunListQuery(msgspec.Struct, frozen=True):
    """Which runs to list: of a study, in a status, with a tag, begun since a date; `after` is a run's id."""

    study: str = ""
    status: str = ""
    tag: str = ""
    since: str = ""
    after: str = ""
    limit: int = 25


def _since(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except ValueError:
        raise Invalid(f"since: {text!r} is not a date, like 2026-08-31") from None


def _status(text: str) -> str:
    known = {status.name: status.value for status in Status}
    if text and text not in known and text not in known.values():
        raise Invalid(f"status: {text!r} is not known; there are: {', '.join(known)}")
    return known.get(text, text)


async def list_runs(site: Site, query: RunListQuery) -> RunList:
    """A page of runs, newest first, each with its first score where that is known already."""

    def read() -> list[Run]:
        opened = app.Opened(site.reader.session)
        wanted = RunQuery(
            study=query.study, status=_status(query.status), tag=query.tag, since=_since(query.since)
        )
        limit = max(1, min(query.limit, MOST_RUNS))
        if not query.after:
            return opened.runs(msgspec.structs.replace(wanted, limit=limit + 1))
        # The store lists runs from the newest on: the page begins after the last run of the one before.
        last, size = find_run(site.reader.store, query.after), limit
        while True:
            found = opened.runs(msgspec.structs.replace(wanted, limit=size))
            older = [run for run in found if run.incarnation <= last.incarnation and run.id != last.id]
            at = next((i for i, run in enumerate(found) if run.id == last.id), None)
            older = found[at + 1 :] if at is not None else older
            if len(older) > limit or len(found) < size:
                return older[: limit + 1]
            size *= 4

    if not site.reader.open():
        return RunList([])
    found = await site.reader.short(read)
    limit = max(1, min(query.limit, MOST_RUNS))
    shown = found[:limit]
    runs = [run_summary(run, known_score(site.reader, run)) for run in shown]
    return RunList(runs, shown[-1].id if len(found) > limit else None)


def known_score(reader: SiteReader, run: Run) -> ScoreSummary | None:
    """The first score of a run with its interval, if it was computed before."""
    found = reader.computed(run, (), **OVERALL)
    return None if found is None else score_summary(found)


def score_summary(found: ComputedTable) -> ScoreSummary | None:
    """The first score of a table; None if it has none."""
    for row in found.table.body:
        if row.score is not None and row.n:
            return ScoreSummary(row.score, row.mean, row.low, row.high, row.n)
    return None


async def run_score(site: Site, prefix: str) -> ScoreSummary | None:
    """The first score of a run with its interval, computed if it must be."""
    run = await site.reader.short(site.reader.run, prefix)
    return score_summary(await site.reader.table(run, (), **OVERALL))


async def with_scores(site: Site, found: RunList) -> RunList:
    """The same runs, each with its first score; computed where it must be, so that it may take a while."""
    runs = [
        run if run.score is not None else replace(run, score=await run_score(site, run.id))
        for run in found.runs
    ]
    return RunList(runs, found.next)


async def run_details(site: Site, prefix: str) -> RunDetails:
    """A run, its progress, its spending, and its failures by reason."""
    reader = site.reader

    def read() -> RunDetails:
        run = reader.run(prefix)
        if run.counts and run.status not in UNDER_WAY:
            return _ended(reader, run)
        seen = reader.monitor(run)
        progress = _progress(seen.progress, seen.over)
        bill = _spending(seen.bill, reader, run, progress)
        waiting, running = waiting_for(reader, run), running_now(reader, run, seen.running)
        return RunDetails(run_summary(seen.run), progress, bill, seen.failures, waiting, running)

    return await reader.long(read)


def running_now(reader: SiteReader, run: Run, trials: Sequence[str]) -> list[RunningTrial]:
    """The trials under way, with the last line that the command of each has printed."""
    shown = list(trials)[:MOST_RUNNING]
    numbers, planned = reader.numbers(run.id), reader.planned(run.id)
    layout, labels = planned.layout, LevelLabels.kept(planned.manifest.snapshot)
    rows = reader.slow_store.find("task", shown)
    found = []
    for trial in shown:
        number = numbers.get(trial)
        place = None if number is None else layout.place(number)
        epoch = rows[trial].epoch if trial in rows else 1
        printed = printed_so_far(reader.slow_store, run.id, trial, epoch)
        lines = [line for text in printed.values() for line in text.splitlines()[-1:]]
        title = "" if place is None else case_title(place.case.id, place.case.input)
        levels = {} if place is None else labels.shown(place.condition.shown)
        condition = ", ".join(f"{name}={cell(level)}" for name, level in levels.items())
        found.append(RunningTrial(trial, number, title, condition, lines[0][:LINE] if lines else ""))
    return found


def waiting_for(reader: SiteReader, run: Run) -> list[WaitingFor]:
    """The open questions of a run, by those who are asked."""
    to = Counter(one.question.to for one in open_questions(reader.slow_session, run.id))
    return [WaitingFor(*found) for found in to.most_common()]


def _progress(progress: Any, over: bool) -> RunProgress:
    names = ("total", "done", "reused", "failed", "exhausted", "cancelled", "running", "scores", "elapsed")
    left = None if over else progress.left
    return RunProgress(**{name: getattr(progress, name) for name in names}, rate=progress.rate, left=left)


def _ended(reader: SiteReader, run: Run) -> RunDetails:
    """A run that has ended: everything is in its row, except the reasons of its failures."""
    counts = {key.partition(".")[2]: n for key, n in run.counts.items() if key.startswith("generate.")}
    not_done = counts.get("left", 0) + counts.get("spared", 0)
    elapsed = max(0.0, run.finished - run.started) if run.started else 0.0
    done, reused = run.trials - not_done, counts.get("reused", 0)
    stopped = counts.get("exhausted", 0), counts.get("cancelled", 0)
    fine = counts.get("succeeded", 0) + reused
    progress = RunProgress(
        total=run.trials,
        done=done,
        reused=reused,
        failed=max(0, done - fine - sum(stopped)),
        exhausted=stopped[0],
        cancelled=stopped[1],
        running=0,
        scores=sum(n for key, n in run.counts.items() if key.startswith("evaluate.")),
        elapsed=elapsed,
        rate=(done - reused) / elapsed if elapsed else 0.0,
        left=None,
    )
    bill = _spending(account_of(reader.slow_session, run.id).spent, reader, run)
    waiting = waiting_for(reader, run) if run.status is Status.waiting else []
    return RunDetails(run_summary(run), progress, bill, _failures(reader, run), waiting)


def _failures(reader: SiteReader, run: Run) -> list[FailureGroup]:
    """The failures of a run that has ended, by reason."""
    bad = [key for key, n in run.counts.items() if n and key.partition(".")[2] in BAD]
    if not bad:
        return []
    if run.unsuccessful is None:
        return reader.monitor(run).failures
    planned = reader.planned(run.id)
    search = TrialSearch(planned.manifest, planned.layout, reader.rows(run.id), run.id)
    rows = [row for trial in search.read(run.unsuccessful.trials) for row in failures_of(trial)]
    return [
        FailureGroup(one.count, one.stage, one.state.value, one.type, one.message, one.trial)
        for one in failure_reasons(rows)
    ]


BAD = frozenset(state.value for state in State) - {"succeeded", "queued", "running"}


def _spending(bill: Bill, reader: SiteReader, run: Run, progress: RunProgress | None = None) -> RunSpending:
    """What a run has spent, beside its budget, its estimate and, while it goes on, its forecast."""
    manifest = reader.planned(run.id).manifest
    estimate = account_estimate(reader, run)
    return RunSpending(
        bill.calls,
        bill.input,
        bill.output,
        bill.money,
        bill.unpriced,
        bill.doubtful,
        budget_of(manifest),
        estimate,
        None if progress is None else _forecast(bill.money, progress),
    )


def _forecast(spent: float, progress: RunProgress) -> float | None:
    """What all trials would cost at the mean of those done here; None before the first one."""
    done = progress.done - progress.reused
    if not progress.total or done <= 0 or not spent:
        return None
    return spent * (progress.total - progress.reused) / done


def budget_of(manifest: Manifest) -> float | None:
    """The money that a study may spend; None if it says nothing."""
    snapshot = manifest.snapshot if isinstance(manifest.snapshot, dict) else {}
    budget = snapshot.get("budget")
    money = budget.get("money") if isinstance(budget, dict) else None
    return float(money) if isinstance(money, int | float) else None


def account_estimate(reader: SiteReader, run: Run) -> float | None:
    """What the run was expected to cost when it was opened; None if that is not known."""
    kept = read_provenance(reader.slow_store.get(run.provenance)).estimate if run.provenance else None
    return None if kept is None or kept.cost is None else kept.cost.expected


class TableParameters(msgspec.Struct, frozen=True):
    """How a table is made: `by` is a list of factors separated by commas; `score` names one score."""

    by: str = ""
    score: str = ""
    level: float = 0.95
    overall: bool = False


async def table(site: Site, prefix: str, query: TableParameters) -> tuple[Run, ComputedTable, str]:
    """The table of a run, and what it rests on."""
    if not 0 < query.level < 1:
        raise Invalid(f"level: must lie between 0 and 1, not {query.level:g}")
    run = await site.reader.short(site.reader.run, prefix)
    by = tuple(name.strip() for name in query.by.split(",") if name.strip())
    options: dict[str, Any] = {"overall": True} if query.overall and not by else {}
    options |= {"score": query.score} if query.score else {}
    options |= {"level": query.level} if query.level != 0.95 else {}
    found = await site.reader.table(run, by, **options)
    return run, found, await as_of_text(site, run, found)


async def as_of_text(site: Site, run: Run, found: ComputedTable) -> str:
    """What a table of a run under way rests on; empty once the run has ended."""
    if run.status not in UNDER_WAY:
        return ""
    done = sum(row.n + row.failed for row in found.table.body[:1]) if not found.table.by else None
    seen = await site.reader.long(site.reader.monitor, run)
    done = seen.progress.done if done is None else done
    sequential = run.look is not None
    early = "looked at early: intervals are too narrow if you stop because of them"
    early = "its stopping rule allows looking early" if sequential else early
    return f"as of {done:,} of {counted(run.trials, 'trial')}; {early}"


async def table_document(site: Site, prefix: str, query: TableParameters) -> TableDocument:
    """The table of a run as a document."""
    _, found, rests = await table(site, prefix, query)
    made = found.table
    return TableDocument(
        list(made.by), made.level, list(made.columns), made.rows, list(made.notes), as_of=rests
    )


def search_of(reader: SiteReader, prefix: str) -> tuple[Run, TrialSearch]:
    """The run and a search over its trials, as they were when it ended."""
    planned = reader.planned(prefix)
    rows = reader.rows(planned.run.id)
    return planned.run, TrialSearch(planned.manifest, planned.layout, rows, planned.run.id)


async def list_trials(site: Site, prefix: str, query: TrialQuery) -> TrialList:
    """A page of trials of a run that match."""
    return await site.reader.short(lambda: search_of(site.reader, prefix)[1].page(query))


class EventQuery(msgspec.Struct, frozen=True):
    """Which events: those after a sequence number, at most so many, of these kinds (separated by commas)."""

    after: int = 0
    limit: int = 100
    kinds: str = ""


async def list_events(site: Site, prefix: str, query: EventQuery) -> EventList:
    """A page of a run's events, in order."""

    def read() -> EventList:
        run = find_run(site.reader.store, prefix)
        limit, kinds = max(1, min(query.limit, MOST_EVENTS)), {k for k in query.kinds.split(",") if k}
        found: list[dict[str, Any]] = []
        after, more = max(0, query.after), True
        while more and len(found) < limit:
            records = site.reader.store.events(run.id, after, limit)
            more = len(records) == limit
            for record in records:
                after = record.seq
                values = event_values(record)
                if not kinds or values["kind"] in kinds:
                    found.append(values)
                    if len(found) == limit:
                        break
        return EventList(run.id, found, after if after + 1 < run.next_seq else None)

    return await site.reader.short(read)


class CallListQuery(msgspec.Struct, frozen=True):
    """Which calls: of a run, a model, in a state, of a task, with a prefix of their key."""

    run: str = ""
    model: str = ""
    state: str = ""
    task: str = ""
    prefix: str = ""
    limit: int = 50


async def list_calls(site: Site, query: CallListQuery) -> CallList:
    """Calls, last asked first, with totals."""

    def read() -> CallList:
        limit = max(1, min(query.limit, MOST_CALLS))
        wanted = CallQuery(query.run, query.model, query.state, query.task, query.prefix, limit)
        found = app.calls_of(site.reader.store, wanted)
        totals = msgspec.to_builtins(app.tally_of(site.reader.store, wanted))
        return CallList([call_row(call) for call in found], totals)

    return await site.reader.short(read)


def call_row(call: Any) -> CallRow:
    """A call as a row of a list."""
    names = ("key", "model", "state", "status", "stage", "task", "run", "sends", "input", "output", "cost")
    return CallRow(**{name: getattr(call, name) for name in (*names, "served", "why")})


async def call_document(site: Site, key: str) -> CallDocument:
    """Everything about one call."""

    def read() -> CallDocument:
        store = site.reader.slow_store
        call = app.find_call(store, key)
        found = app.record_of(store, call)
        answer: Any = None
        if found.answer is not None:
            body = found.answer.body.decode("utf-8", "replace")
            answer = {
                "status": found.answer.status,
                "body": HIDDEN if found.answer.exposed else body,
                "latency": found.answer.latency,
            }
        events = [event_values(record) for record in found.records]
        return CallDocument(call_row(found.call), value_without_keys(found.request), answer, events)

    return await site.reader.long(read)
