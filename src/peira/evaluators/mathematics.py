"""`math_equal`: mathematical equality by math-verify, in a helper process that can be killed.

math-verify limits its own time with alarms, which work in the main thread only, while evaluators run in other
threads. A model's output may also be an expression that never finishes (10^(10^10)), and a thread cannot be
stopped. So the computation runs in a helper process, which is killed when it takes too long.

A helper process is started on first use, receives one request at a time over a pipe, and is reused until it
is too slow. It exits with this process, because it then reads the end of the pipe; it limits by itself
whatever may keep it from reading.
"""

from __future__ import annotations

import atexit
import sys
import threading
from functools import partial
from typing import Any

import msgspec

from peira.core.ids import Json
from peira.core.text.numbers import is_number
from peira.errors import Invalid, ProcessDied, TimedOut
from peira.evaluators.comparison import Comparison, needs, texts

TO_START = 60.0


class HelperProcesses:
    """A pool of helper processes that run the same module, as many as are needed at once."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._idle: list[_Aide] = []
        self._lock = threading.Lock()

    def ask(self, question: Json, seconds: float) -> Json:
        """The answer to a request; raises `TimedOut` or `ProcessDied`."""
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
        """End the idle helper processes."""
        with self._lock:
            idle, self._idle = self._idle, []
        for aide in idle:
            aide.end()


class _Aide:
    """One helper process and its pipe."""

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
        """Send a request and wait for the answer; the first one also waits for the start."""
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
        """Close the pipe and kill the process."""
        self._pipe.close()
        self._process.kill()
        self._process.wait()


def helper_processes(module: str) -> HelperProcesses:
    """A pool that is closed when this process exits."""
    made = HelperProcesses(module)
    atexit.register(made.close)
    return made


_aides = helper_processes("peira.evaluators.mathematics_worker")


def math_equal(seconds: float = 5.0) -> Comparison:
    r"""The last expression in the output is mathematically equal to the expected one: $\frac{1}{2}$, 0.5.

    LaTeX is enclosed in $ signs or \boxed{}; a text without words needs neither. An expected list is several
    right answers. A comparison that takes more than `seconds` fails; it does not count as wrong.
    """
    if not is_number(seconds) or not 0 < seconds <= 600:
        raise Invalid(f"math_equal: seconds={seconds!r} is not a number above 0, and at most 600")
    known = needs("math_equal", "math-verify", "sympy")
    return Comparison("math_equal", partial(_equal, seconds), (("seconds", seconds),), libraries=known)


def _equal(seconds: float, output: Json, expected: Json) -> bool:
    """Whether the output equals any reference, as text or mathematically."""
    said, references = texts("math_equal", output, expected)
    if any(said.strip() == one.strip() != "" for one in references):
        return True
    return any(_aides.ask([one, said, seconds], seconds) is True for one in references)
