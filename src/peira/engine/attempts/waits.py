"""Tasks of a run that wait for people or for other tasks: how they begin to, and what lets them go on."""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import Future

import msgspec

from peira.core.contracts import Attempt, Op, Outcome
from peira.core.failpoints import reach
from peira.core.log.events import TERMINAL, AnyEvent, State, TasksWoken
from peira.core.log.rows import ASKED, Call, question_row
from peira.engine.attempts.channel import AttemptChannel
from peira.engine.attempts.dispatch import Dispatch
from peira.engine.inbox import expiring, find_question, waiting_op
from peira.engine.run_state import RunState
from peira.errors import Fenced


class _NewWait(msgspec.Struct):
    """A task that begins to wait: the commit that says so, and what it waits for.

    `unknown` are awaited tasks that were not at hand when `mark` ops had been added to the journal.
    """

    attempt: Attempt
    questions: tuple[str, ...]
    awaits: tuple[str, ...]
    commit: Future[list[Outcome]] | None = None
    unknown: frozenset[str] = frozenset()
    mark: int = 0


class Waits:
    def __init__(self, state: RunState, dispatch: Dispatch) -> None:
        self._state, self._context, self._dispatch = state, state.context, dispatch
        self._scheduler, self._store, self._journal = state.scheduler, state.context.store, state.journal
        self._new: list[_NewWait] = []
        self._due: list[tuple[float, str]] = []  # deadlines of questions, by the clock on the wall: a heap

    def begin(self, attempt: Attempt, channel: AttemptChannel) -> None:
        """Record that the attempt's task waits, whatever its code made of the signal; its worker is free."""
        channel.close()
        if self._context.hooks.listening:
            self._context.hooks.attempt_ended(attempt, State.waiting)
        waits = _NewWait(attempt, tuple(channel.questions), channel.awaits)
        now, inline = self._context.clock.now(), self._context.inline
        op = waiting_op(self._context.run, attempt, channel.questions, channel.awaits, now, inline)
        with self._state.changed:
            self._new.append(waits)
        reach("engine.before_wait")
        waits.commit = self._journal.send([op])

    def beginning(self, tasks: Collection[str]) -> bool:
        """Whether one of these tasks begins to wait just now. With the lock held."""
        return any(one.attempt.spec.id in tasks for one in self._new)

    def settle(self) -> None:
        """What is durable by now, and what has arrived. With the lock held."""
        if self._new:
            self._settle_new()
        if asked := self._state.admission.asked:
            self._note_deadlines(asked)
            asked.clear()
        if self._scheduler.arrived:
            self._note_arrived()

    def _settle_new(self) -> None:
        """Put aside the tasks whose waiting is durable. What they wait for is looked up now, with the lock
        held: what is closed later is noted by the scheduler."""
        committed = [one for one in self._new if one.commit is not None and one.commit.done()]
        keys = [key for one in committed for key in one.questions]
        rows = self._store.find("call", keys) if keys else {}
        left = {id(one): one for one in self._new}
        for one in committed:
            assert one.commit is not None
            task = one.attempt.spec.id
            entry = self._scheduler.started[task]
            if one.commit.result()[-1] is not None:  # somebody answered just before
                del left[id(one)]
                self._dispatch.back([one.attempt])
            elif (awaits := self._awaited_tasks(one)) is not None:
                del left[id(one)]
                entry.tries -= 1
                entry.attempts -= 1
                asked = {key for key in one.questions if rows[key].state == ASKED}
                self._scheduler.wait(task, asked | awaits, tasks=bool(one.awaits))
                self._note_deadlines(asked, rows)
                if one.awaits and not asked | awaits:
                    self._journal.queue([Op(self._context.run, (TasksWoken((task,)),))])
        self._new = list(left.values())
        if committed:
            self._dispatch.call_workers()

    def _awaited_tasks(self, one: _NewWait) -> set[str] | None:
        """Those of the awaited tasks that have not ended; None if the journal must be waited for first.

        A task that is not at hand may have ended a moment ago, and the store not know it yet.
        """
        unknown = frozenset(task for task in one.awaits if not self._scheduler.knows(task))
        if not unknown:
            return set(one.awaits)
        if not unknown <= one.unknown:
            one.unknown, one.mark = unknown, self._journal.added
        if self._journal.durable < one.mark:
            return None
        rows = self._store.find("task", list(unknown))
        return set(one.awaits) - {task for task, row in rows.items() if row.state in TERMINAL}

    def _note_deadlines(self, keys: Iterable[str], rows: Mapping[str, Call] | None = None) -> None:
        found = self._store.find("call", list(keys)) if rows is None else rows
        for key in keys:
            if key in found and (due := question_row(found[key]).due):
                heapq.heappush(self._due, (due, key))

    def _note_arrived(self) -> None:
        """Tasks that waited for others are queued again; answers have queued the rest."""
        woken = tuple(entry.spec.id for entry in self._scheduler.arrived if entry.awaits_tasks)
        if woken:
            self._journal.queue([Op(self._context.run, (TasksWoken(woken),))])
        self._scheduler.arrived.clear()
        self._dispatch.call_workers()

    def arrive(self, keys: Iterable[str]) -> None:
        """Questions were closed, or tasks ended, that tasks here may wait for."""
        with self._state.changed:
            self._scheduler.arrive(keys)
            self._note_arrived()

    def look(self) -> None:
        """Look whether other processes have closed questions, or ended tasks, that tasks here wait for."""
        with self._state.changed:
            keys = {key for entry in self._scheduler.waiting.values() for key in entry.awaits}
            closed = self._store.find("call", list(keys))
            ended = self._store.find("task", [key for key in keys if key not in closed])
            self._scheduler.arrive([key for key, row in closed.items() if row.state != ASKED])
            self._scheduler.arrive([task for task, row in ended.items() if row.state in TERMINAL])
            self._note_arrived()

    def close_question(self, event: AnyEvent, note: AnyEvent | None = None) -> Fenced | None:
        """Record how a question was closed, durably, and let the task go on; the refusal if it was closed
        before. `note` is recorded with it."""
        events = (event,) if note is None else (note, event)
        [refusal] = self._journal.write([Op(self._context.run, events)])
        if refusal is None:
            self.arrive([event.key])  # type: ignore[union-attr]
        return refusal

    def overdue(self) -> list[str]:
        """The keys of questions whose deadline has passed. With the lock held."""
        if not self._due:
            return []
        found, now = [], self._context.clock.now()
        while self._due and self._due[0][0] <= now:
            found.append(heapq.heappop(self._due)[1])
        return found

    def expire(self, key: str) -> None:
        """Close a question that nobody answered in time, unless somebody just did."""
        asked = find_question(self._store, key)
        if asked.open:
            self.close_question(expiring(asked))
