"""The conformance suite on Postgres: one owner, and every call to one of three stores on the same tables."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, wait
from itertools import count
from typing import Any

import pytest

from peira.core.contracts import Catalogue, Inspectable, Store
from peira.stores.postgres.scheme import PostgresScheme
from peira.stores.postgres.store import PostgresStore
from peira.testing import StoreSuite


class TestPostgresStore(StoreSuite):
    durable = True
    scheme = PostgresScheme()

    @pytest.fixture
    def store(self, postgres_url: str) -> Iterator[PostgresStore]:
        store = PostgresStore(postgres_url)
        yield store
        store.close()

    def reopen(self, store: PostgresStore) -> PostgresStore:
        store.close()
        return PostgresStore(store.address)


class ThreeStores:
    """Three stores on the same tables, opened to be written together; each call goes to the next of them."""

    def __init__(self, address: str) -> None:
        self._stores = [PostgresStore(address, shared=True) for _ in range(3)]
        self._next = count()
        first = self._stores[2]
        self.address, self.incarnation, self.readonly = first.address, first.incarnation, first.readonly
        self.owner, self.folder, self.snapshot = first.owner, first.folder, first.snapshot

    def close(self) -> None:
        for store in self._stores:
            store.close()


def _rotated(name: str) -> Any:
    def call(self: ThreeStores, *args: Any, **options: Any) -> Any:
        answer = getattr(self._stores[next(self._next) % 3], name)(*args, **options)
        if isinstance(answer, Future):  # what others queue meanwhile has no order
            wait([answer])
        return answer

    return call


for part in (Store, Catalogue, Inspectable):
    for name in (name for name in vars(part) if not name.startswith("_")):
        setattr(ThreeStores, name, _rotated(name))


class TestThreeStores(StoreSuite):
    durable = True

    @pytest.fixture
    def store(self, postgres_url: str) -> Iterator[ThreeStores]:
        store = ThreeStores(postgres_url)
        yield store
        store.close()

    def reopen(self, store: ThreeStores) -> ThreeStores:
        store.close()
        return ThreeStores(store.address)
