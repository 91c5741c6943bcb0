"""The child of the process runner: a process that executes attempts one after another.

It is spawned, never forked. It neither writes nor opens a store: everything goes through the pipe. When the
pipe is closed, because its owner has ended, it kills its whole process tree and itself.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import sys
import threading
import traceback
from contextlib import nullcontext, suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from peira.core.contracts import WorkReader
from peira.core.ids import normalise, seed_of
from peira.core.models import output_of
from peira.core.registry import plugin_function, registry
from peira.errors import Abandoned, Invalid, ModelRefused, Unanswered, carried, message_of, unwrapped
from peira.runners.child_channel import ChildPipe, PipeChannel
from peira.runners.messages import AttemptMessage, FailureMessage, OutputMessage, ReadyMessage, SetupMessage
from peira.sandbox import process_tree as tree
from peira.sandbox.child_module import print_by_line

PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    """Read the setup, then execute attempts until the pipe is closed."""
    pipe = ChildPipe(Connection(int(sys.argv[1])))
    setup = pipe.setup
    _adopt_orphans()
    threading.Thread(target=pipe.listen, args=(lambda: _end(setup.label),), daemon=True).start()
    sys.path[:] = setup.path
    print_by_line()
    worker = _Worker(setup)
    worker.load()
    pipe.send(ReadyMessage())
    while True:
        do = pipe.work.get()
        channel = PipeChannel(pipe, do.attempt)
        channel.close(worker.attempt(do, channel))
        _end_leftovers(setup.label)


def _end(label: str) -> None:
    """Kill all processes that this one started, and itself, because the owner has ended."""
    try:
        tree.end(label, os.getpid())
    finally:
        os._exit(0)


def _adopt_orphans() -> None:
    """Become the subreaper (Linux), so that orphaned descendants stay in this process's tree."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _end_leftovers(label: str) -> None:
    """Kill the processes that an attempt left running."""
    if not sys.platform.startswith("linux") or any(map(_children, os.listdir("/proc/self/task"))):
        tree.end(label, os.getpid())
        _reap()


def _children(thread: str) -> bool:
    """Whether the thread has child processes."""
    try:
        return bool(Path(f"/proc/self/task/{thread}/children").read_text())
    except OSError:  # the thread has ended
        return False


def _reap() -> None:
    """Reap all dead children."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


class _Worker:
    """Executes the attempts of this process."""

    def __init__(self, setup: SetupMessage) -> None:
        self._setup = setup
        self._readers: dict[str, WorkReader] = {}

    def load(self) -> None:
        """Load what the first attempts need, before their time starts; what fails to load fails in them."""
        with suppress(BaseException):
            self._reader(self._setup.reader).load()

    def attempt(self, do: AttemptMessage, channel: PipeChannel) -> OutputMessage | FailureMessage:
        """Execute one attempt; returns the message that reports its output or its failure."""
        try:
            return OutputMessage(normalise(output_of(self._perform(do, channel)), "output"), do.attempt)
        except BaseException as raised:  # any exception of user code is the attempt's failure
            problem = unwrapped(raised) or raised
            trace = "".join(traceback.format_tb(problem.__traceback__)[-5:])
            permanent = isinstance(problem, (Invalid, Abandoned, ModelRefused, Unanswered))
            name, wait = type(problem).__name__, getattr(problem, "seconds", 0.0)
            return FailureMessage(name, message_of(problem), carried(trace), permanent, do.attempt, wait)

    def _perform(self, do: AttemptMessage, channel: PipeChannel) -> Any:
        """Rebuild the work and perform it."""
        work = self._reader(do.reader).read(do.work)
        _seed_globals(seed_of(do.task))
        with registry.resumed(do.around) if do.around else nullcontext():
            outcome = work.perform(channel, do.epoch)
            return asyncio.run(_complete(outcome)) if work.asynchronous else outcome

    def _reader(self, name: str) -> WorkReader:
        """The reader of this name (module:name), made on first use, after loading the project's plug-ins."""
        if name not in self._readers:
            for function in self._setup.plugins:
                registry.load_module(plugin_function(function), function)
            module, _, attribute = name.partition(":")
            self._readers[name] = getattr(import_module(module), attribute)(self._setup.code)
        return self._readers[name]


def _seed_globals(seed: int) -> None:
    """Seed the global generators, which is safe because one attempt at a time runs in this process."""
    import numpy  # imported even if unused so far: an attempt that imports it must find it seeded

    random.seed(seed)
    numpy.random.seed(seed % 2**32)


async def _complete(pending: Any) -> Any:
    return await pending


if __name__ == "__main__":
    main()
