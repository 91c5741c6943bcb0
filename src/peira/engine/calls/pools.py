"""Budgets that several processes share: each holds shares of common pools, and calls draw on the shares.

What all shares and all that is spent come to never exceeds a pool. A share is larger while much is left and
as small as one call in the end. Who finds its share too small takes more from the pool; if that is dry, those
who hold more than they need give it back, and who still lacks waits while others may give back any.

A share is granted in the transaction of the intent that needs it (`ask`): an intent that is recorded is paid
for, and one that is not takes nothing. Only where a pool was dry it is looked at before that (`draw`).
"""

from __future__ import annotations

import asyncio
from typing import NamedTuple

from peira.core.contracts import PoolRequest
from peira.engine.calls.budget import Account, Reservation, lacking_message
from peira.spec.limits import Allowance
from peira.stores.sharing import PoolDraw, Sharing

LIMITS = ("money", "tokens", "calls")
TOLERANCE = 1e-9
"""Relative, of comparisons with a share."""


class PendingDraw(NamedTuple):
    """What an account has asked of a pool for a call, to be taken in the transaction of the call's intent."""

    account: PooledAccount
    limit: str
    request: PoolRequest

    def granted(self) -> None:
        """The intent is committed."""
        self.account.receive(self)

    def withdraw(self) -> None:
        """There is no intent."""
        self.account.withdraw(self)

    def refused(self) -> None:
        """The pool has too little: it is looked at before the next call asks for any."""
        self.account.withdraw(self, dry=True)


class PooledAccount(Account):
    """The account of a study or a model whose limits are pools of a shared run. On the ledger's loop.

    `ask` or `draw` first get what a reservation lacks, then `lacks` says whether there is enough.
    """

    def __init__(
        self, name: str, allowance: Allowance, before: Reservation, sharing: Sharing, run: str
    ) -> None:
        """`before` is what earlier runs of the study spent: it is taken from the pool once."""
        super().__init__(name, allowance)
        self._sharing, self._run_id, self._before = sharing, run, before
        self._shares = {limit: 0.0 for limit in LIMITS if getattr(allowance, limit) is not None}
        self._asked = dict.fromkeys(self._shares, 0.0)  # of pools, for intents that are not committed yet
        self._dry: dict[str, PoolDraw] = {}  # what pools had when they last gave nothing
        self._drawing = asyncio.Lock()
        self._hopeful = self._undrawn = False

    @property
    def hopeful(self) -> bool:
        """Whether other processes may give back what is lacking."""
        return self._hopeful or self._undrawn

    @property
    def undrawn(self) -> bool:
        """Whether what is lacking may be in a pool: nobody has looked since it gave nothing."""
        return self._undrawn

    def lacks(self, share: Reservation) -> str:
        """The limit that forbids taking this much more, as a message; "" if none."""
        self._hopeful = self._undrawn = False
        for limit in self._shares:
            if self._need(limit, share) > self._tolerance(limit):
                drawn = self._dry.get(limit)
                self._undrawn = not self._is_dry(limit, share)
                self._hopeful = drawn is not None and drawn.hope
                return self._message(limit, share, drawn)
        return ""

    def never_fits(self, share: Reservation) -> bool:
        return any(self._is_dry(limit, share) for limit in self._shares)

    def _is_dry(self, limit: str, share: Reservation) -> bool:
        """Whether a pool is known not to have what is lacking of its limit."""
        need, drawn = self._need(limit, share), self._dry.get(limit)
        return (
            need > self._tolerance(limit) and drawn is not None and drawn.left < need - self._tolerance(limit)
        )

    def _tolerance(self, limit: str) -> float:
        return TOLERANCE * float(getattr(self._allowance, limit))

    def _need(self, limit: str, share: Reservation) -> float:
        """What the share of a limit is short of."""
        return self.used(limit) + float(getattr(share, limit)) - self._shares[limit] - self._asked[limit]

    def _message(self, limit: str, share: Reservation, drawn: PoolDraw | None) -> str:
        most, more = getattr(self._allowance, limit), getattr(share, limit)
        left = 0.0 if drawn is None else max(0.0, drawn.left)
        return lacking_message(self.name, limit, most, most - left, more) or f"{self.name}.{limit} is short"

    def ask(self, share: Reservation) -> list[PendingDraw] | None:
        """What is lacking for a reservation, to be taken with the intent of its call.

        None if a pool was dry when it was last asked: then `draw` looks what it has.
        """
        short = [limit for limit in self._shares if self._need(limit, share) > self._tolerance(limit)]
        if any(limit in self._dry for limit in short):
            return None
        pending = []
        for limit in short:
            most, before = getattr(self._allowance, limit), getattr(self._before, limit)
            request = PoolRequest(self._scope(limit), most, before, self._need(limit, share))
            self._asked[limit] += request.need
            pending.append(PendingDraw(self, limit, request))
        return pending

    def receive(self, drawn: PendingDraw) -> None:
        """A pool has given what was asked of it."""
        self._asked[drawn.limit] -= drawn.request.need
        self._shares[drawn.limit] += drawn.request.given

    def withdraw(self, pending: PendingDraw, dry: bool = False) -> None:
        """Nothing was taken from a pool."""
        self._asked[pending.limit] -= pending.request.need
        if dry:
            self._dry[pending.limit] = PoolDraw(0.0, hope=True)

    async def draw(self, share: Reservation) -> None:
        """Take from the pools what is lacking for a reservation, as far as they have it."""
        if all(self._need(limit, share) <= self._tolerance(limit) for limit in self._shares):
            return
        async with self._drawing:
            for limit in self._shares:
                need = self._need(limit, share)  # others may have drawn meanwhile, or used it up
                if need > self._tolerance(limit):
                    await self._draw(limit, need)

    async def _draw(self, limit: str, need: float) -> None:
        scope, most, before = (
            self._scope(limit),
            getattr(self._allowance, limit),
            getattr(self._before, limit),
        )
        drawn = await asyncio.to_thread(self._sharing.draw, self._run_id, scope, most, before, need)
        self._shares[limit] += drawn.given
        if drawn.given:
            self._dry.pop(limit, None)
        else:
            self._dry[limit] = drawn

    def _scope(self, limit: str) -> str:
        return f"{self.name}.{limit}"

    async def give_back(self, everything: bool = False) -> None:
        """Tell the pools what is spent, and give back what is neither spent nor reserved, if it is wanted.

        Meanwhile nobody can use what may be given back.
        """
        async with self._drawing:
            for limit, share in self._shares.items():
                used = self.used(limit)
                settled = used - getattr(self.reserved, limit)
                self._shares[limit] = min(used, share)
                left = share
                try:
                    left = await asyncio.to_thread(
                        self._sharing.settle,
                        self._run_id,
                        self._scope(limit),
                        share,
                        used,
                        settled,
                        everything,
                    )
                finally:
                    self._shares[limit] += left - min(used, share)
