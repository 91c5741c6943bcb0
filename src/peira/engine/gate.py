"""How fast one model is asked: at once, a minute, and not at all while it is down.

Everything here happens on the ledger's event loop, so there are no locks. Concurrency needs no tuning: it
is whatever the workers bring, is halved when the provider says it is too much, and grows again with every
answer. A provider that fails several times in a row is paused, then tried with one call at a time, and
given up if that keeps failing. Who would wait long is sent away (`Parked`), so that its worker is free for
other models; under a rate, no two of them are told the same moment to come back.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from peira.core.models import CallFailed, Limits
from peira.errors import Parked

PATIENCE = 3.0
"""Whoever would wait longer at the gate is sent away until then."""
STRIKES = 5
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
PROBES = 6
BURST = 1.0
"""How many seconds' worth of a rate may be used at once."""


class Pace:
    """So much a minute, evenly."""

    def __init__(self, per_minute: float | None) -> None:
        self.interval = 60 / per_minute if per_minute else 0.0
        self._due = 0.0

    def wait(self, now: float) -> float:
        """Seconds until something may be used."""
        return max(0.0, self._due - now - BURST) if self.interval else 0.0

    def use(self, n: float, now: float) -> None:
        self._due = max(self._due, now) + n * self.interval

    def correct(self, n: float) -> None:
        self._due += n * self.interval


class Gate:
    """`now` is the loop's clock; `say` tells people what they should know."""

    def __init__(
        self, name: str, limits: Limits, now: Callable[[], float], say: Callable[[str], None]
    ) -> None:
        self._name, self._most, self._now, self._say = name, limits.concurrency, now, say
        self._window = float(limits.concurrency or 1_000_000)
        self._requests, self._tokens = Pace(limits.requests), Pace(limits.tokens)
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()
        self._flying = 0
        self._closed_until = self._narrowed = self._struck = self._next_return = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._strikes = self._probes = self._busy = 0
        self._why = ""

    @property
    def down(self) -> bool:
        """It failed several times in a row and has not answered since."""
        return self._strikes >= STRIKES

    async def enter(self, tokens: float) -> float:
        """Wait for a turn to send about so many tokens; when it came. Parked if that takes long, CallFailed
        if the model was given up."""
        self._refuse_if_dead()
        now = self._now()
        wait = self._delay(now)
        if not self._waiting and wait == 0 and self._room:
            self._go(tokens, now)
            return now
        self._park_if_long(wait, tokens)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, tokens))
        self._pump()
        try:
            await turn
        except asyncio.CancelledError:
            self._withdraw(turn)
            raise
        return self._now()

    def _refuse_if_dead(self) -> None:
        if self._probes >= PROBES:
            raise self._given_up()

    def _delay(self, now: float) -> float:
        return max(self._closed_until - now, self._requests.wait(now), self._tokens.wait(now), 0.0)

    @property
    def _room(self) -> bool:
        return self._flying < (1 if self.down else max(1, int(self._window)))

    def _park_if_long(self, wait: float, tokens: float) -> None:
        """By how long the pace would have the last in the queue wait; each gets a moment of its own."""
        wait += self._worth(len(self._waiting), sum(queued for _, queued in self._waiting))
        if wait > PATIENCE:
            raise self._parked(wait, tokens)

    def _parked(self, wait: float, tokens: float) -> Parked:
        now = self._now()
        returns = max(self._next_return, now + wait)
        self._next_return = returns + self._worth(1, tokens)
        return Parked(returns - now, f"{self._name}: {self._why or 'its limits'}")

    def _worth(self, requests: int, tokens: float) -> float:
        """How many seconds of its limits so much takes."""
        return max(requests * self._requests.interval, tokens * self._tokens.interval)

    def _go(self, tokens: float, now: float) -> None:
        self._flying += 1
        self._requests.use(1, now)
        self._tokens.use(tokens, now)

    def _pump(self) -> None:
        """Let in who may go now; come back when the next one may."""
        while self._waiting and self._room and self._delay(now := self._now()) == 0:
            turn, tokens = self._waiting.popleft()
            if not turn.done():
                self._go(tokens, now)
                turn.set_result(None)
        if self._waiting and self._room and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._delay(self._now()) + 0.001, self._ring)

    def _ring(self) -> None:
        self._timer = None
        self._pump()

    def _withdraw(self, turn: asyncio.Future[None]) -> None:
        if not turn.cancelled() and turn.exception() is None:  # its turn had come: somebody else's now
            self.leave()

    def leave(self) -> None:
        self._flying -= 1
        if self._waiting:
            self._pump()

    def answered(self, tokens_off: float, wait: float | None) -> None:
        """An answer came; it took so many tokens more than thought, and asks to wait so long."""
        if self.down or self._busy >= STRIKES:
            self._say(f"{self._name} answers again")
        self._strikes = self._probes = self._busy = 0
        self._why = ""
        self._tokens.correct(tokens_off)
        self._window = min(self._window + 1 / self._window, float(self._most or 1_000_000))
        if wait:
            self._close(wait)

    def failed(self, problem: CallFailed, sent_at: float) -> None:
        """A send brought no answer."""
        if problem.busy:
            self._narrow(problem, sent_at)
        elif problem.doubt or problem.free:
            self._strike(problem, sent_at)

    def _narrow(self, problem: CallFailed, sent_at: float) -> None:
        """Ask less at once. What was sent before the last time says nothing new."""
        now = self._now()
        if sent_at >= self._narrowed:
            self._window = max(1.0, min(self._window, float(self._flying)) / 2)
            self._narrowed = now
            self._busy += 1
            if self._busy == STRIKES:
                self._say(f"{self._name} has too much to do, others go on: {problem}")
            self._close(min(FIRST_PAUSE / 4 * 2**self._busy, LONGEST_PAUSE))
        if problem.retry_after is not None:
            self._close(problem.retry_after)

    def _strike(self, problem: CallFailed, sent_at: float) -> None:
        """One failure more. Once it is down, only what was sent since then says something new."""
        was_down = self.down
        if was_down and sent_at < self._struck:
            return
        self._strikes += 1
        self._why = str(problem)
        if not self.down:
            return
        self._struck = self._now()
        self._probes += was_down
        if self._probes >= PROBES:
            self._say(f"{self._name} is given up: {self._why}")
            self.turn_away(lambda _: self._given_up())
            return
        if not was_down:
            self._say(f"{self._name} is paused, others go on: {STRIKES} failures in a row, last {self._why}")
        self._close(min(FIRST_PAUSE * 2**self._probes, LONGEST_PAUSE))

    def _given_up(self) -> CallFailed:
        return CallFailed(f"{self._name} does not answer and was given up: {self._why}")

    def turn_away(self, why: Callable[[float], BaseException]) -> None:
        """Nobody who waits now will get a turn; `why` is asked for each, by its tokens."""
        while self._waiting:
            turn, tokens = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(why(tokens))

    def _close(self, seconds: float) -> None:
        """Send nothing for so long."""
        self._closed_until = max(self._closed_until, self._now() + seconds)
        if seconds > PATIENCE:
            self.turn_away(lambda tokens: self._parked(seconds, tokens))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._pump()
