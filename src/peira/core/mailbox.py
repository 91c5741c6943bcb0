"""Messages to an event loop from other threads, batched so that many wake the loop once.

Waking a loop is a system call, and a model call crosses threads several times: at thousands of calls a
second, that dominates the cost. It also switches threads: a loop that is woken by the first of many messages
finds only that one. So a loop that posts wakes the other loop only at the end of its current iteration.
"""

from __future__ import annotations

import asyncio
import weakref
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, TypeVar

Message = TypeVar("Message")
Value = TypeVar("Value")


class Mailbox(Generic[Message]):
    """A queue of messages to an event loop.

    `deliver` is called on the loop, once for each message, in order; `emptied` is called after each batch.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[Message], None],
        emptied: Callable[[], None] = lambda: None,
    ) -> None:
        # A weak reference: mailboxes are cached by loop, and must not keep the loop alive.
        self._loop, self._deliver, self._emptied = weakref.ref(loop), deliver, emptied
        self._messages: deque[Message] = deque()
        self._woken = False
        self._later: weakref.ref[asyncio.AbstractEventLoop] | None = None

    def post(self, message: Message) -> None:
        """Queue a message, from any thread; RuntimeError if the loop is closed."""
        loop = self._loop()
        if loop is None or loop.is_closed():
            raise RuntimeError("the event loop is closed")
        self._messages.append(message)
        if self._woken:
            return
        try:
            running = asyncio.get_running_loop()
        except RuntimeError:
            self._wake()
            return
        # Another loop may have promised to wake it, and be blocked.
        if self._later is None or self._later() is not running:
            self._later = weakref.ref(running)
            running.call_soon(self._wake)

    def _wake(self) -> None:
        """Schedule the delivery on the loop, unless it is scheduled already."""
        self._later = None
        loop = self._loop()
        if not self._woken and loop is not None:
            self._woken = True
            with suppress(RuntimeError):  # the loop was closed meanwhile: nothing is waiting
                loop.call_soon_threadsafe(self._empty)

    def _empty(self) -> None:
        """Deliver the queued messages; runs on the loop."""
        self._woken = False  # before delivery: a message posted from now on wakes the loop again
        while self._messages:
            self._deliver(self._messages.popleft())
        self._emptied()


Arrival = tuple["asyncio.Future[Value]", "Future[Value]"]
_arrivals: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox[Arrival[Any]]] = (
    weakref.WeakKeyDictionary()
)


async def future_result(of: Future[Value]) -> Value:
    """Await the result of another thread's future; cancelling the wait does not cancel the future."""
    loop = asyncio.get_running_loop()
    box = _arrivals.get(loop)
    if box is None:
        box = _arrivals[loop] = Mailbox(loop, _pass_on)
    waiter: asyncio.Future[Value] = loop.create_future()
    of.add_done_callback(lambda done: _deliver(box, waiter, done))
    return await waiter


def _deliver(box: Mailbox[Arrival[Any]], waiter: asyncio.Future[Value], done: Future[Value]) -> None:
    """Post the finished future to the loop that awaits it."""
    with suppress(RuntimeError):  # the loop was closed: nothing is waiting
        box.post((waiter, done))


def _pass_on(arrived: Arrival[Any]) -> None:
    """Copy the result or exception of the finished future to the awaited one."""
    waiter, done = arrived
    if waiter.done():  # the wait was cancelled
        return
    if problem := done.exception():
        waiter.set_exception(problem)
    else:
        waiter.set_result(done.result())
