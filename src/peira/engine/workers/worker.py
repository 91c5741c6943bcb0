"""One worker of a shared run: the engine on ranges that the store leases to it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from peira.core.contracts import Runner
from peira.core.log.events import Status
from peira.core.log.state import Run
from peira.core.looks import Look
from peira.engine.commands import CommandService
from peira.engine.execution import Execution
from peira.engine.progress import Progress
from peira.engine.run import ClassQueue, RunDriver, RunEnd
from peira.engine.workers.arbiter import Arbiter
from peira.engine.workers.closing import close_run, end_of, is_over
from peira.engine.workers.commands import CancelledAttempts
from peira.engine.workers.membership import Membership, StopNotice, read_notice
from peira.engine.workers.ranges import REST, RangeLeases, RangeSource
from peira.stores.sharing import SharedStore

COMMANDS = "commands"
"""The duty of the member that executes commands."""
LEFT_TO_OTHERS = "what is left is for workers of other classes"
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
        arbiter: Arbiter | None = None,
        commands: CommandService | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_notice: Callable[[str], None] | None = None,
    ) -> None:
        """`arbiter` asks the stopping rule, if the run has one."""
        super().__init__(execution, runners, commands=commands, on_progress=on_progress, on_notice=on_notice)
        self._store, self._source, self._arbiter = store, source, arbiter
        self._look: Look | None = None
        self._membership = Membership(store, execution, execution.fail, self._apply_look)
        self._cancelled = CancelledAttempts(store, execution)
        self._leases = RangeLeases(store.sharing, execution, source, self._membership, parallel)

    def _start(self) -> None:
        self._membership.start()
        self._leases.start()
        if self._arbiter is not None:
            self._arbiter.start()
        super()._start()

    def _queue(self, classes: Sequence[str], runner: Runner, workers: int) -> ClassQueue:
        """Claims take as long as commits of all members together: they are made ahead by a thread."""
        queue = ClassQueue(self._execution, classes, runner)
        arguments = partial(queue.ahead, workers)
        threading.Thread(target=self._claim_ahead, args=[arguments], name="peira-claims", daemon=True).start()
        return queue

    def _claim_ahead(self, wanted: Callable[[], Mapping[str, int]]) -> None:
        try:
            self._execution.dispatch.claim_ahead(wanted)
        except BaseException as problem:  # workers wait for what this thread brings
            self._execution.fail(problem)

    def _apply_look(self, look: Look) -> None:
        """Apply the answer of the stopping rule: once it has decided, no more of the plan is handed out."""
        if look.answer and self._arbiter is not None and not self._source.decided:
            self._store.sharing.close_plan(self._execution.run)
        self._look = look
        self._source.narrow(look, self._execution)

    def _serve_commands(self) -> None:
        if self._store.sharing.hold(COMMANDS, DUTY):
            super()._serve_commands()

    def _look_around(self, elapsed: float) -> None:
        super()._look_around(elapsed)
        self._membership.publish()
        self._cancelled.look()
        if self._look is not None:  # also what was on its way when the rule gave it up
            self._source.narrow(self._look, self._execution)

    def _stop(self) -> None:
        super()._stop()
        if self._execution.state.fault is not None:
            if self._arbiter is not None:
                self._arbiter.close()
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
            if self._arbiter is not None:
                self._arbiter.close()
            self._membership.close()
        execution.context.hooks.run_ended(ended.status.value)
        if self._on_progress:
            self._on_progress(execution.progress())
        return ended

    def _wait_for_end(self) -> RunEnd:
        """Record the end of the run, or wait until another member does; who leaves does not wait."""
        execution, store, stop = self._execution, self._store, self._execution.state.stop
        while True:
            beat = self._membership.beat()
            run = store.find("run", [execution.run])[execution.run]
            if is_over(run):
                return end_of(run, store)
            notice = read_notice(beat.stop) if beat.stop else None
            stopped, done = notice is not None and not beat.taken, not (beat.left or beat.open)
            if (stopped or (done and self._has_looked(run))) and self._closes(notice):
                close_run(store, run, notice, execution.context.clock.now())
            elif self.interrupted or (stop is not None and stop.status is Status.interrupted):
                return RunEnd(Status.interrupted, dict(execution.tally.counts), "interrupted", 130)
            elif self._leaves_rest():
                return RunEnd(run.status, dict(execution.tally.counts), LEFT_TO_OTHERS, 0)
            else:
                time.sleep(REST)

    def _closes(self, notice: StopNotice | None) -> bool:
        """Whether the run can be closed: nobody takes up any part of it again."""
        return self._store.sharing.close_ranges(self._execution.run, notice is not None)

    def _leaves_rest(self) -> bool:
        """Whether all that is left of the run is of classes that this process does not do."""
        if self._source.does_all:
            return False
        return not self._store.sharing.may_take(self._execution.run, self._source.classes)

    def _has_looked(self, run: Run) -> bool:
        """Whether the stopping rule has had its last look: at all there is, unless some of it still waits."""
        if self._arbiter is None or any(task.run == run.id for task in self._store.waiting()):
            return True
        self._arbiter.finish()
        return self._arbiter.finished
