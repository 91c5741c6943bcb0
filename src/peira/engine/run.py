"""Drive a run to its end: workers, heartbeat, commands, limits, Ctrl-C, and its final status.

Workers of each class fetch attempts from a `ClassQueue`; the garbage collector is paused meanwhile.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import msgspec

from peira.core.contracts import Attempt, BackgroundSource, GrowingRunner, Op, ResizableRunner, Runner
from peira.core.failpoints import reach
from peira.core.garbage_collector import FEW, collection_paused
from peira.core.log.events import RunFinished, State, Status, Unsuccessful
from peira.engine.attempts.channel import AttemptChannel
from peira.engine.commands import CommandService
from peira.engine.control import StopRequest
from peira.engine.execution import Execution
from peira.engine.progress import LEFT, SPARED, Progress
from peira.errors import StoreDamaged

BATCH_SECONDS = 0.02
MOST = 128
AHEAD = 24
"""So many times as many quick attempts are claimed in advance as a worker takes: a sync costs much more."""


class ClassQueue:
    """The queue between a run and one runner, which executes attempts of these classes, the first ones first.

    `spare` attempts more are claimed with those that a worker takes; more if they are quick, unless other
    processes share the run and could do them.
    """

    def __init__(self, execution: Execution, classes: Sequence[str], runner: Runner, spare: int = 0) -> None:
        self._execution, self._runner, self._spare = execution, runner, spare
        self._shared = execution.context.shared
        self._typical = dict.fromkeys(classes, 1.0)

    def ahead(self, workers: int) -> dict[str, int]:
        """How many attempts of each class so many workers take next."""
        return {
            cls: workers * max(1, min(MOST, int(BATCH_SECONDS / typical)))
            for cls, typical in self._typical.items()
        }

    def take(self, n: int, at_once: int = 1) -> list[Attempt]:
        sizes, spares = {}, {}
        for cls, typical in self._typical.items():
            batch = min(MOST, int(BATCH_SECONDS / typical))
            sizes[cls] = min(n, max(at_once, batch))
            spares[cls] = AHEAD * MOST if n >= batch == MOST and not self._shared else self._spare
        try:
            return self._execution.dispatch.take(sizes, spares)
        except Exception as problem:
            self._execution.fail(problem)
            return []

    def begin(self, attempt: Attempt) -> AttemptChannel | None:
        try:
            return self._execution.attempts.begin(attempt, self)
        except Exception as problem:
            self._execution.fail(problem)
            return None

    def end(self, attempt: Attempt, outcome: object, failure: BaseException | None) -> None:
        try:
            took = self._execution.attempts.end(attempt, outcome, failure)
            cls = attempt.spec.cls
            self._typical[cls] = 0.8 * self._typical[cls] + 0.2 * max(took, 1e-5)
        except Exception as problem:
            self._execution.fail(problem)

    def back(self, attempts: Sequence[Attempt]) -> None:
        try:
            self._execution.dispatch.back(list(attempts))
        except Exception as problem:
            self._execution.fail(problem)

    def abandon(self, attempt: Attempt) -> None:
        self._runner.abandon(attempt)


SPARE = 8
"""One attempt is claimed in advance for this many workers."""
PULSE = 0.02
REST, QUIET = 0.05, 10
"""Seconds between two pulses once nothing of an open source has run for so many of them."""
POLL = 0.2
LAST_LOOK = 5.0
"""How long the stopping rule of a run that was stopped may still take."""
GRACE = 1.0
"""How long trials may go on after the time is over, before they are ended."""


class RunEnd(msgspec.Struct, frozen=True):
    """How a run ended."""

    status: Status
    counts: dict[str, int]
    reason: str
    exit_code: int


class RunDriver:
    def __init__(
        self,
        execution: Execution,
        runners: Mapping[str, tuple[Runner, int]],
        *,
        commands: CommandService | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        on_notice: Callable[[str], None] | None = None,
        unsuccessful: Callable[[], Unsuccessful | None] | None = None,
    ) -> None:
        """`runners` says who executes each class, with how many workers.

        Classes of one runner share its workers, and those named last are executed first. `unsuccessful` says
        at the end which trials did not succeed, if that is known.
        """
        self._unsuccessful = unsuccessful
        self._on_notice = on_notice
        self._execution, self._commands, self._runners = execution, commands, runners
        self._on_progress = on_progress
        self._pools: list[tuple[Runner, tuple[str, ...], int]] = []  # with their classes and workers
        self._growing: list[GrowingRunner] = []
        self._adding = threading.Lock()
        self._stopped = False
        self._signals = 0
        self._rule_thread: threading.Thread | None = None

    def conduct(self) -> RunEnd:
        """Run to the end; raises only when the store or the engine itself failed."""
        hooks = self._execution.context.hooks
        hooks.run_began()
        try:
            served = self._commands.attached(self._execution) if self._commands else nullcontext()
            size = self._execution.source.size
            paused = collection_paused() if size is None or size > FEW else nullcontext()
            with paused, _signals(self._interrupt), served:
                self._start()
                try:
                    self._watch()
                except BaseException as problem:
                    self._execution.fail(problem)  # so that every worker comes to its end
                    raise
                finally:
                    self._stop()
                return self._finish()
        finally:
            hooks.close()

    def _start(self) -> None:
        self._feeder = threading.Thread(target=self._execution.feed, name="peira-intake", daemon=True)
        self._feeder.start()
        if self._execution.has_rule:
            self._rule_thread = threading.Thread(
                target=self._execution.consult_rule, name="peira-rule", daemon=True
            )
            self._rule_thread.start()
        self.add(self._runners)

    def add(self, runners: Mapping[str, tuple[Runner, int]]) -> None:
        """Let further classes be executed from now on; any thread, while the run is under way."""
        with self._adding:
            for runner, workers in {id(pool[0]): pool for pool in runners.values()}.values():
                if not self._stopped:
                    classes = tuple(reversed([cls for cls in runners if runners[cls][0] is runner]))
                    runner.start(ClassQueue(self._execution, classes, runner, workers // SPARE), workers)
                    self._pools.append((runner, classes, workers))
                    self._growing += [runner] if isinstance(runner, GrowingRunner) else []

    def _watch(self) -> None:
        execution, clock = self._execution, self._execution.context.clock
        since = clock.monotonic()
        next_poll = since
        quiet = 0  # pulses since anything of an open source ran
        while not execution.wait(PULSE if quiet < QUIET else REST):
            quiet = 0 if len(execution.attempts) or execution.source.size is not None else quiet + 1
            self._heed()
            execution.pulse()
            for runner in self._growing:
                runner.grow()
            now = clock.monotonic()
            if now >= next_poll:
                next_poll = now + POLL
                self._look_around(now - since)

    def _serve_commands(self) -> None:
        if self._commands:
            self._commands.serve()

    def _look_around(self, elapsed: float) -> None:
        self._serve_commands()
        while self._execution.adjusted:
            self._resize(self._execution.adjusted.popleft())
        limit = self._execution.time_limit
        if limit is not None and elapsed > limit:
            late = elapsed > limit + GRACE
            self._execution.request(StopRequest.limit(f"{limit:g} s are over (budget.time)", now=late))
        self._tell()
        if self._on_progress:
            self._on_progress(self._execution.progress())

    def _resize(self, workers: int) -> None:
        """Raise the number of workers, where the runner can."""
        for n, (runner, classes, before) in enumerate(self._pools):
            if isinstance(runner, ResizableRunner) and workers > before:
                runner.resize(workers)
                self._pools[n] = runner, classes, workers
        self._notice(f"up to {workers} at once from now on")

    def _tell(self) -> None:
        while self._execution.notices:
            self._notice(self._execution.notices.popleft())

    def _notice(self, text: str) -> None:
        if self._on_notice:
            self._on_notice(text)

    @property
    def interrupted(self) -> bool:
        """Whether this process was told to go, even if it was after all had ended."""
        return self._signals > 0

    def _interrupt(self) -> None:
        """Only counts: a signal may come while the lock is held here."""
        self._signals += 1

    def _heed(self) -> None:
        """First Ctrl-C: finish what runs. Second: cancel that, too."""
        if not self._signals:
            return
        if self._execution.state.stop is None:
            running = self._execution.progress().running
            self._notice(f"stopping: {running} running will be finished (Ctrl-C again cancels them)")
        self._execution.request(StopRequest.interrupted(now=self._signals > 1))

    def _stop(self) -> None:
        self._feeder.join()
        if isinstance(source := self._execution.source, BackgroundSource):
            source.join()
        with self._adding:
            self._stopped = True
        for runner, _, _ in self._pools:
            runner.stop()
        self._execution.close_calls()
        if self._rule_thread is not None:
            self._end_rule(self._rule_thread)
        self._tell()

    def _end_rule(self, thread: threading.Thread) -> None:
        """Let the stopping rule have its last look; where the run was stopped, not for long."""
        execution, clock = self._execution, self._execution.context.clock
        execution.close_looks()
        since = clock.monotonic()
        while thread.is_alive():
            late = execution.state.stop is not None and clock.monotonic() - since > LAST_LOOK
            if late or self._signals > 1 or execution.state.fault:
                execution.give_up_rule()
                return
            thread.join(PULSE)

    def _finish(self) -> RunEnd:
        execution = self._execution
        if execution.state.stop is not None and execution.state.stop.status is Status.cancelled:
            execution.cancel_waiting(execution.state.stop.reason.removeprefix("cancelled by "))
        execution.journal.drain()
        finished = self._ending()
        ended = finished.status, finished.counts, finished.reason, execution.spent
        known = self._unsuccessful if finished.status is Status.failures else None
        event = RunFinished(*ended, unsuccessful=known() if known else None)
        reach("engine.before_finish")
        execution.journal.write([Op(execution.run, (event,))])
        execution.context.hooks.run_ended(finished.status.value)
        if self._on_progress:
            self._on_progress(execution.progress())
        return finished

    def _ending(self) -> RunEnd:
        counts, stop = self._counts(), self._execution.state.stop or self._execution.state.starved
        if stop is not None:
            return RunEnd(stop.status, counts, stop.reason, stop.exit_code)
        if reached := self._execution.budgets_reached:
            return RunEnd(Status.stopped, counts, "; ".join(reached), 3)
        if self._execution.waiting:
            return RunEnd(Status.waiting, counts, "", 3)
        if self._execution.tally.failures:
            return RunEnd(Status.failures, counts, "; ".join(self._execution.refusals), 1)
        if any(key.endswith("exhausted") for key in counts):
            return RunEnd(Status.stopped, counts, self._execution.tally.limits_reached, 3)
        if self._execution.source.size is not None and (reason := self._execution.tally.cancellations):
            return RunEnd(Status.cancelled, counts, reason, 1)
        return RunEnd(Status.completed, counts, "", 0)

    def _counts(self) -> dict[str, int]:
        """Every unit the source holds, once; a run that was not stopped may leave none out.

        Of those that a stopped run has not begun, the ones that earlier runs have tried in vain are kept.
        """
        execution = self._execution
        counts, size = dict(execution.tally.counts), execution.source.size
        waiting = execution.waiting_counts() if execution.waiting else {}
        counts |= waiting
        if size is None:
            return counts
        unit = execution.source.unit
        missing = size - execution.tally.of(unit) - waiting.get(f"{unit}.{State.waiting}", 0)
        if missing and execution.spares and not (execution.state.stop or execution.state.starved):
            return {"planned": size, **counts, f"{unit}.{SPARED}": missing}
        if missing and not (execution.state.stop or execution.state.starved):
            raise StoreDamaged(f"{missing} of {size} tasks have no end: this is a defect of peira")
        if missing:
            counts[f"{unit}.{LEFT}"] = counts.get(f"{unit}.{LEFT}", 0) + missing
        if counts.get(f"{unit}.{LEFT}"):
            for before, n in execution.failed_before().items():
                counts[f"{unit}.{before}"] = counts.get(f"{unit}.{before}", 0) + n
                counts[f"{unit}.{LEFT}"] -= n
        return {"planned": size, **{key: n for key, n in counts.items() if n}}


@contextmanager
def _signals(handle: Callable[[], None]) -> Iterator[None]:
    """Ctrl-C and SIGTERM as requests, while a run is conducted in the main thread."""
    before: dict[signal.Signals, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            before[number] = signal.signal(number, lambda *_: handle())
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
