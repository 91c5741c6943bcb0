"""Limits that processes keep together: sums and rates hold, and the loop of calls waits for no store."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from peira.core.contracts import Op, PoolRequest
from peira.core.log.events import RunNoted, RunPlanned
from peira.core.models import ModelLimits
from peira.engine.calls.budget import Reservation
from peira.engine.calls.pools import PooledAccount
from peira.engine.calls.shared_rate_limit import SharedRateLimiter
from peira.spec.limits import Allowance
from peira.stores.postgres.scheme import PostgresScheme

RUN = "r" * 64


class WatchedSharing:
    """A member's real interface to the store, which refuses to be asked on the thread of a loop."""

    def __init__(self, sharing: Any) -> None:
        self._sharing, self._thread = sharing, threading.get_ident()
        self.asked: list[str] = []

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._sharing, name)

        def call(*args: Any) -> Any:
            assert threading.get_ident() != self._thread, f"{name} blocks the loop"
            self.asked.append(name)
            return method(*args)

        return call


@pytest.fixture
def stores(postgres_url: str) -> Iterator[list[Any]]:
    """A store with a shared run, open in two members."""
    stores = [PostgresScheme().share(postgres_url, 30.0, 0.0, "zstd") for _ in range(2)]
    stores[0].sharing.share(RUN, 10, b"{}")
    stores[0].commit([Op(RUN, (RunPlanned("m" * 64, "s", 10),))]).result()
    for store in stores:
        store.sharing.beat(RUN)
    yield stores
    for store in stores:
        store.close()


@pytest.fixture
def members(stores: list[Any]) -> list[Any]:
    """How both members share it."""
    return [store.sharing for store in stores]


def test_the_loop_is_free_while_pools_are_drawn_on(members):
    sharing = WatchedSharing(members[0])
    account = PooledAccount("budget", Allowance(calls=100), Reservation(calls=0), sharing, RUN)  # type: ignore[arg-type]

    async def use() -> None:
        for _ in range(60):
            await account.draw(Reservation())
            assert not account.lacks(Reservation())
            account.reserve(Reservation())
        await account.give_back(everything=True)

    asyncio.run(use())
    assert {"draw", "settle"} <= set(sharing.asked)
    assert len(sharing.asked) < 30, "a share is more than one call while much is left"


def test_two_processes_use_no_more_than_there_is(members):
    """Many calls at once, of two members, one of which gives back what it does not need."""
    accounts = [
        PooledAccount("budget", Allowance(calls=50), Reservation(calls=5), WatchedSharing(one), RUN)  # type: ignore[arg-type]
        for one in members
    ]
    used = [0, 0]

    async def use(n: int) -> None:
        account = accounts[n]
        for _ in range(10):
            await account.draw(Reservation())
            if not account.lacks(Reservation()):
                account.reserve(Reservation())
                used[n] += 1
            await asyncio.sleep(0)

    async def use_all() -> None:
        await asyncio.gather(
            *(use(n % 2) for n in range(8)), accounts[0].give_back(), accounts[1].give_back()
        )
        for account in (*accounts, *accounts):  # until nobody holds what the other lacks
            await account.draw(Reservation())
            await account.give_back()
        await asyncio.gather(*(use(n % 2) for n in range(8)))

    asyncio.run(use_all())
    assert sum(used) == 45, "5 were spent before"
    assert all(account.lacks(Reservation()) for account in accounts)


def test_shares_are_taken_in_the_transaction_that_needs_them(stores):
    """All or nothing: what is committed has its share, and what is refused has taken none."""

    def commit(store: Any, *needs: float) -> tuple[list[bool], list[PoolRequest]]:
        requests = [PoolRequest("budget.calls", 20.0, 2.0, need) for need in needs if need]
        left = iter(requests)
        ops = [Op(RUN, (RunNoted(f"needs {need:g}"),), (), (next(left),) if need else ()) for need in needs]
        return [refusal is None for refusal in store.commit(ops).result()], requests

    first, second = stores
    done, taken = commit(first, 3.0, 0.0, 4.0)
    assert (done, sum(one.given for one in taken)) == ([True, True, True], 7.0)
    done, taken = commit(second, 8.0)
    assert done == [True]
    done, _ = commit(first, 0.0, 5.0)
    assert done == [True, False], "3 are left; what needs none is committed"
    done, taken = commit(second, 3.0)
    assert (done, taken[0].given) == ([True], 3.0)
    notes = [one.event.text for one in first.events(RUN, 0, 100) if isinstance(one.event, RunNoted)]
    assert notes == ["needs 3", "needs 0", "needs 4", "needs 8", "needs 0", "needs 3"]
    held = {share.member: share.granted for share in first.sharing.shares([1, 2, 3])}
    assert sorted(held.values()) == [7.0, 11.0], "with the 2 that were spent before: 20"


def test_rates_are_kept_together_without_blocking_the_loop(members):
    limits = ModelLimits(requests=3000, tokens=600_000, concurrency=6)
    sent: list[float] = []

    async def send_all() -> None:
        now = asyncio.get_running_loop().time
        limiters = [
            SharedRateLimiter("m", limits, now, lambda text: None, WatchedSharing(one), "m")  # type: ignore[arg-type]
            for one in members
        ]
        under_way = most = 0

        async def send(limiter: SharedRateLimiter) -> None:
            nonlocal under_way, most
            await limiter.enter(100)
            sent.append(time.monotonic())
            under_way += 1
            most = max(most, under_way)
            await asyncio.sleep(0.005)
            under_way -= 1
            limiter.leave()
            limiter.answered(10, None)

        async def beat() -> None:
            """As engines do: whoever holds slots that it does not need gives them back."""
            while True:
                for limiter in limiters:
                    await limiter.refresh()
                await asyncio.sleep(0.1)

        async with asyncio.TaskGroup() as group:
            beating = group.create_task(beat())
            await asyncio.gather(*(send(limiters[n % 2]) for n in range(60)))
            beating.cancel()
        assert most <= 6

    asyncio.run(asyncio.wait_for(send_all(), 60))
    assert len(sent) == 60
    assert sent[-1] - sent[0] >= 0.9, "50 a second, of both together"
