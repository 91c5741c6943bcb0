"""Calls of a shared store that other processes have sent, or may send: nothing is paid for twice.

An intent names its sender and until when an answer may come. Who needs the answer waits for it, and sends
again only when that time is over, or the sender is known to have ended.
"""

from __future__ import annotations

import asyncio

from peira.core.clock import Clock
from peira.core.contracts import Store
from peira.core.log.state import Call
from peira.core.models import NamedModel
from peira.engine.calls.background import find_calls
from peira.engine.calls.open_calls import CallState
from peira.errors import CallFailed, Parked
from peira.stores.sharing import Sharing

LONGEST_SEND = 600.0
"""Seconds that a send takes at most, for models that do not say."""
SLACK = 30.0
"""Seconds that recording an intent may take at most; a send that would begin later is not made. No more than
what a send itself may take."""
LOOK = 0.25
"""Seconds between two looks at a call that another process has sent."""
PATIENCE = 2.0
"""Seconds after which the attempt that waits for it frees its worker."""
LONGEST_REST = 5.0
"""Seconds after which such an attempt looks again."""
ELSEWHERE = "another process has sent this call"


class OtherSenders:
    """The other senders of calls in a shared store, as one process sees them. On the ledger's loop."""

    def __init__(self, store: Store, sharing: Sharing, owner: str, clock: Clock) -> None:
        self._store, self._sharing, self.owner, self._clock = store, sharing, owner, clock

    def until(self, named: NamedModel) -> float:
        """Until when an answer may come to a send that is recorded now, by the clock of the store."""
        longest = _longest(named)
        return self._clock.now() + longest + min(longest, SLACK)

    def check_time(self, named: NamedModel, until: float) -> None:
        """CallFailed if a send that begins now could be answered after its time."""
        if self._clock.now() + _longest(named) > until:
            raise CallFailed("not sent: recording it took too long", free=True)

    async def may_answer(self, row: Call) -> bool:
        """Whether another process has sent the call, and may still record its answer."""
        if row.state != "intended" or row.batch or row.owner in ("", self.owner):
            return False
        return self._clock.now() < row.until and await asyncio.to_thread(self._sharing.may_write, row.owner)

    async def wait(self, row: Call, state: CallState) -> Call:
        """The call, once nobody else may answer it, or somebody has; Parked if that takes long."""
        since = self._clock.monotonic()
        state.waits = True
        try:
            while await self.may_answer(row):
                if self._clock.monotonic() - since > PATIENCE:
                    left = row.until - self._clock.now()
                    raise Parked(max(LOOK, min(left, LONGEST_REST)), ELSEWHERE)
                await asyncio.sleep(LOOK)
                row = (await find_calls(self._store, [row.key]))[row.key]
            return row
        finally:
            state.waits = False

    async def sent_by_another(self, key: str, send: int) -> bool:
        """Whether this send of a call, or a later one, is another process's, or the call was answered."""
        row: Call | None = (await find_calls(self._store, [key])).get(key)
        if row is None:
            return False
        return row.state == "answered" or (row.sends >= send and row.owner != self.owner)


def _longest(named: NamedModel) -> float:
    """Seconds that a send of a model takes at most."""
    longest = getattr(named.model, "longest_send", None)
    return float(longest) if isinstance(longest, (int, float)) else LONGEST_SEND
