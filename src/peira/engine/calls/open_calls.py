"""Calls under way: where each is (in a queue of peira's, or with its model), its slot, its reservation."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable

from peira.core.models import NamedModel
from peira.core.text.words import counted, duration
from peira.engine.calls.budget import Account, Reservation, RunAccounts
from peira.engine.calls.rate_limit import RateLimiter

LONG = 10.0
"""Seconds from which on an unanswered call, or a pause of a model, is worth a word in the progress."""


class QueueTime:
    """How long the calls of one attempt have waited in peira itself, while none of them was with its model.

    That is: for a slot, a rate limit, a reservation, a back-off, or a commit. It is not the agent's time, and
    does not count against `policy.timeout`. Changed by the threads that ask and by the ledger's loop, read by
    whoever watches the time limit.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._now, self._lock = now, threading.Lock()
        self._queued = self._sent = 0
        self._since = self._total = 0.0

    def move(self, queued: int, sent: int) -> None:
        """So many more calls are in a queue, and so many more are with their models."""
        with self._lock:
            now = self._now()
            if self._queued and not self._sent:
                self._total += now - self._since
            self._since = now
            self._queued += queued
            self._sent += sent

    @property
    def sent(self) -> int:
        """How many calls are with their models."""
        return self._sent

    def seconds(self) -> float:
        """The seconds up to now."""
        with self._lock:
            current = self._now() - self._since if self._queued and not self._sent else 0.0
            return self._total + current


class OpenSend:
    """One send, from its turn until it has ended: a slot of the rate limiter, and a reservation.

    Both are given back once: when it ends, or before that when nobody waits for its answer any more. The
    answer may still come, and is recorded; until then it counts as billed with all that was reserved.
    """

    __slots__ = "_account", "_limiter", "_reserve", "given_up", "key", "named", "sent_at", "share"

    def __init__(
        self,
        named: NamedModel,
        key: str,
        limiter: RateLimiter,
        reserve: RunAccounts,
        account: Account | None,
        share: Reservation,
        sent_at: float,
    ) -> None:
        self.named, self.key, self.share, self.sent_at = named, key, share, sent_at
        self._limiter, self._reserve, self._account = limiter, reserve, account
        self.given_up = False

    def give_up(self) -> None:
        """Give back slot and reservation before the end."""
        if not self.given_up:
            self.given_up = True
            self._limiter.leave()
            self._reserve.settle(self.named, self._account, self.share, self.share)

    def end(self, took: Reservation | None) -> None:
        """It has ended, and took this much; None if it was not billed."""
        if not self.given_up:
            self._limiter.leave()
            self._reserve.settle(self.named, self._account, self.share, took)
        elif took != self.share:  # the whole reservation is counted already
            self._reserve.hold(self.named, self.share, counted=True)
            if self._account is not None:
                self._account.hold(self.share)
            self._reserve.settle(self.named, self._account, self.share, took)


class CallState:
    """Where a call is: in a queue of peira's or with its model; and whether anybody waits for it.

    `waits`: it is in a queue, so that its task may be cancelled. `abandoned`: nobody waits for it any more.
    But for the beginning, all of it belongs to the ledger's loop.
    """

    __slots__ = "_queue", "_queued", "abandoned", "send", "waits"

    def __init__(self, queue: QueueTime | None = None) -> None:
        self._queue = queue or QueueTime(time.monotonic)
        self._queued: bool | None = None  # None: not begun, or over
        self.abandoned = self.waits = False
        self.send: OpenSend | None = None
        """The send that is with the model."""

    def begin(self) -> None:
        """It was asked, and is in a queue."""
        self._queued = True
        self._queue.move(1, 0)

    def leave(self, send: OpenSend) -> None:
        """It is given to its model."""
        self.send = send
        if self._queued:
            self._queued = False
            self._queue.move(-1, 1)

    def come_back(self) -> None:
        """Its model has answered or failed."""
        self.send = None
        if self._queued is False:
            self._queued = True
            self._queue.move(1, -1)

    def end(self) -> None:
        """The call is over: its caller has the reply."""
        if self._queued is not None:
            self._queue.move(-self._queued, self._queued - 1)
            self._queued = None


def unanswered(sends: Iterable[OpenSend], now: float) -> list[str]:
    """Which models have not answered for long, one line each: how many calls, for how long, until when."""
    by_model: dict[str, list[OpenSend]] = {}
    for send in sends:
        if not send.given_up and now - send.sent_at >= LONG:
            by_model.setdefault(send.named.name, []).append(send)
    lines = []
    for name, late in by_model.items():
        oldest = min(send.sent_at for send in late)
        line = f"waiting for {name}: {counted(len(late), 'call')} unanswered for {duration(now - oldest)}"
        limit = getattr(late[0].named.model, "silence", None)
        if isinstance(limit, (int, float)):
            line += f" (given up after {duration(limit)}: timeouts.first_byte)"
        lines.append(line)
    return lines
