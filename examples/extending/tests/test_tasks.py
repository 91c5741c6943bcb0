"""`checksum` is a kind of task: durable, and done once."""

from __future__ import annotations

import hashlib
from contextlib import closing
from pathlib import Path

import pytest
from peira_extras.tasks import checksums, task_id

from peira.core.codec import decode
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"{name}.txt" for name in "abc"]
    for path in paths:
        path.write_text(path.name)
    return paths


def test_what_is_recorded_is_not_done_again(files: list[Path], tmp_path: Path) -> None:
    with closing(SqliteStore(tmp_path / "s.db")) as store:
        first = checksums(files[:2], store, tmp_path / "work")
        assert (first.status, first.counts) == ("completed", {"planned": 2, "checksum.succeeded": 2})
        second = checksums(files, store, tmp_path / "work")
        assert second.counts == {"planned": 3, "checksum.reused": 2, "checksum.succeeded": 1}
        rows = store.find("task", [task_id(path) for path in files])
        found = [decode(bytes(rows[task_id(path)].result.output)) for path in files]
        assert found == [hashlib.sha256(path.name.encode()).hexdigest() for path in files]
        assert verify(store) == []


def test_a_task_that_fails_is_recorded_as_that(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with closing(SqliteStore(tmp_path / "s.db")) as store:
        ended = checksums([folder], store, tmp_path / "work")
        assert (ended.status, ended.counts) == (
            "completed with failures",
            {"planned": 1, "checksum.failed": 1},
        )
        assert (
            "IsADirectoryError" in store.find("task", [task_id(folder)])[task_id(folder)].result.failure.type
        )
