"""The call service of a store: one event loop, one set of models, rate limits and equal requests.

All runs that a process executes in one store share it, each through its own `Ledger`: two runs that ask one
model keep its limits together, and an equal request is sent once. Budgets and bills belong to the runs.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, InvalidStateError
from typing import Any, Protocol, TypeVar

from peira.core.contracts import Store
from peira.core.log.state import Call
from peira.core.mailbox import Mailbox
from peira.core.models import ModelLimits, NamedModel, Reply
from peira.engine.calls.purchase import CallRequest
from peira.engine.calls.rate_limit import RateLimiter
from peira.engine.calls.shared_rate_limit import SharedRateLimiter
from peira.errors import Abandoned
from peira.stores.sharing import Sharing

MANY = 128
"""The number of calls that are looked up in the store at once, which blocks the loop meanwhile."""
OVER = "the run is over"
FoundCalls = dict[str, Call]
"""Recorded calls, by key."""
FindModel = Callable[[str], NamedModel]
Value = TypeVar("Value")


class RoutedRequest:
    """A request, its chain of models (the one asked and its fallbacks), and its key for each.

    `ledger` serves it, as the loop's `task`; `reply` is the future that the caller waits for.
    """

    __slots__ = "asked", "chain", "keys", "ledger", "reply", "task"

    def __init__(self, ledger: ServingLedger, chain: Sequence[NamedModel], asked: CallRequest) -> None:
        self.ledger, self.chain, self.asked, self.keys = ledger, chain, asked, asked.keys(chain)
        self.reply: Future[Reply] = Future()
        self.task: asyncio.Task[None] | None = None

    def settle(self, outcome: Reply | BaseException) -> None:
        """Complete the reply, once; it is dropped if the caller has given up."""
        self.asked.state.end()
        try:
            if isinstance(outcome, Reply):
                self.reply.set_result(outcome)
            else:
                self.reply.set_exception(outcome)
        except InvalidStateError:
            return  # the caller has given up on it


class ServingLedger(Protocol):
    """The ledger of a run, as the service sees it; every method is called on the loop."""

    def begin(self, routed: RoutedRequest, found: FoundCalls | None) -> None:
        """Start to serve a request; `found` are its recorded calls (None: they must be looked up again)."""
        ...

    def answer_late(self, routed: RoutedRequest, reply: Reply) -> None:
        """Give a request the answer to an equal one that nobody waited for any more."""
        ...

    def say(self, model: str, text: str) -> None:
        """Show a notice about a model, if this run has asked it."""
        ...


class CallService:
    """Makes the model calls of all runs in one store, on an event loop in a thread ("peira-calls").

    `model`, `post`, `call_soon` and `finish` are called from any thread; the rest belongs to the loop.
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.users = 0
        self.ledgers: list[ServingLedger] = []
        self.serving: dict[str, RoutedRequest] = {}
        """The request that is being served, by its first key; equal ones wait for it."""
        self._lock = threading.Lock()
        self._models: dict[tuple[FindModel, str], NamedModel] = {}
        self._model_locks: dict[tuple[FindModel, str], threading.Lock] = {}
        self._limiters: dict[tuple[str, ModelLimits], RateLimiter] = {}
        self._arrived: deque[RoutedRequest] = deque()  # posted, not looked up yet
        self._looking_up: list[RoutedRequest] = []
        self._mailbox: Mailbox[RoutedRequest] | None = None
        self._thread: threading.Thread | None = None
        self.loop: asyncio.AbstractEventLoop | None = None

    def model(self, find: FindModel, name: str) -> NamedModel:
        """The model of this name, made and checked on first use. Any thread, the loop included."""
        place = find, name
        if (known := self._models.get(place)) is not None:
            return known
        with self._lock:
            model_lock = self._model_locks.setdefault(place, threading.Lock())
        with model_lock:  # one lock per name: making a model runs foreign code, which may be slow
            if place not in self._models:
                found = find(name)
                found.model.check()
                self._models[place] = found
            return self._models[place]

    def limiter(self, named: NamedModel, sharing: Sharing | None = None) -> RateLimiter:
        """The rate limiter of a model, made on first use; the same for all runs, and with `sharing` one that
        keeps the limits together with other processes."""
        place = named.name, named.limits
        if place not in self._limiters:
            how = named.name, named.limits, asyncio.get_running_loop().time, self._teller(named.name)
            model = named.model.name
            made = RateLimiter(*how) if sharing is None else SharedRateLimiter(*how, sharing, model)
            self._limiters[place] = made
        return self._limiters[place]

    def _teller(self, model: str) -> Callable[[str], None]:
        """Tells every run that asks this model."""

        def say(text: str) -> None:
            for ledger in list(self.ledgers):
                ledger.say(model, text)

        return say

    def post(self, routed: RoutedRequest) -> None:
        """Let a request be served; starts the loop on first use."""
        (self._mailbox or self._start_loop()).post(routed)

    def _start_loop(self) -> Mailbox[RoutedRequest]:
        with self._lock:
            if self._mailbox is None:
                self.loop = asyncio.new_event_loop()
                self._mailbox = Mailbox(self.loop, self._arrived.append, self._look_up)
                self._thread = threading.Thread(target=self.loop.run_forever, name="peira-calls", daemon=True)
                self._thread.start()
            return self._mailbox

    def _look_up(self) -> None:
        """Look up arrived requests in the store, many with one query, and let them be served."""
        arrived = [self._arrived.popleft() for _ in range(min(MANY, len(self._arrived)))]
        if self._arrived:
            asyncio.get_running_loop().call_soon(self._look_up)
        keys = [key for routed in arrived for key in routed.keys]
        if getattr(self.store, "remote", False):
            # Its server may be away, and answers that come meanwhile are to be recorded.
            self._looking_up += arrived
            looked = asyncio.get_running_loop().run_in_executor(None, self.store.find, "call", keys)
            looked.add_done_callback(lambda done: self._looked_up(arrived, done))
            return
        try:
            found = self.store.find("call", keys)
        except Exception as problem:  # raised for the callers
            for routed in arrived:
                routed.settle(problem)
            return
        self._begin(arrived, found)

    def _looked_up(self, arrived: list[RoutedRequest], done: asyncio.Future[dict[str, Any]]) -> None:
        """Go on with requests that were looked up on another thread, except those of runs that are over."""
        left = [routed for routed in arrived if routed in self._looking_up]
        self._looking_up = [routed for routed in self._looking_up if routed not in left]
        if (problem := done.exception()) is None:
            self._begin(left, done.result())
        else:
            for routed in left:
                routed.settle(problem)

    def _begin(self, arrived: list[RoutedRequest], found: dict[str, Any]) -> None:
        for routed in arrived:
            routed.ledger.begin(routed, None if routed.keys[0] in self.serving else found)

    def arrived(self, ledger: ServingLedger) -> list[RoutedRequest]:
        """The requests of a run that have arrived and are not looked up yet."""
        return [routed for routed in (*self._arrived, *self._looking_up) if routed.ledger is ledger]

    def release_key(self, routed: RoutedRequest) -> None:
        """Equal requests need not wait for this one any more."""
        if self.serving.get(routed.keys[0]) is routed:
            del self.serving[routed.keys[0]]

    def withdraw(self, ledger: ServingLedger) -> None:
        """A run is over: what it has asked and is not looked up yet comes to nothing."""
        for routed in self.arrived(ledger):
            if routed in self._arrived:
                self._arrived.remove(routed)
            else:
                self._looking_up.remove(routed)
            routed.settle(Abandoned(OVER))

    def finish(self, ending: Coroutine[Any, Any, Value]) -> Value:
        """Execute a coroutine on the loop and wait for it; from another thread."""
        assert self.loop is not None
        return asyncio.run_coroutine_threadsafe(ending, self.loop).result()

    def close(self) -> None:
        """Close the models, end the loop and its thread; no run uses it any more."""
        if self.loop is None or self._thread is None:
            return
        self.finish(self._close_models())
        self.finish(self.loop.shutdown_default_executor())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()

    async def _close_models(self) -> None:
        for named in self._models.values():
            await named.model.close()


_services: dict[int, CallService] = {}
_changing = threading.Lock()


def enter_service(store: Store, ledger: ServingLedger) -> CallService:
    """The call service of a store, which this run uses from now on; made for the first one."""
    with _changing:
        found = _services.get(id(store))
        if found is None:
            found = _services[id(store)] = CallService(store)
        found.users += 1
        found.ledgers.append(ledger)
        return found


def leave_service(service: CallService, ledger: ServingLedger) -> None:
    """This run uses the service no more; the last one that leaves ends it."""
    with _changing:
        service.ledgers.remove(ledger)
        service.users -= 1
        last = not service.users
        if last:
            del _services[id(service.store)]
    if last:
        service.close()
