"""An event loop whose clock moves only when everybody waits, and a gate on it: no test takes time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from peira.core.models import ModelLimits
from peira.engine.calls.rate_limit import RateLimiter
from peira.errors import CallFailed, Parked

SLACK = 0.01
ODD = 1e-6
"""Sums of floats."""


class Timeless(asyncio.SelectorEventLoop):
    """Jumps to the next thing that is due; who waits for nothing at all is an error, not a hang."""

    def __init__(self) -> None:
        self.clock = 0.0
        super().__init__()

    def time(self) -> float:
        return self.clock

    def _run_once(self) -> None:
        if not self._ready:
            assert self._scheduled, "everybody waits and nothing will happen"
            self.clock = max(self.clock, self._scheduled[0]._when)
        super()._run_once()


def timeless(scene: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    loop = Timeless()
    try:
        return loop.run_until_complete(scene())
    finally:
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Scene:
    """A gate, those who went through it, and what it said."""

    limits: ModelLimits = field(default_factory=ModelLimits)
    flying: int = 0
    most: int = 0
    sent: list[tuple[float, float]] = field(default_factory=list)
    parked: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate = RateLimiter("m", self.limits, now, self.said.append)

    async def send(
        self,
        took: float = 0.1,
        tokens: float = 10,
        used: float | None = None,
        problem: CallFailed | None = None,
        wait: float | None = None,
    ) -> None:
        """One send, from asking for a turn to leaving."""
        sent_at = await self.gate.enter(tokens)
        self.flying += 1
        self.most = max(self.most, self.flying)
        self.sent.append((now(), tokens if used is None else used))
        try:
            await asyncio.sleep(took)
            if problem is None:
                self.gate.answered(0 if used is None else used - tokens, wait)
            else:
                self.gate.failed(problem, sent_at)
        finally:
            self.flying -= 1
            self.gate.leave()

    async def persist(self, **how: Any) -> None:
        """Send, coming back as often and as late as one is told to."""
        while True:
            try:
                return await self.send(**how)
            except Parked as away:
                self.parked.append(now() + away.seconds)
                await asyncio.sleep(away.seconds)

    async def round(self, n: int, **how: Any) -> list[Any]:
        return await asyncio.gather(*(self.send(**how) for _ in range(n)), return_exceptions=True)

    async def most_at_once(self, n: int = 40) -> int:
        self.most = 0
        await asyncio.gather(*(self.persist() for _ in range(n)))
        return self.most


def busy(retry_after: float | None = None) -> CallFailed:
    return CallFailed("too many", free=True, busy=True, retry_after=retry_after)


def refused() -> CallFailed:
    return CallFailed("connection refused", free=True)


def lost() -> CallFailed:
    return CallFailed("reset by peer", doubt=True)


def spans(sent: list[tuple[float, float]]) -> list[tuple[float, int, float]]:
    """(length, sends, tokens of all but the last) of every span between two sends."""
    return [
        (sent[j][0] - sent[i][0], j - i + 1, sum(tokens for _, tokens in sent[i:j]))
        for i in range(len(sent))
        for j in range(i, len(sent))
    ]
