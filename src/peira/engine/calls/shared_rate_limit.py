"""Rate limits of one model that several processes keep together, through their store.

Requests: times to send at are handed out one after the other, spaced by the rate, a few at once. Tokens: what
all have used is one number in the store. Concurrency: slots that each process holds as it needs them. A pause
that the provider asks one of them for is kept by all. How concurrency adapts stays each process's own.

The loop of calls never waits for the store: what is needed of it is asked for on another thread, and calls
wait for their turns until it is there.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from peira.core.models import ModelLimits
from peira.engine.calls.background import post
from peira.engine.calls.rate_limit import MinuteRate, RateLimiter
from peira.stores.sharing import Sharing

AHEAD = 0.25
"""Seconds for which times to send are taken in advance; one that was not used for so long is not used."""
AGAIN = 0.2
"""Seconds between two looks for a slot, and until an answer of the store that is late is looked for again."""


class SharedTokens(MinuteRate):
    """Tokens a minute, as all processes use them; `asked` uses are not known to be counted by all yet."""

    def __init__(self, per_minute: float | None, use: Callable[[float], None]) -> None:
        """`use` adds seconds of the rate to what all have used, and says in `note` when that is over."""
        super().__init__(per_minute)
        self._use, self.asked = use, 0

    def use(self, n: float, now: float) -> None:
        """Use `n` at the time `now`."""
        super().use(n, now)
        if self.interval:
            self.asked += 1
            self._use(n * self.interval)

    def correct(self, n: float) -> None:
        """Correct an earlier use by `n` more (or less)."""
        if self.interval and n:
            super().correct(n)
            self.asked += 1
            self._use(n * self.interval)

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
        self._taking_turns = self._holding_slots = False
        self._slots, self._asked_at = 0, -AGAIN
        if limits.tokens is not None:
            self._tokens = SharedTokens(limits.tokens, self._use_tokens)

    def _post(self, function: Callable[[], Any], done: Callable[[Any], None]) -> None:
        """Ask the store on another thread; then those look again who wait for their turns."""

        def heard(value: Any) -> None:
            done(value)
            self._admit_waiting()

        post(function, heard, self._failed)

    def _failed(self, problem: BaseException) -> None:
        """The store does not answer: nothing more can be sent."""
        self._taking_turns = self._holding_slots = False
        self.turn_away(lambda _: problem)

    def _use_tokens(self, seconds: float) -> None:
        tokens = self._tokens
        assert isinstance(tokens, SharedTokens)

        def counted(left: float) -> None:
            tokens.asked -= 1
            tokens.note(self._now() + left)

        self._post(lambda: self._sharing.use_tokens(self._model, seconds), counted)

    def _delay(self, now: float) -> float:
        """Seconds until the pause is over and the rates allow a send, as far as that is known."""
        delay = super()._delay(now)
        if not delay and isinstance(self._tokens, SharedTokens) and self._tokens.asked:
            return AGAIN
        if not self._requests.interval or delay:
            return delay
        while self._turns and self._turns[0] < now - AHEAD:
            self._turns.popleft()
        if not self._turns:
            self._take_turns()
            return AGAIN
        return max(0.0, self._turns[0] - now)

    def _take_turns(self) -> None:
        if self._taking_turns:
            return
        self._taking_turns, interval = True, self._requests.interval
        n = max(1, min(len(self._waiting) + 1, int(AHEAD / interval)))

        def taken(delay: float) -> None:
            self._taking_turns = False
            first = self._now() + delay
            self._turns.extend(first + k * interval for k in range(n))

        self._post(lambda: self._sharing.take_turns(self._model, interval, n), taken)

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
        if not self._holding_slots and self._now() - self._asked_at >= AGAIN:
            self._hold_slots()
        return False

    def _hold_slots(self) -> None:
        """Hold as many slots as are needed, or to be had."""
        self._holding_slots, self._asked_at = True, self._now()
        wanted = self._in_flight + len(self._waiting) + 1
        most, using = self._most or 0, self._in_flight

        def held(slots: int) -> None:
            self._holding_slots = False
            self._slots = slots

        self._post(lambda: self._sharing.hold_slots(self._model, most, using, wanted), held)

    def _admit_waiting(self) -> None:
        super()._admit_waiting()
        if self._waiting and self._timer is None:  # for a slot that another process gives back
            self._timer = asyncio.get_running_loop().call_later(AGAIN, self._on_timer)

    def _pause(self, seconds: float) -> None:
        self._post(lambda: self._sharing.close_model(self._model, seconds), lambda _: None)
        super()._pause(seconds)

    async def refresh(self) -> None:
        """Read the pauses and the used tokens of the other processes; give back what is not needed."""
        closed, tokens = await asyncio.to_thread(self._sharing.model_state, self._model)
        now = self._now()
        self._closed_until = max(self._closed_until, now + closed) if closed > 0 else self._closed_until
        if isinstance(self._tokens, SharedTokens) and not self._tokens.asked:
            self._tokens.note(now + tokens)
        if self._most is not None and not self._holding_slots:
            await self._give_slots_back()
        if self._waiting:
            self._admit_waiting()

    async def _give_slots_back(self) -> None:
        """Hold only the slots that are needed; nobody is admitted to another meanwhile."""
        self._holding_slots, self._slots = True, min(self._slots, self._in_flight)
        needed = self._in_flight + len(self._waiting)
        try:
            self._slots = await asyncio.to_thread(
                self._sharing.hold_slots, self._model, self._most or 0, self._in_flight, needed
            )
        finally:
            self._holding_slots = False
