"""Checks of ownership: one owner, many readers, and the folders of a store."""

from __future__ import annotations

import os
import threading
from contextlib import closing

import pytest

from peira.core.contracts import OpenStore, StoreScheme
from peira.errors import StoreFault, StoreInUse, Unknown
from peira.testing.stores.actions import AnyStore, accept, claimed, everything, find_run, plan_run


class OwnerChecks:
    """Checks of ownership; those that open the store by its address need `scheme`."""

    scheme: StoreScheme | None = None
    """How it is opened by its address; None if it can only be made as an object."""

    @pytest.fixture
    def opener(self) -> StoreScheme:
        """The scheme; skips the test if there is none."""
        if self.scheme is None:
            pytest.skip("it has no address by which others could open it")
        return self.scheme

    def test_it_has_all_that_is_asked_of_a_store(self, store: AnyStore) -> None:
        assert isinstance(store, OpenStore)

    def test_whoever_opened_it_for_writing_owns_it(self, store: AnyStore) -> None:
        assert not store.readonly
        assert store.incarnation >= 1
        assert store.owner() == {"pid": os.getpid(), "incarnation": store.incarnation}

    def test_each_name_has_a_place_of_its_own_for_files_or_none_has(self, store: AnyStore) -> None:
        names = ("control", "work", "logs", "code", "tables")
        folders = [store.folder(name) for name in names]
        assert folders == [store.folder(name) for name in names]
        assert len(set(folders)) == (1 if None in folders else len(names))

    def test_it_may_be_closed_twice(self, store: AnyStore) -> None:
        store.close()
        store.close()

    def test_who_reads_while_it_is_closed_is_told_so(self, store: AnyStore) -> None:
        run = plan_run(store)
        problems, reading, closed = list[BaseException](), threading.Semaphore(0), threading.Event()

        def read() -> None:
            try:
                store.find("run", [run])
                reading.release()
                while not closed.is_set():
                    store.find("run", [run])
            except BaseException as problem:
                problems.append(problem)

        readers = [threading.Thread(target=read) for _ in range(3)]
        for one in readers:
            one.start()
        for _ in readers:
            assert reading.acquire(timeout=30)
        store.close()
        closed.set()
        for one in readers:
            one.join(30)
        assert all(isinstance(problem, StoreFault) for problem in problems), problems

    def test_it_has_one_owner_at_a_time(self, store: AnyStore, opener: StoreScheme) -> None:
        assert isinstance(opener, StoreScheme)
        assert opener.exists(store.address)
        assert opener.owner(store.address) == store.owner()
        with pytest.raises(StoreInUse):
            opener.own(store.address, 0.0, "zstd")
        plan_run(store)  # the owner can still write

    def test_each_owner_has_a_number_of_its_own(self, store: AnyStore, opener: StoreScheme) -> None:
        address, numbers = store.address, [store.incarnation]
        store.close()
        for compression in ("zstd", "none"):
            assert opener.owner(address) is None
            with closing(opener.own(address, None, compression)) as again:
                assert again.address == address
                numbers.append(again.incarnation)
        assert numbers == sorted(set(numbers))

    def test_others_read_it_while_it_is_written(self, store: AnyStore, opener: StoreScheme) -> None:
        run = plan_run(store)
        with closing(opener.read(store.address)) as reader:
            assert isinstance(reader, OpenStore)
            assert (reader.readonly, reader.address) == (True, store.address)
            assert reader.owner() == store.owner()
            assert reader.folder("control") == store.folder("control")
            assert find_run(reader, run) == find_run(store, run)
            accept(store, run, claimed("a"))
            assert everything(reader) == everything(store)
            store.close()
            assert reader.owner() is None

    def test_what_is_not_there_is_not_read_and_not_made(self, store: AnyStore, opener: StoreScheme) -> None:
        elsewhere = f"{store.address}-elsewhere"
        for _ in range(2):
            assert not opener.exists(elsewhere)
            assert opener.owner(elsewhere) is None
            with pytest.raises(Unknown):
                opener.read(elsewhere)
