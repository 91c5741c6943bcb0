"""The other side of the process runner: a process that performs attempts one after another.

It is spawned, never forked. It writes no store and opens none: everything goes through the pipe. When
the pipe ends, because its owner is gone, it takes its whole process tree with it.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import sys
import threading
import traceback
from contextlib import suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from peira.core.context import SeenCase, Trial, enter
from peira.core.contracts import Agent
from peira.core.ids import normalise
from peira.core.models import output_of
from peira.core.registry import registry
from peira.errors import Abandoned, Invalid, carried, message_of, unwrapped
from peira.runners.pipe import Broken, Do, Done, Ready, Setup
from peira.runners.pipe_channel import PipeChannel
from peira.runners.pipe_line import Line
from peira.sandbox import tree
from peira.spec.modules import resolve_reference
from peira.spec.study import Study

PR_SET_CHILD_SUBREAPER = 36


def main() -> None:
    line = Line(Connection(int(sys.argv[1])))
    setup = line.setup
    _adopt_orphans()
    threading.Thread(target=line.listen, args=(lambda: _end(setup.label),), daemon=True).start()
    sys.path[:] = setup.path
    worker = _Worker(setup)
    worker.load()
    line.send(Ready())
    while True:
        do = line.work.get()
        channel = PipeChannel(line, do.attempt)
        channel.close(worker.attempt(do, channel))
        _end_leftovers(setup.label)


def _end(label: str) -> None:
    """The owner is gone: end everything this process started, and itself."""
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
    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._agents: dict[str, Agent] = {}

    def load(self) -> None:
        """Load the agents now, in no attempt's time; what cannot be loaded fails its attempts."""
        for label in self._setup.agents:
            with suppress(BaseException):
                self._agent(label)

    def attempt(self, do: Do, channel: PipeChannel) -> Done | Broken:
        try:
            return Done(normalise(output_of(self._perform(do, channel)), "output"), do.attempt)
        except BaseException as raised:  # whatever user code raises is how its attempt ended
            problem = unwrapped(raised) or raised
            trace = "".join(traceback.format_tb(problem.__traceback__)[-5:])
            permanent = isinstance(problem, (Invalid, Abandoned))
            name, wait = type(problem).__name__, getattr(problem, "seconds", 0.0)
            return Broken(name, message_of(problem), carried(trace), permanent, do.attempt, wait)

    def _perform(self, do: Do, channel: PipeChannel) -> Any:
        agent = self._agent(do.work["agent"])
        trial = _trial(do, channel)
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


if __name__ == "__main__":
    main()
