"""Workers of a shared run on the machines of a Ray cluster: detached actors, which Ray neither restarts nor
retries.

Each actor holds a place and runs `peira worker` there as a process. Whatever ends one is known to the process
that submitted the run: it tells the store that the member is gone, so nobody waits for its lease.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from peira.core.ids import short
from peira.errors import Invalid
from peira.runners.ray import NAMESPACE, RaySettings, check_fits, connect, disconnect, options_of

PR_SET_PDEATHSIG = 1
INTERRUPTED = 130
LEAVE = 5.0
"""Seconds after which an actor ends whose worker has ended; meanwhile its result is fetched."""
WAIT = 30.0
"""Seconds in which actors have to answer."""
BOOT = (
    "import sys; from peira.app.ray_workers import end_with_parent; end_with_parent(); "
    "from peira.cli import main; main()"
)


def end_with_parent() -> None:
    """Let the kernel kill this process when the one that started it ends (Linux)."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


class WorkerActor:
    """What Ray executes: a worker of a shared run as a process of this machine."""

    def __init__(self, arguments: list[str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", "-c", BOOT, "worker", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=2,
            start_new_session=True,
        )

    def process(self) -> tuple[str, int]:
        """The machine and the process of the worker."""
        from peira.stores.postgres.members import this_host

        return this_host(), self._process.pid

    def work(self) -> int:
        """Wait for the end of the worker; its exit code. The actor ends soon afterwards."""
        code = self._process.wait()
        threading.Timer(LEAVE, os._exit, (0,)).start()
        return code

    def signal(self, number: int) -> None:
        """Send a signal to the worker."""
        if self._process.poll() is None:
            self._process.send_signal(number)


@dataclass
class _Placed:
    """An actor, as the submitting process knows it; `result` and `process` are promises of Ray."""

    actor: Any
    result: Any
    process: Any
    over: bool = field(default=False)


class RayWorkers:
    """The workers of one run in a cluster, as long as this process watches them."""

    def __init__(self, table: Mapping[str, Any]) -> None:
        """Connect to the cluster; Invalid if it cannot give what `table` ([runners.ray]) asks for."""
        self._settings = RaySettings.read(table, None)
        self._ours = connect(self._settings)
        try:
            self.places = check_fits(self._settings)
        except Invalid:
            self.close()
            raise
        self._placed: list[_Placed] = []
        self.notices: list[str] = []
        """What happened to workers, for whoever watches; to be removed when it was shown."""
        self._on_gone: Callable[[str, int], None] = lambda host, pid: None

    def start(
        self, run: str, workers: int, arguments: list[str], on_gone: Callable[[str, int], None]
    ) -> None:
        """Start so many workers; `on_gone(host, pid)` is called for each that is lost."""
        import ray

        self._on_gone = on_gone
        for _ in range(workers):
            actor = (
                ray.remote(WorkerActor)
                .options(
                    **options_of(self._settings.needs),
                    name=f"peira-{short(run)}-{uuid.uuid4().hex[:8]}",
                    namespace=NAMESPACE,
                    lifetime="detached",
                    max_restarts=0,
                    max_task_retries=0,
                    max_concurrency=3,
                )
                .remote(arguments)
            )
            self._placed.append(_Placed(actor, actor.work.remote(), actor.process.remote()))

    @property
    def alive(self) -> int:
        """How many of them have not ended; when one ends regularly, those without a place are given up."""
        import ray

        waiting = {one.result: one for one in self._placed if not one.over}
        ended = ray.wait(list(waiting), num_returns=len(waiting), timeout=0)[0] if waiting else []
        for result in ended:
            waiting[result].over = True
            if self._regular(waiting[result]):
                self._give_up_waiting()
        return sum(not one.over for one in self._placed)

    def _regular(self, one: _Placed) -> bool:
        """Whether an actor ended because its worker did; if it was lost, `on_gone` is called."""
        import ray

        try:
            if (code := ray.get(one.result)) not in (0, INTERRUPTED):
                self.notices.append(f"a worker on Ray ended with exit code {code}: Ray's logs say why")
            return True
        except ray.exceptions.RayError:
            pass
        try:
            self._on_gone(*ray.get(one.process, timeout=0))
            self.notices.append("a worker on Ray was lost: others go on with what it had")
        except ray.exceptions.RayError as problem:  # it never began
            self.notices.append(
                f"a worker on Ray could not be started: {' '.join(str(problem).split())[:200]}"
            )
        return False

    def _give_up_waiting(self) -> None:
        """Kill the actors that have no place yet."""
        import ray

        for one in self._placed:
            if not one.over and not ray.wait([one.process], timeout=0)[0]:
                one.over = True
                ray.kill(one.actor)

    def signal(self, number: int) -> None:
        """Send a signal to the workers that have not ended; those without a place are given up."""
        import ray

        self._give_up_waiting()
        sent = [one.actor.signal.remote(number) for one in self._placed if not one.over]
        if sent:
            ray.wait(sent, num_returns=len(sent), timeout=WAIT)

    def wait(self) -> None:
        """Wait until all have ended, and disconnect."""
        import ray

        while self.alive:
            open_ones = [one.result for one in self._placed if not one.over]
            ray.wait(open_ones, timeout=WAIT)
        for one in self._placed:
            ray.kill(one.actor)
        self.close()

    def close(self) -> None:
        """Disconnect from the cluster."""
        disconnect(self._ours)
        self._ours = False
