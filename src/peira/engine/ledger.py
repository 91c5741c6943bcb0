"""The ledger: every paid call is intended, sent, recorded as received, and only then used.

A recorded answer is never bought again: a call is known by its model, its request, and its place (the
trial's scope, the stage, the ordinal among equal requests), not by the agent's code. What cannot be
known, whether a send that brought no answer was billed, is in doubt: it is sent again, the resend
recorded first, or held, as the policy says.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Future

import msgspec

from peira.core.codec import encode
from peira.core.contracts import Attempt, Op, Outcome, Store
from peira.core.events import AnyEvent, CallAnswered, CallIntended, CallLost
from peira.core.ids import canonical, compose, digest, digest_bytes
from peira.core.models import Answer, CallFailed, Model, Reply, Request
from peira.core.state import Call
from peira.engine.journal import Journal
from peira.engine.payload import payload
from peira.errors import Abandoned, InDoubt
from peira.spec.limits import Policy

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
_read_answer = msgspec.json.Decoder(Answer).decode


class Ledger:
    """The calls of one run. They are made on an event loop of their own, whoever asks."""

    def __init__(
        self, run: str, store: Store, journal: Journal, policy: Policy, models: Callable[[str], Model]
    ) -> None:
        self._run, self._store, self._journal = run, store, journal
        self._policy, self._make = policy, models
        self._models: dict[str, Model] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def ask(
        self, attempt: Attempt, scope: str, place: str, ordinal: str, name: str, request: Request
    ) -> Future[Reply]:
        """The reply to a request at this place: recorded before, or bought now."""
        model = self._model(name)
        key = compose("call", digest(model.identity), digest(_plain(request)), scope, digest(place), ordinal)
        return asyncio.run_coroutine_threadsafe(
            self._ask(attempt, key, place, model, request), self._running()
        )

    def _model(self, name: str) -> Model:
        with self._lock:
            if name not in self._models:
                self._models[name] = self._make(name)
            return self._models[name]

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="peira-calls", daemon=True
                )
                self._thread.start()
            return self._loop

    async def _ask(self, attempt: Attempt, key: str, place: str, model: Model, request: Request) -> Reply:
        known: Call | None = (await asyncio.to_thread(self._store.find, "call", [key])).get(key)
        if known is not None and known.state == "answered":
            return model.read(self._recorded(known))
        if known is not None and known.state in ("intended", "in_doubt") and self._policy.in_doubt == "hold":
            raise InDoubt(
                f"a call of {model.name} may have been billed and its answer is unknown: it is held"
            )
        sends = known.sends if known else 0
        return model.read(await self._buy(attempt, key, place, model, request, sends))

    def _recorded(self, call: Call) -> Answer:
        return _read_answer(self._store.get(call.blob) if call.blob else bytes(call.value))

    async def _buy(
        self, attempt: Attempt, key: str, place: str, model: Model, request: Request, sends: int
    ) -> Answer:
        """Send until there is an answer; every send is recorded before it is made."""
        body = canonical(_plain(request))
        task, epoch = attempt.key
        for tried in range(1, self._policy.call_tries + 1):
            intent = CallIntended(task, epoch, key, model.name, digest_bytes(body), place, sends + tried)
            await self._write(intent, (body,))
            try:
                answer = await model.send(request)
            except CallFailed as problem:
                await self._write(CallLost(task, key, str(problem), problem.doubt))
                await self._bear(problem, tried)
            else:
                inline, blob, blobs = payload(encode(answer))
                await self._write(CallAnswered(task, key, inline, blob), blobs)
                return answer
        raise AssertionError("unreachable: the last failure is raised")

    async def _bear(self, problem: CallFailed, tried: int) -> None:
        """Wait before the next send, or raise: what will not help, what is held, what was tried enough."""
        if problem.doubt and self._policy.in_doubt == "hold":
            raise InDoubt(str(problem)) from problem
        if not (problem.free or problem.doubt) or tried == self._policy.call_tries:
            raise problem
        wait = FIRST_WAIT * 2 ** (tried - 1) if problem.retry_after is None else problem.retry_after
        await asyncio.sleep(min(wait, LONGEST_WAIT))

    async def _write(self, event: AnyEvent, blobs: tuple[bytes, ...] = ()) -> None:
        written: Future[list[Outcome]] = self._journal.send(Op(self._run, (event,), blobs))
        refusal = (await asyncio.wrap_future(written))[-1]
        if refusal is not None:
            raise Abandoned(str(refusal))

    def close(self) -> None:
        """End the loop; an answer that is still on its way is recorded first, if it comes soon."""
        if self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        under_way = asyncio.all_tasks() - {asyncio.current_task()}
        if under_way:
            await asyncio.wait(under_way, timeout=5)
        for model in self._models.values():
            await model.close()


def _plain(request: Request) -> object:
    return msgspec.to_builtins(request)
