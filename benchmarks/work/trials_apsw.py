"""The lower bound: bare rows into SQLite through apsw, 100 per transaction, as durable as peira."""

from __future__ import annotations

import json
import random
from pathlib import Path

import apsw
from meter import WARM_UP, arguments, measure, warm_up_folder

GROUP = 100
"""Rows per transaction."""


def insert(path: Path, bodies: list[bytes]) -> None:
    """Insert the rows in WAL mode with synchronous=full."""
    db = apsw.Connection(str(path))
    db.execute("pragma journal_mode=wal")
    db.execute("pragma synchronous=full")
    db.execute("create table row(n integer primary key, body blob not null)")
    for start in range(0, len(bodies), GROUP):
        db.execute("begin immediate")
        db.executemany(
            "insert into row(body) values (?)", ((body,) for body in bodies[start : start + GROUP])
        )
        db.execute("commit")
    db.close()


def main() -> None:
    parser = arguments()
    parser.add_argument("--row-bytes", type=int, required=True)
    args = parser.parse_args()
    rng = random.Random(0)
    bodies = [rng.randbytes(args.row_bytes) for _ in range(args.n)]
    insert(warm_up_folder(args.folder) / "raw.db", bodies[:WARM_UP])
    row, _ = measure(args.n, args.folder, lambda: insert(args.folder / "raw.db", bodies))
    print(json.dumps({"name": "raw apsw", "version": apsw.apsw_version(), **row}))


if __name__ == "__main__":
    main()
