"""A store in Postgres as each version of peira wrote it, as SQL: postgres_schemas/VERSION.sql, never changed.

`python tests/stores/postgres/former_postgres.py` writes the file of the version that the code has now. It
holds whatever a store can: runs in several states, tags, tasks, steps, calls and blobs.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import msgspec

from peira.core.ids import digest
from peira.core.log import events as ev
from peira.stores.postgres.schema import MIGRATIONS
from peira.stores.postgres.server import PrivateServer, programs
from peira.stores.postgres.store import PostgresStore
from peira.testing.stores.actions import accept, claimed, finished, plan_run, queued, recorded, spec

FOLDER = Path(__file__).parent / "postgres_schemas"
NAME = "former_store"
"""The schema in the files, to be replaced by another."""


class FixedClock:
    def now(self) -> float:
        return 1_760_000_000.0

    def monotonic(self) -> float:
        return 0.0


def fill(store: PostgresStore) -> None:
    """Record something of every kind."""
    run = plan_run(store, tags=("nightly",))
    accept(store, run, claimed("a", "b"), recorded("a", "s"), finished("a"), blobs=(b"blob" * 300,))
    accept(store, run, queued(spec("c")), recorded("b", "t"))
    request = store.put(b"request")
    accept(store, run, ev.CallIntended(digest("b"), 1, digest("call"), "m", request, "0"))
    accept(store, run, ev.RunFinished(ev.Status.interrupted, {"work.succeeded": 1}))
    accept(
        store,
        run,
        ev.CallAnswered(digest("b"), digest("call"), msgspec.Raw(b"1"), input=3, output=4, cost=0.5),
    )
    other = plan_run(store)
    accept(store, other, ev.TasksInterrupted((digest("b"),)), claimed("b", epoch=2))


def write() -> None:
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    server = PrivateServer(folder / "server")
    server.start()
    try:
        store = PostgresStore(f"{server.url}&schema={NAME}", clock=FixedClock())
        fill(store)
        store.close()
        dump = [str(programs() / "pg_dump"), "--inserts", "--no-owner", "--schema", NAME, server.url]
        said = subprocess.run(dump, capture_output=True, check=True, text=True).stdout
    finally:
        server.stop()
        shutil.rmtree(folder)
    kept = [
        line
        for line in said.splitlines()
        if line and not line.startswith(("--", "SET ", "SELECT pg_catalog.set_config", "\\"))
    ]
    text = re.sub(
        rf"(INSERT INTO {NAME}\.member VALUES \(\d+, )'[^']*', \d+, \d+", r"\1'host', 1, 1", "\n".join(kept)
    )
    FOLDER.mkdir(exist_ok=True)
    (FOLDER / f"{len(MIGRATIONS)}.sql").write_text(text + "\n")


if __name__ == "__main__":
    write()
