"""Budgets that several processes share: each holds shares of common pools, and calls draw on the shares.

What all shares and all that is spent come to never exceeds a pool. A share is larger while much is left and
as small as one call in the end. Who finds its share too small takes more from the pool; if that is dry, those
who hold more than they need give it back, and who still lacks waits while others may give back any.
"""

from __future__ import annotations

from peira.engine.calls.budget import Account, Reservation, lacking_message
from peira.spec.limits import Allowance
from peira.stores.sharing import Sharing

LIMITS = ("money", "tokens", "calls")
TOLERANCE = 1e-9
"""Relative, of comparisons with a share."""


class PooledAccount(Account):
    """The account of a study or a model whose limits are pools of a shared run. On the ledger's loop."""

    def __init__(
        self, name: str, allowance: Allowance, before: Reservation, sharing: Sharing, run: str
    ) -> None:
        """`before` is what earlier runs of the study spent: it is taken from the pool once."""
        super().__init__(name, allowance)
        self._sharing, self._run_id, self._before = sharing, run, before
        self._shares = {limit: 0.0 for limit in LIMITS if getattr(allowance, limit) is not None}
        self._hopeful = False

    @property
    def hopeful(self) -> bool:
        """Whether other processes may give back what is lacking."""
        return self._hopeful

    def lacks(self, share: Reservation) -> str:
        """The limit that forbids taking this much more, as a message; "" if none. Takes more from a pool."""
        self._hopeful = False
        for limit in self._shares:
            if message := self._lacks(limit, getattr(share, limit)):
                return message
        return ""

    def _lacks(self, limit: str, more: float) -> str:
        used, most = self.used(limit), getattr(self._allowance, limit)
        need = used + more - self._shares[limit]
        if need <= TOLERANCE * most:
            return ""
        before = getattr(self._before, limit)
        drawn = self._sharing.draw(self._run_id, f"{self.name}.{limit}", most, before, need)
        self._shares[limit] += drawn.given
        if drawn.given:
            return ""
        self._hopeful = drawn.hope
        return lacking_message(self.name, limit, most, most - max(0.0, drawn.left), more)

    def give_back(self, everything: bool = False) -> None:
        """Tell the pools what is spent, and give back what is neither spent nor reserved, if it is wanted."""
        for limit, share in self._shares.items():
            used = self.used(limit)
            settled = used - getattr(self.reserved, limit)
            scope = f"{self.name}.{limit}"
            self._shares[limit] = self._sharing.settle(self._run_id, scope, share, used, settled, everything)
