"""Rate limits of one model that several processes keep together, through their store.

Requests: times to send at are handed out one after the other, spaced by the rate, a few at once. Tokens: what
all have used is one number in the store. Concurrency: slots that each process holds as it needs them. A pause
that the provider asks one of them for is kept by all. How concurrency adapts stays each process's own.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from peira.core.models import ModelLimits
from peira.engine.calls.rate_limit import MinuteRate, RateLimiter
from peira.stores.sharing import Sharing

AHEAD = 0.25
"""Seconds for which times to send are taken in advance; one that was not used for so long is not used."""
AGAIN = 0.2
"""Seconds between two looks for a slot."""


class SharedTokens(MinuteRate):
    """Tokens a minute, as all processes use them."""

    def __init__(self, per_minute: float | None, use: Callable[[float], float]) -> None:
        """`use` adds seconds of the rate to what all have used; returns in how many seconds that is over."""
        super().__init__(per_minute)
        self._use = use

    def use(self, n: float, now: float) -> None:
        """Use `n` at the time `now`."""
        if self.interval:
            self._due = now + self._use(n * self.interval)

    def correct(self, n: float) -> None:
        """Correct an earlier use by `n` more (or less)."""
        if self.interval and n:
            self._use(n * self.interval)
            self._due += n * self.interval

    def note(self, due: float) -> None:
        """What all have used is over then."""
        self._due = due


class SharedRateLimiter(RateLimiter):
    """As `RateLimiter`, with the limits kept by all processes together."""

    def __init__(
        self,
        name: str,
        limits: ModelLimits,
        now: Callable[[], float],
        say: Callable[[str], None],
        sharing: Sharing,
        model: str,
    ) -> None:
        super().__init__(name, limits, now, say)
        self._sharing, self._model = sharing, model
        self._turns: deque[float] = deque()
        self._slots, self._asked_at = 0, -AGAIN
        if limits.tokens is not None:
            self._tokens = SharedTokens(limits.tokens, lambda more: sharing.use_tokens(model, more))

    def _delay(self, now: float) -> float:
        """Seconds until the pause is over and the rates allow a send."""
        delay = super()._delay(now)
        if not self._requests.interval or delay:
            return delay
        while self._turns and self._turns[0] < now - AHEAD:
            self._turns.popleft()
        if not self._turns:
            self._take_turns(now)
        return max(0.0, self._turns[0] - now)

    def _take_turns(self, now: float) -> None:
        interval = self._requests.interval
        n = max(1, min(len(self._waiting) + 1, int(AHEAD / interval)))
        first = now + self._sharing.take_turns(self._model, interval, n)
        self._turns.extend(first + k * interval for k in range(n))

    def _count_send(self, tokens: float, now: float) -> None:
        """Count a call that is sent now."""
        super()._count_send(tokens, now)
        if self._turns:
            self._turns.popleft()

    @property
    def _has_slot(self) -> bool:
        """Whether concurrency allows another call, here and of all processes."""
        if not super()._has_slot:
            return False
        if self._most is None or self._in_flight < self._slots:
            return True
        now = self._now()
        if now - self._asked_at >= AGAIN:
            self._hold_slots(now)
        return self._in_flight < self._slots

    def _hold_slots(self, now: float) -> None:
        """Hold as many slots as are needed, or to be had."""
        self._asked_at = now
        wanted = self._in_flight + len(self._waiting) + 1
        self._slots = self._sharing.hold_slots(self._model, self._most or 0, self._in_flight, wanted)

    def _admit_waiting(self) -> None:
        super()._admit_waiting()
        if self._waiting and self._timer is None:  # for a slot that another process gives back
            self._timer = asyncio.get_running_loop().call_later(AGAIN, self._on_timer)

    def _pause(self, seconds: float) -> None:
        self._sharing.close_model(self._model, seconds)
        super()._pause(seconds)

    def refresh(self) -> None:
        """Hear of pauses that others were asked for and of tokens they used; give back what is not needed."""
        now = self._now()
        closed, tokens = self._sharing.model_state(self._model)
        self._closed_until = max(self._closed_until, now + closed) if closed > 0 else self._closed_until
        if isinstance(self._tokens, SharedTokens):
            self._tokens.note(now + tokens)
        if self._most is not None:
            needed = self._in_flight + len(self._waiting)
            self._slots = self._sharing.hold_slots(self._model, self._most, self._in_flight, needed)
        if self._waiting:
            self._admit_waiting()
