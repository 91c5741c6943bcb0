"""How far a run is: counted as it goes, read by anyone at any time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from peira.core.events import State
from peira.core.looks import Look
from peira.engine.kinds import EVALUATE


@dataclass(frozen=True)
class Progress:
    """A moment of a run. `total` is None while its source may still grow; `waiting` wait for batches.
    `look` is what the study's stopping rule saw last."""

    total: int | None
    done: int
    reused: int
    failed: int
    running: int
    scores: int
    elapsed: float
    waiting: int = 0
    look: Look | None = None

    @property
    def rate(self) -> float:
        """Units executed a second, reuse not counted."""
        return (self.done - self.reused) / self.elapsed if self.elapsed > 0 else 0.0

    @property
    def left(self) -> float | None:
        """Seconds to go, if that can be said."""
        if self.total is None or self.rate <= 0:
            return None
        return (self.total - self.done) / self.rate


REUSED, KEPT, LEFT, SPARED = "reused", "kept", "left", "spared"


def shared(state: State) -> str:
    """What the end of a task is to others that asked for the same one."""
    return REUSED if state is State.succeeded else KEPT


class Tally:
    """Counts of ends by kind and state; also `reused`, `kept` (a failure left alone), `left` (not done),
    `spared` (not needed).

    `means` are kinds of tasks that serve others: whether they fail shows in those."""

    def __init__(self, unit: str, means: frozenset[str] = frozenset()) -> None:
        self.unit, self._means = unit, means
        self.counts: Counter[str] = Counter()

    def add(self, kind: str, state: State | str, n: int = 1) -> None:
        if n:
            self.counts[f"{kind}.{state}"] += n

    def of(self, kind: str, *states: str) -> int:
        return sum(n for key, n in self.counts.items() if self._is(key, kind, states))

    def _is(self, key: str, kind: str, states: tuple[str, ...]) -> bool:
        its_kind, _, state = key.partition(".")
        return its_kind == kind and (not states or state in states)

    @property
    def failures(self) -> int:
        """Everything that ended here other than in success, of any kind."""
        return sum(n for key, n in self._ends() if key.partition(".")[2] not in ("succeeded", REUSED, LEFT))

    def _ends(self) -> list[tuple[str, int]]:
        return [(key, n) for key, n in self.counts.items() if key.partition(".")[0] not in self._means]

    def snapshot(
        self, total: int | None, running: int, elapsed: float, waiting: int = 0, look: Look | None = None
    ) -> Progress:
        unit = self.unit
        done = self.of(unit)
        return Progress(
            total=total,
            done=done,
            reused=self.of(unit, REUSED),
            failed=done - self.of(unit, "succeeded", REUSED, LEFT),
            running=running,
            scores=self.of(EVALUATE),
            elapsed=elapsed,
            waiting=waiting,
            look=look,
        )
