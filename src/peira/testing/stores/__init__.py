"""The conformance suite of stores."""

from __future__ import annotations

import pytest

from peira.core.ids import digest
from peira.stores.verify import verify
from peira.testing.stores.actions import (
    AnyStore,
    accept,
    claimed,
    everything,
    find_task,
    finished,
    plan_run,
    recorded,
)
from peira.testing.stores.calls import CallChecks
from peira.testing.stores.claims import ClaimChecks, ThreadChecks
from peira.testing.stores.commits import CommitChecks
from peira.testing.stores.owners import OwnerChecks
from peira.testing.stores.reads import ReadChecks
from peira.testing.stores.reference_model import ReferenceModelChecks
from peira.testing.stores.waiting import WaitChecks

__all__ = ["StoreSuite"]


class StoreSuite(
    CommitChecks,
    ClaimChecks,
    CallChecks,
    WaitChecks,
    ReadChecks,
    ThreadChecks,
    OwnerChecks,
    ReferenceModelChecks,
):
    """Override the fixture `store` with an empty store; for a durable one, also set `durable`.

    Then override `reopen`, too. Set `scheme` if there is one: the tests then also open the store by its
    address.
    """

    durable = False
    """Whether what it acknowledged is there after it was closed and opened again."""

    @pytest.fixture
    def store(self) -> AnyStore:
        """The store under test, empty."""
        raise NotImplementedError("override the fixture `store`")

    def reopen(self, store: AnyStore) -> AnyStore:
        """Close the store, and open it again."""
        raise NotImplementedError("a durable store can be opened again: override `reopen`")

    def test_what_was_acknowledged_is_there_when_it_is_opened_again(self, store: AnyStore) -> None:
        if not self.durable:
            pytest.skip("it keeps nothing")
        run = plan_run(store, tags=("nightly",))
        accept(store, run, claimed("a", "b"), recorded("a", "s"), finished("a"), blobs=(b"small",))
        large = store.put(b"large" * 50_000)
        before = everything(store)
        again = self.reopen(store)
        try:
            assert everything(again) == before
            assert again.get(large) == b"large" * 50_000
            accept(again, run, finished("b"))
            assert again.events(run)[-1].seq == before[1][-1].seq + 1
            assert find_task(again, "b").result == finished("b").result
            assert [task.id for task in again.active()] == []
            assert again.find("call", [digest("s")])
            assert verify(again) == []
        finally:
            again.close()
