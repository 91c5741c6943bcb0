"""Messages to an event loop from other threads: many that come together wake it once.

Waking a loop is a system call, and a call of a model crosses threads several times: at thousands a second
it is what costs most. It also hands over the interpreter: whoever is woken by the first of many messages
finds only that one. So a loop that posts wakes the other when it is done with all it had to do just now.
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
    """`deliver` is called on the loop, once for each message, in the order they came; `emptied`, when those
    that came together are delivered."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        deliver: Callable[[Message], None],
        emptied: Callable[[], None] = lambda: None,
    ) -> None:
        # Not by a reference of its own: a box is kept as long as its loop is, and must not keep it.
        self._loop, self._deliver, self._emptied = weakref.ref(loop), deliver, emptied
        self._messages: deque[Message] = deque()
        self._woken = False
        self._later: weakref.ref[asyncio.AbstractEventLoop] | None = None

    def post(self, message: Message) -> None:
        """From any thread; RuntimeError if the loop is closed."""
        loop = self._loop()
        if loop is None or loop.is_closed():
            raise RuntimeError("the event loop is closed")
        self._messages.append(message)
        if self._woken:
            return
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            self._wake()
            return
        if self._later is None or self._later() is not here:  # another loop that will, may be blocked
            self._later = weakref.ref(here)
            here.call_soon(self._wake)

    def _wake(self) -> None:
        self._later = None
        loop = self._loop()
        if not self._woken and loop is not None:
            self._woken = True
            with suppress(RuntimeError):  # it was closed meanwhile: nobody waits any more
                loop.call_soon_threadsafe(self._empty)

    def _empty(self) -> None:
        self._woken = False  # before the box is emptied: whoever comes from now on wakes it again
        while self._messages:
            self._deliver(self._messages.popleft())
        self._emptied()


Arrival = tuple["asyncio.Future[Value]", "Future[Value]"]
_arrivals: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox[Arrival[Any]]] = (
    weakref.WeakKeyDictionary()
)


async def arrival(of: Future[Value]) -> Value:
    """The result of another thread's future. Who stops waiting does not cancel it."""
    loop = asyncio.get_running_loop()
    box = _arrivals.get(loop)
    if box is None:
        box = _arrivals[loop] = Mailbox(loop, _pass_on)
    here: asyncio.Future[Value] = loop.create_future()
    of.add_done_callback(lambda done: _deliver(box, here, done))
    return await here


def _deliver(box: Mailbox[Arrival[Any]], here: asyncio.Future[Value], done: Future[Value]) -> None:
    with suppress(RuntimeError):  # the loop was closed: nobody waits any more
        box.post((here, done))


def _pass_on(arrived: Arrival[Any]) -> None:
    here, done = arrived
    if here.done():  # nobody waits any more
        return
    if problem := done.exception():
        here.set_exception(problem)
    else:
        here.set_result(done.result())
