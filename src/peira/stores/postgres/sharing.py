"""How the processes that share a store do so: leases, ranges, duties; see `stores/sharing.py`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import psycopg
from psycopg.types.json import Jsonb

from peira.core.log.events import Status
from peira.errors import Fenced, StoreFault
from peira.stores.postgres.address import Address
from peira.stores.postgres.connection import (
    FENCED,
    PAUSE,
    Connection,
    connect,
    is_broken,
    translated,
)
from peira.stores.postgres.members import this_host
from peira.stores.rows import STATES
from peira.stores.sharing import STAGES, Heartbeat, LeasedRange, PoolDraw, PoolShare, SharedRun

LEASE = 30.0
"""Seconds after which a process that did not renew its lease is dead."""
LOST_LEASE = "the lease of this process has run out: others go on with what it had"


class PostgresSharing:
    """One member of a store, on a connection of its own that is opened again when it is lost.

    What it commits need not be durable at once: a range that was taken or done, and is not known to be after
    a crash of the server, is looked at once more.
    """

    def __init__(self, address: Address, me: int, lease: float) -> None:
        self._address, self._me, self.lease = address, me, lease
        self._host = this_host()
        self._lock = threading.Lock()
        self._db: Connection | None = None

    def beat(self, run: str, failures: int = 0) -> Heartbeat:
        [row] = self._rows("SELECT * FROM beat(%s, %s, %s, %s)", (self._me, run, failures, self._host))
        status, version, stop, failed, left, opened, taken, members, gone, numbers, processes = row
        return Heartbeat(
            Status(status or Status.deleted),
            version or 0,
            bytes(stop or b""),
            int(failed),
            left or 0,
            opened,
            taken,
            max(1, members),
            tuple(gone),
            tuple(zip(numbers, processes, strict=True)),
        )

    def living(self) -> frozenset[str]:
        return frozenset(str(n) for (n,) in self._rows("SELECT n FROM member WHERE state = 'alive'"))

    def may_write(self, owner: str) -> bool:
        rows = self._rows(
            "SELECT 1 FROM member WHERE n::text = %s AND until IS NOT NULL AND state IN ('alive', 'dead')",
            (owner,),
        )
        return bool(rows)

    def now(self) -> float:
        [(now,)] = self._rows("SELECT extract(epoch FROM clock_timestamp())::double precision")
        return float(now)

    def ended(self, members: Collection[int]) -> None:
        self._rows(
            "UPDATE member SET state = 'gone' WHERE n = ANY(%s) AND state IN ('alive', 'dead') RETURNING n",
            (sorted(members),),
        )

    def released(self, members: Collection[int]) -> None:
        self._rows("SELECT release_members(%s)", (sorted(members),))

    def share(self, run: str, trials: int, options: bytes) -> None:
        self._rows(
            "INSERT INTO shared_run (id, trials, options) VALUES (%s, %s, %s) RETURNING n",
            (run, trials, options),
        )

    def runs(self) -> list[SharedRun]:
        return shared_runs(lambda query, values: self._rows(query, values))

    def take(self, run: str, size: int, members: int, classes: Sequence[str] = STAGES) -> LeasedRange | None:
        [row] = self._rows(
            "SELECT * FROM take_range(%s, %s, %s, %s, %s)",
            (self._me, run, size, members, list(classes)),
            sync=True,  # a server that crashes must not hand it out again
        )
        return None if row[0] is None else LeasedRange(*row)

    def lost_range(self, run: str, known: Collection[int]) -> LeasedRange | None:
        rows = self._rows(
            "SELECT r.first, r.size, r.lost FROM leased_range AS r JOIN shared_run AS s ON s.n = r.shared "
            "WHERE s.id = %s AND r.state = 'taken' AND r.member = %s AND NOT r.first = ANY(%s::bigint[]) "
            "ORDER BY r.first LIMIT 1",
            (run, self._me, sorted(known)),
        )
        return LeasedRange(*rows[0]) if rows else None

    def may_take(self, run: str, classes: Sequence[str]) -> bool:
        [(found,)] = self._rows(
            "SELECT s.next < s.trials OR EXISTS (SELECT 1 FROM leased_range WHERE shared = s.n AND "
            "(state = 'taken' OR state = 'free' AND (needs = '{}' OR needs && %s))) "
            "FROM shared_run AS s WHERE s.id = %s",
            (list(classes), run),
        )
        return bool(found)

    def done(self, run: str, leased: LeasedRange, counts: Mapping[str, int]) -> None:
        self._mark(run, leased, counts, "done")

    def free(
        self, run: str, leased: LeasedRange, counts: Mapping[str, int], needs: Collection[str] = ()
    ) -> None:
        self._mark(run, leased, counts, "free", needs)

    def park(self, run: str, leased: LeasedRange, counts: Mapping[str, int]) -> None:
        self._mark(run, leased, counts, "waiting")

    def _mark(
        self,
        run: str,
        leased: LeasedRange,
        counts: Mapping[str, int],
        state: str,
        needs: Collection[str] = (),
    ) -> None:
        self._rows(
            "UPDATE leased_range SET state = %s, counts = %s, needs = %s "
            "WHERE shared = (SELECT n FROM shared_run WHERE id = %s) AND first = %s AND member = %s "
            "AND state IN ('taken', 'waiting') RETURNING first",
            (state, Jsonb(dict(counts)), sorted(needs), run, leased.first, self._me),
        )

    def resume(self, run: str) -> bool:
        [(resumed,)] = self._rows("SELECT resume_ranges(%s, %s)", (self._me, run))
        return bool(resumed)

    def close_ranges(self, run: str, stopped: bool) -> bool:
        [(closed,)] = self._rows("SELECT close_ranges(%s, %s)", (run, stopped))
        return bool(closed)

    def draw(self, run: str, scope: str, most: float, before: float, need: float) -> PoolDraw:
        [row] = self._rows(
            "SELECT * FROM draw_share(%s, %s, %s, %s::double precision, %s::double precision, "
            "%s::double precision)",
            (self._me, run, scope, most, before, need),
            sync=True,
        )
        return PoolDraw(*row)

    def settle(
        self, run: str, scope: str, share: float, used: float, settled: float, everything: bool = False
    ) -> float:
        [(left,)] = self._rows(
            "SELECT settle_share(%s, %s, %s, %s::double precision, %s::double precision, "
            "%s::double precision, %s)",
            (self._me, run, scope, share, used, settled, everything),
        )
        return float(left)

    def shares(self, members: Collection[int]) -> list[PoolShare]:
        rows = self._rows(
            "SELECT s.id, p.scope, p.member, p.granted FROM pool_share AS p JOIN shared_run AS s "
            "ON s.n = p.shared WHERE p.member = ANY(%s) AND p.granted > p.settled",
            (sorted(members),),
        )
        return [PoolShare(*row) for row in rows]

    def give_back(self, share: PoolShare, spent: float) -> None:
        self._rows(
            "SELECT reclaim_share(%s, %s, %s, %s::double precision)",
            (share.run, share.scope, share.member, spent),
        )

    def take_turns(self, model: str, interval: float, n: int) -> float:
        [(delay,)] = self._rows("SELECT take_turns(%s, %s::double precision)", (model, n * interval))
        return float(delay)

    def use_tokens(self, model: str, more: float) -> float:
        [(delay,)] = self._rows("SELECT use_tokens(%s, %s::double precision)", (model, more))
        return float(delay)

    def hold_slots(self, model: str, most: int, using: int, wanted: int) -> int:
        [(slots,)] = self._rows(
            "SELECT hold_slots(%s, %s, %s, %s, %s)", (self._me, model, most, using, wanted)
        )
        return int(slots)

    def close_model(self, model: str, seconds: float) -> None:
        self._rows("SELECT close_model(%s, %s::double precision)", (model, seconds))

    def model_state(self, model: str) -> tuple[float, float]:
        rows = self._rows(
            "SELECT closed_until - now.at, tokens_due - now.at FROM model_limit, "
            "(SELECT extract(epoch FROM clock_timestamp())::double precision AS at) AS now WHERE name = %s",
            (model,),
        )
        return (float(rows[0][0]), max(0.0, float(rows[0][1]))) if rows else (0.0, 0.0)

    def stop(self, run: str, why: bytes) -> None:
        self._rows(
            "UPDATE shared_run SET stop = %s WHERE id = %s AND stop = '' RETURNING n", (why, run), sync=True
        )

    def close_plan(self, run: str) -> None:
        self._rows("UPDATE shared_run SET next = trials WHERE id = %s AND next < trials RETURNING n", (run,))

    def hold(self, duty: str, seconds: float) -> bool:
        [(ours,)] = self._rows("SELECT hold_duty(%s, %s, %s::double precision)", (self._me, duty, seconds))
        return bool(ours)

    def counts(self, run: str) -> tuple[dict[str, int], dict[str, int]]:
        tasks = self._rows(
            "SELECT kind, state, count(*) FROM task WHERE run = (SELECT n FROM run WHERE id = %s) "
            "AND reused_from IS NULL GROUP BY kind, state",
            (run,),
        )
        kinds = self._rows(
            "SELECT key, sum(value::bigint)::bigint FROM leased_range, jsonb_each_text(counts) "
            "WHERE shared = (SELECT n FROM shared_run WHERE id = %s) GROUP BY key",
            (run,),
        )
        return {f"{kind}.{STATES[state]}": n for kind, state, n in tasks}, dict(kinds)

    def close(self) -> None:
        with self._lock:
            if self._db is not None:
                self._db.close()

    def _rows(self, query: str, parameters: Sequence[Any] = (), sync: bool = False) -> list[tuple[Any, ...]]:
        """The rows that a statement gives; a lost connection is opened again, and the statement repeated."""
        deadline = time.monotonic() + self._address.reconnect
        while True:
            try:
                with self._lock, translated(self._address):
                    return self._execute(query, parameters, sync)
            except StoreFault as fault:
                cause = fault.__cause__
                if isinstance(cause, psycopg.Error) and cause.sqlstate == FENCED:
                    raise Fenced(LOST_LEASE) from None
                lost = cause is None or self._db is None or is_broken(self._db, cause)
                if not lost or time.monotonic() > deadline:
                    raise
                if self._db is not None:
                    self._db.close()
                time.sleep(PAUSE)

    def _execute(self, query: str, parameters: Sequence[Any], sync: bool) -> list[tuple[Any, ...]]:
        if self._db is None or self._db.closed:
            self._db = connect(self._address, idle=self.lease)
            self._db.execute("SET synchronous_commit = off")
        if not sync:
            return self._db.execute(query, parameters).fetchall()
        with self._db.transaction():
            self._db.execute("SET LOCAL synchronous_commit = on")
            return self._db.execute(query, parameters).fetchall()


def shared_runs(rows: Callable[[str, Sequence[Any]], list[Any]], run: str = "") -> list[SharedRun]:
    """The shared runs that have not ended, oldest first, or only this one; `rows` executes a query."""
    which = "r.id = %s" if run else "r.status IN ('planned', 'running', 'paused', 'cancelling')"
    found = rows(
        "SELECT s.id, r.status, s.options, (SELECT count(*) FROM member WHERE shared_run = s.id "
        "AND state = 'alive' AND until > extract(epoch FROM clock_timestamp())), s.stop "
        f"FROM shared_run AS s JOIN run AS r ON r.id = s.id WHERE {which} ORDER BY s.n",
        (run,) if run else (),
    )
    return [
        SharedRun(id, Status(status), bytes(options), members, bytes(stop))
        for id, status, options, members, stop in found
    ]
