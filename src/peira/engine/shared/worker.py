"""One worker of a shared run: the engine on ranges that the store leases to it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from peira.core.contracts import Runner
from peira.core.log.events import Status
from peira.engine.commands import CommandService
from peira.engine.execution import Execution
from peira.engine.progress import Progress
from peira.engine.run import RunDriver, RunEnd
from peira.engine.shared.closing import close_run, end_of, is_over
from peira.engine.shared.membership import Membership, read_notice
from peira.engine.shared.ranges import REST, RangeLeases, RangeSource
from peira.stores.sharing import SharedStore

COMMANDS = "commands"
"""The duty of the member that executes commands."""
DUTY = 2.0
"""Seconds for which a duty is kept; it is renewed several times meanwhile."""


class WorkerDriver(RunDriver):
    """Drives this process's part of a shared run to its end, and the run itself if it is the last."""

    def __init__(
        self,
        execution: Execution,
        runners: Mapping[str, tuple[Runner, int]],
        store: SharedStore,
        source: RangeSource,
        parallel: int,
        *,
        commands: CommandService | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(execution, runners, commands=commands, on_progress=on_progress, on_notice=on_notice)
        self._store = store
        self._membership = Membership(store, execution, execution.fail)
        self._leases = RangeLeases(store.sharing, execution, source, self._membership, parallel)

    def _start(self) -> None:
        self._membership.start()
        self._leases.start()
        super()._start()

    def _serve_commands(self) -> None:
        if self._store.sharing.hold(COMMANDS, DUTY):
            super()._serve_commands()

    def _look_around(self, elapsed: float) -> None:
        super()._look_around(elapsed)
        self._membership.publish()

    def _stop(self) -> None:
        super()._stop()
        if self._execution.state.fault is not None:
            self._membership.close()

    def _finish(self) -> RunEnd:
        execution = self._execution
        try:
            if execution.state.stop is not None and execution.state.stop.status is Status.cancelled:
                execution.cancel_waiting(execution.state.stop.reason.removeprefix("cancelled by "))
            execution.journal.drain()
            self._membership.publish()
            self._leases.close()
            ended = self._wait_for_end()
        finally:
            self._membership.close()
        execution.context.hooks.run_ended(ended.status.value)
        if self._on_progress:
            self._on_progress(execution.progress())
        return ended

    def _wait_for_end(self) -> RunEnd:
        """Record the end of the run, or wait until another member does; who leaves does not wait."""
        execution, store = self._execution, self._store
        leaving = execution.state.stop is not None and execution.state.stop.status is Status.interrupted
        while True:
            beat = self._membership.beat()
            run = store.find("run", [execution.run])[execution.run]
            if is_over(run):
                return end_of(run, store)
            notice = read_notice(beat.stop) if beat.stop else None
            if not (beat.left or beat.open) or (notice is not None and not beat.taken):
                close_run(store, run, notice, execution.context.clock.now())
            elif leaving:
                return RunEnd(Status.interrupted, dict(execution.tally.counts), "interrupted", 130)
            else:
                time.sleep(REST)
