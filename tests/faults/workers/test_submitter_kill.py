"""kill -9 of `peira run --workers N`: its workers go on, and the run is watched from elsewhere to its end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import peira
from peira.app.session import Session
from peira.app.store.follower import Follower
from peira.app.workers import WorkerOptions, work
from peira.core.contracts import RunQuery
from peira.core.log.events import RunFinished, Status, TaskFinished
from peira.stores.verify import verify

STUDY = """
import time
from peira import Case, exact, study


@study(cases=[Case(i, expected=i) for i in range(60)], evaluators=[exact()])
def slow(case):
    time.sleep(0.1)
    return case.input
"""


@pytest.fixture
def submit(
    warm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, postgres_url: str
) -> Callable[..., Any]:
    """Begins `peira run --workers N`, which is killed at a failpoint if one is named."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    Path("slow.py").write_text(STUDY)

    def begun(workers: int, failpoint: str = "") -> Any:
        command = [sys.executable, "-m", "peira.cli", "run", "slow.py", "--quiet", "--parallel", "2"]
        command += ["--store", postgres_url, "--workers", str(workers)]
        env = {**os.environ, "PEIRA_FAILPOINT": failpoint}
        return warm.start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=env)

    return begun


def wait_for(condition: Callable[[], Any]) -> Any:
    until = time.monotonic() + 50
    while not (found := condition()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def newest(address: str) -> Any:
    """The newest run of the store, if there is one."""
    session = Session.find(address)
    if not session.exists:
        return None
    with session.reading() as store:
        found = store.runs(RunQuery(limit=1))
        return found[0] if found else None


def ends(address: str, run: str, kind: type) -> int:
    with Session.find(address).reading() as store:
        return sum(isinstance(record.event, kind) for record in store.events(run, 0, 100_000))


def test_the_workers_of_a_killed_submitter_go_on(submit, postgres_url):
    submitter = submit(2)
    run = wait_for(lambda: (found := newest(postgres_url)) and found.status is Status.running and found)
    wait_for(lambda: ends(postgres_url, run.id, TaskFinished) > 4)
    submitter.kill()
    submitter.wait(timeout=20)
    follower = Follower(postgres_url, run.id)
    wait_for(lambda: (follower.look(), follower.over)[1])
    assert follower.run.status is Status.completed
    assert follower.run.counts["generate.succeeded"] == 60
    assert ends(postgres_url, run.id, RunFinished) == 1
    with Session.find(postgres_url).reading() as store:
        assert verify(store) == []


def test_a_run_whose_submitter_is_killed_before_it_has_workers_waits_for_some(submit, postgres_url):
    assert submit(2, "shared.after_submit").wait(timeout=50) == -9
    run = newest(postgres_url)
    assert peira.open(postgres_url).run(run.id).status is Status.planned
    ended = work(Session.find(postgres_url), WorkerOptions(parallel=16))
    assert ended is not None
    assert ended.status is Status.completed
