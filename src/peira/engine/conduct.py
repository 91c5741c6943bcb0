"""Seeing a run through: workers up, pulse, commands, limits, Ctrl-C, and its one honest end."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from peira.core.contracts import Op, Runner
from peira.core.events import CommandTaken, RunFinished, Status
from peira.core.failpoints import reach
from peira.core.registry import registry
from peira.engine.collector import held_back
from peira.engine.control import CANCEL, Command, ControlFolder
from peira.engine.desk import ClassDesk
from peira.engine.execution import Execution
from peira.engine.progress import LEFT, SPARED, Progress
from peira.engine.stopping import Stop
from peira.errors import StoreDamaged

PULSE = 0.02
POLL = 0.2
GRACE = 1.0
"""How long trials may go on after the time is over, before they are ended."""


@dataclass(frozen=True)
class Finished:
    """How a run ended."""

    status: Status
    counts: dict[str, int]
    reason: str
    exit_code: int


class Conductor:
    def __init__(
        self,
        execution: Execution,
        runners: Mapping[str, tuple[Runner, int]],
        *,
        control: ControlFolder | None = None,
        time_limit: float | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        """`runners` says who executes each class, with how many workers."""
        self._on_notice = on_notice
        self._execution, self._runners, self._control = execution, runners, control
        self._time_limit, self._on_progress = time_limit, on_progress
        self._signals = 0

    def conduct(self) -> Finished:
        """Run to the end; raises only when the store or the engine itself failed."""
        registry.call("run_began", run=self._execution.run)
        with held_back(), _signals(self._interrupt):
            self._start()
            try:
                self._watch()
            except BaseException as problem:
                self._execution.fail(problem)  # so that every worker comes to its end
                raise
            finally:
                self._stop()
            return self._finish()

    def _start(self) -> None:
        self._feeder = threading.Thread(target=self._execution.feed, name="peira-intake", daemon=True)
        self._feeder.start()
        for cls, (runner, workers) in self._runners.items():
            runner.start(ClassDesk(self._execution, cls, runner), workers)

    def _watch(self) -> None:
        execution, clock = self._execution, self._execution.clock
        since = clock.monotonic()
        next_poll = since
        while not execution.wait(PULSE):
            self._heed()
            execution.pulse()
            now = clock.monotonic()
            if now >= next_poll:
                next_poll = now + POLL
                self._look_around(now - since)

    def _look_around(self, elapsed: float) -> None:
        if self._control:
            for command in self._control.take():
                self._obey(command)
        if self._time_limit is not None and elapsed > self._time_limit:
            late = elapsed > self._time_limit + GRACE
            self._execution.request(Stop.limit(f"{self._time_limit:g} s are over (budget.time)", now=late))
        self._tell()
        if self._on_progress:
            self._on_progress(self._execution.progress())

    def _tell(self) -> None:
        while self._execution.notices:
            self._notice(self._execution.notices.popleft())

    def _notice(self, text: str) -> None:
        if self._on_notice:
            self._on_notice(text)

    def _obey(self, command: Command) -> None:
        if command.command == CANCEL and command.run == self._execution.run:
            event = CommandTaken(command.command, command.id, command.by)
            self._execution.journal.write([Op(self._execution.run, (event,))])
            self._execution.request(Stop.cancelled(command.by))

    def _interrupt(self) -> None:
        """Only counts: a signal may come while the lock is held here."""
        self._signals += 1

    def _heed(self) -> None:
        """First Ctrl-C: finish what runs. Second: cancel that, too."""
        if not self._signals:
            return
        if self._execution.stop is None:
            running = self._execution.progress().running
            self._notice(f"stopping: {running} running will be finished (Ctrl-C again cancels them)")
        self._execution.request(Stop.interrupted(now=self._signals > 1))

    def _stop(self) -> None:
        self._feeder.join()
        for runner, _ in self._runners.values():
            runner.stop()
        self._execution.ledger.close()
        self._tell()

    def _finish(self) -> Finished:
        execution = self._execution
        execution.close_looks()
        execution.journal.drain()
        finished = self._ending()
        event = RunFinished(finished.status, finished.counts, finished.reason, execution.ledger.spent)
        reach("engine.before_finish")
        execution.journal.write([Op(execution.run, (event,))])
        execution.finish_stages()
        registry.call("run_ended", run=execution.run, status=finished.status.value)
        if self._on_progress:
            self._on_progress(execution.progress())
        return finished

    def _ending(self) -> Finished:
        counts, stop = self._counts(), self._execution.stop or self._execution.starved
        if stop is not None:
            return Finished(stop.status, counts, stop.reason, stop.exit_code)
        if reached := self._execution.ledger.reserve.reached:
            return Finished(Status.stopped, counts, "; ".join(reached), 3)
        if self._execution.tally.failures:
            return Finished(Status.failures, counts, "", 1)
        return Finished(Status.completed, counts, "", 0)

    def _counts(self) -> dict[str, int]:
        """Every unit the source holds, once; a run that was not stopped may leave none out."""
        execution = self._execution
        counts, size = dict(execution.tally.counts), execution.source.size
        if size is None:
            return counts
        missing = size - execution.tally.of(execution.source.unit)
        if missing and execution.spares and not (execution.stop or execution.starved):
            return {"planned": size, **counts, f"{execution.source.unit}.{SPARED}": missing}
        if missing and not (execution.stop or execution.starved):
            raise StoreDamaged(f"{missing} of {size} tasks have no end: this is a defect of peira")
        if missing:
            counts[f"{execution.source.unit}.{LEFT}"] = (
                counts.get(f"{execution.source.unit}.{LEFT}", 0) + missing
            )
        return {"planned": size, **counts}


class _signals:
    """Ctrl-C and SIGTERM as requests, while a run is conducted in the main thread."""

    def __init__(self, handle: Callable[[], None]) -> None:
        self._handle = handle
        self._before: dict[signal.Signals, object] = {}

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._before[number] = signal.signal(number, lambda *_: self._handle())

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)  # type: ignore[arg-type]
