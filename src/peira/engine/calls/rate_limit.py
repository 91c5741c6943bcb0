"""Rate limits of one model: concurrency, calls and tokens per minute, and pauses while it is down.

Concurrency adapts to the provider's answers: it is halved when the provider is busy and grows slowly with
each answer. After STRIKES failures in a row the model is down: one probe at a time, with growing pauses;
after PROBES failed probes it is given up. After REFUSALS refusals in a row that concern the key or the model
itself, nothing more is sent. In both cases one more probe is made after REOPENS seconds: a host may run for
weeks, and the model may be back.
"""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import Callable

from peira.core.models import ModelLimits
from peira.core.text.words import duration
from peira.errors import CallFailed, ModelRefused, Parked

PATIENCE = 3.0
"""A call that would have to wait longer than these seconds is parked instead."""
STRIKES = 5
"""Failures in a row after which a model counts as down."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
"""The first and the longest pause while a model is down, in seconds."""
PROBES = 6
REFUSED = frozenset({401, 403, 404})
"""Statuses that concern the key or the model, whatever is asked."""
REFUSALS = 4
"""Refusals in a row after which nothing more is sent."""
REOPENS = 300.0
"""Seconds after which a model that was given up, or that refuses its calls, is tried once more."""
TOLD, LONGEST_ASKED = 60.0, 3600.0
"""Seconds that a provider asks to wait: from so many on people are told, and more are not waited at once."""
TOLD_PAUSE = 5.0
"""Seconds from which on the rest of a pause is worth a word in the progress."""
BURST = 1.0
"""Seconds' worth of a rate that may be used at once."""


class MinuteRate:
    """A rate per minute, spread evenly, with a short burst."""

    def __init__(self, per_minute: float | None) -> None:
        self.interval = 60 / per_minute if per_minute else 0.0
        self._due = 0.0

    def wait(self, now: float) -> float:
        """Seconds until something may be used."""
        return max(0.0, self._due - now - BURST) if self.interval else 0.0

    def use(self, n: float, now: float) -> None:
        """Use `n` at the time `now`."""
        self._due = max(self._due, now) + n * self.interval

    def correct(self, n: float) -> None:
        """Correct an earlier use by `n` more (or less)."""
        self._due += n * self.interval


class RateLimiter:
    """The rate limiter of one model. All methods run on the ledger's loop, so there is no lock.

    `now` is the loop's clock; `say` shows a notice to the user.
    """

    def __init__(
        self, name: str, limits: ModelLimits, now: Callable[[], float], say: Callable[[str], None]
    ) -> None:
        self._name, self._most, self._now, self._say = name, limits.concurrency, now, say
        self._window = float(limits.concurrency or 1_000_000)  # current concurrency
        self._requests, self._tokens = MinuteRate(limits.requests), MinuteRate(limits.tokens)
        self._paced = bool(self._requests.interval or self._tokens.interval)
        self._waiting: deque[tuple[asyncio.Future[None], float]] = deque()
        self._in_flight = 0  # calls between enter and leave
        self._closed_until = self._narrowed = self._struck = self._next_return = self._reopens = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._strikes = self._probes = self._busy = self._refusals = 0
        self._why = ""
        self.has_answered = False
        self.refused = ""
        """Why nothing more is sent, as a message; "" while calls are sent."""

    @property
    def down(self) -> bool:
        """Whether it failed several times in a row and has not answered since."""
        return self._strikes >= STRIKES

    async def enter(self, tokens: float) -> float:
        """Wait for a turn to send about `tokens` tokens; returns the time of the turn.

        Each `enter` that returns must be followed by `leave`. Raises Parked if the wait would be long, and
        CallFailed if the model was given up, ModelRefused if it refuses its calls.
        """
        self._raise_if_given_up()
        now = self._now()
        wait = self._delay(now)
        if not self._waiting and wait == 0 and self._has_slot:
            self._count_send(tokens, now)
            return now
        self._park_if_long(wait, tokens)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((turn, tokens))
        self._admit_waiting()
        try:
            await turn
        except asyncio.CancelledError:
            self._withdraw(turn)
            raise
        return self._now()

    def _raise_if_given_up(self) -> None:
        """Raise if nothing is sent to the model any more; once in a while, let one call through."""
        if not self.refused and self._probes < PROBES:
            return
        if self._now() < self._reopens:
            raise ModelRefused(self.refused) if self.refused else self._given_up_error()
        self._reopens = self._now() + REOPENS

    def _delay(self, now: float) -> float:
        """Seconds until the pause is over and the rates allow a send."""
        pause = max(self._closed_until - now, 0.0)
        return max(pause, self._requests.wait(now), self._tokens.wait(now)) if self._paced else pause

    @property
    def _has_slot(self) -> bool:
        """Whether concurrency allows another call."""
        one = self.down or (self._refusals and not self.has_answered)
        return self._in_flight < (1 if one else max(1, int(self._window)))

    def _park_if_long(self, wait: float, tokens: float) -> None:
        """Raise Parked if the queue's last would wait too long at the current rates."""
        wait += self._seconds_for(len(self._waiting), sum(queued for _, queued in self._waiting))
        if wait > PATIENCE:
            raise self._parked(wait, tokens)

    def _parked(self, wait: float, tokens: float) -> Parked:
        """A Parked with a return time of its own, so that parked calls return one by one."""
        now = self._now()
        returns = max(self._next_return, now + wait)
        self._next_return = returns + self._seconds_for(1, tokens)
        return Parked(returns - now, f"{self._name}: {self._why or 'its limits'}")

    def _seconds_for(self, requests: int, tokens: float) -> float:
        """Seconds of the rate limits that this much takes."""
        return max(requests * self._requests.interval, tokens * self._tokens.interval)

    def _count_send(self, tokens: float, now: float) -> None:
        """Count a call that is sent now."""
        self._in_flight += 1
        if self._paced:
            self._requests.use(1, now)
            self._tokens.use(tokens, now)

    def _admit_waiting(self) -> None:
        """Give turns to all who may send now; set a timer for the next."""
        while self._waiting and self._has_slot and self._delay(now := self._now()) == 0:
            turn, tokens = self._waiting.popleft()
            if not turn.done():
                self._count_send(tokens, now)
                turn.set_result(None)
        if self._waiting and self._has_slot and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._delay(self._now()) + 0.001, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._admit_waiting()

    def _withdraw(self, turn: asyncio.Future[None]) -> None:
        """A waiter was cancelled: it leaves the queue, or gives back the turn that it had already."""
        if turn.cancelled():
            self._waiting = deque(one for one in self._waiting if one[0] is not turn)
        elif turn.exception() is None:
            self.leave()

    def pause(self, now: float) -> str:
        """What it waits for, if nothing may be sent for long; "" otherwise. May be called on any thread."""
        left = self._closed_until - now
        if left < TOLD_PAUSE or self._probes >= PROBES:
            return ""
        return f"{self._name} is paused for {duration(left)} more{f': {self._why}' if self._why else ''}"

    def leave(self) -> None:
        """A call is over: its slot is free."""
        self._in_flight -= 1
        if self._waiting:
            self._admit_waiting()

    def answered(self, tokens_off: float, wait: float | None) -> None:
        """A call was answered.

        `tokens_off` is how many tokens more it took than expected; `wait` the pause the provider asks for.
        """
        if self.down or self.refused or self._busy >= STRIKES:
            self._say(f"{self._name} answers again")
        self._strikes = self._probes = self._busy = self._refusals = 0
        self._why = self.refused = ""
        self.has_answered = True
        self._tokens.correct(tokens_off)
        self._window = min(self._window + 1 / self._window, float(self._most or 1_000_000))
        if wait:
            self._obey(wait)

    def failed(self, problem: CallFailed, sent_at: float) -> None:
        """A send brought no answer."""
        if problem.busy:
            self._narrow(problem, sent_at)
        elif problem.doubt or problem.free:
            self._strike(problem, sent_at)
        elif problem.status in REFUSED:
            self._refuse(problem)

    def _refuse(self, problem: CallFailed) -> None:
        """Count a refusal of the key or the model; after several in a row, send nothing more."""
        self._refusals += 1
        if self._refusals >= REFUSALS and not self.refused:
            self.refused = f"{self._name} refuses its calls ({self._refusals} in a row): {problem}"
            self._reopens = self._now() + REOPENS
            self._say(f"{self.refused}; no more are sent")
            self.turn_away(lambda _: ModelRefused(self.refused))

    def _narrow(self, problem: CallFailed, sent_at: float) -> None:
        """The provider is busy: halve the concurrency and pause.

        Calls sent before the last reduction are ignored: they say nothing new.
        """
        now = self._now()
        if sent_at >= self._narrowed:
            self._window = max(1.0, min(self._window, float(self._in_flight)) / 2)
            self._narrowed = now
            self._busy += 1
            if self._busy == STRIKES:
                self._say(f"{self._name} has too much to do, others go on: {problem}")
            self._pause(min(FIRST_PAUSE / 4 * 2**self._busy, LONGEST_PAUSE))
        if problem.retry_after is not None:
            self._obey(problem.retry_after)

    def _obey(self, asked: float) -> None:
        """Pause for as long as the provider asks, up to a limit; a long pause is reported."""
        wait = min(asked, LONGEST_ASKED)
        if wait > TOLD and self._closed_until < self._now() + wait - TOLD:
            less = "" if wait == asked else f", which is too long: it is asked again in {duration(wait)}"
            said = duration(asked) if asked < math.inf else "for ever"
            self._say(f"{self._name} asks to wait {said}, others go on{less}")
        self._pause(wait)

    def _strike(self, problem: CallFailed, sent_at: float) -> None:
        """Count a failure. Once the model is down, calls sent before that are ignored."""
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
            self._reopens = self._now() + REOPENS
            self.turn_away(lambda _: self._given_up_error())
            return
        if not was_down:
            self._say(f"{self._name} is paused, others go on: {STRIKES} failures in a row, last {self._why}")
        self._pause(min(FIRST_PAUSE * 2**self._probes, LONGEST_PAUSE))

    def _given_up_error(self) -> CallFailed:
        return CallFailed(f"{self._name} does not answer and was given up: {self._why}")

    def turn_away(self, why: Callable[[float], BaseException]) -> None:
        """Fail all waiting calls with the exception that `why` makes, given their tokens."""
        while self._waiting:
            turn, tokens = self._waiting.popleft()
            if not turn.done():
                turn.set_exception(why(tokens))

    def _pause(self, seconds: float) -> None:
        """Send nothing for so many seconds; a long pause parks all waiting calls."""
        self._closed_until = max(self._closed_until, self._now() + seconds)
        if seconds > PATIENCE:
            self.turn_away(lambda tokens: self._parked(seconds, tokens))
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._admit_waiting()
