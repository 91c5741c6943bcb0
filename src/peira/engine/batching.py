"""Calls that are handed in with many others and answered later: a provider's batch is a task like any other.

Whoever asks is sent away; its worker is free, and it is woken when its answer is recorded. Once nobody new
has come for a moment, what gathered is handed in: first every call and the batch itself are recorded, then
the provider is told, then its name for the batch is recorded as a step. So a batch survives the process, and
any later run, or `peira batch collect`, takes it up where it stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import msgspec

from peira.core.codec import decode, encode
from peira.core.contracts import Op, Outcome, Store
from peira.core.events import (
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
from peira.core.failpoints import reach
from peira.core.ids import canonical, compose, digest_bytes, short
from peira.core.models import Answer, Batches, BatchState, CallFailed, Named, Request
from peira.core.state import Task
from peira.engine.buying import Asked
from peira.errors import Invalid, Parked

BATCH = "batch"
QUIET = 1.0
"""What gathered is handed in once nobody new has come for so many seconds."""
MOST = 10_000
FIRST_LOOK, LONGEST_LOOK = 1.0, 60.0
ASK_AGAIN = 300.0
"""Who waits is woken when its answer comes; should that be missed, it asks again after so many seconds."""
_read_request = msgspec.json.Decoder(Request).decode


class Handed(msgspec.Struct, frozen=True):
    """A call in a batch: whose it is, which request, how large, and the how-manieth send."""

    task: str
    request: str
    size: int
    place: str
    send: int = 1


class Slip(msgspec.Struct, frozen=True):
    """What a batch holds, as its task keeps it."""

    model: str
    calls: dict[str, Handed]


class Answered(Protocol):
    """Where answers are recorded."""

    async def write(self, op: Op) -> Outcome: ...

    async def record(
        self, named: Named, task: str, key: str, size: int, answer: Answer, share: float = 1.0
    ) -> object: ...


def batches_of(named: Named) -> Batches:
    """The batch endpoint of a model; Invalid if it has none."""
    found: Batches | None = getattr(named.model, "batches", None)
    if found is None:
        raise Invalid(f"{named.name}: has no batch endpoint; run without --batch")
    return found


class Batcher:
    """All methods run on the ledger's loop."""

    def __init__(
        self,
        run: str,
        owner: str,
        store: Store,
        out: Answered,
        known_as: Callable[[str], Named],
        *,
        say: Callable[[str], None] = lambda text: None,
        wake: Callable[[Sequence[str]], None] = lambda tasks: None,
    ) -> None:
        self._run, self._owner, self._store, self._out = run, owner, store, out
        self._known_as, self._say, self._wake = known_as, say, wake
        self._gathered: dict[str, dict[str, tuple[Handed, bytes]]] = {}
        self._open: dict[str, tuple[int, Slip]] = {}
        self._refused: dict[str, CallFailed] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._watching: set[asyncio.Task[None]] = set()

    async def ask(self, named: Named, asked: Asked, key: str, sends: int) -> None:
        """Take a call along with the next batch: always Parked, or CallFailed if it failed in the last."""
        batches_of(named)
        for refusal in (self._refused.pop(key, None), self._refused.get(named.name)):
            if refusal is not None:
                raise refusal
        handed = Handed(asked.attempt.spec.id, asked.digest, len(asked.body), asked.place, sends + 1)
        gathered = self._gathered.setdefault(named.name, {})
        gathered[key] = handed, asked.body
        if (timer := self._timers.pop(named.name, None)) is not None:
            timer.cancel()
        wait = 0.0 if len(gathered) >= MOST else QUIET
        self._timers[named.name] = asyncio.get_running_loop().call_later(wait, self._begin, named)
        raise Parked(ASK_AGAIN, f"{named.name}: waits for its batch")

    async def wait(self, named: Named, batch: str) -> None:
        """Send away who asks for a call that is in a batch already."""
        if batch not in self._open:
            await self.adopt((await asyncio.to_thread(self._store.find, "task", [batch]))[batch])
        raise Parked(ASK_AGAIN, f"{named.name}: waits for its batch {short(batch)}")

    def _begin(self, named: Named) -> None:
        self._timers.pop(named.name, None)
        gathered = self._gathered.pop(named.name, {})
        if gathered:
            self._spawn(self._hand_in(named, gathered))

    def _spawn(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._watching.add(task)
        task.add_done_callback(self._watching.discard)

    async def _hand_in(self, named: Named, gathered: dict[str, tuple[Handed, bytes]]) -> None:
        slip = Slip(named.name, {key: handed for key, (handed, _) in gathered.items()})
        body = encode(slip)
        batch = compose(BATCH, digest_bytes(body), self._run)
        intents = [
            CallIntended(h.task, 0, key, named.model.name, h.request, h.place, h.send, batch)
            for key, h in slip.calls.items()
        ]
        spec = TaskSpec(batch, BATCH, BATCH, payload=digest_bytes(body))
        claim = TasksClaimed(BATCH, BATCH, self._owner, (batch,))
        blobs = (body, *(request for _, request in gathered.values()))
        await self._out.write(Op(self._run, (*intents, TasksQueued((spec,)), claim), blobs))
        self._open[batch] = 1, slip
        reach("batch.after_intent")
        requests = {key: _read_request(request) for key, (_, request) in gathered.items()}
        await self._submit(named, batch, requests)

    async def _submit(self, named: Named, batch: str, requests: dict[str, Request]) -> None:
        batches = batches_of(named)
        try:
            name = await batches.submit(batch, requests)
        except CallFailed as problem:
            name = await _found(batches, batch) if problem.doubt else ""
            if not name:
                await self._not_taken(named, batch, problem)
                return
        reach("batch.after_submit")
        await self._note(batch, name)
        self._say(f"{named.name}: a batch of {len(requests):,} calls is handed in ({short(batch)})")
        await self._watch(named, batch, name)

    async def _note(self, batch: str, name: str) -> None:
        epoch, _ = self._open[batch]
        value = msgspec.Raw(canonical(name))
        await self._out.write(
            Op(self._run, (StepRecorded(batch, epoch, step_key(batch), "handed in", value),))
        )

    async def _not_taken(self, named: Named, batch: str, problem: CallFailed) -> None:
        """The provider did not take the batch, or nobody knows whether it did."""
        if not problem.doubt:
            self._refused[named.name] = problem
        self._say(f"{named.name}: a batch was not taken: {problem}")
        epoch, slip = self._open.pop(batch)
        lost = [CallLost(h.task, key, str(problem), problem.doubt) for key, h in slip.calls.items()]
        await self._out.write(Op(self._run, (*lost, TaskFinished(batch, epoch, State.failed))))
        self._wake([handed.task for handed in slip.calls.values()])

    async def _watch(self, named: Named, batch: str, name: str) -> None:
        wait = FIRST_LOOK
        while not (await self.look(named, batch, name)).over:
            await asyncio.sleep(wait)
            wait = min(wait * 2, LONGEST_LOOK)

    async def look(self, named: Named, batch: str, name: str) -> BatchState:
        """How far a batch is; if it is over its answers are recorded, and who waits for them is woken."""
        batches = batches_of(named)
        try:
            state = await batches.look(name)
            answers = await batches.collect(name) if state.over else {}
        except CallFailed as problem:
            self._say(f"{named.name}: cannot look after batch {short(batch)}: {problem}")
            return BatchState(over=False, said=str(problem))
        if state.over:
            await self._collect(named, batch, answers)
        return state

    async def _collect(self, named: Named, batch: str, answers: dict[str, Answer | CallFailed]) -> None:
        epoch, slip = self._open[batch]
        for key, handed in slip.calls.items():
            answer = answers.get(key) or CallFailed("the batch ended before it was worked on", free=True)
            if isinstance(answer, Answer):
                share = named.price.batch if named.price else 1.0
                await self._out.record(named, handed.task, key, handed.size, answer, share)
            else:
                if not answer.free:
                    self._refused[key] = answer
                await self._out.write(Op(self._run, (CallLost(handed.task, key, str(answer)),)))
        del self._open[batch]
        await self._out.write(Op(self._run, (TaskFinished(batch, epoch, State.succeeded),)))
        self._say(
            f"{named.name}: batch {short(batch)} is over: {len(answers):,} of {len(slip.calls):,} answers"
        )
        self._wake([handed.task for handed in slip.calls.values()])

    async def adopt(self, task: Task, watch: bool = True) -> tuple[Named, str] | None:
        """Take up a batch of an earlier run: its model and the provider's name for it; None if that is not
        known, and so it is given up."""
        slip = msgspec.json.decode(await asyncio.to_thread(self._store.get, task.payload), type=Slip)
        named, epoch = self._known_as(slip.model), task.epoch + 1
        await self._out.write(Op(self._run, (TasksClaimed(BATCH, BATCH, self._owner, (task.id,), (epoch,)),)))
        self._open[task.id] = epoch, slip
        step = self._store.find("call", [step_key(task.id)]).get(step_key(task.id))
        name = str(decode(bytes(step.value))) if step else await _found(batches_of(named), task.id)
        if not name:
            doubt = CallFailed("its batch may have been handed in, or not", doubt=True)
            await self._not_taken(named, task.id, doubt)
            return None
        if step is None:
            await self._note(task.id, name)
        if watch:
            self._spawn(self._watch(named, task.id, name))
        return named, name

    async def close(self) -> None:
        """Leave what is open for later."""
        for timer in self._timers.values():
            timer.cancel()
        for task in list(self._watching):
            task.cancel()
        await asyncio.gather(*self._watching, return_exceptions=True)
        for batch, (epoch, _) in self._open.items():
            await self._out.write(Op(self._run, (TasksReleased((batch,), (epoch,)),)))


def step_key(batch: str) -> str:
    """Where a provider's name for a batch is recorded."""
    return compose("step", batch, "handed in")


async def _found(batches: Batches, batch: str) -> str:
    """The provider's name for a batch of which nobody knows whether it was taken; "" if it was not."""
    try:
        return await batches.find(batch)
    except CallFailed:
        return ""
