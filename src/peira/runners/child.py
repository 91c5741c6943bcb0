"""The other side of the process runner: a process that performs attempts one after another.

It is spawned, never forked. It writes no store and opens none: everything goes through the pipe. When
the pipe ends, because its owner is gone, it takes its whole process tree with it.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import queue
import random
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from peira.core.context import SeenCase, Trial, enter
from peira.core.contracts import Agent
from peira.core.ids import Json, normalise
from peira.core.models import CallFailed, Reply, Request
from peira.core.registry import registry
from peira.errors import Abandoned, InDoubt, Invalid, PeiraError
from peira.runners.pipe import Answer, Ask, Broken, Do, Done, Ready, Setup, receive_in_child, send
from peira.sandbox import tree
from peira.spec.modules import resolve_reference
from peira.spec.study import Study

PR_SET_CHILD_SUBREAPER = 36
PROBLEMS: dict[str, Callable[[str], PeiraError]] = {"InDoubt": InDoubt, "CallFailed": CallFailed}
_read_reply = msgspec.json.Decoder(Reply).decode


def main() -> None:
    line = Connection(int(sys.argv[1]))
    setup = receive_in_child(line)
    assert isinstance(setup, Setup)
    _adopt_orphans()
    inbox: queue.SimpleQueue[Do | Answer] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(line, inbox, setup.label), daemon=True).start()
    sys.path[:] = setup.path
    worker = _Worker(line, inbox, setup)
    worker.load()
    send(line, Ready())
    while True:
        message = inbox.get()
        if isinstance(message, Do):
            send(line, worker.attempt(message))
            _end_leftovers(setup.label)


def _listen(line: Connection, inbox: queue.SimpleQueue[Any], label: str) -> None:
    """Pass messages on; at the end of the pipe, end everything this process started, and itself."""
    while True:
        try:
            inbox.put(receive_in_child(line))
        except (EOFError, OSError):
            tree.end(label, os.getpid())
            os._exit(0)


def _adopt_orphans() -> None:
    """Have orphaned descendants handed to this process (Linux), so that none is lost sight of."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_leftovers(label: str) -> None:
    """An attempt's own processes end with it."""
    if not sys.platform.startswith("linux") or any(map(_children, os.listdir("/proc/self/task"))):
        tree.end(label, os.getpid())
        _reap()


def _children(thread: str) -> bool:
    try:
        return bool(Path(f"/proc/self/task/{thread}/children").read_text())
    except OSError:  # the thread has ended
        return False


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


class _Worker:
    def __init__(self, line: Connection, inbox: queue.SimpleQueue[Any], setup: Setup) -> None:
        self._channel = PipeChannel(line, inbox)
        self._setup = setup
        self._agents: dict[str, Agent] = {}

    def load(self) -> None:
        """Load the agents now, in no attempt's time; what cannot be loaded fails its attempts."""
        for label in self._setup.agents:
            with suppress(BaseException):
                self._agent(label)

    def attempt(self, do: Do) -> Done | Broken:
        try:
            outcome = self._perform(do)
            return Done(normalise(outcome.text if isinstance(outcome, Reply) else outcome, "output"))
        except BaseException as problem:  # whatever user code raises is how its attempt ended
            trace = "".join(traceback.format_tb(problem.__traceback__)[-5:])
            permanent = isinstance(problem, (Invalid, Abandoned))
            return Broken(type(problem).__name__, _carry(problem), trace, permanent)

    def _perform(self, do: Do) -> Any:
        agent = self._agent(do.work["agent"])
        trial = _trial(do, self._channel)
        _seed_globals(trial.seed)
        enter(trial)
        outcome = agent.invoke(trial)
        return asyncio.run(_complete(outcome)) if agent.asynchronous else outcome

    def _agent(self, label: str) -> Agent:
        if label not in self._agents:
            found = resolve_reference(self._setup.agents[label], Path())
            fn = found.agents[label] if isinstance(found, Study) else found
            self._agents[label] = registry.make("agent", "function", fn=fn, label=label)
        return self._agents[label]


def _carry(problem: BaseException) -> str:
    return str(problem).encode("utf-8", "backslashreplace").decode()


def _trial(do: Do, channel: PipeChannel) -> Trial:
    work = do.work
    return Trial(
        id=work["trial"],
        case=SeenCase(*work["case"]),
        condition=work["condition"],
        repeat=work["repeat"],
        attempt=do.epoch,
        agent=work["agent"],
        channel=channel,
    )


def _seed_globals(seed: int) -> None:
    """One attempt at a time lives here, so global generators can be seeded for it."""
    import numpy  # by the first attempt at the latest: one that imports it itself must find it seeded

    random.seed(seed)
    numpy.random.seed(seed % 2**32)


async def _complete(pending: Any) -> Any:
    return await pending


class PipeChannel:
    """The channel of an attempt in a child process: each call is asked of the parent."""

    def __init__(self, line: Connection, inbox: queue.SimpleQueue[Any]) -> None:
        self._line, self._inbox = line, inbox
        self._one_at_a_time = threading.Lock()

    def _ask(self, method: str, *arguments: Any) -> Any:
        with self._one_at_a_time:
            send(self._line, Ask(method, list(arguments)))
            answer = self._inbox.get()
        if answer.abandoned:
            raise Abandoned("this attempt was abandoned: it may do nothing more")
        if answer.problem:
            raise PROBLEMS.get(answer.kind, Invalid)(answer.problem)
        return answer.value

    def recall(self, key: str) -> bytes | None:
        known: bytes | None = self._ask("recall", key)
        return known

    def record(self, key: str, name: str, value: bytes) -> Future[None]:
        self._ask("record", key, name, value)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def call(self, model: str, request: Request, key: str) -> Future[Reply]:
        reply = _read_reply(self._ask("call", model, msgspec.to_builtins(request), key))
        done: Future[Reply] = Future()
        done.set_result(reply)
        return done

    def observe(self, name: str, data: Json) -> None:
        self._ask("observe", name, normalise(data, f"log {name!r}"))

    def report(self, metrics: Mapping[str, float], about: Mapping[str, str]) -> None:
        self._ask("report", dict(metrics), dict(about))

    def attach(self, name: str, data: bytes, media: str) -> str:
        digest: str = self._ask("attach", name, data, media)
        return digest

    def workdir(self) -> Path:
        return Path(self._ask("workdir"))


if __name__ == "__main__":
    main()
