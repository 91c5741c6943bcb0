"""Connections to a Postgres server: opening them, their settings, and errors as one clear line."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict

from peira.errors import Invalid, StoreDamaged, StoreFault
from peira.stores.postgres.address import Address
from peira.stores.postgres.arrays import register

Connection = psycopg.Connection[tuple[Any, ...]]
Row = tuple[Any, ...]

PATIENCE = 10
"""Seconds in which the server has to accept a connection."""
KEEPALIVE = {"keepalives_idle": 10, "keepalives_interval": 5, "keepalives_count": 3}
"""Either side notices within half a minute that the other's machine is gone; the server frees its locks."""
UNHEARD = {"tcp_user_timeout": 25_000}
"""Milliseconds until what was sent and not received is given up."""
LOOK_UP = {"enable_seqscan": "off", "enable_hashjoin": "off", "enable_mergejoin": "off", "jit": "off"}
"""For sessions that read and write rows by their keys: the planner scans tables that are still small, and
goes on doing so when they have grown."""
PAUSE = 0.2
"""Seconds between two tries to connect."""
STOOD = psycopg.errors.IdleInTransactionSessionTimeout
"""The server has ended a session that did nothing within a transaction."""
LOSSES = (psycopg.OperationalError, psycopg.InterfaceError, STOOD)
"""What is raised when a connection is lost, and otherwise, too: see `is_broken`."""
STALE, FENCED, DRY = "PE001", "PE002", "PE003"
"""SQLSTATEs that the function `put` raises: rows have changed; this process no longer owns the store."""


def connect(
    address: Address, *, look_up: bool = False, readonly: bool = False, idle: float | None = None
) -> Connection:
    """A connection whose names are those of the store's schema; every statement is a transaction.

    `look_up` is for sessions that find rows by their keys. A session that does nothing for `idle` seconds
    within a transaction is ended: a process that stands would keep all others waiting for its locks.
    """
    try:
        options: dict[str, Any] = {"connect_timeout": PATIENCE, **KEEPALIVE, **UNHEARD}
        options = {
            key: value for key, value in options.items() if key not in conninfo_to_dict(address.server)
        }
        if address.password is not None:
            options["password"] = address.password
        db = psycopg.connect(
            address.server, autocommit=True, application_name="peira", prepare_threshold=1, **options
        )
    except (psycopg.Error, UnicodeError) as problem:
        raise unreachable(address, problem) from None
    try:
        settings: dict[str, Any] = dict(LOOK_UP if look_up else {})
        if readonly:
            settings["default_transaction_read_only"] = "on"
        if idle is not None:
            settings["idle_in_transaction_session_timeout"] = round(1000 * idle)
        settings |= {f"tcp_{name}": value for name, value in KEEPALIVE.items()}
        db.execute(sql.SQL("SET search_path = {}").format(sql.Identifier(address.schema)))
        db.execute("; ".join(f"SET {name} = {value}" for name, value in settings.items()))
        # What was acknowledged must be durable also where the server's default says otherwise.
        db.execute(
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') = 'off'"
        )
    except psycopg.Error as problem:
        db.close()
        raise unreachable(address, problem) from None
    register(db)
    return db


def unreachable(address: Address, problem: Exception) -> Invalid | StoreFault:
    """The error about a server that cannot be used: in one line, without a password."""
    text = _line(problem)
    if address.password:
        text = text.replace(address.password, "***")
    said = f"store {address.server}: {text}"
    if "password" in text or "authentication" in text:
        return Invalid(f"{said}; give the password by PGPASSWORD, a .pgpass file, or in the address")
    if isinstance(problem, (psycopg.ProgrammingError, UnicodeError)) and not isinstance(
        problem, psycopg.errors.Error
    ):
        return Invalid(said)
    if "does not exist" in text or "invalid" in text:
        return Invalid(said)
    return StoreFault(f"{said}; is the server running, and does it accept connections from here?")


def _line(problem: Exception) -> str:
    """The first line that says what is wrong."""
    lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
    text = lines[0] if lines else type(problem).__name__
    for prefix in ("connection failed: ", "connection is bad: "):
        text = text.removeprefix(prefix)
    if text.startswith("connection to server") and ": " in text and len(lines) == 1:
        return text
    return " ".join(lines[:2]) if text.endswith(("failed:", "error:")) else text


def is_broken(db: Connection, problem: BaseException) -> bool:
    """Whether the connection is lost, so that nothing is known about the last statement."""
    return isinstance(problem, LOSSES) and (
        db.closed
        or db.broken
        or isinstance(problem, (psycopg.errors.AdminShutdown, psycopg.errors.CrashShutdown, STOOD))
    )


@contextmanager
def translated(address: Address) -> Iterator[None]:
    """Errors of the database in the block as errors of a store."""
    try:
        yield
    except psycopg.errors.DataCorrupted as problem:
        raise StoreDamaged(f"the store {address} is damaged: {_line(problem)}") from problem
    except psycopg.Error as problem:
        raise StoreFault(f"the store {address} cannot be used: {_line(problem)}") from problem
