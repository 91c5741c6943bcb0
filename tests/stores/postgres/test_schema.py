"""Stores in Postgres that earlier versions wrote are opened, brought up to date, and gone on with."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from peira.core.contracts import RunQuery
from peira.core.ids import digest
from peira.core.log import events as ev
from peira.core.log.events import State
from peira.errors import Invalid
from peira.stores.postgres import schema
from peira.stores.postgres.address import Address
from peira.stores.postgres.scheme import PostgresScheme
from peira.stores.postgres.store import PostgresStore
from peira.stores.verify import verify
from peira.testing.stores.actions import CLS, accept, find_task, finished

from .former_postgres import FOLDER, NAME

FORMER = sorted(FOLDER.glob("*.sql"), key=lambda file: int(file.stem))


@pytest.fixture(params=FORMER, ids=lambda file: f"version {file.stem}")
def former(request: pytest.FixtureRequest, postgres_url: str, postgres_server: str) -> Iterator[str]:
    """The address of a store as that version wrote it."""
    file: Path = request.param
    text = file.read_text().replace(NAME, Address.parse(postgres_url).schema)
    with psycopg.connect(postgres_server, autocommit=True) as db:
        db.execute(text)  # type: ignore[call-overload]
    return postgres_url


def test_a_store_of_every_version_is_kept() -> None:
    """After a migration: `python tests/stores/postgres/former_postgres.py` writes today's."""
    assert [int(file.stem) for file in FORMER] == list(range(1, len(schema.MIGRATIONS) + 1))


@pytest.mark.parametrize("readonly", [True, False])
def test_it_is_opened_as_it_was(former: str, readonly: bool) -> None:
    with closing(PostgresStore(former, readonly=readonly)) as store:
        assert verify(store) == []
        newest, oldest = store.runs(RunQuery())
        assert oldest.tags == ("nightly",)
        assert oldest.status is ev.Status.interrupted
        [spent] = oldest.spent
        assert (spent.input, spent.output, spent.money) == (3, 4, 0.5)
        assert find_task(store, "a").state is State.succeeded
        assert find_task(store, "b").epoch == 2
        assert find_task(store, "c").state is State.queued
        assert store.get(store.find("call", [digest("call")])[digest("call")].request) == b"request"
        kinds = [type(record.event).__name__ for record in store.about([digest("b")])]
        assert kinds == ["TasksClaimed", "StepRecorded", "CallIntended", "TasksInterrupted", "TasksClaimed"]
        assert newest.incarnation == 1


def test_it_is_gone_on_with(former: str) -> None:
    with closing(PostgresStore(former)) as store:
        [newest, _] = store.runs(RunQuery())
        accept(store, newest.id, finished("b", epoch=2))
        [taken] = store.claim(newest.id, "me", [CLS], 1)
        accept(store, newest.id, ev.RunFinished(ev.Status.completed))
        assert taken.id == digest("c")
        assert store.incarnation == 2
        assert verify(store) == []


@pytest.mark.parametrize("former", FORMER[:-1], indirect=True, ids=lambda file: f"version {file.stem}")
def test_who_may_not_change_the_tables_is_told_who_may(former: str, postgres_server: str) -> None:
    where = Address.parse(former)
    reader = f"{where.schema}_only_reader"
    with psycopg.connect(postgres_server, autocommit=True) as db:
        db.execute(f"CREATE ROLE {reader} LOGIN; GRANT USAGE ON SCHEMA {where.schema} TO {reader}")
        db.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {where.schema} TO {reader}")
        try:
            with pytest.raises(Invalid, match=r"let its owner run `peira migrate`"):
                PostgresStore(former.replace("://peira@", f"://{reader}@"), readonly=True)
        finally:
            db.execute(f"DROP OWNED BY {reader}; DROP ROLE {reader}")


def test_migrating_renews_the_roles(former: str, postgres_server: str) -> None:
    roles = PostgresScheme().set_up_roles(former, [], [])
    with psycopg.connect(postgres_server, autocommit=True) as db:
        right = f"SELECT has_table_privilege(%s, '{Address.parse(former).schema}.event', 'INSERT')"
        assert db.execute(right, (roles.worker,)).fetchone() == (True,)
        assert db.execute(right, (roles.reader,)).fetchone() == (False,)
        db.execute(f"DROP OWNED BY {roles.worker}, {roles.reader}")
        db.execute(f"DROP ROLE {roles.worker}, {roles.reader}")
