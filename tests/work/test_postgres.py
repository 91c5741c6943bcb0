"""`peira work` on a store in Postgres: real processes that see each other only through it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from peira.sandbox.confinement import confinement

from .conftest import SLEEP, sleepers, until

pytestmark = [
    pytest.mark.timeout(300),
    pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}"),
]
PLAN = """
base = "base"
[units.api]
run = ["sh", "-c", "echo begun; while [ ! -e {flag} ]; do sleep 0.05; done; echo done; echo x > api/x"]
may_write = ["api"]
confine = false
[units.docs]
needs = ["api"]
run = ["sh", "-c", "echo writing; cp api/x docs/x"]
may_write = ["docs"]
"""
Command = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def url(postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return postgres_url


@pytest.fixture
def work(folder: Path, url: str) -> Iterator[Command]:
    """Starts `peira work ...` on the store in a process of its own."""
    processes: list[subprocess.Popen[str]] = []

    def start(*words: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "peira", "work", *words, "--store", url],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=120)
    return process.returncode, out, err


def written(folder: Path) -> str:
    (folder / "plan.toml").write_text(PLAN.replace("{flag}", str(folder / "flag")))
    return "plan.toml"


def shown(work: Command) -> dict[str, Any]:
    """What `peira work show` says; nothing while there is no run."""
    code, out, _ = ended(work("show", "--json"))
    return dict(json.loads(out)) if code == 0 else {}


def state(work: Command, unit: str) -> str:
    return str(shown(work).get("units", {}).get(unit, {}).get("state", ""))


def test_logs_are_followed_while_another_process_works(work: Command, folder: Path) -> None:
    """The first line comes before the unit has ended; the last one ends the command."""
    working = work(written(folder), "--json")
    until(lambda: state(work, "api") == "running")
    following = work("logs", "api", "--follow")
    assert following.stdout is not None
    assert following.stdout.readline() == "begun\n"
    assert following.poll() is None
    assert working.poll() is None
    (folder / "flag").touch()
    assert ended(following) == (0, "done\n", "")
    code, out, _ = ended(working)
    assert code == 0
    assert {name: one["state"] for name, one in json.loads(out)["units"].items()} == {
        "api": "succeeded",
        "docs": "succeeded",
    }
    assert ended(work("logs", "docs", "--follow")) == (0, "writing\n", "")
    code, out, _ = ended(work("merge", "--apply", "--json"))
    assert (code, json.loads(out)["changed"]) == (0, ["api/x", "docs/x"])
    assert (folder / "base" / "docs" / "x").read_text() == "x\n"


def test_work_goes_on_after_a_kill_and_is_not_done_twice(work: Command, folder: Path) -> None:
    plan = (
        PLAN.replace("echo writing;", f"echo writing; test -e {folder / 'again'} || sleep {SLEEP};")
        + "confine = false\n"
    )
    (folder / "plan.toml").write_text(plan.replace("{flag}", str(folder / "flag")))
    (folder / "flag").touch()
    working = work("plan.toml", "--json")
    until(sleepers)
    os.killpg(working.pid, signal.SIGKILL)
    working.wait(20)
    (folder / "again").touch()
    code, out, _ = ended(work("plan.toml", "--json", "--wait", "60"))
    document = json.loads(out)
    assert (code, document["units"]["api"]["reused"]) == (0, True)
    assert document["units"]["docs"]["state"] == "succeeded"
    assert until(lambda: not sleepers()), "what the killed process had started lives on"


def test_a_unit_is_cancelled_from_another_process_and_retried(work: Command, folder: Path) -> None:
    working = work(written(folder), "--json")
    until(lambda: state(work, "api") == "running")
    code, _, _ = ended(work("cancel", "api"))
    assert code == 0
    code, out, _ = ended(working)
    assert code == 1
    assert {name: one["state"] for name, one in json.loads(out)["units"].items()} == {
        "api": "cancelled",
        "docs": "blocked",
    }
    (folder / "flag").touch()
    code, out, _ = ended(work("retry", "api", "--json"))
    assert (code, state(work, "docs")) == (0, "succeeded")
