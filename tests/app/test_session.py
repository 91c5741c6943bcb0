"""A session: one project and one store for all that a command does."""

from __future__ import annotations

from pathlib import Path

import pytest

from peira.app.session import Session
from peira.core.contracts import RunQuery
from peira.errors import StoreFault, Unknown
from peira.spec.project import Project
from peira.stores.memory import MemoryStore
from peira.stores.sqlite import SqliteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "kept.db"
    SqliteStore(path).close()
    return path


def closed(store: SqliteStore) -> bool:
    try:
        store.runs(RunQuery(limit=1))
    except StoreFault:
        return True
    return False


def test_within_its_block_the_store_is_opened_once_and_closed_at_the_end(path: Path) -> None:
    with Session(Project(), path) as session:
        with session.reading() as one:
            pass
        with session.reading() as other:
            assert other is one
        assert not closed(one)
    assert closed(one)


def test_it_is_closed_when_the_command_fails(path: Path) -> None:
    opened: list[SqliteStore] = []

    def command() -> None:
        with Session(Project(), path) as session, session.reading() as store:
            opened.append(store)
            raise ValueError("no luck")

    with pytest.raises(ValueError, match="no luck"):
        command()
    assert closed(opened[0])


def test_outside_of_its_block_each_look_opens_and_closes_the_store(path: Path) -> None:
    session = Session(Project(), path)
    with session.reading() as one:
        assert not closed(one)
    with session.reading() as other:
        assert other is not one
    assert closed(one)
    assert closed(other)


def test_what_was_written_meanwhile_is_seen_and_the_next_owner_folds_the_log_in(path: Path) -> None:
    with Session(Project(), path) as session:
        with session.reading() as store:
            assert store.runs(RunQuery(limit=1)) == []
        with session.owned() as ours:
            digest = ours.put(b"written while the reader was open" * 100)
        with session.reading() as store:
            assert store.get(digest).startswith(b"written")
    SqliteStore(path).close()  # who only reads changes no file
    assert not path.with_name(f"{path.name}-wal").exists()


def test_a_store_that_was_given_open_is_used_and_stays_open(path: Path) -> None:
    given = SqliteStore(path)
    with Session.find(given) as session, session.reading() as store, session.owned() as ours:
        assert store is given
        assert ours is given
    assert not closed(given)
    given.close()


def test_a_session_is_found_as_it_is() -> None:
    session = Session(Project(), MemoryStore())
    assert Session.find(session) is session


def test_where_there_is_no_store_looking_says_so_and_makes_none(tmp_path: Path) -> None:
    session = Session(Project(), tmp_path / "none.db")
    with session.reading_if_any() as store:
        assert store is None
    with pytest.raises(Unknown, match="there is no store"), session.reading():
        pass
    assert list(tmp_path.iterdir()) == []
