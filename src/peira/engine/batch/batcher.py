"""Gathers calls into batches, parks their tasks, and wakes them when the batches are answered."""

from __future__ import annotations

import asyncio
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice

from peira.core.chat.dialects import spoken
from peira.core.log.state import Call
from peira.core.models import NamedModel
from peira.engine.batch.open_batches import OpenBatches
from peira.engine.batch.record import BatchedCall, Ending, Endings, batches_of
from peira.engine.calls.budget import Account, Reservation, RunAccounts, may_cost
from peira.engine.calls.purchase import Buyer, CallRequest
from peira.engine.context import RunCallbacks, RunContext
from peira.errors import CallFailed, Exhausted, Parked

QUIET = 10.0
"""A gathered batch is submitted once no further call has been added for so many seconds."""
MOST, MOST_BYTES = 10_000, 64 * 2**20
"""The most calls, and bytes of requests, of one batch."""


def in_batch(row: Call | None) -> bool:
    """Whether a call was submitted in a batch, and neither an answer nor a loss of it is recorded."""
    return row is not None and row.state == "intended" and bool(row.batch)


@dataclass
class BatchQueue:
    """Calls of one model that wait to be submitted."""

    named: NamedModel
    calls: dict[str, tuple[BatchedCall, bytes]] = field(default_factory=dict)
    size: int = 0
    timer: asyncio.TimerHandle | None = None

    def add(self, key: str, batched: BatchedCall, request: bytes) -> bool:
        """Add a call; returns whether there is space for more."""
        self.calls[key] = batched, request
        self.size += batched.size
        return len(self.calls) < MOST and self.size < MOST_BYTES

    def be_quiet(self, then: Callable[[str], None]) -> None:
        """Restart the timer that submits the queue when no further call comes."""
        self.stop()
        self.timer = asyncio.get_running_loop().call_later(QUIET, then, self.named.name)

    def stop(self) -> None:
        """Cancel the timer."""
        if self.timer is not None:
            self.timer.cancel()


class Batcher:
    """Calls made in batches. All methods run on the ledger's loop, so there is no lock.

    A task that asks for a call is parked (asleep in the scheduler) and woken when the call is answered; its
    next attempt finds the answer in the store.
    """

    def __init__(
        self,
        context: RunContext,
        buyer: Buyer,
        reserve: RunAccounts,
        known_as: Callable[[str], NamedModel],
        callbacks: RunCallbacks,
    ) -> None:
        self._buyer, self._reserve, self._callbacks = buyer, reserve, callbacks
        self._tries = context.policy.call_tries
        self._batches = OpenBatches(context, buyer, known_as, callbacks, self, tries=self._tries)
        self._gathered: dict[str, BatchQueue] = {}  # not submitted yet, by model
        self._reserved: dict[str, tuple[BatchedCall, Account | None]] = {}  # open reservations, by key
        self._waiting: defaultdict[str, set[str]] = defaultdict(set)  # tasks to wake, by key
        self._waiting_for_budget: set[str] = set()  # tasks to wake when a reservation is settled
        self._change: asyncio.Task[None] | None = None
        self._failed: Counter[str] = Counter()  # failures by key
        self._refused: dict[str, CallFailed] = {}  # not submitted again by this run, by key
        self._most: dict[str, int] = {}  # reduced sizes of batches, by model
        self._busy_models: set[str] = set()  # submit nothing until another batch of the model ends
        self.bought: dict[str, str] = {}
        """The task of each call that was answered in this run."""

    @property
    def gathering(self) -> bool:
        """Whether calls wait to be submitted."""
        return bool(self._gathered)

    async def ask(self, named: NamedModel, call: CallRequest, key: str, row: Call | None) -> None:
        """Add a call to the next batch, or wait for the batch it is in. Always raises.

        Parked: the task is woken later. Exhausted: the budget is used up. CallFailed: batches have failed
        this call too often.
        """
        if (refusal := self._refused.get(key)) is not None:
            raise refusal
        if row is not None and in_batch(row) and not await self._at_hand(key, row.batch):
            raise Parked(0.0, "its batch is over: look again")
        if key not in self._reserved:
            self._gather(named, call, key, row.sends if row else 0)
        elif call.account is not None and call.account is not self._reserved[key][1]:
            call.account.take(self._reserved[key][0].share)  # another trial asked for it: charge this, too
        self._waiting[key].add(call.attempt.spec.id)
        raise Parked(math.inf, f"{named.name}: waits for its batch")

    async def _at_hand(self, key: str, batch: str) -> bool:
        """Whether the call is in an open batch; adopts the batch of an earlier run."""
        return key in self._batches or await self._batches.adopt(batch)

    def _gather(self, named: NamedModel, call: CallRequest, key: str, sends: int) -> None:
        """Reserve the call's cost and add it to the queue of its model."""
        batches_of(named).check(spoken(call.request, named.model))
        share, size = self._reserve_cost(named, call), len(call.body)
        place = call.attempt.spec.id, call.digest, size, call.place
        batched = BatchedCall(*place, sends + 1, share.money, share.tokens)
        self._reserved[key] = batched, call.account
        queue = self._gathered.setdefault(named.name, BatchQueue(named))
        if queue.add(key, batched, call.body):
            queue.be_quiet(self._hand_in)
        else:
            self._hand_in(named.name)

    def _reserve_cost(self, named: NamedModel, call: CallRequest) -> Reservation:
        """Reserve the call's cost; parks the task if it must wait for open reservations."""
        expected = self._reserve.expected(named, len(call.body), call.request)
        most, likely = self._reserve.most(named, call.request)
        part = named.price.batch if named.price else 1.0
        share = self._reserve.share(named, most, call.account, part)
        try:
            fits = self._reserve.fit(named, share, call.account, unlimited=likely is not None)
        except Exhausted:
            self._buyer.exhausted()
            raise
        if not fits:
            self._wake_on_change(call.attempt.spec.id)
            raise Parked(math.inf, f"{named.name}: waits for what is set aside for others")
        return may_cost(named, expected, share, part)

    def _wake_on_change(self, task: str) -> None:
        """Wake the task when a reservation is settled."""
        self._waiting_for_budget.add(task)
        if self._change is None or self._change.done():
            # Requested now, not when the task starts: a settlement in between would be missed.
            changed = self._reserve.change()
            self._change = asyncio.get_running_loop().create_task(self._when_changed(changed))

    async def _when_changed(self, changed: asyncio.Future[None]) -> None:
        await changed
        wanting, self._waiting_for_budget = self._waiting_for_budget, set()
        self._callbacks.wake(wanting)

    def hand_in(self) -> None:
        """Submit everything gathered: no further calls will come before some are answered."""
        for name in list(self._gathered):
            self._hand_in(name)

    def _hand_in(self, name: str) -> None:
        """Submit the gathered calls of a model, at most as many as it accepts at once."""
        if name in self._busy_models:  # until another batch of this model is over
            return
        queue = self._gathered.pop(name)
        queue.stop()
        most, calls = self._most.get(name, MOST), queue.calls
        if len(calls) > most:
            self._gathered[name] = rest = BatchQueue(queue.named)
            for key, (batched, request) in islice(calls.items(), most, None):
                rest.add(key, batched, request)
            rest.be_quiet(self._hand_in)
        self._batches.hand_in(queue.named, dict(islice(calls.items(), most)))

    def held(self, named: NamedModel, calls: Mapping[str, BatchedCall], counted: bool) -> None:
        """A batch of an earlier run was adopted: reserve what its calls may cost."""
        for key, batched in calls.items():
            self._reserve.hold(named, batched.share, counted)
            self._reserved[key] = batched, None

    def ended(self, named: NamedModel, endings: Endings, busy: bool) -> None:
        """Settle the reservations of a batch's calls, and wake the tasks that wait for them."""
        self._busy_models.discard(named.name)
        reduced = busy and self._reduce_load(named.name, len(endings))
        woken: dict[str, None] = {}
        for key, ending in endings.items():
            if key in self._reserved:
                self._settle(named, key, ending)
            if isinstance(ending, CallFailed) and not reduced:
                self._count_failure(key, ending, hopeless=busy)
            woken |= dict.fromkeys(self._waiting.pop(key, ()))
        if named.name in self._gathered:
            self._gathered[named.name].be_quiet(self._hand_in)
        self._callbacks.wake(woken)

    def _settle(self, named: NamedModel, key: str, ending: Ending) -> None:
        """Settle the reservation of one call."""
        batched, account = self._reserved.pop(key)
        if isinstance(ending, Reservation):
            self.bought[key] = batched.task
            took: Reservation | None = ending
        else:
            took = batched.share if ending.doubt else None
        self._reserve.settle(named, account, batched.share, took)
        if account is not None and took is not None and isinstance(ending, Reservation):
            account.counted.add(key)

    def _count_failure(self, key: str, problem: CallFailed, hopeless: bool) -> None:
        """Count a failure; a call that cannot succeed, or failed too often, is refused from now on."""
        self._failed[key] += 1
        hopeless = hopeless or not (problem.free or problem.doubt)
        if hopeless or self._failed[key] >= self._tries:
            self._refused[key] = problem

    def _reduce_load(self, name: str, size: int) -> bool:
        """The provider is busy: wait for an open batch to end, or halve the size.

        False if neither is possible.
        """
        if self._batches.of(name):
            self._busy_models.add(name)
        elif size > 1:
            self._most[name] = size // 2
        else:
            return False
        return True

    async def close(self) -> None:
        """Close the batches; those under way stay open for a later run."""
        for queue in self._gathered.values():
            queue.stop()
        if self._change is not None:
            self._change.cancel()
        await self._batches.close()
