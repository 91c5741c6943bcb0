"""What the REST interface answers, as types: `openapi.json` is derived from them."""

from __future__ import annotations

from typing import Any

import msgspec

from peira.app.store.runs import readable_counts
from peira.core.clock import stamp
from peira.core.log.state import Run


class RunSummary(msgspec.Struct, frozen=True):
    """A run: its id, the study that it executes, how it stands and how it ended."""

    id: str
    study: str
    status: str
    trials: int
    name: str | None = None
    reason: str = ""
    counts: dict[str, int] = {}
    tags: list[str] = []
    planned: str | None = None
    started: str | None = None
    finished: str | None = None
    resumes: str | None = None
    evaluation: str | None = None
    manifest: str = ""
    score: ScoreSummary | None = None


class ScoreSummary(msgspec.Struct, frozen=True):
    """The mean of one score over all trials of a run, with its interval; bounds that are unknown are null."""

    name: str
    mean: float | None
    low: float | None
    high: float | None
    n: int


class RunList(msgspec.Struct, frozen=True):
    """Runs, newest first; `next` is the `after` of the next page, null on the last one."""

    runs: list[RunSummary]
    next: str | None = None


class RunProgress(msgspec.Struct, frozen=True):
    """How far a run is. `left` is the estimated number of seconds to go, null if there is no estimate."""

    total: int | None
    done: int
    reused: int
    failed: int
    exhausted: int
    cancelled: int
    running: int
    scores: int
    elapsed: float
    rate: float
    left: float | None


class FailureGroup(msgspec.Struct, frozen=True):
    """Failures with the same reason; `trial` is one of them, where it is known."""

    count: int
    stage: str
    state: str
    type: str
    message: str
    trial: str = ""


class RunSpending(msgspec.Struct, frozen=True):
    """What a run has spent: calls, tokens and US dollars; `unpriced` calls have no known price.

    `budget` is the money that the study may spend, `expected` what it was estimated to cost, `forecast` what
    all its trials would cost at the mean of those that are done; null if unknown.
    """

    calls: int = 0
    input: int = 0
    output: int = 0
    money: float = 0.0
    unpriced: int = 0
    doubtful: int = 0
    budget: float | None = None
    expected: float | None = None
    forecast: float | None = None


class WaitingFor(msgspec.Struct, frozen=True):
    """How many questions of a run are open, and to whom; empty if to nobody in particular."""

    to: str
    questions: int


class RunningTrial(msgspec.Struct, frozen=True):
    """A trial under way: its case and condition, where it is in the plan, and the last line it printed."""

    trial: str
    number: int | None = None
    case: str = ""
    condition: str = ""
    printed: str = ""


class RunDetails(msgspec.Struct, frozen=True):
    """A run, how far it is, what it spent, and what failed in it."""

    run: RunSummary
    progress: RunProgress
    spending: RunSpending
    failures: list[FailureGroup]
    waiting: list[WaitingFor] = []
    running: list[RunningTrial] = []


class TableDocument(msgspec.Struct, frozen=True):
    """Means with intervals by group; `rows` have the keys of `columns`, `as_of` says what they rest on."""

    by: list[str]
    level: float
    columns: list[str]
    rows: list[dict[str, Any]]
    notes: list[str]
    as_of: str = ""


class TrialRow(msgspec.Struct, frozen=True):
    """A trial in a list. `number` is its place in the plan; texts are shortened."""

    id: str
    number: int
    state: str
    agent: str
    case: str
    repeat: int
    condition: dict[str, Any]
    scores: dict[str, Any]
    correct: bool | None
    input: str
    output: str
    failure: str
    cost: float | None
    took: float | None


class TrialList(msgspec.Struct, frozen=True):
    """Trials that match; `total` are all of the plan, of which `scanned` were looked at up to here.

    `next` is the `after` of the next page; null at the end of the plan.
    """

    trials: list[TrialRow]
    total: int
    scanned: int
    next: int | None = None


class EventList(msgspec.Struct, frozen=True):
    """Events of a run in order; `next` is the `after` of the next page, null if there are no more yet."""

    run: str
    events: list[dict[str, Any]]
    next: int | None = None


class CallRow(msgspec.Struct, frozen=True):
    """A model call of the ledger; unknown tokens and costs are null."""

    key: str
    model: str
    state: str
    status: str
    stage: str
    task: str
    run: str
    sends: int
    input: int | None = None
    output: int | None = None
    cost: float | None = None
    served: str = ""
    why: str = ""


class CallList(msgspec.Struct, frozen=True):
    """Calls, last asked first, and the totals of all that match, whatever the limit."""

    calls: list[CallRow]
    totals: dict[str, Any]


class CallDocument(msgspec.Struct, frozen=True):
    """One call in full: request, answer as text, and its events."""

    call: CallRow
    request: Any
    answer: Any
    events: list[dict[str, Any]]


class QuestionDocument(msgspec.Struct, frozen=True):
    """An open question to people; `since` and `due` are seconds since 1970."""

    key: str
    run: str
    trial: str
    case: str
    prompt: str
    options: list[Any] | None
    to: str
    since: float
    due: float | None = None
    show: Any = None
    schema: dict[str, Any] | None = None
    evaluator: str | None = None
    rater: int | None = None
    raters: int | None = None


class QuestionList(msgspec.Struct, frozen=True):
    """The open questions of a store, oldest first."""

    questions: list[QuestionDocument]


class TrafficChange(msgspec.Struct, frozen=True):
    """From here on jobs were drawn with these shares, in the order of the arms; `jobs` led to them."""

    at: str
    jobs: int
    shares: list[float]
    by: str
    why: str


class GoalVerdictEvent(msgspec.Struct, frozen=True):
    """The verdict on a goal changed to this one, by the mean of so many jobs with its confidence sequence."""

    at: str
    goal: str
    verdict: str
    mean: float
    low: float | None
    high: float | None
    n: int


class ReportedOutcome(msgspec.Struct, frozen=True):
    """What became of a job, reported by somebody."""

    at: str
    job: str
    name: str
    value: bool | int | float | str
    by: str


class JobDecision(msgspec.Struct, frozen=True):
    """What the agent of a job decided."""

    at: str
    job: str
    what: str = ""
    options: list[Any] = []
    chosen: Any = None
    why: str = ""


class ErrorDocument(msgspec.Struct, frozen=True):
    """What went wrong, in a line, and every problem if there are several."""

    error: str
    problems: list[str] = []


def run_summary(run: Run, score: ScoreSummary | None = None) -> RunSummary:
    """A run as the interface shows it."""
    return RunSummary(
        id=run.id,
        study=run.study,
        status=run.status.value,
        trials=run.trials,
        name=run.name or None,
        reason=run.reason,
        counts=readable_counts(run.counts),
        tags=list(run.tags),
        planned=_moment(run.planned),
        started=_moment(run.started),
        finished=_moment(run.finished),
        resumes=run.resumes or None,
        evaluation=run.evaluation or None,
        manifest=run.manifest,
        score=score,
    )


def _moment(at: float) -> str | None:
    return stamp(at) if at else None
