"""The units that are running now, and how others ended, for those who show them."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from peira.core.contracts import Ended
from peira.core.log.events import State
from peira.engine.work.log import UnitLog
from peira.engine.work.record import REUSED


@dataclass(frozen=True)
class LiveUnit:
    """A unit under way: since when (monotonic time), its output so far, and its attempt's channel."""

    name: str
    began: float
    log: UnitLog
    channel: Any

    @property
    def cost(self) -> float | None:
        """What its calls cost so far, in US dollars; None if it made none, or that is unknown."""
        cost = getattr(self.channel, "metrics", {}).get("cost")
        return None if cost is None else float(cost)


class UnitEnd(NamedTuple):
    """How a unit ended, in how many seconds, and why if it did not succeed."""

    name: str
    state: State
    took: float
    why: str
    reused: bool = False


@dataclass
class WorkMonitor:
    """The units under way, by name, and the ends of others; thread-safe."""

    running: dict[str, LiveUnit] = field(default_factory=dict)
    ends: deque[UnitEnd] = field(default_factory=lambda: deque(maxlen=100_000))
    """What ended and was not shown yet."""
    counts: Counter[State] = field(default_factory=Counter)

    def note_end(self, name: str, ended: Ended) -> None:
        """A unit has ended."""
        failure = ended.result.failure
        self.counts[ended.state] += 1
        why, reused = failure.message if failure else "", ended.result.about.get(REUSED) == "yes"
        self.ends.append(UnitEnd(name, ended.state, ended.result.took, why, reused))

    @contextmanager
    def shown(self, unit: LiveUnit) -> Iterator[None]:
        """Within it, the unit is under way."""
        self.running[unit.name] = unit
        try:
            yield
        finally:
            if self.running.get(unit.name) is unit:
                del self.running[unit.name]
