"""The progress of a run: counts of ended tasks, and snapshots of them."""

from __future__ import annotations

from collections import Counter

import msgspec

from peira.core.log.events import State
from peira.core.looks import Look
from peira.engine.kinds import EVALUATE


class Progress(msgspec.Struct, frozen=True):
    """A snapshot of a run's progress.

    `total` is None while the source may still grow; `waiting` is the number of tasks that wait for batches;
    `look` is the last look of the study's stopping rule; `waits` says why nothing may move: which models have
    not answered for long, or are paused. `exhausted` and `cancelled` units did not fail: they were stopped.
    `people` is the number of tasks that wait for people or other tasks.
    """

    total: int | None
    done: int
    reused: int
    failed: int
    running: int
    scores: int
    elapsed: float
    waiting: int = 0
    look: Look | None = None
    waits: tuple[str, ...] = ()
    exhausted: int = 0
    cancelled: int = 0
    people: int = 0

    @property
    def rate(self) -> float:
        """Units executed per second, without reused ones."""
        return (self.done - self.reused) / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def left(self) -> float | None:
        """Estimated seconds to go; None if there is no estimate."""
        if self.total is None or self.rate <= 0:
            return None
        return (self.total - self.done) / self.rate


REUSED, KEPT, KEPT_EXHAUSTED, LEFT, SPARED = "reused", "kept", "kept_exhausted", "left", "spared"
_NO_FAILURE = ("succeeded", "cancelled", "exhausted", REUSED, KEPT_EXHAUSTED, LEFT, SPARED)
"""Counts that are not of failures."""


def shared(state: State) -> str:
    """How a task's end counts for other offers of the same task: reused, or kept (it is not retried)."""
    if state is State.exhausted:
        return KEPT_EXHAUSTED
    return REUSED if state is State.succeeded else KEPT


class TaskCounts:
    """Counts of ended tasks by kind and state.

    Beside the states of tasks there are `reused`, `kept` (an earlier failure that is not retried),
    `kept_exhausted` (stopped by a limit before, and not retried), `left` (not done) and `spared` (not
    needed). `means` are kinds of tasks that only serve others, like batches:
    their failures are not counted, because they show in the tasks that they serve.
    """

    def __init__(self, unit: str, means: frozenset[str] = frozenset()) -> None:
        self.unit, self._means = unit, means
        self.counts: Counter[str] = Counter()
        self._keys: dict[tuple[str, str], str] = {}

    def add(self, kind: str, state: State | str, n: int = 1) -> None:
        """Count `n` more ends."""
        if n:
            key = self._keys.get((kind, state))
            if key is None:
                key = self._keys[kind, state] = f"{kind}.{state}"
            self.counts[key] += n

    def of(self, kind: str, *states: str) -> int:
        """The count of a kind, in these states or in all."""
        ends = ((*key.partition("."), n) for key, n in self.counts.items())
        return sum(n for its, _, state, n in ends if its == kind and (not states or state in states))

    @property
    def failures(self) -> int:
        """Tasks of any kind but `means` that failed, including earlier failures kept.

        What a limit or a person stopped did not fail.
        """
        return sum(n for key, n in self._ends() if key.partition(".")[2] not in _NO_FAILURE)

    @property
    def limits_reached(self) -> str:
        """How many tasks of any kind but `means` a limit stopped, now or before; "" if none."""
        ends = Counter[str]()
        for key, n in self._ends():
            ends[key.partition(".")[2]] += n
        now, before = ends["exhausted"], ends[KEPT_EXHAUSTED]
        return "; ".join(
            [f"{now:,} exhausted by budget.per_trial"] * bool(now)
            + [f"{before:,} exhausted before, and not tried again (policy.retry_failed)"] * bool(before)
        )

    @property
    def cancellations(self) -> str:
        """How many tasks of any kind but `means` were cancelled one by one; "" if none."""
        cancelled = sum(n for key, n in self._ends() if key.endswith(f".{State.cancelled}"))
        return f"{cancelled:,} cancelled; all others ended" if cancelled else ""

    def _ends(self) -> list[tuple[str, int]]:
        return [(key, n) for key, n in self.counts.items() if key.partition(".")[0] not in self._means]

    def snapshot(
        self,
        total: int | None,
        running: int,
        elapsed: float,
        waiting: int = 0,
        look: Look | None = None,
        waits: tuple[str, ...] = (),
        people: int = 0,
    ) -> Progress:
        """The counts as a `Progress`."""
        unit = self.unit
        done, exhausted, cancelled = (
            self.of(unit, *states) for states in ((), ("exhausted", KEPT_EXHAUSTED), ("cancelled",))
        )
        return Progress(
            total=total,
            done=done,
            reused=self.of(unit, REUSED),
            failed=done - exhausted - cancelled - self.of(unit, "succeeded", REUSED, LEFT),
            running=running,
            scores=self.of(EVALUATE),
            elapsed=elapsed,
            waiting=waiting,
            look=look,
            waits=waits,
            exhausted=exhausted,
            cancelled=cancelled,
            people=people,
        )
