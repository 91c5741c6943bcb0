"""A process that works for an evaluator, and can be ended when it takes too long.

Some computations cannot be interrupted where they run: a thread cannot be stopped, and an alarm reaches only
the main thread. An aide is asked over a pipe and answers one question at a time. It is started when first
needed, serves until it is too slow, and ends with this process, for then it reads the end of the pipe. What
may keep it from reading, it must bound itself.
"""

from __future__ import annotations

import atexit
import sys
import threading
from typing import Any

import msgspec

from peira.core.ids import Json
from peira.errors import ProcessDied, TimedOut

TO_START = 60.0


class Aides:
    """As many aides as are needed at once, all running the same module."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._idle: list[_Aide] = []
        self._lock = threading.Lock()

    def ask(self, question: Json, seconds: float) -> Json:
        """The answer; TimedOut if there is none by then, ProcessDied if there never will be one."""
        with self._lock:
            aide = self._idle.pop() if self._idle else None
        aide = aide or _Aide(self._module)
        try:
            answer = aide.ask(question, seconds)
        except BaseException:
            aide.end()
            raise
        with self._lock:
            self._idle.append(aide)
        return answer

    def close(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for aide in idle:
            aide.end()


class _Aide:
    def __init__(self, module: str) -> None:
        import subprocess  # slow, as is the next, and not needed before this
        from multiprocessing import Pipe

        self._pipe, theirs = Pipe()
        # -P: a file in the working directory that bears the name of a module is not that module.
        command = [sys.executable, "-P", "-m", module, str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, start_new_session=True
            )
        self._ready = False

    def ask(self, question: Json, seconds: float) -> Json:
        if not self._ready:
            self._receive(TO_START)
            self._ready = True
        self._pipe.send_bytes(msgspec.json.encode(question))
        return self._receive(seconds)

    def _receive(self, seconds: float) -> Any:
        try:
            if not self._pipe.poll(seconds):
                raise TimedOut(f"not computed within {seconds:g} s")
            return msgspec.json.decode(self._pipe.recv_bytes())
        except EOFError:
            raise ProcessDied(f"the process that computes it ended with {self._process.wait()}") from None

    def end(self) -> None:
        self._pipe.close()
        self._process.kill()
        self._process.wait()


def aides(module: str) -> Aides:
    """Aides that end, at the latest, when this process does."""
    made = Aides(module)
    atexit.register(made.close)
    return made
