"""How attempts end: values become results, exceptions become failures, and tasks are retried or ended."""

from __future__ import annotations

import random
import traceback
from collections import deque
from pathlib import Path
from typing import Protocol

import msgspec

from peira.core.contracts import Attempt, ChainingSource, Ended, Op
from peira.core.ids import Json, canonical, digest_bytes, normalise
from peira.core.log.events import NOTHING, Failure, Result, State, TaskFinished, TaskRetried
from peira.core.models import output_of
from peira.core.text.secrets import exposed_keys, without_keys
from peira.engine.attempts.admission import Admission, Claims
from peira.engine.attempts.channel import AttemptChannel
from peira.engine.context import RunContext
from peira.engine.journal import payload
from peira.engine.progress import TaskCounts, shared
from peira.engine.scheduler import Scheduler, TaskEntry
from peira.errors import (
    Abandoned,
    Exhausted,
    InDoubt,
    Invalid,
    ModelRefused,
    ProcessDied,
    TimedOut,
    TooLarge,
    Unanswered,
    carried,
    message_of,
)
from peira.spec.limits import Policy

OWN_FOLDER = str(Path(__file__).resolve().parents[2])
"""Frames of files in this folder are left out of recorded tracebacks."""
MOST_MESSAGE = 2000
"""The most characters of an error message that are recorded."""
MOST_TRACE = 8000
"""The most characters of a traceback that are recorded, from its end."""
PLAIN = frozenset({str, bool, int, float, dict, list, type(None)})
"""The types of most outputs: values that stand for themselves."""


def ended(
    channel: AttemptChannel,
    took: float,
    outcome: object,
    problem: BaseException | None,
    limit: int,
    redraw: bool = False,
    waited: float = 0.0,
) -> tuple[Ended, tuple[bytes, ...], bool]:
    """How an attempt ended, the blobs of its result, and whether a retry could help.

    `took` includes the time in peira's queues, which is recorded apart, with what was `waited` before.
    A retry does not help if the outcome was refused, or if the attempt used only replayed answers and
    `redraw` is off.
    """
    if channel.used:
        channel.settle()
    if problem is None:
        try:
            return (*_succeeded(channel, took, outcome, limit, waited), False)
        except (Invalid, TooLarge) as refusal:
            problem = refusal
    trail = channel.trail(took) if channel.used else b""
    why = failure(problem)
    end = Ended(_state(problem), _result(channel, took, NOTHING, "", why, waited, trail))
    helps = not isinstance(problem, (Invalid, TooLarge, Abandoned, InDoubt, ModelRefused, Unanswered))
    same = channel.only_replayed and not redraw and not isinstance(problem, (TimedOut, ProcessDied))
    return end, (trail,) if trail else (), helps and not same


def _state(problem: BaseException) -> State:
    """The state for an exception that ended an attempt."""
    if isinstance(problem, Exhausted):
        return State.exhausted
    if isinstance(problem, InDoubt):
        return State.in_doubt
    return State.cancelled if isinstance(problem, Abandoned) else State.failed


def _succeeded(
    channel: AttemptChannel, took: float, outcome: object, limit: int, waited: float
) -> tuple[Ended, tuple[bytes, ...]]:
    """The end for an output; Invalid or TooLarge if it cannot be recorded."""
    value: Json
    if type(outcome) is bool:  # as many scores are
        value, body = outcome, b"true" if outcome else b"false"
    else:
        value = normalise(outcome if type(outcome) in PLAIN else output_of(outcome), "output")
        body = canonical(value)
    if len(body) > limit:
        raise TooLarge(f"output: {len(body)} bytes, more than the limit of {limit} (policy.output_limit)")
    inline, blob, blobs = payload(body, channel.inline)
    if not (channel.used or waited):
        result, trail = Result(round(took, 6), inline, blob), b""
    else:
        trail = channel.trail(took)
        result = _result(channel, took, inline, blob, None, waited, trail)
    if marks := exposed_keys(body):
        result = msgspec.structs.replace(result, exposed=marks)
    return Ended(State.succeeded, result, value), (*blobs, trail) if trail else blobs


def _result(
    channel: AttemptChannel,
    took: float,
    output: msgspec.Raw,
    blob: str,
    why: Failure | None,
    waited: float,
    trail: bytes = b"",
) -> Result:
    """The result record of an attempt, with everything it reported."""
    if not (channel.used or why or waited):
        return Result(round(took, 6), output, blob)
    metrics, about = dict(channel.metrics), dict(channel.about)
    queued = channel.queued if channel.calls_model else 0.0
    own, queued = round(max(0.0, took - queued), 6), round(waited + queued, 6)
    kept, order = (channel.artifacts, about, "", channel.calls, queued), digest_bytes(trail) if trail else ""
    return Result(own, output, blob, why, metrics, *kept, trail=order)


def failure(problem: BaseException) -> Failure:
    """An exception as it is recorded: type, message, and the traceback's frames in user code. Secrets that
    are known stand in neither: a message often repeats what was sent."""
    frames = traceback.extract_tb(problem.__traceback__)
    shown = [f for f in frames if not f.filename.startswith(OWN_FOLDER)] or frames
    trace = getattr(problem, "trace", "") or "".join(traceback.format_list(shown))
    message, trace = without_keys(message_of(problem)), without_keys(carried(trace))
    return Failure(type(problem).__name__, message[:MOST_MESSAGE], trace[-MOST_TRACE:])


def back_off(policy: Policy, tries: int, task: str) -> float:
    """Seconds before the next try: exponential, bounded, with jitter that is fixed by the task."""
    delay: float = min(policy.backoff * 2 ** (tries - 1), policy.max_backoff)
    return delay * random.Random(f"{task} {tries}").uniform(0.5, 1.0) if policy.jitter else delay


NOT_YET = Ended(State.running, Result())
"""The end of an attempt that is still under way."""


class AbandoningQueue(Protocol):
    """Makes a runner let go of an attempt."""

    def abandon(self, attempt: Attempt) -> None: ...


class ActiveAttempt(msgspec.Struct):
    """An attempt under way, the queue that can abandon it, and, once over, how it ended.

    `waited` are the seconds that earlier attempts at it waited in peira until this one began.
    """

    attempt: Attempt
    channel: AttemptChannel
    began: float
    queue: AbandoningQueue
    waited: float = 0.0
    ended: Ended = NOT_YET
    blobs: tuple[bytes, ...] = ()
    retry: bool = False


class Settlement:
    """Settles ended attempts: schedules a retry, or records the task's end."""

    def __init__(
        self,
        context: RunContext,
        scheduler: Scheduler,
        admission: Admission,
        claims: Claims,
        tally: TaskCounts,
    ) -> None:
        self._run, self._journal, self._policy = context.run, context.journal, context.policy
        self._clock, self._hooks = context.clock, context.hooks
        self._scheduler, self._admission, self._tally = scheduler, admission, tally
        self._claims, self._shared = claims, context.shared
        self._ends: deque[ActiveAttempt] = deque()
        self._chaining = admission.source if isinstance(admission.source, ChainingSource) else None

    def add(self, ended: ActiveAttempt) -> int:
        """Queue an end and return the queue's length. Any thread; needs no lock."""
        self._ends.append(ended)
        return len(self._ends)

    def settle(self, stopping: bool) -> bool:
        """Settle all queued ends; False if there are none. The execution's lock is held.

        When `stopping`, nothing is retried. Direct tasks that are unclaimed are claimed in the same commit.
        """
        ops: list[Op] = []
        unclaimed: list[TaskEntry] = []
        direct: list[ActiveAttempt] = []
        ends, started, listening = self._ends, self._scheduler.started, self._hooks.listening
        while ends:
            one = ends.popleft()
            entry = started[one.attempt.spec.id]
            if listening:
                self._hooks.attempt_ended(one.attempt, one.ended.state)
            again = one.retry and not stopping and self._may_try_again(entry, one.ended)
            op = self._again(entry, one) if again else self._final(entry, one)
            if not entry.claimed and self._shared:
                op = self._claims.claiming(entry, op)
            elif not entry.claimed:
                unclaimed.append(entry)
            ops.append(op)
            if entry.offer.direct and not again:
                direct.append(one)
        if ops:
            self._journal.queue([*self._claims.claim_direct(unclaimed), *ops])
            self._admission.remember({one.attempt.spec.id: one.ended for one in direct})
            self._admission.note_blocked()
        return bool(ops)

    def _may_try_again(self, entry: TaskEntry, end: Ended) -> bool:
        return end.state is State.failed and entry.tries <= self._policy.retries

    def _again(self, entry: TaskEntry, one: ActiveAttempt) -> Op:
        """Schedule a retry after a back-off; returns the op that records it."""
        wait = back_off(self._policy, entry.tries, entry.offer.spec.id)
        self._scheduler.again(entry.offer.spec.id, self._clock.monotonic() + wait)
        event = TaskRetried(entry.offer.spec.id, entry.epoch, one.ended.result, self._clock.now() + wait)
        return Op(self._run, (event,), one.blobs)

    def _final(self, entry: TaskEntry, one: ActiveAttempt) -> Op:
        """End the task for all its offers; returns the op that records it."""
        spec, end = entry.offer.spec, one.ended
        self._tally.add(spec.kind, end.state)
        self._scheduler.end(spec.id, end.state)
        self._admission.ended(entry.offer, end)
        if entry.others:
            self._tally.add(spec.kind, shared(end.state), len(entry.others))
            for offer in entry.others:
                self._admission.ended(offer, end)
        finished = TaskFinished(spec.id, entry.epoch, end.state, end.result)
        if self._chaining is None:
            return Op(self._run, (finished,), one.blobs)
        more = self._chaining.with_end(entry.offer, end)
        return Op(self._run, (finished, *more.events), (*one.blobs, *more.blobs))
