"""Goals of streams while jobs come: met, missed or undecided, valid at every look.

Anybody may look, as often as they like (`goal_statuses`). A host looks for itself (`GoalWatch`), records each
change of a verdict as an event, and pauses the stream where the goal says so.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from peira.analysis.results import Results
from peira.app.session import Session
from peira.app.streams._outcome_reports import outcome_reports
from peira.app.streams.results import stream_results
from peira.core.contracts import RunQuery
from peira.core.log.events import TERMINAL, GoalLooked, State
from peira.core.verdicts import part_of
from peira.engine.streams.declaration import TAG, declaration_of, last_opening
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.spec.streams.goals import COST, FAILED, TOOK, Goal, read_goal
from peira.stats.sequential.goals import STEPS, GoalStatus, goal_status

LOOK, COSTS = 5.0, 20.0
"""A host looks every so many seconds, or so many times as long as a look takes."""


@dataclass(frozen=True)
class GoalLook:
    """A goal of a stream, and what is known about it now."""

    goal: Goal
    status: GoalStatus

    def document(self) -> dict[str, object]:
        """As plain values; ends that are unknown are None."""
        found = self.status
        return {
            "goal": self.goal.goal,
            "streams": list(self.goal.streams),
            "verdict": found.verdict,
            "mean": found.mean,
            "low": found.low if abs(found.low) < float("inf") else None,
            "high": found.high if abs(found.high) < float("inf") else None,
            "n": found.n,
            "lost": found.lost,
            "since": found.since,
            "on_missed": self.goal.on_missed,
        }


def goal_statuses(
    session: Session, name: str, now: float | None = None, with_path: bool = False
) -> list[GoalLook]:
    """How the goals of a stream stand, as it was last opened; `with_path` also how they came to that."""
    with session.reading() as store:
        _, declaration = last_opening(store, name)
        goals = [read_goal(one) for one in declaration.goals]
        begins = _begins(store, name)
    now = time.time() if now is None else now
    looks = []
    for one in goals:
        over = one.over
        since = None if over is None else now - (1 + 1 / STEPS) * over
        found = sorted(
            value
            for stream in dict.fromkeys(one.streams or (name,))
            for value in (
                _reported(session, stream, one.outcome, since)
                if one.outcome
                else _values(session, stream, one.score, since)
            )
        )
        values = [(at, value) for at, _, value in found]
        try:
            status = goal_status(
                values,
                one.relation,
                one.limit,
                begin=begins.get(one.goal, now),
                now=now,
                over=over,
                limits=one.range,
                alpha=one.alpha,
                with_path=with_path,
            )
        except ValueError as problem:
            raise Invalid(f"goal {one.goal}: {problem}; say in the goal which limits its score has") from None
        looks.append(GoalLook(one, status))
    return looks


def _begins(store: object, name: str) -> dict[str, float]:
    """When each goal began to be looked at: at the first opening that declares it."""
    openings = store.runs(RunQuery(study=name, tag=TAG, limit=1_000_000))  # type: ignore[attr-defined]
    found: dict[str, float] = {}
    for run in reversed(openings):
        for one in declaration_of(store, run).goals:  # type: ignore[arg-type]
            found.setdefault(read_goal(one).goal, run.planned)
    return found


def _values(
    session: Session, stream: str, score: str, since: float | None
) -> Iterator[tuple[float, str, float | None]]:
    """When each ended job was submitted, its id, and its value; None where the value is lost."""
    window = None if since is None else max(0.0, time.time() - since)
    results: Results = stream_results(session, stream, window)
    for trial in results.trials:
        if trial.id != trial.case_id or trial.state is State.cancelled:  # a shadow, or nobody wants it
            continue
        known, value = _value(trial, score)
        if known:
            yield trial.submitted or 0.0, trial.id, value


def _reported(
    session: Session, stream: str, outcome: str, since: float | None
) -> Iterator[tuple[float, str, float | None]]:
    """For each job the time of the first report of an outcome, the job and the value; None for no number.

    They are in the order of the reports, which never changes later, so that the sequence is valid at every
    look, however late reports are. It is about jobs with a report only.
    """
    with session.reading() as store:
        for at, task, value in outcome_reports.first(store, stream, outcome, since):
            yield at, task, float(value) if isinstance(value, (bool, int, float)) else None


def _value(trial: TrialResult, score: str) -> tuple[bool, float | None]:
    """(whether it is final, the value)."""
    if score == FAILED:
        return True, float(trial.state is not State.succeeded)
    if score == TOOK:
        return True, trial.took
    if score == COST:
        return True, trial.metrics.get("cost")
    if trial.state is not State.succeeded:
        return True, None
    found = trial.scores.get(score)
    if found is None or found.state not in TERMINAL:
        return False, None
    value = None if found.no_verdict else part_of(found.value)
    return True, float(value) if isinstance(value, (bool, int, float)) else None


class GoalWatch:
    """Looks at the goals of the streams that a host serves, in a thread of its own ("peira-goals")."""

    def __init__(
        self,
        session: Session,
        streams: Sequence[str],
        changed: Callable[[str, GoalLook, GoalLooked], None],
        noted: Callable[[str, str], None],
        failed: Callable[[BaseException], None],
    ) -> None:
        """`changed` is called with each new verdict, `noted` once if a stream's goals cannot be looked at,
        `failed` if the store cannot be read."""
        self._session, self._streams, self._changed = session, list(streams), changed
        self._noted, self._failed = noted, failed
        self._verdicts: dict[tuple[str, str], str] = {}
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="peira-goals", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        rest = 0.0
        try:
            while not self._stopping.wait(rest):
                began = time.monotonic()
                for name in list(self._streams):
                    try:
                        self._look(name)
                    except Invalid as problem:
                        self._streams.remove(name)
                        self._noted(name, str(problem))
                rest = max(LOOK, COSTS * (time.monotonic() - began))
        except Exception as problem:
            if not self._stopping.is_set():
                self._failed(problem)

    def _look(self, name: str) -> None:
        for look in goal_statuses(self._session, name):
            place = name, look.goal.goal
            before = self._verdicts.get(place, "undecided")
            if look.status.verdict != before:
                self._verdicts[place] = look.status.verdict
                self._changed(name, look, _event(look))

    def stop(self) -> None:
        """End it."""
        self._stopping.set()
        self._thread.join()


def _event(look: GoalLook) -> GoalLooked:
    found: Mapping[str, object] = look.document()
    status = look.status
    return GoalLooked(
        look.goal.goal,
        status.verdict,
        status.mean if status.mean is not None else 0.0,
        found["low"],  # type: ignore[arg-type]
        found["high"],  # type: ignore[arg-type]
        status.n,
        status.since,
    )
