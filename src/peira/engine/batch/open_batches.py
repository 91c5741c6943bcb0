"""Batches under way: recorded, submitted, polled until they end, their answers recorded.

`BatchCollector` looks at one batch and records its outcome; `OpenBatches` keeps all open batches of a process
and polls them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from peira.core.chat.dialects import spoken
from peira.core.codec import encode
from peira.core.contracts import Op
from peira.core.failpoints import reach
from peira.core.ids import canonical, compose, digest_bytes, short
from peira.core.log.events import (
    TERMINAL,
    AnyEvent,
    CallIntended,
    CallLost,
    State,
    StepRecorded,
    TaskFinished,
    TasksClaimed,
    TaskSpec,
    TasksQueued,
    TasksReleased,
)
from peira.core.log.state import Call, Run, Task
from peira.core.models import Answer, BatchState, NamedModel, Reply, Request
from peira.engine.batch.record import (
    BATCH,
    ActiveBatch,
    BatchCallbacks,
    BatchedCall,
    BatchRecord,
    Ending,
    Endings,
    batches_of,
    name_in,
    read_record,
    step_key,
)
from peira.engine.calls.budget import Reservation
from peira.engine.calls.purchase import Buyer
from peira.engine.context import RunCallbacks, RunContext
from peira.errors import Abandoned, CallFailed, StoreDamaged

SEARCHES = 3
"""How often to search for a batch that may have been submitted; a provider may list it late."""
GROUP = 500
"""The number of answers that are recorded concurrently."""
NO_KEY, GONE = (401, 403), (404, 410)
"""Statuses of a missing permission, and of a batch that no longer exists."""
Seen = tuple[BatchState, Endings | None]
"""The state of a batch, and how its calls ended (None while it stays open)."""


class BatchCollector:
    """Looks at batches and records their outcomes. All methods run on the ledger's loop."""

    def __init__(
        self, context: RunContext, out: Buyer, callbacks: RunCallbacks, searches: int = SEARCHES
    ) -> None:
        self._run, self._buyer, self._callbacks, self._searches = context.run, out, callbacks, searches

    async def look(self, opened: ActiveBatch) -> Seen:
        """Poll a batch; if it is over, record its answers."""
        batches = batches_of(opened.named)
        try:
            if not opened.name and (given_up := await self._search(opened)) is not None:
                return given_up
            state = await batches.look(opened.name)
            answers = await batches.collect(opened.name) if state.over else {}
        except CallFailed as problem:
            return await self._look_failed(opened, problem)
        if state.over:
            return state, await self._collect(opened, state, answers)
        self._progress(opened, state)
        return state, None

    async def _search(self, opened: ActiveBatch) -> Seen | None:
        """Search for a batch whose submission is in doubt; None if it is found."""
        name, opened.searched = "", opened.searched + 1
        try:
            name = await batches_of(opened.named).find(opened.id)
        except CallFailed as problem:
            if problem.free or problem.doubt or problem.status in NO_KEY:
                raise
            opened.searched = self._searches
        if name:
            await self.note(opened, name)
            return None
        state = BatchState(over=opened.searched >= self._searches, said="not known to have been taken")
        doubt = CallFailed("its batch may have been taken, or not", doubt=True)
        return state, await self.lost(opened, doubt) if state.over else None

    async def note(self, opened: ActiveBatch, name: str) -> None:
        """Record the provider's id of a batch."""
        opened.name = name
        value = msgspec.Raw(canonical(name))
        await self.write(StepRecorded(opened.id, opened.epoch, step_key(opened.id), "handed in", value))

    def _progress(self, opened: ActiveBatch, state: BatchState) -> None:
        """Report progress in steps of ten percent."""
        tenths, opened.unseen = 10 * state.done // max(1, state.total), False
        if tenths > opened.tenths:
            opened.tenths = tenths
            self._say(opened, f"{state.done:,} of {state.total:,} calls are done")

    async def _look_failed(self, opened: ActiveBatch, problem: CallFailed) -> Seen:
        """A look failed: for now (retry), for good (lost), or without permission (release)."""
        state = BatchState(over=problem.status in GONE, said="cannot be looked at", failure=str(problem))
        if problem.free or problem.doubt:
            if not opened.unseen:
                self._say(opened, f"cannot be looked at: {problem}")
            opened.unseen = True
            return state, None
        if state.over:
            return state, await self.lost(opened, CallFailed(f"its batch is gone: {problem}", doubt=True))
        await self.write(TasksReleased((opened.id,), (opened.epoch,)))
        return state, dict.fromkeys(opened.calls, problem)

    async def lost(self, opened: ActiveBatch, problem: CallFailed) -> Endings:
        """Record a batch as failed, or as in doubt, with all its calls that are not lost already."""
        state = State.in_doubt if problem.doubt else State.failed
        calls = {key: batched for key, batched in opened.calls.items() if key not in opened.lost}
        doubted = calls if problem.doubt else {}
        aside = {key: (batched.tokens, batched.money) for key, batched in doubted.items()}
        lost = [CallLost(h.task, k, str(problem), problem.doubt, *aside.get(k, ())) for k, h in calls.items()]
        await self.write(*lost, TaskFinished(opened.id, opened.epoch, state))
        for batched in doubted.values():
            self._buyer.doubted(opened.named, batched.share)
        for key, batched in calls.items():
            self._report(opened, key, batched, problem)
        self._callbacks.batch_ended(state)
        self._say(opened, f"given up: {problem}")
        return dict.fromkeys(opened.calls, problem)

    async def _collect(
        self, opened: ActiveBatch, state: BatchState, answers: Mapping[str, Answer | CallFailed]
    ) -> Endings:
        """Record the answers of a batch in groups, and its end with the last group."""
        endings: dict[str, Ending] = {}
        why = state.failure or "its batch ended before it was worked on"
        rest = answers.get("") or CallFailed(why, free=state.busy or not state.failure)
        items = list(opened.calls.items())
        for start in range(0, len(items) or 1, GROUP):
            some = items[start : start + GROUP]
            kept = asyncio.gather(
                *(self._record_outcome(opened, key, batched, answers.get(key, rest)) for key, batched in some)
            )
            # Written right after the last answers, to keep the window for a crash small.
            finish = self._finish(opened) if start + GROUP >= len(items) else asyncio.sleep(0)
            outcomes, _ = await asyncio.gather(kept, finish)
            endings |= zip((key for key, _ in some), outcomes, strict=True)
        self._callbacks.batch_ended(State.succeeded)
        answered = sum(isinstance(ending, Reservation) for ending in endings.values())
        self._say(opened, f"{state.said}, {answered:,} of {len(endings):,} calls answered")
        return endings

    async def _finish(self, opened: ActiveBatch) -> None:
        await self.write(TaskFinished(opened.id, opened.epoch, State.succeeded))

    async def _record_outcome(
        self, opened: ActiveBatch, key: str, batched: BatchedCall, outcome: Answer | CallFailed
    ) -> Ending:
        """Record the outcome of one call; returns what it took, or its failure."""
        named, task = opened.named, batched.task
        if isinstance(outcome, CallFailed):
            if key not in opened.lost:
                aside = (batched.tokens, batched.money) if outcome.doubt else ()
                await self.write(CallLost(task, key, str(outcome), outcome.doubt, *aside))
                if outcome.doubt:
                    self._buyer.doubted(named, batched.share)
                self._report(opened, key, batched, outcome)
            return outcome
        part = named.price.batch if named.price else 1.0
        try:
            reply, usage, cost = await self._buyer.record(named, task, key, batched.size, outcome, part)
        except Abandoned as refusal:
            raise StoreDamaged(f"an answer of a batch was refused: {refusal}") from None
        self._report(opened, key, batched, reply)
        return self._buyer.taken(batched.share, usage, cost, named)

    def _report(
        self, opened: ActiveBatch, key: str, batched: BatchedCall, outcome: Reply | CallFailed
    ) -> None:
        """Report the end of a call to the hooks."""
        self._buyer.tell(batched.task, 0, opened.named, key, outcome, opened.id)

    def _say(self, opened: ActiveBatch, text: str) -> None:
        """Show a notice about a batch."""
        self._callbacks.say(f"{opened.named.name}: batch {short(opened.id)}: {text}")

    async def write(self, *events: AnyEvent) -> None:
        """Write events durably in one op; StoreDamaged if they are refused."""
        if (refusal := await self._buyer.write(Op(self._run, events))) is not None:
            raise StoreDamaged(f"a batch of this run was taken elsewhere: {refusal}")


FIRST_LOOK, LONGEST_LOOK = 0.5, 60.0
"""The first and the longest interval between two looks, in seconds."""
LAST_WAIT = 5.0
"""Seconds that background tasks may take when the run ends."""
_read_request = msgspec.json.Decoder(Request).decode


class OpenBatches:
    """The open batches of a process, each polled by a background task.

    All methods run on the ledger's loop, except that reads of the store run on worker threads
    (`asyncio.to_thread`).
    """

    def __init__(
        self,
        context: RunContext,
        out: Buyer,
        known_as: Callable[[str], NamedModel],
        callbacks: RunCallbacks,
        calls: BatchCallbacks,
        *,
        tries: int = 1,
        searches: int = SEARCHES,
    ) -> None:
        """`known_as` makes models by name; `calls` is called about the batched calls.

        `tries` is how often a batch is submitted that the provider does not accept; `searches` how often one
        is searched for whose submission is in doubt.
        """
        self._run, self._owner, self._store = context.run, context.owner, context.store
        self._hooks, self._buyer, self._model = context.hooks, out, known_as
        self._callbacks, self._calls, self._tries = callbacks, calls, tries
        self._collector = BatchCollector(context, out, callbacks, searches)
        self._open: dict[str, ActiveBatch] = {}
        self._keys: set[str] = set()  # of all calls in open batches
        self._adopting = asyncio.Lock()  # a batch is adopted once
        self._closing = asyncio.Event()
        self._background: set[asyncio.Task[None]] = set()

    def __contains__(self, key: str) -> bool:
        """Whether a call is in an open batch."""
        return key in self._keys

    def of(self, name: str) -> int:
        """The number of open batches of a model."""
        return sum(opened.named.name == name for opened in self._open.values())

    def spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine as a background task; an error in it fails the run."""
        task = asyncio.get_running_loop().create_task(coroutine)
        self._background.add(task)
        task.add_done_callback(self._background_ended)

    def _background_ended(self, task: asyncio.Task[None]) -> None:
        """Callback of a background task that ended."""
        self._background.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._callbacks.fail(problem)

    async def _pause(self, seconds: float) -> None:
        """Sleep, but not beyond the closing of the batches."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    def hand_in(self, named: NamedModel, gathered: Mapping[str, tuple[BatchedCall, bytes]]) -> None:
        """Submit these calls as a batch, and poll it until they are answered."""
        calls = {key: batched for key, (batched, _) in gathered.items()}
        body = encode(BatchRecord(named.name, calls))
        opened = ActiveBatch(compose(BATCH, digest_bytes(body), self._run), named, 1, calls)
        self._begin(opened)
        self.spawn(self._hand_in(opened, body, {key: request for key, (_, request) in gathered.items()}))

    async def _hand_in(self, opened: ActiveBatch, body: bytes, requests: Mapping[str, bytes]) -> None:
        """Record the batch and the intents of its calls in one op, then submit it."""
        name, batch = opened.named.model.name, opened.id
        intents = [
            CallIntended(h.task, 0, key, name, h.request, h.place, h.send, batch)
            for key, h in opened.calls.items()
        ]
        spec = TaskSpec(batch, BATCH, BATCH, payload=digest_bytes(body))
        claim = TasksClaimed(BATCH, BATCH, self._owner, (batch,))
        op = Op(self._run, (*intents, TasksQueued((spec,)), claim), (body, *requests.values()))
        if (refusal := await self._buyer.write(op)) is not None:  # those who wait must look again
            self._end(opened, dict.fromkeys(opened.calls, CallFailed(str(refusal), free=True)))
            return
        reach("batch.after_intent")
        read = {key: _read_request(request) for key, request in requests.items()}
        self._report(opened, read)
        await self._submit(opened, read)

    def _report(self, opened: ActiveBatch, requests: Mapping[str, Request]) -> None:
        """Report to the hooks that these calls are about to be made."""
        if self._hooks.listening:
            model = opened.named.model
            for key, batched in opened.calls.items():
                self._hooks.call_began((batched.task, 0), key, model.name, requests[key], opened.id, model)

    async def _submit(self, opened: ActiveBatch, requests: Mapping[str, Request]) -> None:
        """Submit a recorded batch, record the provider's id, and poll it."""
        named, many = opened.named.name, f"{len(requests):,} call{'' if len(requests) == 1 else 's'}"
        try:
            name = await self._submitted(opened, requests)
            reach("batch.after_submit")
            await self._collector.note(opened, name)
            self._callbacks.say(f"{named}: {many} handed in as batch {short(opened.id)}")
        except CallFailed as problem:
            if not problem.doubt:
                self._end(opened, await self._collector.lost(opened, problem))
                return
            self._callbacks.say(f"{named}: a batch of {many} may have been taken, or not: {problem}")
        await self._watch(opened)

    async def _submitted(self, opened: ActiveBatch, requests: Mapping[str, Request]) -> str:
        """Submit with retries; returns the provider's id."""
        tried = 1
        while True:
            try:
                spoken_by = {key: spoken(one, opened.named.model) for key, one in requests.items()}
                return await batches_of(opened.named).submit(opened.id, spoken_by)
            except CallFailed as problem:
                if not problem.free or self._closing.is_set():
                    raise
                if tried >= self._tries:
                    raise CallFailed(str(problem), status=problem.status) from None
                wait = FIRST_LOOK * 2**tried if problem.retry_after is None else problem.retry_after
            await self._pause(min(wait, LONGEST_LOOK))
            tried += 1

    async def _watch(self, opened: ActiveBatch) -> None:
        """Poll a batch with growing intervals until it ends or the batches are closed."""
        wait = FIRST_LOOK
        await self.look(opened.id)
        while opened.id in self._open and not self._closing.is_set():
            await self._pause(wait)
            wait = min(wait * 2, LONGEST_LOOK)
            if not self._closing.is_set():
                await self.look(opened.id)

    async def look(self, batch: str) -> BatchState:
        """Poll an open batch; if it is over, its answers are recorded and callbacks called."""
        opened = self._open[batch]
        state, endings = await self._collector.look(opened)
        if endings is not None:
            self._end(opened, endings, state.busy)
        return state

    def _begin(self, opened: ActiveBatch) -> None:
        """Add a batch to the open ones."""
        self._open[opened.id] = opened
        self._keys.update(opened.calls)

    def _end(self, opened: ActiveBatch, endings: Endings, busy: bool = False) -> None:
        """Remove a batch from the open ones, and report the endings of its calls."""
        del self._open[opened.id]
        self._keys.difference_update(opened.calls)
        self._calls.ended(opened.named, endings, busy)

    async def adopt(self, batch: str, watch: bool = True) -> bool:
        """Take over a batch of an earlier run, once; False if it has ended."""
        async with self._adopting:
            if batch in self._open:
                return True
            task: Task = (await asyncio.to_thread(self._store.find, "task", [batch]))[batch]
            if task.state in TERMINAL:
                return False
            opened = await self._claim_batch(task)
        if watch:
            self.spawn(self._watch(opened))
        return True

    async def _claim_batch(self, task: Task) -> ActiveBatch:
        """Claim a batch of an earlier run; its calls that are not answered are reserved again."""
        record, rows, runs = await asyncio.to_thread(self._read_batch, task)
        named, epoch = self._model(record.model), task.epoch + 1
        states = {key: row.state for key, row in rows.items() if row.batch == task.id}
        calls = {k: h for k, h in record.calls.items() if states.get(k) in ("intended", "lost")}
        lost = frozenset(key for key in calls if states[key] == "lost")
        await self._collector.write(TasksClaimed(BATCH, BATCH, self._owner, (task.id,), (epoch,)))
        opened = ActiveBatch(task.id, named, epoch, calls, name_in(rows.get(step_key(task.id))), lost)
        self._begin(opened)
        counted = len({(run.study, run.generation) for run in runs.values()}) == 1
        self._calls.held(named, {k: h for k, h in calls.items() if k not in lost}, counted)
        return opened

    def _read_batch(self, task: Task) -> tuple[BatchRecord, dict[str, Call], dict[str, Run]]:
        """Read the record of a batch, its calls, and the runs concerned; runs on a thread."""
        record = read_record(self._store.get(task.payload))
        rows = self._store.find("call", [*record.calls, step_key(task.id)])
        return record, rows, self._store.find("run", [task.run, self._run])

    async def close(self) -> None:
        """Release open batches for a later run; submissions under way may finish within LAST_WAIT."""
        self._closing.set()
        if self._background:
            _, late = await asyncio.wait(set(self._background), timeout=LAST_WAIT)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for batch, opened in self._open.items():
            await self._buyer.write(Op(self._run, (TasksReleased((batch,), (opened.epoch,)),)))
