"""The conformance suite of streams, on every store that is shipped."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from peira.testing import MemoryStore, StreamSuite

pytestmark = pytest.mark.timeout(120)


class TestStreamsInSqlite(StreamSuite):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Path:
        return tmp_path / "live.db"


class TestStreamsInMemory(StreamSuite):
    @pytest.fixture
    def store(self) -> Any:
        return MemoryStore()


class TestStreamsInPostgres(StreamSuite):
    @pytest.fixture
    def store(self, postgres_url: str) -> str:
        return postgres_url
