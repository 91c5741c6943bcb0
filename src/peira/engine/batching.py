"""Calls that are handed in with many others, and answered later.

Whoever asks is sent away: its worker is free, it is woken when its answer is recorded, and gets it by asking
again. What gathers is handed in as soon as everybody sleeps, or once nobody new has come for a while. What a
call may cost is set aside when it is gathered, as for any other, until its answer is there.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from peira.core.contracts import Store
from peira.core.models import CallFailed, Named
from peira.core.state import Call
from peira.engine.batches import OpenBatches
from peira.engine.budget import Account, Reserve, Share, may_cost
from peira.engine.buying import Asked, Buyer
from peira.engine.slips import Ending, Endings, Handed, Told, batches_of
from peira.errors import Exhausted, Parked
from peira.spec.limits import Policy

QUIET = 10.0
"""Where somebody is always at work, what gathered is handed in once nobody new has come for so long."""
MOST, MOST_BYTES = 10_000, 64 * 2**20


def in_batch(row: Call | None) -> bool:
    """Whether a call was handed in, and no answer or end of it is recorded."""
    return row is not None and row.state == "intended" and bool(row.batch)


@dataclass
class Gathering:
    """Calls of one model that wait to be handed in."""

    named: Named
    calls: dict[str, tuple[Handed, bytes]] = field(default_factory=dict)
    size: int = 0
    timer: asyncio.TimerHandle | None = None

    def add(self, key: str, handed: Handed, request: bytes) -> bool:
        """Whether there is room for more."""
        self.calls[key] = handed, request
        self.size += handed.size
        return len(self.calls) < MOST and self.size < MOST_BYTES

    def be_quiet(self, then: Callable[[str], None]) -> None:
        """Wait for others, anew."""
        self.stop()
        self.timer = asyncio.get_running_loop().call_later(QUIET, then, self.named.name)

    def stop(self) -> None:
        if self.timer is not None:
            self.timer.cancel()


class Batcher:
    """All methods run on the ledger's loop."""

    def __init__(
        self,
        run: str,
        owner: str,
        store: Store,
        buyer: Buyer,
        reserve: Reserve,
        policy: Policy,
        known_as: Callable[[str], Named],
        *,
        told: Told,
        wake: Callable[[Iterable[str]], None],
    ) -> None:
        self._buyer, self._reserve, self._tries, self._wake = buyer, reserve, policy.call_tries, wake
        told = replace(told, held=self._hold, ended=self._ended)
        self._batches = OpenBatches(run, owner, store, buyer, known_as, told, tries=policy.call_tries)
        self._gathered: dict[str, Gathering] = {}
        self._aside: dict[str, tuple[Handed, Account | None]] = {}
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)
        self._wanting: set[str] = set()
        self._change: asyncio.Task[None] | None = None
        self._failed: Counter[str] = Counter()
        self._refused: dict[str, CallFailed] = {}
        self._most: dict[str, int] = {}
        self._full: set[str] = set()
        self.bought: dict[str, str] = {}
        """The calls that were answered in this run, and whose they are."""

    @property
    def gathering(self) -> bool:
        """Something waits to be handed in."""
        return bool(self._gathered)

    async def ask(self, named: Named, asked: Asked, key: str, row: Call | None) -> None:
        """Take a call along with the next batch, or wait for the one that it is in. Always raises: Parked,
        Exhausted, or CallFailed if batches were of no use."""
        if (refusal := self._refused.get(key)) is not None:
            raise refusal
        if row is not None and in_batch(row) and not await self._at_hand(key, row.batch):
            raise Parked(0.0, "its batch is over: look again")
        if key not in self._aside:
            self._gather(named, asked, key, row.sends if row else 0)
        elif asked.account is not None:  # what an earlier attempt asked for is taken from this one, too
            asked.account.take(self._aside[key][0].share)
        self._waiting[key].add(asked.attempt.spec.id)
        raise Parked(math.inf, f"{named.name}: waits for its batch")

    async def _at_hand(self, key: str, batch: str) -> bool:
        return key in self._batches or await self._batches.adopt(batch)

    def _gather(self, named: Named, asked: Asked, key: str, sends: int) -> None:
        batches_of(named).check(asked.request)
        share, size = self._set_aside(named, asked), len(asked.body)
        place = asked.attempt.spec.id, asked.digest, size, asked.place
        handed = Handed(*place, sends + 1, share.money, share.tokens)
        self._aside[key] = handed, asked.account
        gathering = self._gathered.setdefault(named.name, Gathering(named))
        if gathering.add(key, handed, asked.body):
            gathering.be_quiet(self._hand_in)
        else:
            self._hand_in(named.name)

    def _set_aside(self, named: Named, asked: Asked) -> Share:
        expected = self._reserve.expected(named, len(asked.body), asked.request)
        part = named.price.batch if named.price else 1.0
        try:
            share = self._reserve.fit(named, expected, asked.account, part)
        except Exhausted:
            self._buyer.exhausted()
            raise
        if share is None:
            self._want(asked.attempt.spec.id)
            raise Parked(math.inf, f"{named.name}: waits for what is set aside for others")
        return may_cost(named, expected, share, part)

    def _want(self, task: str) -> None:
        self._wanting.add(task)
        if self._change is None or self._change.done():
            # Asked for now, not when the errand begins: what is settled in between would be missed.
            changed = self._reserve.change()
            self._change = asyncio.get_running_loop().create_task(self._when_changed(changed))

    async def _when_changed(self, changed: asyncio.Future[None]) -> None:
        await changed
        wanting, self._wanting = self._wanting, set()
        self._wake(wanting)

    def hand_in(self) -> None:
        """Nobody else will come before something is answered: hand in all that has gathered."""
        for name in list(self._gathered):
            self._hand_in(name)

    def _hand_in(self, name: str) -> None:
        if name in self._full:  # until another batch of this model is over
            return
        gathering = self._gathered.pop(name)
        gathering.stop()
        most, calls = self._most.get(name, MOST), gathering.calls
        if len(calls) > most:
            self._gathered[name] = rest = Gathering(gathering.named)
            for key, (handed, request) in islice(calls.items(), most, None):
                rest.add(key, handed, request)
            rest.be_quiet(self._hand_in)
        self._batches.hand_in(gathering.named, dict(islice(calls.items(), most)))

    def _hold(self, named: Named, calls: Mapping[str, Handed], counted: bool) -> None:
        """A batch of an earlier run was taken up."""
        for key, handed in calls.items():
            self._reserve.hold(named, handed.share, counted)
            self._aside[key] = handed, None

    def _ended(self, named: Named, endings: Endings, busy: bool) -> None:
        """Settle what the calls took, and wake whoever waits for them."""
        self._full.discard(named.name)
        borne = busy and self._bear(named.name, len(endings))
        woken: dict[str, None] = {}
        for key, ending in endings.items():
            if key in self._aside:
                self._settle(named, key, ending)
            if isinstance(ending, CallFailed) and not borne:
                self._note(key, ending, hopeless=busy)
            woken |= dict.fromkeys(self._waiting.pop(key, ()))
        if named.name in self._gathered:
            self._gathered[named.name].be_quiet(self._hand_in)
        self._wake(woken)

    def _settle(self, named: Named, key: str, ending: Ending) -> None:
        handed, account = self._aside.pop(key)
        if isinstance(ending, Share):
            self.bought[key] = handed.task
            took: Share | None = ending
        else:
            took = handed.share if ending.doubt else None
        self._reserve.settle(named, account, handed.share, took)

    def _note(self, key: str, problem: CallFailed, hopeless: bool) -> None:
        """What will not help, or was tried enough, is not handed in again by this run."""
        self._failed[key] += 1
        hopeless = hopeless or not (problem.free or problem.doubt)
        if hopeless or self._failed[key] >= self._tries:
            self._refused[key] = problem

    def _bear(self, name: str, size: int) -> bool:
        """The provider has too much of this model: wait for another batch, or hand in less. False if neither
        will do."""
        if self._batches.of(name):
            self._full.add(name)
        elif size > 1:
            self._most[name] = size // 2
        else:
            return False
        return True

    async def close(self) -> None:
        """Leave what is open for later."""
        for gathering in self._gathered.values():
            gathering.stop()
        if self._change is not None:
            self._change.cancel()
        await self._batches.close()
