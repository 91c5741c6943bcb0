from __future__ import annotations

import pytest

from peira.stores.memory import MemoryStore
from peira.testing import StoreSuite


class TestMemoryStore(StoreSuite):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()
