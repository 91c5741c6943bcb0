"""Records that cannot be read: one line each, and everything else is read all the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
import pytest

import peira
from peira import ask, study
from peira.cli import main
from peira.core.log.events import CallRead, Unreadable
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three trials, each with a call."""
    monkeypatch.chdir(tmp_path)
    asked = study(agent=lambda case: ask("scripted:", case.input), cases=["a", "b", "c"], name="s")
    assert peira.run(asked, store="s.db", progress=False).ok
    return tmp_path / "s.db"


def damaged(store: Path, what: bytes, by: bytes) -> None:
    """The first event that has these bytes gets others in their place."""
    with apsw.Connection(str(store)) as db:
        rows = db.execute("SELECT place, body FROM event ORDER BY place").fetchall()
        place, body = next((place, bytes(body)) for place, body in rows if what in bytes(body))
        db.execute("UPDATE event SET body = ? WHERE place = ?", (body.replace(what, by), place))


def events(kind: Any) -> list[Any]:
    look = peira.open("s.db")
    return [r.event for one in look.runs() for r in look.events(one.id) if isinstance(r.event, kind)]


@pytest.mark.parametrize("said", [b'"input":1.0', b'"input":"1"'])
def test_numbers_as_early_versions_kept_them_are_read(store: Path, said: bytes) -> None:
    damaged(store, b'"input":1', said)
    assert [event.input for event in events(CallRead)] == [1, 1, 1]
    assert verify(SqliteStore(store, readonly=True)) == []


@pytest.mark.parametrize(
    ("what", "by"),
    [
        (b'"call.read"', b'"call.reed"'),
        (b'"input":1', b'"input":true'),
        (b'"tasks.claimed"', b'"tasks.claimet"'),
        (b'"task.finished"', b'"task.finishet"'),
        (b'{"kind"', b'["kind"'),
    ],
)
def test_one_that_cannot_be_read_costs_nobody_else(store: Path, capsys: Any, what: bytes, by: bytes) -> None:
    before = len(events(object))
    damaged(store, what, by)
    assert len(events(object)) == before
    [unread] = events(Unreadable)
    assert "\n" not in unread.why
    lines = verify(SqliteStore(store, readonly=True))
    assert sum("cannot be read: " in line for line in lines) == 1
    for command in (["runs"], ["show"], ["status"], ["events"], ["events", "--json"], ["calls"], ["watch"]):
        assert main([*command, "--store", "s.db"]) == 0
    assert main(["verify", "--store", "s.db"]) == 1
    assert "Traceback" not in "".join(capsys.readouterr())
