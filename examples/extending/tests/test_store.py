"""`named://` is a store."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from peira_extras.store import NamedScheme, NamedStore

from peira.errors import Invalid
from peira.testing import StoreSuite


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("PEIRA_STORES", str(tmp_path))
    return tmp_path


class TestNamedStore(StoreSuite):
    durable = True
    scheme = NamedScheme()

    @pytest.fixture
    def store(self) -> Iterator[NamedStore]:
        store = self.scheme.own("named://one", 0.0, "zstd")
        yield store
        store.close()

    def reopen(self, store: NamedStore) -> NamedStore:  # type: ignore[override]
        store.close()
        return self.scheme.own(store.address, 0.0, "zstd")


@pytest.mark.parametrize("address", ["named://", "named://a/b", "named://../a"])
def test_a_name_cannot_leave_the_folder(address: str) -> None:
    with pytest.raises(Invalid, match="a name has letters, digits, _ and - only"):
        NamedScheme().exists(address)


def test_without_a_folder_there_are_no_stores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PEIRA_STORES")
    with pytest.raises(Invalid, match="PEIRA_STORES does not say where stores are"):
        NamedScheme().exists("named://one")
