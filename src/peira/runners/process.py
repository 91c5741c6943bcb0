"""The process runner: attempts in child processes, each of which talks to a thread of this process.

For agents that use global randomness, hold the interpreter lock, or may crash. A thread per worker starts the
child, sends it attempts, and answers the requests of their channels.
"""

from __future__ import annotations

import os
import select
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import count
from multiprocessing.connection import Connection
from typing import Any, Protocol

import msgspec

from peira.core.codec import encode
from peira.core.contracts import Attempt, AttemptQueue, Channel
from peira.core.models import Reply, Request
from peira.core.people.questions import PersonQuestion
from peira.core.registry import registry
from peira.errors import (
    Abandoned,
    AttemptFailed,
    Exhausted,
    InDoubt,
    Invalid,
    Parked,
    PeiraError,
    PermanentFailure,
    ProcessDied,
    Unanswered,
    Waiting,
    message_of,
)
from peira.runners.messages import (
    AnswerMessage,
    AttemptMessage,
    FailureMessage,
    OutputMessage,
    ReadyMessage,
    RequestMessage,
    SetupMessage,
    receive,
    send,
)
from peira.sandbox import process_tree as tree
from peira.sandbox.child_module import start_module


class Wakeup:
    """Wakes a thread that waits in `poll`; may be used from any thread."""

    def __init__(self) -> None:
        self._sender, self._receiver = socket.socketpair()
        self._rung = False
        self._using = threading.Lock()  # a late call must not write to a reused descriptor

    def fileno(self) -> int:
        """The descriptor to poll."""
        return self._receiver.fileno()

    def ring(self) -> None:
        """Make the descriptor readable."""
        with self._using:
            if not self._rung:
                self._rung = True
                self._sender.send(b"!")

    def hush(self) -> None:
        """Reset the descriptor; a later `ring` makes it readable again."""
        with self._using:
            if self._rung:
                self._receiver.recv(1)
                self._rung = False

    def close(self) -> None:
        """Close both ends."""
        with self._using:
            self._rung = True  # for good: later calls do nothing
            self._sender.close()
            self._receiver.close()


class ChildRequests:
    """The parent's end of the pipe: sends messages and answers the child's requests."""

    def __init__(self, end: socket.socket) -> None:
        self._connection, self._wakeup = Connection(end.detach()), Wakeup()
        self._left: deque[tuple[int, Future[Any]]] = deque()
        self._poll = select.poll()
        for source in (self._connection, self._wakeup):
            self._poll.register(source, select.POLLIN)

    def send(self, message: msgspec.Struct) -> None:
        """Send a message to the child."""
        send(self._connection, message)

    def receive(self) -> RequestMessage | ReadyMessage | OutputMessage | FailureMessage:
        """The child's next message; while waiting, answers that become available are sent."""
        while True:
            ready = {source for source, _ in self._poll.poll()}
            if self._wakeup.fileno() in ready:
                self._hand_out()
            if self._connection.fileno() in ready:
                return receive(self._connection)

    def answer(self, ask: RequestMessage, channel: Channel) -> None:
        """Execute a request on the channel; answered now, or when its future resolves."""
        answer = _answer_to(ask.number, lambda: getattr(channel, ask.method)(*_arguments(ask)))
        if isinstance(answer, Future):
            answer.add_done_callback(lambda done: self._leave(ask.number, done))
        else:
            send(self._connection, answer)

    def refuse(self, ask: RequestMessage) -> None:
        """PersonAnswer a request of an attempt that has ended."""
        send(self._connection, AnswerMessage(ask.number, abandoned=True))

    def _leave(self, number: int, done: Future[Any]) -> None:
        """Queue the answer for the thread that talks to the child."""
        self._left.append((number, done))
        self._wakeup.ring()

    def _hand_out(self) -> None:
        """Send the queued answers."""
        self._wakeup.hush()
        while self._left:
            number, done = self._left.popleft()
            answer = _answer_to(number, done.result)
            assert isinstance(answer, AnswerMessage)
            send(self._connection, answer)

    def close(self) -> None:
        """Close the pipe."""
        self._connection.close()
        self._wakeup.close()


def _answer_to(number: int, find: Callable[[], Any]) -> AnswerMessage | Future[Any]:
    """The answer message with the result of `find`, or the future that will have the result."""
    try:
        value = find()
    except Abandoned as signal:
        wait = getattr(signal, "seconds", None)
        return AnswerMessage(number, wait, abandoned=True, problem=str(signal), kind=type(signal).__name__)
    except PeiraError as problem:
        return AnswerMessage(number, problem=str(problem), kind=type(problem).__name__)
    except Exception as problem:  # the child must get an answer, or it would wait for ever
        return AnswerMessage(number, problem=f"{type(problem).__name__}: {message_of(problem)}")
    if isinstance(value, Future):
        return value
    if isinstance(value, (Reply, list)):
        value = encode(value)
    return AnswerMessage(number, value if value is None or isinstance(value, bytes) else str(value))


def _arguments(ask: RequestMessage) -> list[Any]:
    """The arguments of a request, decoded."""
    if ask.method == "consult":
        return [[_question(one) for one in ask.arguments[0]]]
    if ask.method != "call":
        return ask.arguments
    model, request, *rest = ask.arguments
    return [model, msgspec.convert(request, Request), *rest]


_question = msgspec.json.Decoder(PersonQuestion).decode
BATCH = 8


class ChildProcess(Protocol):
    """A process that executes `peira.runners.child`, wherever it runs."""

    @property
    def end(self) -> socket.socket:
        """Our end of the pipe to it; the caller closes it."""
        ...

    @property
    def alive(self) -> bool:
        """Whether it is running, as far as is known."""
        ...

    def kill(self) -> None:
        """Kill it and everything that it started; from any thread."""
        ...

    def death(self) -> str:
        """Wait until the killed process has ended; returns how it ended."""
        ...


class ChildHost(Protocol):
    """Where the children of one worker are started, one after the other."""

    @property
    def ready(self) -> bool:
        """Whether children can be started here."""
        ...

    def start(self, label: str) -> ChildProcess:
        """Start a child whose process tree has this label; ProcessDied if that is not possible."""
        ...

    def close(self) -> None:
        """Let go of the place."""
        ...


class LocalChild:
    """A child process of this process."""

    def __init__(self, label: str) -> None:
        self._label = label
        self.end, theirs = socket.socketpair()
        with theirs:
            self._process = child_process(theirs.fileno(), label)

    @property
    def alive(self) -> bool:
        return self._process.poll() is None

    def kill(self) -> None:
        tree.end(self._label, self._process.pid)

    def death(self) -> str:
        return death_by(self._process.wait())


def child_process(pipe: int, label: str, folder: str | None = None) -> subprocess.Popen[bytes]:
    """Start a child that uses this descriptor as its pipe."""
    env = tree.labelled({"PYTHONHASHSEED": "0", **os.environ}, label)
    return start_module("peira.runners.child", pipe, env, folder=folder)


def death_by(code: int) -> str:
    """How a process with this exit code ended, for the message of ProcessDied."""
    return (
        f"its process was killed by signal {-code}"
        if code < 0
        else f"its process ended with exit code {code}"
    )


class LocalHost:
    """This machine."""

    ready = True

    def start(self, label: str) -> ChildProcess:
        return LocalChild(label)

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


class ProcessRunner:
    """Executes attempts in child processes, one at a time in each."""

    name = "process"
    batch = BATCH
    """How many attempts a worker takes at a time."""

    def __init__(
        self,
        agents: Mapping[str, str | dict[str, Any] | None],
        label: str,
        plugins: Sequence[str] | None = None,
    ) -> None:
        """`agents` says where each one's code is (file.py:name), or its kind and options.

        `label` marks the processes of this owner. `plugins` (module:function) are registered in the children,
        by default those that were registered here. Raises Invalid for an agent that has no such name.
        """
        self.agents = {name: self._named(name, where) for name, where in agents.items()}
        self._label, self._plugins = label, registry.modules if plugins is None else list(plugins)
        self._workers: list[_Worker] = []

    def place(self, number: int) -> ChildHost | None:
        """A place for the children of this worker; None if the runner is being stopped.

        ProcessDied if there can be none: then the attempts of the worker end with that.
        """
        return LocalHost()

    @staticmethod
    def _named(agent: str, where: str | dict[str, Any] | None) -> str | dict[str, Any]:
        """Where the code of an agent is; Invalid if that is unknown."""
        if where is None:
            raise Invalid(
                f"agent {agent!r} cannot run in another process: "
                "define it at the top of a file, or use runner='local'"
            )
        return where

    def start(self, queue: AttemptQueue, workers: int) -> None:
        """Start the worker threads, each of which starts its child when it has work."""
        self._queue, before = queue, len(self._workers)
        for number in range(before, before + workers):
            place = partial(self.place, number)
            label = f"{self._label}/{number}"
            self._workers.append(_Worker(queue, place, self.batch, dict(self.agents), label, self._plugins))
        for worker in self._workers[before:]:
            worker.thread.start()

    def resize(self, workers: int) -> None:
        """Start more worker threads, each with a child of its own."""
        before = len(self._workers)
        if workers > before:
            self.start(self._queue, workers - before)

    def abandon(self, attempt: Attempt) -> None:
        """Kill the child that executes the attempt."""
        for worker in self._workers:
            worker.lose(attempt)

    def stop(self) -> None:
        """Wait for all workers, which end their children."""
        for worker in self._workers:
            worker.thread.join()


class _Worker:
    """A thread with a child process, which it replaces when it dies."""

    def __init__(
        self,
        queue: AttemptQueue,
        place: Callable[[], ChildHost | None],
        batch: int,
        code: dict[str, str | dict[str, Any]],
        label: str,
        plugins: list[str],
    ) -> None:
        self._queue, self._place, self._batch = queue, place, batch
        self._code, self._label, self._plugins = code, label, plugins
        self._numbers = count(1)
        self._host: ChildHost | None = None
        self._child: _Child | None = None
        self._current: Attempt | None = None
        self._moving = threading.Lock()
        self.thread = threading.Thread(target=self._serve, name="peira-process", daemon=True)

    def lose(self, attempt: Attempt) -> None:
        """Kill the child if it is executing this attempt; the worker cannot move on at the same time."""
        with self._moving:
            if self._current is attempt and self._child is not None:
                self._child.kill()

    def _serve(self) -> None:
        """Take attempts from the queue and execute them, until the queue closes.

        Nothing is taken before there is a place for it: others may have one.
        """
        try:
            while self._placed() and (attempts := self._queue.take(self._batch)):
                for attempt in attempts:
                    self._work(attempt)
        finally:
            if self._child is not None:
                self._child.bury()
            if self._host is not None:
                self._host.close()

    def _placed(self) -> bool:
        """Whether to go on, with a place for children, or with a reason why there is none."""
        if self._host is None or not self._host.ready:
            if self._host is not None:
                self._host.close()
            try:
                self._host = self._place()
            except ProcessDied as problem:
                self._host = _NoHost(str(problem))
        return self._host is not None

    def _work(self, attempt: Attempt) -> None:
        """Execute one attempt in the child and report its end."""
        # The child is started before the attempt begins: its start-up is not part of the attempt's time, and
        # abandoning the attempt always finds a process to kill.
        outcome: Any = None
        failure: BaseException | None = None
        with self._moving:
            try:
                child, self._current = self._living_child(attempt.work.reader), attempt
            except ProcessDied as problem:
                failure = problem
        channel = self._queue.begin(attempt)
        if channel is None:
            return
        try:
            if failure is None:
                outcome = child.perform(attempt, channel)
        except (Exception, Abandoned) as problem:  # any failure ends the attempt
            failure = problem
        with self._moving:  # cleared before the end is reported: abandoning it now kills nothing
            self._current = None
        self._queue.end(attempt, outcome, failure)

    def _living_child(self, reader: str) -> _Child:
        """The child, or a new one that has loaded what work of this reader needs."""
        if self._child is not None and not self._child.alive:
            self._child.bury()
            self._child = None
        if self._child is None:
            assert self._host is not None
            # A label of its own: one that finds itself alone kills whatever has its label.
            label = f"{self._label}/{next(self._numbers)}"
            setup = SetupMessage(reader, self._code, list(sys.path), label, self._plugins)
            self._child = _Child(setup, self._host.start(label))
        return self._child


class _NoHost:
    """Stands for a place that could not be had."""

    ready = False

    def __init__(self, why: str) -> None:
        self._why = why

    def start(self, label: str) -> ChildProcess:
        raise ProcessDied(self._why)

    def close(self) -> None:
        """Do nothing: there are no resources to release."""


def _carried(attempt: Attempt, channel: Channel) -> list[tuple[str, dict[str, str]]]:
    """What listeners put around the attempt, in the form in which the child can."""
    run = getattr(channel, "run", "")
    with registry.surrounded("attempt", attempt.spec.kind, run, attempt.spec.id, attempt.epoch):
        return registry.carried()


class _Child:
    """A child process and the pipe to it."""

    def __init__(self, setup: SetupMessage, process: ChildProcess) -> None:
        self._process = process
        self._number = 0
        self._killed = False
        self._requests = ChildRequests(process.end)
        try:
            self._requests.send(setup)
            self._requests.receive()  # Ready
        except (EOFError, OSError):
            pass  # it died while starting; the next attempt will report that

    @property
    def alive(self) -> bool:
        """Whether it is running and was not killed."""
        return not self._killed and self._process.alive

    def perform(self, attempt: Attempt, channel: Channel) -> Any:
        """The attempt's output; raises its failure, or ProcessDied."""
        try:
            self._number += 1
            work, task = attempt.work, attempt.spec.id
            around = _carried(attempt, channel) if registry.surrounding else []
            self._requests.send(
                AttemptMessage(task, work.reader, work.message(), attempt.epoch, self._number, around)
            )
            while isinstance(message := self._requests.receive(), RequestMessage):
                if message.attempt == self._number:
                    self._requests.answer(message, channel)
                else:  # from a thread that an earlier attempt left running
                    self._requests.refuse(message)
        except (EOFError, OSError):
            raise ProcessDied(self.bury()) from None
        if isinstance(message, ReadyMessage) or message.attempt != self._number:
            self.bury()
            raise ProcessDied("its process answered for another attempt, and was ended")
        if isinstance(message, FailureMessage):
            raise _rebuilt(message)
        return message.value

    def kill(self) -> None:
        """Kill the process and everything it started; from any thread."""
        self._killed = True
        self._process.kill()

    def bury(self) -> str:
        """Kill it, reap it and close the pipe; how it ended. Only called by its worker, idempotent."""
        self.kill()
        death = self._process.death()
        self._requests.close()
        return death


def _rebuilt(broken: FailureMessage) -> BaseException:
    """The child's exception as one of this process, with the name it had there."""
    if broken.name == InDoubt.__name__:
        return InDoubt(broken.message)
    if broken.name == Exhausted.__name__:
        return Exhausted(broken.message)
    if broken.name == Parked.__name__:
        return Parked(broken.wait, broken.message)
    if broken.name == Waiting.__name__:
        return Waiting(broken.message)
    if broken.name == Unanswered.__name__:
        return Unanswered(broken.message)
    base = PermanentFailure if broken.permanent else AttemptFailed
    problem = type(broken.name, (base,), {})(broken.message)
    problem.trace = broken.trace
    return problem  # type: ignore[no-any-return]
