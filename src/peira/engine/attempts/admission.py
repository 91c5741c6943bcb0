"""Admission of tasks from a source to the scheduler (is the result stored already?), and their claims.

A claim is durable before its attempt begins; a release is queued ahead of the next claim of its task. Direct
tasks (plain code that follows from an ended task) are looked up by the worker that takes them, begin without
a claim, and are claimed in the commit of their end, or when they first use their channel.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future

import msgspec

from peira.core.contracts import (
    Attempt,
    Ended,
    Offer,
    Op,
    OpenSource,
    Outcome,
    PartialSource,
    QueueSource,
    Source,
)
from peira.core.failpoints import reach
from peira.core.log.events import (
    TERMINAL,
    Failure,
    Result,
    State,
    TaskFinished,
    TaskReused,
    TasksAdopted,
    TasksClaimed,
    TaskSpec,
    TasksReleased,
    TasksWoken,
)
from peira.core.log.state import CLAIMABLE, RUNNING, Task
from peira.engine.context import RunContext
from peira.engine.inbox import cancelling_op, open_waits
from peira.engine.progress import LEFT, TaskCounts, shared
from peira.engine.scheduler import Scheduler, TaskEntry
from peira.errors import StoreDamaged
from peira.spec.limits import Policy


class ClaimRequest(msgspec.Struct):
    """Claims on their way to the store: the tasks of each op, and the attempts at them."""

    groups: list[list[TaskEntry]]
    attempts: list[Attempt]
    commit: Future[list[Outcome]]
    awaited: bool = False
    """Whether a worker waits for it."""


class Claims:
    def __init__(self, context: RunContext) -> None:
        self._run, self._owner, self._shared = context.run, context.owner, context.shared
        self._journal, self._policy = context.journal, context.policy

    def claim(self, entries: Sequence[TaskEntry]) -> tuple[list[Attempt], list[TaskEntry]]:
        """An attempt at each, durable when it returns; and those that another process of a shared run has."""
        return self.complete(self.request(entries))

    def request(self, entries: Sequence[TaskEntry]) -> ClaimRequest:
        """Ask for an attempt at each; none may begin before `complete`. Waits for nothing."""
        groups: dict[tuple[str, str], list[TaskEntry]] = {}
        for entry in entries:
            entry.epoch += 1
            entry.tries += 1
            entry.attempts += 1
            groups.setdefault((entry.offer.spec.kind, entry.offer.spec.cls), []).append(entry)
        ops = [Op(self._run, (self._claimed(*key, group),)) for key, group in groups.items()]
        attempts = [
            Attempt(entry.offer.spec, entry.epoch, entry.offer.work, self._draw(entry)) for entry in entries
        ]
        return ClaimRequest(list(groups.values()), attempts, self._journal.send(ops))

    def complete(self, request: ClaimRequest) -> tuple[list[Attempt], list[TaskEntry]]:
        """As `claim`: waits until what was asked for is durable."""
        lost: list[TaskEntry] = []
        outcomes = request.commit.result()[-len(request.groups) :]
        for refusal, group in zip(outcomes, request.groups, strict=True):
            if refusal and not self._shared:
                raise StoreDamaged(f"a task of this run was claimed elsewhere: {refusal}")
            if refusal:
                lost += self._claim_singly(group)
        reach("engine.after_claim")
        gone = {entry.spec.id for entry in lost}
        attempts = request.attempts
        return [one for one in attempts if one.spec.id not in gone] if gone else attempts, lost

    def _claim_singly(self, entries: Sequence[TaskEntry]) -> list[TaskEntry]:
        """Claim tasks one by one; those that another process has."""
        ops = [Op(self._run, (self._claimed(one.spec.kind, one.spec.cls, [one]),)) for one in entries]
        outcomes = self._journal.write(ops)
        return [entry for entry, refusal in zip(entries, outcomes, strict=True) if refusal]

    def claim_direct(self, entries: Iterable[TaskEntry]) -> list[Op]:
        """The ops that claim direct tasks which are under way and unclaimed; to be queued before others of
        these tasks. The execution's lock is held."""
        groups: dict[tuple[str, str], list[TaskEntry]] = {}
        for entry in entries:
            entry.claimed = True
            groups.setdefault((entry.offer.spec.kind, entry.offer.spec.cls), []).append(entry)
        return [Op(self._run, (self._claimed(*key, group),)) for key, group in groups.items()]

    def claiming(self, entry: TaskEntry, op: Op) -> Op:
        """The op of a direct task that is unclaimed, with its claim: in a shared run another process may have
        claimed it with the same epoch, and then both are refused."""
        entry.claimed = True
        return Op(op.run, (self._claimed(entry.spec.kind, entry.spec.cls, [entry]), *op.events), op.blobs)

    def _draw(self, entry: TaskEntry) -> int:
        """How many draws failed before; a crash is no failure, and replays what it has."""
        return entry.attempts - entry.interruptions - 1 if self._policy.redraw else 0

    def _claimed(self, kind: str, cls: str, entries: Sequence[TaskEntry]) -> TasksClaimed:
        epochs = [entry.epoch for entry in entries]
        ids = tuple([entry.offer.spec.id for entry in entries])
        return TasksClaimed(kind, cls, self._owner, ids, tuple(epochs) if max(epochs) > 1 else ())

    def release(self, attempts: Sequence[Attempt], entries: Sequence[TaskEntry]) -> None:
        """These will not begin, and were no attempts."""
        claimed = [a.key for a, entry in zip(attempts, entries, strict=True) if entry.claimed]
        if claimed:
            tasks, epochs = zip(*claimed, strict=True)
            self._journal.queue([Op(self._run, (TasksReleased(tasks, epochs),))])
        for entry in entries:
            entry.tries -= 1
            entry.attempts -= 1
            if not entry.claimed:
                entry.epoch, entry.claimed = 0, True


def final_states(policy: Policy) -> tuple[State, ...]:
    """The states of tasks, other than success, that a run leaves as earlier runs ended them."""
    return () if policy.retry_failed else (State.failed, State.exhausted)


def is_settled(row: Task, run: str, policy: Policy) -> bool:
    """Whether a run does not do a task again: it succeeded, its failure is left alone, or it ended here."""
    ended_here = row.run == run and row.state in TERMINAL
    return row.state is State.succeeded or ended_here or row.state in final_states(policy)


LOOK_AGAIN = 0.25
"""Seconds after which a task that another process had is looked at again."""
CHUNK = 1000
MOST_AT_HAND, LOW, ENOUGH = 4000, 2000, 500
MOST_READY, FEW_READY = 1000, 500
"""The same for each class of a source with queues: ready tasks that come before its next one."""


class Admission:
    """All methods are called with the execution's lock held."""

    def __init__(self, context: RunContext, source: Source, scheduler: Scheduler, tally: TaskCounts) -> None:
        self._run, self._owner, self._store = context.run, context.owner, context.store
        self._journal, self._policy, self._clock = context.journal, context.policy, context.clock
        self._hooks = context.hooks
        self.source, self._scheduler, self._tally = source, scheduler, tally
        self._asking = False
        self._just_ended: dict[str, Ended] = {}
        self._ended_lately: dict[str, Ended] = {}
        self._ended_before: dict[str, Ended] = {}  # durable once the journal is past this
        self._durable_from = 0
        self._ended_unclaimed: set[str] = set()  # without an attempt, and perhaps not durable
        self.offers: list[Offer] = []
        self.direct: dict[str, deque[Offer]] = {}
        self.starved = False
        self._adopted: list[str] = []
        self.passed_over: list[str] = []
        """Units that earlier runs have tried, and that this one does not begin; one for each offer."""
        self.cancelled: set[str] = set()
        """Units that were cancelled before the source offered them."""
        self.asked: list[str] = []
        """Keys of questions that tasks wait for which were admitted lately."""
        self.empty = False
        """The source had nothing when it was last asked, and has not grown since."""
        self._shared = context.shared
        self.elsewhere: deque[tuple[float, Offer]] = deque()
        """Tasks that other processes of a shared run have, each with the time of the next look at it."""
        self._growing = isinstance(source, OpenSource)
        self._queues = source if isinstance(source, QueueSource) else None
        self._leave = source.leave if isinstance(source, PartialSource) else None
        self._more_sources: list[Source] = []  # added while the run goes on, that have more to offer
        self._of_others: dict[str, Source] = {}  # whose task it is, of those that were added

    @property
    def urgent(self) -> bool:
        """There is a good number of offers to admit, or workers may run out of tasks."""
        if len(self.offers) >= ENOUGH:
            return True
        return not (self.dry or self.empty) and self._lacks(LOW, FEW_READY)

    @property
    def hungry(self) -> bool:
        """More may be taken from the source, now or after a moment."""
        if self.offers:
            return True
        return not (self.dry or self.empty) and self._lacks(MOST_AT_HAND, MOST_READY)

    def _lacks(self, at_hand: int, ready: int) -> bool:
        """Whether fewer tasks than that are at hand, or of a class with a queue, ready."""
        return bool(self._lacking(ready)) if self._queues is not None else self._at_hand < at_hand

    def _lacking(self, ready: int) -> list[str]:
        """The classes whose queues have tasks ahead of which fewer than `ready` others could begin."""
        fronts = self._queues.foremost() if self._queues is not None else {}
        return [cls for cls, front in fronts.items() if self._scheduler.ready_from(cls, front) < ready]

    def grown(self) -> None:
        """The source may have something again."""
        self.empty = False

    @property
    def _at_hand(self) -> int:
        """Tasks that may soon need a worker; those asleep may be many, and need none."""
        return len(self._scheduler) - self._scheduler.asleep - len(self._scheduler.waiting)

    @property
    def dry(self) -> bool:
        """No further units will come: the source has none, or nothing is left to do them with."""
        return self.starved or (self.source.closed and not self._more_sources)

    @property
    def busy(self) -> bool:
        return self._asking or bool(self.offers or self.elsewhere) or any(self.direct.values())

    def add_source(self, source: Source) -> None:
        """Take the tasks of another source, too."""
        self._more_sources.append(source)
        self.empty = False

    def _next_of_others(self) -> list[Offer]:
        """The next tasks of a source that was added; one that has no more is asked no more."""
        source = self._more_sources[0]
        offers = list(source.more(CHUNK))
        if source.closed:
            self._more_sources.pop(0)
        self._of_others.update((offer.spec.id, source) for offer in offers)
        return offers

    def feed(self, lock: threading.Condition) -> bool:
        """Admit a chunk of what is offered; False if there is none, or somebody else is at it."""
        if self._asking:
            return False
        while self.elsewhere and self.elsewhere[0][0] <= self._clock.monotonic():
            self.offers.append(self.elsewhere.popleft()[1])
        offers, self.offers = self.offers[:CHUNK], self.offers[CHUNK:]
        if not offers and self._more_sources and self._at_hand < MOST_AT_HAND:
            offers = self._next_of_others()
        if not offers and not self.dry:
            offers = self._next()
        if offers:
            self._admit(offers, lock)
        return bool(offers)

    def _next(self) -> list[Offer]:
        """The next tasks of the source, if it may offer more."""
        if self._queues is not None:
            self.empty = not self._queues.foremost()
            return [one for cls in self._lacking(MOST_READY) for one in self._queues.more_of(cls, CHUNK)]
        if self._at_hand >= MOST_AT_HAND:
            return []
        self.empty = self._growing  # set before it is asked: it may grow meanwhile
        offers = list(self.source.more(CHUNK))
        self.empty = self.empty and not offers
        return offers

    def look_again(self, entries: Iterable[TaskEntry]) -> None:
        """Other processes have these tasks, which were started here: they are looked up again later."""
        for entry in entries:
            self._scheduler.withdraw(entry)
            for offer in (entry.offer, *entry.others):
                self._look_again(offer)

    def _look_again(self, offer: Offer) -> None:
        self.elsewhere.append((self._clock.monotonic() + LOOK_AGAIN, offer))

    def ended(self, offer: Offer, ended: Ended) -> None:
        """A task has ended, here or before: what follows from it is offered."""
        if self._asking:
            self._just_ended[offer.spec.id] = ended
        source = self._of_others.pop(offer.spec.id, self.source) if self._of_others else self.source
        for following in source.follow(offer, ended):
            if source is not self.source:
                self._of_others[following.spec.id] = source
            if following.direct:
                cls = following.spec.cls
                if cls not in self.direct:
                    self.direct[cls] = deque()
                self.direct[cls].append(following)
            else:
                self.offers.append(following)
        if self._hooks.listening and offer.spec.kind == self.source.unit:
            self._hooks.trial_ended(offer.spec.id, ended, self._store.get)

    def remember(self, ends: Mapping[str, Ended]) -> None:
        """Keep these ends of direct tasks, which were just queued, until they are durable: before that the
        store does not know of them, and an equal task must find them here."""
        if self._durable_from <= self._journal.durable and (self._ended_lately or self._ended_before):
            self._ended_before, self._ended_lately = self._ended_lately, {}
            self._durable_from = self._journal.added
        self._ended_lately.update(ends)

    def start_direct(self, cls: str, n: int) -> list[TaskEntry]:
        """Start up to `n` direct tasks of a class; `admit_direct` must look them up before they begin."""
        waiting, lately, before = self.direct.get(cls), self._ended_lately, self._ended_before
        started: list[TaskEntry] = []
        while waiting and len(started) < n:
            offer = waiting.popleft()
            id = offer.spec.id
            if (ended := lately.get(id) or before.get(id)) is not None:
                self._reuse(offer, ended)
            elif self._scheduler.start_direct(entry := TaskEntry(offer, 1, 0, 1, 1, claimed=False)):
                started.append(entry)
        return started

    def admit_direct(self, entries: Sequence[TaskEntry], lock: threading.Condition) -> list[Attempt]:
        """Attempts at those of these tasks that the store does not know; the others are admitted like any.

        Called without the lock. What ended before they were started is durable, or was found by
        `start_direct`: the store need not be waited for.
        """
        known = self._store.find("task", [entry.offer.spec.id for entry in entries])
        if known:
            with lock:
                waits = self._waits(known)
                for entry in entries:
                    if (row := known.get(entry.offer.spec.id)) is not None:
                        self._scheduler.withdraw(entry)
                        for offer in (entry.offer, *entry.others):
                            self._place(offer, row, {}, waits)
                if self._adopted:
                    self._adopt()
                self.note_blocked()
            entries = [entry for entry in entries if entry.offer.spec.id not in known]
        return [Attempt(entry.offer.spec, 1, entry.offer.work) for entry in entries]

    def _admit(self, offers: Sequence[Offer], lock: threading.Condition) -> None:
        self._asking = True
        lock.release()
        try:
            known = self._known(offers)
            if renamed := [offer for offer in offers if offer.former and offer.spec.id not in known]:
                self._take_over(renamed, known)
            needs = self._needs(offers) if any(offer.spec.needs for offer in offers) else {}
        finally:
            lock.acquire()
            self._asking = False
        ended, self._just_ended = self._just_ended, {}
        needs |= {task: end.state for task, end in ended.items()}
        waits = self._waits(known) if known else {}
        for offer in offers:
            if offer.spec.id in ended:
                self._reuse(offer, ended[offer.spec.id])
            else:
                self._place(offer, known.get(offer.spec.id), needs, waits)
        if self._adopted:
            self._adopt()
        self.note_blocked()

    def _known(self, offers: Sequence[Offer]) -> dict[str, Task]:
        """What the store knows of these tasks, with every end up to now; later ones are kept aside.

        Ends that are on their way are waited for only if they may be about these tasks: what was claimed has
        a row that says so, and what ended without a claim before is known here.
        """
        ids = [offer.spec.id for offer in offers]
        apart = any(offer.former or offer.spec.needs for offer in offers)
        lately = not all(ends.keys().isdisjoint(ids) for ends in (self._ended_lately, self._ended_before))
        if not (apart or lately or self._ended_unclaimed):
            known = self._store.find("task", ids)
            if all(row.state in TERMINAL for row in known.values()):
                return known
        self._ended_unclaimed = set()
        self._journal.drain()
        return self._store.find("task", ids)

    def _waits(self, known: Mapping[str, Task]) -> dict[str, frozenset[str]]:
        """What those of these tasks that wait still wait for. Looked up with the lock held: what is closed
        later is noted by the scheduler."""
        waiting = [row for row in known.values() if row.state is State.waiting]
        return open_waits(self._store, waiting) if waiting else {}

    def _take_over(self, offers: Sequence[Offer], known: dict[str, Task]) -> None:
        """Results recorded under a former identity become these tasks' own, if the store allows it."""
        rows = self._store.find("task", [former for offer in offers for former, _ in offer.former])
        chosen = [(offer, *lender) for offer in offers if (lender := _lender(offer, rows)) is not None]
        events = [TaskReused(o.spec.id, row.id, o.spec.kind, o.spec.cls, added) for o, row, added in chosen]
        outcomes = self._journal.write([Op(self._run, (event,)) for event in events]) if events else []
        for (offer, row, _), refusal in zip(chosen, outcomes, strict=True):
            if refusal is None:
                known[offer.spec.id] = row

    def _needs(self, offers: Sequence[Offer]) -> dict[str, State]:
        """How the needs of these tasks ended, for those that have."""
        wanted = sorted({need for offer in offers for need in offer.spec.needs})
        found = self._store.find("task", wanted)
        over = (State.succeeded, *final_states(self._policy))
        return {task.id: task.state for task in found.values() if task.state in over}

    def _place(
        self,
        offer: Offer,
        row: Task | None,
        needs: Mapping[str, State],
        waits: Mapping[str, frozenset[str]],
    ) -> None:
        """Reuse its result, leave its failure alone, give it up, let it wait, or schedule it."""
        if offer.spec.id in self.cancelled:
            self.cancelled.discard(offer.spec.id)
            self.ended(offer, Ended(State.cancelled, Result()))
        elif row is not None and is_settled(row, self._run, self._policy):
            self._reuse(offer, Ended(row.state, row.result))
        elif self.starved and offer.spec.kind == self.source.unit:
            self._tally.add(offer.spec.kind, LEFT)
            if row is not None:
                self.passed_over.append(row.id)
        elif not self._of_others.get(offer.spec.id, self.source).performs(offer.spec.kind):
            self._tally.add(offer.spec.kind, LEFT)
            if self._leave is not None:
                self._leave(offer)
        elif row is None:
            self._scheduler.offer(TaskEntry(offer), needs)
        elif self._shared and row.state in RUNNING and row.owner != self._owner:
            self._look_again(offer)
        elif row.state is State.paused:
            self._tally.add(offer.spec.kind, LEFT)
        elif row.state is State.waiting:
            self._place_waiting(offer, row, waits[row.id])
        elif row.interruptions >= self._policy.interruptions:
            self._give_up(offer, row)
        else:
            entry = TaskEntry(
                offer, row.epoch, row.interruptions, row.attempts, not_before=self._wait_left(row)
            )
            self._scheduler.offer(entry, needs)

    def _place_waiting(self, offer: Offer, row: Task, awaits: frozenset[str]) -> None:
        """Let a task wait on for what is still open; if that is nothing, it is ready.

        One that waited for other tasks in an earlier run is ready, too: nobody may offer these here before
        its own attempt does. It waits again if it must.
        """
        tasks = not awaits.isdisjoint(row.awaits)
        if tasks and row.run != self._run:
            awaits, tasks = frozenset(), False
        entry = TaskEntry(
            offer, row.epoch, row.interruptions, row.attempts, awaits=awaits, awaits_tasks=tasks
        )
        if self._scheduler.offer(entry):
            if not awaits:
                self._journal.queue([Op(self._run, (TasksWoken((row.id,)),))])
                return
            if row.run != self._run:
                self._adopted.append(row.id)
                entry.epoch += 1
            self.asked.extend(row.questions)

    def _adopt(self) -> None:
        """Record that waiting tasks of earlier runs are those of this one now."""
        self._journal.queue([Op(self._run, (TasksAdopted(tuple(self._adopted)),))])
        self._adopted.clear()

    def _reuse(self, offer: Offer, ended: Ended) -> None:
        self._tally.add(offer.spec.kind, shared(ended.state))
        self.ended(offer, ended)

    def _wait_left(self, row: Task) -> float:
        """When a back-off that began in an earlier run is over, on this process's clock."""
        left = row.not_before - self._clock.now()
        return self._clock.monotonic() + left if row.state is State.queued and left > 0 else 0.0

    def _give_up(self, offer: Offer, row: Task) -> None:
        """A task that was under way each time its process died is not tried for ever."""
        message = f"its process died {row.interruptions} times while it was running"
        self._end_unstarted(offer, row.epoch, State.failed, Result(failure=Failure("Interrupted", message)))

    def note_blocked(self) -> None:
        """Tasks whose need did not succeed end here, without an attempt."""
        while self._scheduler.blocked:
            entry = self._scheduler.blocked.pop()
            self._end_unstarted(entry.offer, entry.epoch, State.blocked, Result())

    def cancel(self, entry: TaskEntry, failure: Failure) -> None:
        """End a task that is not started, and that the scheduler has given up, as cancelled."""
        result = Result(failure=failure)
        if entry.awaits:
            row = self._store.find("task", [entry.offer.spec.id])[entry.offer.spec.id]
            self._journal.queue([cancelling_op(self._store, self._run, row, result, self._clock.now())])
            self._tally.add(entry.offer.spec.kind, State.cancelled)
            self.ended(entry.offer, Ended(State.cancelled, result))
        else:
            self._end_unstarted(entry.offer, entry.epoch, State.cancelled, result)
        for offer in entry.others:
            self._tally.add(entry.offer.spec.kind, shared(State.cancelled))
            self.ended(offer, Ended(State.cancelled, result))
        self._scheduler.settle(entry.offer.spec.id, State.cancelled)
        self.note_blocked()

    def cancel_unknown(self, task: str, row: Task | None, failure: Failure) -> bool:
        """End a unit that has not been offered yet as cancelled; False if it has ended."""
        if row is not None and (row.state in TERMINAL or row.state not in CLAIMABLE):
            return False
        spec = TaskSpec(task, row.kind if row else self.source.unit, row.cls if row else self.source.unit)
        claim = TasksClaimed(spec.kind, spec.cls, self._owner, (task,), ((row.epoch if row else 0) + 1,))
        ended = TaskFinished(task, claim.epochs[0], State.cancelled, Result(failure=failure))
        self._journal.queue([Op(self._run, (claim, ended))])
        self._ended_unclaimed.add(task)
        self._tally.add(spec.kind, State.cancelled)
        self.cancelled.add(task)
        return True

    def pass_over(self, entries: Iterable[TaskEntry]) -> None:
        """These units, which the scheduler has given up, are not begun in this run."""
        for entry in entries:
            if entry.attempts:
                self.passed_over += [entry.offer.spec.id] * (1 + len(entry.others))

    def _end_unstarted(self, offer: Offer, epoch: int, state: State, result: Result) -> None:
        spec = offer.spec
        claim = TasksClaimed(spec.kind, spec.cls, self._owner, (spec.id,), (epoch + 1,))
        self._journal.queue([Op(self._run, (claim, TaskFinished(spec.id, epoch + 1, state, result)))])
        self._ended_unclaimed.add(spec.id)
        self._tally.add(spec.kind, state)
        self.ended(offer, Ended(state, result))


def _lender(offer: Offer, rows: Mapping[str, Task]) -> tuple[Task, str] | None:
    """The first former identity of a task that has a result, and has not lent it to anything else."""
    for former, added in offer.former:
        row = rows.get(former)
        if row is not None and row.state is State.succeeded and row.lent in ("", added):
            return row, added
    return None
