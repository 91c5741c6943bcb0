"""Who may write a store: one row for each process that opened it for writing, and an advisory lock.

The owner holds the lock alone, on the connection it commits through: the server frees it when that process
or its machine ends. Every commit also updates the process's own row, and fails if another process has
declared it dead meanwhile.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

from peira.errors import StoreInUse
from peira.stores.postgres.address import Address
from peira.stores.postgres.connection import Connection

POLL = 0.05
"""Seconds between two tries of a process that waits for a store."""


def this_host() -> str:
    """Identifies the machine, and the container, in which the number of a process has a meaning."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()} {boot} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return socket.gethostname()


def try_lock(db: Connection, address: Address, shared: bool) -> bool:
    """Take the lock of the store if it is free: alone, or `shared` with others who share it."""
    kind = "_shared" if shared else ""
    row = db.execute(f"SELECT pg_try_advisory_lock{kind}(%s)", (address.lock_key,)).fetchone()
    return bool(row and row[0])


def lock(db: Connection, address: Address, wait: float | None, shared: bool, holder: Any) -> None:
    """Take the lock of the store, waiting up to `wait` seconds (None: for ever), or raise StoreInUse.

    `holder` is a function that gives the row of the process that has it, for the message.
    """
    deadline = None if wait is None else time.monotonic() + wait
    while not try_lock(db, address, shared):
        if deadline is not None and time.monotonic() >= deadline:
            if not shared and try_lock(db, address, shared=True):
                raise StoreInUse(
                    f"workers share the store {address}: give them the run (--workers), wait until they have "
                    "ended (--wait), or use another --store"
                )
            raise StoreInUse(in_use(address, holder()))
        time.sleep(POLL)


def in_use(address: Address, row: tuple[Any, ...] | None) -> str:
    """The message about a store that another process owns."""
    if row is None:
        who = "other processes"
    elif row[1] == this_host():
        who = f"process {row[2]}"
        if row[2] == os.getpid():
            return (
                f"the store {address} is in use by process {row[2]}, which is this very process: wait for "
                "its other run (wait=...), close the store that it has open, or use another one"
            )
    else:
        who = f"process {row[2]} on {row[1].split()[0]}"
    return f"the store {address} is in use by {who}: wait for it (--wait), watch it, or use another --store"


def join(db: Connection, lease: float | None) -> int:
    """Add this process to the members, and return its number, which no other process has had.

    Who holds the lock alone (no `lease`) declares all others dead: they have lost it, and may write no more.
    Who shares it, for a `lease` of so many seconds at first, knows this of those who held it alone.
    """
    with db.transaction():
        db.execute("LOCK TABLE member IN SHARE ROW EXCLUSIVE MODE")
        alone = "" if lease is None else " AND until IS NULL"
        db.execute(f"UPDATE member SET state = 'dead' WHERE state = 'alive'{alone}")
        if lease is None:
            # What those had who shared it is released by the next one who does.
            db.execute("UPDATE member SET released = true WHERE NOT released AND until IS NULL")
        row = db.execute(
            "INSERT INTO member (n, host, pid, backend, state, joined, until, lease) "
            "SELECT coalesce(max(n), 0) + 1, %s, %s, pg_backend_pid(), 'alive', "
            "extract(epoch FROM clock_timestamp()), extract(epoch FROM clock_timestamp()) + %s, %s "
            "FROM member RETURNING n",
            (this_host(), os.getpid(), lease, lease),
        ).fetchone()
    assert row is not None
    return int(row[0])


def rejoin(db: Connection, me: int) -> int | None:
    """Go on as the same member on a new connection: the number of its last commit; None if it is dead."""
    row = db.execute(
        "UPDATE member SET backend = pg_backend_pid() WHERE n = %s AND state = 'alive' RETURNING token", (me,)
    ).fetchone()
    return int(row[0]) if row else None


def leave(db: Connection, address: Address, me: int, shared: bool) -> None:
    """End the membership and free the lock."""
    db.execute("UPDATE member SET state = 'left' WHERE n = %s AND state = 'alive'", (me,))
    db.execute(f"SELECT pg_advisory_unlock{'_shared' if shared else ''}(%s)", (address.lock_key,))
