"""Hooks: listeners are called about events of a run, each on its own thread.

The engine only puts facts into queues. That never blocks and runs no foreign code, so it may be done on any
thread and with any lock held. A listener's thread ("peira-hooks") calls its methods one after another, in the
order of the events, and holds no lock of the engine meanwhile. A listener gets copies: changes that it makes
to a request, a reply, an attempt or an output have no effect elsewhere.

Queues are bounded: a listener that is too slow misses facts. At the end of a run all listeners get a few
seconds to process the rest. Missed facts are logged as warnings.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import NamedTuple

import msgspec

from peira.core.clock import Clock, SystemClock
from peira.core.codec import decode
from peira.core.contracts import Attempt, Ended
from peira.core.ids import Json, own_copy
from peira.core.log.events import State
from peira.core.models import Model, Reply, Request
from peira.core.registry import Hook, registry
from peira.errors import CallFailed, NotKept

LAST_WAIT = 5.0
"""Seconds that all listeners together have at the end of a run to process the rest."""
MOST_WAITING = 100_000
"""The capacity of a listener's queue; facts beyond it are dropped and counted."""
log = logging.getLogger("peira")


class _Fact(NamedTuple):
    """One event for one hook: the hook's name, and the arguments that it asked for."""

    name: str
    hook: Hook
    facts: dict[str, object]

    def own(self) -> dict[str, object]:
        """The arguments as copies that belong to the listener alone."""
        return {name: _copy_for_listener(value) for name, value in self.facts.items()}


class _Output(NamedTuple):
    """The output of an ended trial, which is decoded for each listener."""

    ended: Ended
    blob: Callable[[str], bytes]

    def value(self) -> Json:
        """A fresh copy; None if there is none. One that is in memory need not be stored yet."""
        result = self.ended.result
        if result.blob and self.ended.value is not None:
            return own_copy(self.ended.value)
        try:
            body = self.blob(result.blob) if result.blob else bytes(result.output)
        except NotKept as problem:
            return f"({problem})"
        return decode(body) if body else None


class _Listener:
    """The queue of one listener, and the thread that calls it."""

    def __init__(self, listener: object, context: Context) -> None:
        self._listener = listener  # a reference, so that its id() is not reused
        self._queue: SimpleQueue[_Fact | None] = SimpleQueue()
        self._current: Hook | None = None
        self._missed = 0
        self._given_up = False
        self._thread = threading.Thread(
            target=context.run, args=(self._serve,), name="peira-hooks", daemon=True
        )
        self._thread.start()

    def put(self, fact: _Fact) -> None:
        """Queue a fact, or drop it if the queue is full. Any thread; never blocks."""
        if self._queue.qsize() < MOST_WAITING:
            self._queue.put(fact)
        else:
            self._missed += 1

    def _serve(self) -> None:
        """Call the listener for each queued fact; the main loop of its thread."""
        warned = 0
        while (fact := self._queue.get()) is not None and not self._given_up:
            if not any(hook is fact.hook for hook in registry.hooks(fact.name)):  # unregistered meanwhile
                continue
            self._current = fact.hook
            registry.tell(fact.hook, fact.own)
            if self._missed and not warned:
                warned = self._missed
                log.warning("hook %s is too slow: it is not told everything", fact.hook.name)

    def end(self) -> None:
        """No more facts will come: the thread ends when the queue is empty."""
        self._queue.put(None)

    def wait(self, seconds: float) -> None:
        """Wait for the thread up to `seconds`; facts that are left then are dropped with a warning."""
        if self._thread is threading.current_thread():  # a hook that runs a study of its own
            return
        self._thread.join(seconds)
        if self._thread.is_alive():
            self._given_up = True
            name = self._current.name if self._current else type(self._listener).__qualname__
            left = max(0, self._queue.qsize() - 1) + self._missed
            log.warning("hook %s has not come to its end: %d more facts are not told", name, left)


class Hooks:
    """The hooks of one run: each method queues one event for the listeners that asked for it.

    All methods may be called on any thread and with any lock held: they never block and call no listener.
    """

    def __init__(self, run: str, clock: Clock | None = None) -> None:
        """Listeners are called in a copy of the `contextvars` context in which this is made."""
        self._run, self._clock = run, clock or SystemClock()
        self._context = copy_context()
        self._stages: set[str] = set()
        self._listeners: dict[int, _Listener] = {}
        self._lock = threading.Lock()
        self._over = False

    @property
    def listening(self) -> bool:
        """Whether anybody listens; check this first to make reporting free of cost."""
        return registry.listening

    def run_began(self) -> None:
        """The run began."""
        self._emit("run_began", run=self._run)

    def run_ended(self, status: str) -> None:
        """The run ended with this status; the stages that began in it end with it."""
        for stage in sorted(self._stages):
            self._emit("stage_ended", run=self._run, stage=stage)
        self._emit("run_ended", run=self._run, status=status)

    def attempt_began(self, attempt: Attempt, trial: bool) -> None:
        """An attempt began, and with it perhaps its stage; `trial`: it is the first of its trial."""
        task, kind = attempt.spec.id, attempt.spec.kind
        if kind not in self._stages:
            self._stages.add(kind)
            self._emit("stage_began", run=self._run, stage=kind)
        if trial:
            self._emit("trial_began", run=self._run, task=task)
        self._emit("attempt_began", run=self._run, task=task, epoch=attempt.epoch, attempt=attempt)

    def attempt_ended(self, attempt: Attempt, state: State) -> None:
        """An attempt ended; the state `waiting` means that it was parked and its task goes on."""
        task, epoch = attempt.key
        self._emit("attempt_ended", run=self._run, task=task, epoch=epoch, state=state.value)

    def trial_ended(self, task: str, ended: Ended, blob: Callable[[str], bytes]) -> None:
        """A trial ended, here or in an earlier run whose result is reused; `blob` reads a stored blob.

        Listeners that take `output` are given what `Trial.output` of the results will be.
        """
        failure, output = ended.result.failure, _Output(ended, blob)
        problem = f"{failure.type}: {failure.message}" if failure else ""
        state = ended.state.value
        self._emit("trial_ended", run=self._run, task=task, state=state, output=output, problem=problem)

    def call_began(
        self,
        attempt: tuple[str, int],
        key: str,
        model: str,
        request: Request,
        batch: str,
        served: Model | None = None,
    ) -> None:
        """A model call is about to be sent, alone or in a batch (`batch` is its id, or "").

        Listeners also hear who serves the model (`vendor`) and where (`address`), if `served` says so.
        """
        task, epoch = attempt
        self._emit(
            "call_began",
            run=self._run,
            task=task,
            epoch=epoch,
            key=key,
            model=model,
            request=request,
            batch=batch,
            vendor=getattr(served, "vendor", ""),
            address=getattr(served, "address", ""),
        )

    def call_ended(
        self, attempt: tuple[str, int], key: str, model: str, outcome: Reply | CallFailed, batch: str
    ) -> None:
        """A model call ended with a reply or a failure."""
        task, epoch = attempt
        failed = isinstance(outcome, CallFailed)
        self._emit(
            "call_ended",
            run=self._run,
            task=task,
            epoch=epoch,
            key=key,
            model=model,
            reply=None if failed else outcome,
            problem=str(outcome) if failed else "",
            status=outcome.status if isinstance(outcome, CallFailed) else 0,
            batch=batch,
        )

    def _emit(self, name: str, **facts: object) -> None:
        """Queue an event for every hook of this name; does nothing once the run is closed."""
        if not registry.listening or self._over:
            return
        facts["at"] = self._clock.now()
        for hook in registry.hooks(name):
            chosen = {fact: _snapshot(value) for fact, value in hook.chosen(facts).items()}
            if (listener := self._listeners.get(id(hook.listener)) or self._add(hook.listener)) is not None:
                listener.put(_Fact(name, hook, chosen))

    def _add(self, listener: object) -> _Listener | None:
        """The queue and thread of a listener, started on first use; None if the hooks are closed."""
        with self._lock:
            if id(listener) not in self._listeners and not self._over:
                self._listeners[id(listener)] = _Listener(listener, self._context.copy())
            return self._listeners.get(id(listener))

    def close(self, wait: float = LAST_WAIT) -> None:
        """Let all listeners process the rest, together up to `wait` seconds; later events are dropped."""
        with self._lock:
            self._over = True
            listeners = list(self._listeners.values())
            self._listeners.clear()
        for listener in listeners:
            listener.end()
        until = time.monotonic() + wait
        for listener in listeners:
            listener.wait(max(0.0, until - time.monotonic()))


def _snapshot(value: object) -> object:
    """A copy of a request or reply, taken at once, because others may change it later."""
    if isinstance(value, (Request, Reply)):
        return msgspec.convert(msgspec.to_builtins(value), type(value))
    return value


def _copy_for_listener(value: object) -> object:
    """The listener's own copy of an attempt or an output, made on its thread; nobody changes the original."""
    if isinstance(value, _Output):
        return value.value()
    return msgspec.structs.replace(value, work=value.work.copy()) if isinstance(value, Attempt) else value
