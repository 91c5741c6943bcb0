"""Batches at hand: recorded first, then told to the provider, then looked at until they are over.

A batch is a task of its own kind. First every call and the batch itself are recorded, then the provider is
told, then its name for the batch is recorded as a step. So a batch survives the process, and any later run,
or `peira batch collect`, takes it up where it stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from typing import Any

import msgspec

from peira.core.codec import encode
from peira.core.contracts import Op, Store
from peira.core.events import TERMINAL, CallIntended, TasksClaimed, TaskSpec, TasksQueued, TasksReleased
from peira.core.failpoints import reach
from peira.core.ids import compose, digest_bytes, short
from peira.core.models import BatchState, CallFailed, Named, Request
from peira.core.registry import registry
from peira.core.state import Call, Run, Task
from peira.engine.buying import Buyer
from peira.engine.collecting import SEARCHES, Collector
from peira.engine.slips import (
    BATCH,
    Endings,
    Handed,
    Opened,
    Slip,
    Told,
    batches_of,
    name_in,
    read_slip,
    step_key,
)

FIRST_LOOK, LONGEST_LOOK = 0.5, 60.0
LAST_WAIT = 5.0
_read_request = msgspec.json.Decoder(Request).decode


class OpenBatches:
    """All methods run on the ledger's loop."""

    def __init__(
        self,
        run: str,
        owner: str,
        store: Store,
        out: Buyer,
        known_as: Callable[[str], Named],
        told: Told,
        *,
        tries: int = 1,
        searches: int = SEARCHES,
    ) -> None:
        """`tries` is how often one is handed in that the provider does not take."""
        self._run, self._owner, self._store, self._out = run, owner, store, out
        self._known_as, self._told, self._tries = known_as, told, tries
        self._collector = Collector(run, out, told, searches)
        self._open: dict[str, Opened] = {}
        self._keys: set[str] = set()
        self._adopting = asyncio.Lock()
        self._closing = asyncio.Event()
        self._errands: set[asyncio.Task[None]] = set()

    def __contains__(self, key: str) -> bool:
        """Whether a call is in a batch that is open here."""
        return key in self._keys

    def of(self, name: str) -> int:
        """How many batches of a model are open here."""
        return sum(opened.named.name == name for opened in self._open.values())

    def spawn(self, errand: Coroutine[Any, Any, None]) -> None:
        """See to something in the background; what goes wrong with it stops everything."""
        task = asyncio.get_running_loop().create_task(errand)
        self._errands.add(task)
        task.add_done_callback(self._returned)

    def _returned(self, task: asyncio.Task[None]) -> None:
        self._errands.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None:
            self._told.fail(problem)

    async def _pause(self, seconds: float) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._closing.wait(), seconds)

    def hand_in(self, named: Named, gathered: Mapping[str, tuple[Handed, bytes]]) -> None:
        """Hand these calls in, and look after them until they are answered."""
        calls = {key: handed for key, (handed, _) in gathered.items()}
        body = encode(Slip(named.name, calls))
        opened = Opened(compose(BATCH, digest_bytes(body), self._run), named, 1, calls)
        self._begin(opened)
        self.spawn(self._hand_in(opened, body, {key: request for key, (_, request) in gathered.items()}))

    async def _hand_in(self, opened: Opened, body: bytes, requests: Mapping[str, bytes]) -> None:
        name, batch = opened.named.model.name, opened.id
        intents = [
            CallIntended(h.task, 0, key, name, h.request, h.place, h.send, batch)
            for key, h in opened.calls.items()
        ]
        spec = TaskSpec(batch, BATCH, BATCH, payload=digest_bytes(body))
        claim = TasksClaimed(BATCH, BATCH, self._owner, (batch,))
        op = Op(self._run, (*intents, TasksQueued((spec,)), claim), (body, *requests.values()))
        if (refusal := await self._out.write(op)) is not None:  # whoever waits must look again
            self._end(opened, dict.fromkeys(opened.calls, CallFailed(str(refusal), free=True)))
            return
        reach("batch.after_intent")
        read = {key: _read_request(request) for key, request in requests.items()}
        self._tell(opened, read)
        await self._submit(opened, read)

    def _tell(self, opened: Opened, requests: Mapping[str, Request]) -> None:
        """Whoever listens is told that these calls are about to be made."""
        if registry.listening:
            facts = {"run": self._run, "epoch": 0, "model": opened.named.model.name, "batch": opened.id}
            for key, handed in opened.calls.items():
                registry.call("call_began", task=handed.task, key=key, request=requests[key], **facts)

    async def _submit(self, opened: Opened, requests: Mapping[str, Request]) -> None:
        named, many = opened.named.name, f"{len(requests):,} call{'' if len(requests) == 1 else 's'}"
        try:
            name = await self._submitted(opened, requests)
            reach("batch.after_submit")
            await self._collector.note(opened, name)
            self._told.say(f"{named}: {many} handed in as batch {short(opened.id)}")
        except CallFailed as problem:
            if not problem.doubt:
                self._end(opened, await self._collector.lost(opened, problem))
                return
            self._told.say(f"{named}: a batch of {many} may have been taken, or not: {problem}")
        await self._watch(opened)

    async def _submitted(self, opened: Opened, requests: Mapping[str, Request]) -> str:
        tried = 1
        while True:
            try:
                return await batches_of(opened.named).submit(opened.id, requests)
            except CallFailed as problem:
                if not problem.free or self._closing.is_set():
                    raise
                if tried >= self._tries:
                    raise CallFailed(str(problem), status=problem.status) from None
                wait = FIRST_LOOK * 2**tried if problem.retry_after is None else problem.retry_after
            await self._pause(min(wait, LONGEST_LOOK))
            tried += 1

    async def _watch(self, opened: Opened) -> None:
        wait = FIRST_LOOK
        await self.look(opened.id)
        while opened.id in self._open and not self._closing.is_set():
            await self._pause(wait)
            wait = min(wait * 2, LONGEST_LOOK)
            if not self._closing.is_set():
                await self.look(opened.id)

    async def look(self, batch: str) -> BatchState:
        """How far an open batch is; if it is over, what came of it is recorded, and whoever waits is told."""
        opened = self._open[batch]
        state, endings = await self._collector.look(opened)
        if endings is not None:
            self._end(opened, endings, state.busy)
        return state

    def _begin(self, opened: Opened) -> None:
        self._open[opened.id] = opened
        self._keys.update(opened.calls)

    def _end(self, opened: Opened, endings: Endings, busy: bool = False) -> None:
        del self._open[opened.id]
        self._keys.difference_update(opened.calls)
        self._told.ended(opened.named, endings, busy)

    async def adopt(self, batch: str, watch: bool = True) -> bool:
        """Take up a batch of an earlier run, once; False if it is over."""
        async with self._adopting:
            if batch in self._open:
                return True
            task: Task = (await asyncio.to_thread(self._store.find, "task", [batch]))[batch]
            if task.state in TERMINAL:
                return False
            opened = await self._take_up(task)
        if watch:
            self.spawn(self._watch(opened))
        return True

    async def _take_up(self, task: Task) -> Opened:
        slip, rows, runs = await asyncio.to_thread(self._known, task)
        named, epoch = self._known_as(slip.model), task.epoch + 1
        states = {key: row.state for key, row in rows.items() if row.batch == task.id}
        calls = {k: h for k, h in slip.calls.items() if states.get(k) in ("intended", "lost")}
        lost = frozenset(key for key in calls if states[key] == "lost")
        await self._collector.write(TasksClaimed(BATCH, BATCH, self._owner, (task.id,), (epoch,)))
        opened = Opened(task.id, named, epoch, calls, name_in(rows.get(step_key(task.id))), lost)
        self._begin(opened)
        counted = len({(run.study, run.generation) for run in runs.values()}) == 1
        self._told.held(named, {k: h for k, h in calls.items() if k not in lost}, counted)
        return opened

    def _known(self, task: Task) -> tuple[Slip, dict[str, Call], dict[str, Run]]:
        slip = read_slip(self._store.get(task.payload))
        rows = self._store.find("call", [*slip.calls, step_key(task.id)])
        return slip, rows, self._store.find("run", [task.run, self._run])

    async def close(self) -> None:
        """Leave what is open for later; what is on its way to the provider gets there, if it is quick."""
        self._closing.set()
        if self._errands:
            _, late = await asyncio.wait(set(self._errands), timeout=LAST_WAIT)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        for batch, opened in self._open.items():
            await self._out.write(Op(self._run, (TasksReleased((batch,), (opened.epoch,)),)))
