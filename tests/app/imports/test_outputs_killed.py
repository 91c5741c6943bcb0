"""Taking outputs in is durable, and never holds a large file."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from peira.app import open as look_at
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

SCRIPT = """
import resource, sys
from peira.app.imports.outputs import import_outputs
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
done = import_outputs(sys.argv[1], name="big", store=sys.argv[2], progress=False)
print(done.recorded, done.same, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - base) // 1024)
"""


def imported(begin: Callable[..., Any], path: Path, store: Path, failpoint: str = "") -> tuple[int, str, str]:
    """In a process of its own: its exit code, and what it said."""
    script = path.with_suffix(".py")
    script.write_text(SCRIPT)
    process = begin(
        [sys.executable, str(script), str(path), str(store)],
        env={**os.environ, "PEIRA_FAILPOINT": failpoint},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


@pytest.mark.parametrize(
    "place",
    ["store.before_commit:3", "store.after_commit:4", "engine.before_end:2", "engine.before_finish:1"],
)
def test_killed_in_the_middle_nothing_is_lost_or_doubled(tmp_path: Path, place: str, warm: Any) -> None:
    path, store = tmp_path / "x.jsonl", tmp_path / "x.db"
    rows = [{"case": n, "output": f"said {n}" * 400} for n in range(1500)]
    path.write_text("".join(json.dumps(one) + "\n" for one in rows))
    assert imported(warm.start, path, store, place)[0] == -9
    code, said, problem = imported(warm.start, path, store)
    assert code == 0, problem
    recorded, same, _ = map(int, said.split())
    assert recorded + same == 1500
    with closing(SqliteStore(store, readonly=True)) as opened:
        assert verify(opened) == []
    found = look_at(store).results()
    assert {t.case_id: t.output for t in found} == {str(one["case"]): one["output"] for one in rows}


def test_a_large_file_is_never_held(tmp_path: Path) -> None:
    path = tmp_path / "big.jsonl"
    with path.open("w") as file:
        for n in range(500):
            file.write(json.dumps({"case": n % 100, "output": f"{n} " * 25_000}) + "\n")
    assert path.stat().st_size > 45_000_000
    _, said, _ = imported(subprocess.Popen, path, tmp_path / "x.db")
    recorded, _, grown = map(int, said.split())
    assert recorded == 500
    assert grown < 60  # MiB, beyond what the program itself takes
