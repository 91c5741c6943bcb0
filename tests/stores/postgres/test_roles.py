"""Roles of a Postgres store: what workers and readers may do, and above all what they may not."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import closing
from itertools import count

import psycopg
import pytest

from peira.core.contracts import Retained, RunQuery
from peira.core.ids import digest
from peira.core.log import events as ev
from peira.errors import Invalid, StoreDamaged, StoreFault, Unknown
from peira.stores.postgres import roles
from peira.stores.postgres.address import Address
from peira.stores.postgres.scheme import PostgresScheme
from peira.stores.postgres.store import PostgresStore
from peira.stores.verify import verify
from peira.testing.stores.actions import accept, claimed, finished, plan_run

_numbers = count()


class Logins:
    """A closed store with one run, its roles, and a login for each."""

    def __init__(self, url: str, db: psycopg.Connection) -> None:
        self.db, self.url = db, url
        self.schema = Address.parse(url).schema
        self.worker, self.reader, self.nobody = (f"{self.schema}_{who}_login" for who in ("w", "r", "n"))
        with closing(PostgresStore(url)) as store:
            run = plan_run(store)
            accept(store, run, claimed("a"), finished("a"), blobs=(b"blob",))
        for login in (self.worker, self.reader, self.nobody):
            db.execute(f"CREATE ROLE {login} LOGIN")
        self.roles = PostgresScheme().set_up_roles(url, [self.worker], [self.reader])

    def address(self, login: str) -> str:
        return self.url.replace("://peira@", f"://{login}@")

    def refused(self, login: str, statement: str) -> bool:
        """Whether a statement is refused to a login for want of rights."""
        with psycopg.connect(Address.parse(self.address(login)).server) as db:
            db.execute(f"SET search_path = {self.schema}")
            try:
                db.execute(statement)
            except psycopg.errors.InsufficientPrivilege:
                return True
            finally:
                db.rollback()
        return False

    def drop(self) -> None:
        for role in (self.worker, self.reader, self.nobody, self.roles.worker, self.roles.reader):
            self.db.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")


@pytest.fixture
def logins(postgres_url: str, postgres_server: str) -> Iterator[Logins]:
    if "://peira@" not in postgres_url:
        pytest.skip("roles are tried on the server of the tests")
    with psycopg.connect(postgres_server, autocommit=True) as db:
        made = Logins(postgres_url, db)
        yield made
        made.drop()


HISTORY = [
    "UPDATE event SET body = 'x'",
    "DELETE FROM event",
    "TRUNCATE event",
    "UPDATE blob SET data = 'x'",
    "DELETE FROM blob",
    "DELETE FROM task",
    "DELETE FROM call",
    "DELETE FROM run",
    "DELETE FROM run_tag",
    "DELETE FROM head",
    "DELETE FROM member",
    "UPDATE store SET version = 7",
    "CREATE TABLE mine (x int)",
    "CREATE SCHEMA mine",
    "DROP TABLE event",
    "ALTER TABLE task ADD COLUMN x int",
    "CREATE OR REPLACE FUNCTION extended(bigint[], bigint[]) RETURNS bigint[] LANGUAGE sql AS 'SELECT $1'",
]
"""What nobody but the owner of the tables may do."""
WRITING = [
    "INSERT INTO event VALUES (1, 99, 99, 0, 'x')",
    "INSERT INTO command (id, body) VALUES ('x', 'x')",
    "UPDATE task SET state = 0",
    "UPDATE member SET state = 'dead'",
    "SELECT nextval('commit_number')",
]


def test_a_worker_writes_runs(logins: Logins) -> None:
    with closing(PostgresStore(logins.address(logins.worker))) as store:
        run = plan_run(store, tags=("nightly",))
        accept(store, run, claimed("b"), finished("b"), blobs=(b"more", b"large" * 50_000))
        intent = ev.CallIntended(digest("c"), 1, digest("call"), "m", store.put(b"request"), "0")
        accept(store, run, claimed("c"), intent)
        store.send_command("id", b"{}")
        assert store.pending_commands() == [("id", b"{}")]
        store.remove_command("id")
        accept(store, run, ev.RunFinished(ev.Status.completed))
        assert store.pending_commands() == []
        assert verify(store) == []
    with closing(PostgresStore(logins.url)) as store:
        assert verify(store) == []


def test_a_worker_changes_nothing_that_was_recorded(logins: Logins) -> None:
    for statement in HISTORY:
        assert logins.refused(logins.worker, statement), statement
        assert logins.refused(logins.reader, statement), statement


def test_a_worker_neither_deletes_runs_nor_makes_stores(logins: Logins) -> None:
    store = PostgresStore(logins.address(logins.worker))
    with pytest.raises((StoreFault, psycopg.errors.InsufficientPrivilege), match="permission denied"):
        store.retain(Retained({}, set(), set()))
    store.close()
    with pytest.raises(StoreFault, match="permission denied"):
        PostgresStore(logins.address(logins.worker).replace("schema=", "schema=other_"))
    with closing(PostgresStore(logins.url, readonly=True)) as reader:
        assert verify(reader) == []


def test_a_reader_looks_and_changes_nothing(logins: Logins) -> None:
    address = logins.address(logins.reader)
    with closing(PostgresStore(address, readonly=True)) as reader:
        assert len(reader.runs(RunQuery())) == 1
        assert verify(reader) == []
        with pytest.raises(StoreFault, match="permission denied"):
            reader.send_command("id", b"{}")
    with pytest.raises(StoreFault, match="permission denied"):
        PostgresStore(address)
    for statement in WRITING:
        assert not logins.refused(logins.worker, statement)
        assert logins.refused(logins.reader, statement)


def test_whoever_has_no_role_is_told_so(logins: Logins) -> None:
    with pytest.raises((StoreFault, StoreDamaged), match="permission denied"):
        PostgresStore(logins.address(logins.nobody), readonly=True)


def test_rights_stay_when_runs_are_deleted(logins: Logins) -> None:
    """Then all tables are new ones."""
    logins.db.execute(f"GRANT USAGE ON SCHEMA {logins.schema} TO {logins.nobody}")
    logins.db.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA {logins.schema} TO {logins.nobody}")
    with closing(PostgresStore(logins.url)) as store:
        store.retain(Retained({}, {digest("a")}, set()))
    for login in (logins.reader, logins.nobody):
        with closing(PostgresStore(logins.address(login), readonly=True)) as reader:
            assert verify(reader) == []
    with closing(PostgresStore(logins.address(logins.worker))) as store:
        plan_run(store)
    assert logins.refused(logins.worker, "DELETE FROM event")
    assert logins.refused(logins.reader, "UPDATE task SET state = 0")


def test_the_rights_on_every_table_are_decided(logins: Logins) -> None:
    rows = logins.db.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (logins.schema,))
    assert {row[0] for row in rows} == roles.WORKER.keys()


def test_setting_up_twice_is_as_once_and_takes_back_what_was_too_much(logins: Logins) -> None:
    logins.db.execute(f"GRANT DELETE ON {logins.schema}.event TO {logins.roles.worker}")
    assert not logins.refused(logins.worker, "DELETE FROM event")
    assert PostgresScheme().set_up_roles(logins.url, [], []) == logins.roles
    assert logins.refused(logins.worker, "DELETE FROM event")


def test_what_cannot_be_set_up_is_said_at_once(logins: Logins, postgres_url: str) -> None:
    scheme = PostgresScheme()
    with pytest.raises(Invalid) as raised:
        scheme.set_up_roles(postgres_url, ["nosuch1"], ["nosuch2"])
    assert len(raised.value.problems) == 2
    with pytest.raises(Invalid, match="may not set up roles"):
        scheme.set_up_roles(logins.address(logins.worker), [], [])
    with pytest.raises(Unknown, match="there is no store"):
        scheme.set_up_roles(f"{postgres_url}_nosuch{os.getpid()}", [], [])
