"""The channel of an attempt: model calls, steps, observations, metrics, files, a private folder."""

from __future__ import annotations

import math
import shutil
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future, InvalidStateError
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

import peira.engine.calls as model_calls
import peira.models as models
from peira.core.chat.transcript import TrailEntry
from peira.core.codec import decode
from peira.core.contracts import AskingWork, Attempt, Op, Outcome
from peira.core.ids import Json, canonical, digest, digest_bytes, normalise, short
from peira.core.log.events import (
    TERMINAL,
    AnyEvent,
    Artifact,
    Attached,
    Observed,
    Reported,
    SessionWritten,
    StepRecorded,
)
from peira.core.log.rows import ASKED, KEPT, session_row
from peira.core.models import Reply, Request
from peira.core.people.questions import PersonAnswer, PersonQuestion
from peira.engine.context import RunContext
from peira.engine.inbox import closed_answer
from peira.engine.journal import payload
from peira.engine.kinds import GENERATE, TRANSFORM
from peira.engine.stages import TOOL
from peira.errors import Abandoned, CallFailed, Invalid, Waiting

LARGE_NOTE = 65_536
"""Bytes of logged data that a trail repeats at the most."""
TOO_LARGE = "(too large to be shown here; see the events of the trial)"
_opening = threading.Lock()  # of all: most attempts need none of their own


class AttemptChannel:
    # Most attempts use none of these, and there are very many attempts.
    used = False
    """Whether anything was recorded or asked through here."""
    _folder: Path | None = None
    _open = True
    _ordinals: dict[str, int] | None = None
    _asked: dict[Future[Reply], tuple[float, str]] | None = None
    """The calls that are not counted yet, with when they were asked and by whom."""
    _trail: list[TrailEntry] | None = None
    _own_cost: float | None = 0.0
    _reported_cost: float | None = None
    _counting: threading.Lock
    _ledger: model_calls.Ledger
    _queue: model_calls.QueueTime | None = None
    calls_model = False
    _account: model_calls.Account | None = None
    _served: tuple[str, ...] = ()
    _same_questions: Mapping[str, int] = MappingProxyType({})
    calls: tuple[str, ...] = ()
    bought = replayed = 0
    metrics: Mapping[str, float] = MappingProxyType({})
    about: Mapping[str, str] = MappingProxyType({})
    artifacts: tuple[Artifact, ...] = ()
    questions: Mapping[str, tuple[PersonQuestion, bool]] = MappingProxyType({})
    """Open questions, by key, that the attempt waits for; whether each is to be asked."""
    awaits: tuple[str, ...] = ()
    """Tasks that the attempt waits for."""

    def __init__(
        self,
        context: RunContext,
        attempt: Attempt,
        ledger: Callable[[str], model_calls.Ledger],
        claim: Callable[[str], None] | None = None,
    ) -> None:
        """`ledger` gives the ledger of an account, once a call is made; `claim` claims a direct task,
        durably, before anything is recorded through here."""
        self._context, self._attempt, self._open_ledger = context, attempt, ledger
        self._claim = claim

    @property
    def run(self) -> str:
        """The run that the attempt belongs to."""
        return self._context.run

    @property
    def context(self) -> RunContext:
        """The run that the attempt belongs to, for what peira itself does in it."""
        return self._context

    @property
    def task(self) -> str:
        """The task that the attempt is at."""
        return self._attempt.spec.id

    @property
    def label(self) -> str:
        return f"{self._context.label}/{short(self._attempt.spec.id)}-{self._attempt.epoch}"

    @property
    def closed(self) -> bool:
        return not self._open

    def recall(self, key: str) -> bytes | None:
        self._check()
        if self._attempt.epoch == 1:  # nothing can have been recorded before the first attempt
            return None
        call = self._context.store.find("call", [key]).get(key)
        if call is None:
            return None
        self.used = True
        self._note("step", key)
        return self._context.store.get(call.blob) if call.blob else bytes(call.value)

    def record(self, key: str, name: str, value: bytes) -> Future[None]:
        inline, blob, blobs = payload(value, self.inline)
        done: Future[None] = Future()
        event = StepRecorded(*self._attempt.key, key, name, inline, blob)
        written = self._write(event, blobs)
        self._note("step", key)
        written.add_done_callback(lambda outcome: _pass_on(outcome, done))
        return done

    def _session_key(self) -> str:
        """The key of the session of the job; Invalid if it has none that it shares."""
        key = str(getattr(self._attempt.work, "session_key", ""))
        if not key:
            raise Invalid(
                'session(): this is no job of a session; write session="input.NAME" and isolation="shared" '
                'or "synchronized" for the stream'
            )
        return key

    def read_session(self) -> tuple[int, bytes]:
        self._check()
        key = self._session_key()
        row = self._context.store.find("call", [key]).get(key)
        if row is None or row.state != KEPT:
            return 0, b""
        found = session_row(row)
        return found.version, self._context.store.get(row.blob) if row.blob else bytes(found.value)

    def write_session(self, version: int, state: bytes, key: str, name: str) -> bool:
        self._check_claimed()
        inline, blob, blobs = payload(state, self._context.inline)
        events = (
            StepRecorded(*self._attempt.key, key, name, inline, blob),
            SessionWritten(self._attempt.spec.id, self._session_key(), version, inline, blob),
        )
        outcome = self._context.journal.write([Op(self._context.run, events, blobs)])[-1]
        if outcome is None:
            self._note("step", key)
            return True
        if self.read_session()[0] != version - 1:
            return False
        raise Abandoned(str(outcome))

    def keep(self, key: str, name: str, value: bytes) -> None:
        """Record a step's value as `record` does, and wait for nothing: it is durable before the attempt's
        end is."""
        inline, blob, blobs = payload(value, self.inline)
        self._add(StepRecorded(*self._attempt.key, key, name, inline, blob), blobs)
        self._note("step", key)

    def call(self, model: str, request: Request, key: str, account: str = "") -> Future[Reply]:
        self._check_claimed()
        asked_so_far = self._asked if self._asked is not None else self._first()
        work = self._attempt.work
        counted = msgspec.structs.replace(request, beside={}) if request.beside else request
        body = canonical(msgspec.to_builtins(counted))
        content = digest_bytes(body)
        ordinal = f"key={digest(key)}" if key else self._ordinal(f"{model} {content}")
        if self._attempt.draw:
            ordinal = f"{ordinal} draw={self._attempt.draw}"
        assert self._queue is not None
        state = model_calls.CallState(self._queue)
        asked = model_calls.CallRequest(
            self._attempt, work.scope(), work.stage, ordinal, request, body, content, state, self._account
        )
        reply = self._ledger.ask(model, asked)
        asked_so_far[reply] = self._context.clock.monotonic(), account
        reply.add_done_callback(self._count)
        return reply

    def _first(self) -> dict[Future[Reply], tuple[float, str]]:
        """Of several threads that ask, one opens the trial's account, and the others wait for it."""
        with _opening:
            if self._asked is None:
                self._ordinals, self._counting = {}, threading.Lock()
                self._ledger = self._open_ledger(getattr(self._attempt.work, "account", ""))
                self._queue = model_calls.QueueTime(self._context.clock.monotonic)
                self.calls_model = True
                own = getattr(self._attempt.work, "allowance", None)
                self._account = self._ledger.reserve.trial(self._attempt.spec.id, own)
                self._asked = {}  # last: whoever sees it looks no further
            return self._asked

    def _ordinal(self, same: str) -> str:
        """Which one it is among equal requests of this attempt, whichever of its threads asks."""
        assert self._ordinals is not None
        with self._counting:
            nth = self._ordinals[same] = self._ordinals.get(same, 0) + 1
        return str(nth)

    def settle(self) -> None:
        """Count every reply that has come. Who waits for one wakes before its callbacks have run, so an
        attempt may be over while its last call is not counted yet."""
        if self._asked is not None:
            with self._counting:  # also waits for one that is just being counted
                for reply in [asked for asked in list(self._asked) if asked.done()]:
                    self._add_up(reply)

    def _count(self, done: Future[Reply]) -> None:
        with self._counting:
            if self._asked and done in self._asked:
                self._add_up(done)

    def _add_up(self, done: Future[Reply]) -> None:
        """Add a call's tokens and cost to what the trial reports."""
        assert self._asked is not None
        asked_at, account = self._asked.pop(done)
        try:
            problem = done.exception()
        except CancelledError:  # by the agent, which waits for it no more
            self._ledger.abandon([done])
            self.bought += 1
            return
        if problem is not None:
            self.bought += 1
            if isinstance(problem, CallFailed) and problem.call:
                self._note("call", problem.call, since=asked_at, account=account)
            return
        reply = done.result()
        self.calls += (reply.call,)
        self.bought += not reply.replayed
        self.replayed += reply.replayed
        if reply.served not in self._served:
            self._served += (reply.served,)
            self.about = {**self.about, "served": ", ".join(self._served)}
        self._note("call", reply.call, since=asked_at, account=account)
        self.metrics = metrics_with_call(self.metrics, reply, self._attempt.draw, account)
        if not account:
            self._own_cost = (
                None if reply.cost is None or self._own_cost is None else self._own_cost + reply.cost
            )
            self._add_reported_cost()

    def _note(self, kind: str, key: str, since: float = 0.0, account: str = "", data: Json = None) -> None:
        """Add to the trail: what was done, and when by the monotonic clock."""
        now = self._context.clock.monotonic()
        entry = TrailEntry(kind, key, now, now - since if since else 0.0, account, data)
        if self._trail is None:
            self._trail = []
        self._trail.append(entry)

    def trail(self, took: float) -> bytes:
        """The trail of an attempt that took so long and ends now; empty if it only asked models and was
        answered."""
        made = self._trail
        plain = made and all(entry.kind == "call" and not entry.account for entry in made)
        if not made or (plain and len(made) == len(self.calls)):
            return b""
        began = self._context.clock.monotonic() - took
        replace = msgspec.structs.replace
        return msgspec.json.encode(
            [replace(e, at=round(max(0.0, e.at - began), 3), took=round(e.took, 3)) for e in made]
        )

    @property
    def inline(self) -> int:
        """The size up to which values are kept in events."""
        apart = self._context.outputs_apart and self._attempt.spec.kind in (GENERATE, TRANSFORM)
        return -1 if apart else self._context.inline

    @property
    def queued(self) -> float:
        """Seconds that its calls have waited in peira so far, while none of them was with its model."""
        return self._queue.seconds() if self._queue else 0.0

    @property
    def unanswered(self) -> int:
        """How many of its calls are with their models."""
        return self._queue.sent if self._queue else 0

    @property
    def only_replayed(self) -> bool:
        """It used recorded answers and nothing else: another attempt would see the same."""
        return bool(self.replayed) and not self.bought

    def consult(self, questions: Sequence[PersonQuestion]) -> list[PersonAnswer]:
        self._check_claimed()
        keys = [self._question_key(one) for one in questions]
        rows = self._context.store.find("call", keys)
        answers = {key: answer for key, row in rows.items() if (answer := closed_answer(row)) is not None}
        keyed = dict(zip(keys, questions, strict=True))
        if len(answers) == len(keyed):
            return [answers[key] for key in keys]
        mine = {key for key, row in rows.items() if row.state == ASKED and row.task == self.task}
        with _opening:
            unanswered = {key: (one, key not in mine) for key, one in keyed.items() if key not in answers}
            self.questions = {**self.questions, **unanswered}
        raise Waiting("a person is asked")

    def _question_key(self, question: PersonQuestion) -> str:
        """The key of the answer to a question, with its ordinal among equal ones of this attempt."""
        work = self._attempt.work
        scope = work.question_context().scope if isinstance(work, AskingWork) else work.scope()
        if question.key:
            return question.identity(scope, work.stage, 0)
        same = digest(question.words)
        with _opening:
            self._same_questions = {**self._same_questions, same: self._same_questions.get(same, 0) + 1}
            return question.identity(scope, work.stage, self._same_questions[same])

    def await_tasks(self, tasks: Sequence[str]) -> None:
        self._check_claimed()
        rows = self._context.store.find("task", list(tasks))
        missing = [task for task in tasks if task not in rows or rows[task].state not in TERMINAL]
        if missing:
            with _opening:
                self.awaits = tuple(dict.fromkeys((*self.awaits, *missing)))
            raise Waiting("other tasks are not over")

    def observe(self, name: str, data: Json) -> None:
        body = canonical(models.value_without_keys(normalise(data, f"log {name!r}")))
        name = models.without_keys(name)
        self._add(Observed(*self._attempt.key, name, msgspec.Raw(body)))
        self._note("note", name, data=decode(body) if len(body) <= LARGE_NOTE else TOO_LARGE)

    def report(self, metrics: Mapping[str, float], about: Mapping[str, str]) -> None:
        wrong = [name for name, value in metrics.items() if not math.isfinite(value)]
        if wrong:
            raise Invalid(f"metric {name!r} is not a finite number" for name in wrong)
        if "cost_usd" in metrics:
            metrics = {"cost": metrics["cost_usd"], **{k: v for k, v in metrics.items() if k != "cost_usd"}}
        about = {name: models.without_keys(value) for name, value in about.items()}
        self._add(Reported(*self._attempt.key, dict(metrics), about))
        self.metrics = {**self.metrics, **metrics}
        self.about = {**self.about, **about}
        if "cost" in metrics:
            self._reported_cost = float(metrics["cost"])
            self._add_reported_cost()

    def _add_reported_cost(self) -> None:
        """What the agent reported is added to what its recorded calls cost; alone, if that is unknown."""
        if self._reported_cost is not None:
            self.metrics = {**self.metrics, "cost": self._reported_cost + (self._own_cost or 0.0)}

    def attach(self, name: str, data: bytes, media: str) -> str:
        artifact = Artifact(name, digest_bytes(data), len(data), media)
        self._add(Attached(*self._attempt.key, artifact), (data,))
        self.artifacts += (artifact,)
        self._note("file", name)
        return artifact.digest

    def workdir(self) -> Path:
        self._check()
        if self._folder is None:
            self._folder = self._context.work_root / f"{short(self._attempt.spec.id)}-{self._attempt.epoch}"
            self._folder.mkdir(parents=True)
        return self._folder

    def close(self, abandoned: bool = False) -> None:
        """Nothing more through here, and nobody waits here any more; the private folder goes with it.

        If the attempt was `abandoned`, its calls give up their places; if it ended by itself, what it has
        sent keeps them until it is answered.
        """
        self._open = False
        if not (self.used or self._folder):
            return
        left: list[Future[Reply]] = []
        for reply in list(self._asked or ()):
            with suppress(InvalidStateError):  # it has just come
                reply.set_exception(Abandoned("this attempt was abandoned: it may do nothing more"))
                left.append(reply)
        if abandoned and left:
            self._ledger.abandon(left)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _check(self) -> None:
        if not self._open:
            raise Abandoned("this attempt was abandoned: it may do nothing more")

    def _check_claimed(self) -> None:
        """As `_check`, for what leaves a trace: a direct task is claimed now."""
        self._check()
        self.used = True
        if self._claim is not None:
            self._claim(self._attempt.spec.id)
            self._claim = None

    def _add(self, event: AnyEvent, blobs: tuple[bytes, ...] = ()) -> None:
        self._check_claimed()
        self._context.journal.add([Op(self._context.run, (event,), blobs)])

    def _write(self, event: AnyEvent, blobs: tuple[bytes, ...]) -> Future[list[Outcome]]:
        self._check_claimed()
        return self._context.journal.send([Op(self._context.run, (event,), blobs)])


def metrics_with_call(
    metrics: Mapping[str, float], reply: Reply, draw: int = 0, account: str = ""
) -> dict[str, float]:
    """A trial's metrics with one more call. `cost` is what its calls cost when they were bought, `spent` what
    was paid now; both are left out for good once a price is unknown. Calls of another `account` than the
    agent's are counted apart: `user_calls`, `user_cost` and so on."""
    if account:
        apart = {
            name.removeprefix(f"{account}_"): n
            for name, n in metrics.items()
            if name.startswith(f"{account}_")
        }
        counted = {f"{account}_{name}": n for name, n in metrics_with_call(apart, reply).items()}
        return {**{name: n for name, n in metrics.items() if not name.startswith(f"{account}_")}, **counted}
    usage, cost, had = reply.usage, reply.cost, metrics.get
    total = dict(metrics)
    known = not had("calls") or "cost" in metrics
    total["calls"] = had("calls", 0.0) + 1
    total["input_tokens"] = had("input_tokens", 0.0) + (usage.input or 0)
    total["output_tokens"] = had("output_tokens", 0.0) + (usage.output or 0)
    if reply.refusal:
        total["refusals"] = had("refusals", 0.0) + 1
    for call in reply.tool_calls:
        for name in ("tool_calls", f"{TOOL}{call.name}"):
            total[name] = total.get(name, 0.0) + 1
    if cost is None:
        total.pop("cost", None)
        total.pop("spent", None)
    elif known:
        total["cost"] = had("cost", 0.0) + cost
        total["spent"] = had("spent", 0.0) + (0.0 if reply.replayed else cost)
    if draw:
        total["redraws"] = float(draw)
    return total


def _pass_on(written: Future[list[Outcome]], done: Future[Any]) -> None:
    if problem := written.exception():
        done.set_exception(problem)
    elif refusal := written.result()[-1]:
        done.set_exception(Abandoned(str(refusal)))
    else:
        done.set_result(None)
