"""Real processes: for agents that use global randomness, hold the interpreter's lock, or may crash.

Each worker is a thread here that owns one child process and speaks for its attempts. An abandoned
attempt's process is killed with everything it started; the worker starts another.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping
from typing import Any

from peira.core.contracts import Attempt, Channel, Desk
from peira.errors import (
    Abandoned,
    AttemptFailed,
    Exhausted,
    InDoubt,
    Invalid,
    Parked,
    ProcessDied,
)
from peira.runners.pipe import Ask, Broken, Do, Ready, Setup
from peira.runners.pipe_answers import Window
from peira.sandbox import tree

BATCH = 8


class ProcessRunner:
    name = "process"

    def __init__(self, agents: Mapping[str, str | None], label: str) -> None:
        """`agents` says where each one's code is (file.py:name); `label` marks the processes as ours."""
        self.agents = {name: self._named(name, where) for name, where in agents.items()}
        self._label = label
        self._workers: list[_Worker] = []

    @staticmethod
    def _named(agent: str, where: str | None) -> str:
        if where is None:
            raise Invalid(
                f"agent {agent!r} cannot run in another process: "
                "define it at the top of a file, or use runner='local'"
            )
        return where

    def start(self, desk: Desk, workers: int) -> None:
        for number in range(workers):
            setup = Setup(dict(self.agents), list(sys.path), f"{self._label}/{number}")
            self._workers.append(_Worker(desk, setup))
        for worker in self._workers:
            worker.thread.start()

    def abandon(self, attempt: Attempt) -> None:
        for worker in self._workers:
            worker.lose(attempt)

    def stop(self) -> None:
        for worker in self._workers:
            worker.thread.join()


class _Worker:
    def __init__(self, desk: Desk, setup: Setup) -> None:
        self._desk, self._setup = desk, setup
        self._child: _Child | None = None
        self._current: Attempt | None = None
        self._moving = threading.Lock()
        self.thread = threading.Thread(target=self._serve, name="peira-process", daemon=True)

    def lose(self, attempt: Attempt) -> None:
        """Kill the child if it is at this attempt; the worker cannot move on meanwhile."""
        with self._moving:
            if self._current is attempt and self._child is not None:
                self._child.kill()

    def _serve(self) -> None:
        try:
            while attempts := self._desk.take(BATCH):
                for attempt in attempts:
                    self._work(attempt)
        finally:
            if self._child is not None:
                self._child.bury()

    def _work(self, attempt: Attempt) -> None:
        # A child first, and only then the beginning: its start-up is no part of the attempt's time, and
        # whoever abandons the attempt finds something to kill.
        with self._moving:
            child, self._current = self._living_child(), attempt
        channel = self._desk.begin(attempt)
        if channel is None:
            return
        outcome: Any = None
        failure: BaseException | None = None
        try:
            outcome = child.perform(attempt, channel)
        except (Exception, Abandoned) as problem:  # the attempt's end, whatever it was
            failure = problem
        with self._moving:  # over before it is told: whoever gives it up now kills nobody
            self._current = None
        self._desk.end(attempt, outcome, failure)

    def _living_child(self) -> _Child:
        if self._child is not None and not self._child.alive:
            self._child.bury()
            self._child = None
        if self._child is None:
            self._child = _Child(self._setup)
        return self._child


class _Child:
    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._number = 0
        self._killed = False
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "peira.runners.child", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=2,  # what user code prints must not mix with the answer on standard output
                env=tree.labelled({"PYTHONHASHSEED": "0", **os.environ}, setup.label),
                start_new_session=True,  # a Ctrl-C in the terminal is for the parent to handle
            )
        self._window = Window(ours)
        try:
            self._window.send(setup)
            self._window.receive()  # Ready
        except (EOFError, OSError):
            pass  # it died while starting; the attempt that meets it will say so

    @property
    def alive(self) -> bool:
        return not self._killed and self._process.poll() is None

    def perform(self, attempt: Attempt, channel: Channel) -> Any:
        """The attempt's output; raises why there is none."""
        try:
            self._number += 1
            self._window.send(Do(dict(attempt.work.portable()), attempt.epoch, self._number))
            while isinstance(message := self._window.receive(), Ask):
                if message.attempt == self._number:
                    self._window.answer(message, channel)
                else:  # what an earlier attempt left behind may still ask; it is not this attempt's
                    self._window.refuse(message)
        except (EOFError, OSError):
            raise ProcessDied(self._death()) from None
        if isinstance(message, Ready) or message.attempt != self._number:
            self.bury()
            raise ProcessDied("its process answered for another attempt, and was ended")
        if isinstance(message, Broken):
            raise _rebuilt(message)
        return message.value

    def _death(self) -> str:
        self.bury()
        code = self._process.returncode
        return (
            f"its process was killed by signal {-code}"
            if code < 0
            else f"its process ended with exit code {code}"
        )

    def kill(self) -> None:
        """End the process and everything it started; from any thread."""
        self._killed = True
        tree.end(self._setup.label, self._process.pid)

    def bury(self) -> None:
        """Kill it and let go of what is left; only by the worker that speaks to it, and once is enough."""
        self.kill()
        self._process.wait()
        self._window.close()


def _rebuilt(broken: Broken) -> BaseException:
    """The child's exception as one of ours, under the name it had there."""
    if broken.name == InDoubt.__name__:
        return InDoubt(broken.message)
    if broken.name == Exhausted.__name__:
        return Exhausted(broken.message)
    if broken.name == Parked.__name__:
        return Parked(broken.wait, broken.message)
    base = _PermanentFailure if broken.permanent else AttemptFailed
    problem = type(broken.name, (base,), {})(broken.message)
    problem.trace = broken.trace
    return problem  # type: ignore[no-any-return]


class _PermanentFailure(AttemptFailed, Invalid):
    """A failure in a child that another try would only repeat."""

    def __init__(self, message: str) -> None:
        Invalid.__init__(self, message)
