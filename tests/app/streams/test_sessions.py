"""Sessions that jobs share: no update is lost, none is made twice, and shadows change nothing."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from peira import open, serve, session, stream
from peira.errors import Invalid, JobFailed
from peira.spec.limits import Policy
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

pytestmark = pytest.mark.timeout(120)


def counted(table: dict[str, Any]) -> dict[str, Any]:
    return {**table, "n": table.get("n", 0) + 1}


def counting(case: Any) -> Any:
    return session().update(counted)["n"]


SHARED: dict[str, Any] = {"session": "input.customer", "isolation": "shared", "parallel": 8}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "live.db"


def sound(store: Path) -> None:
    opened = SqliteStore(store, readonly=True)
    assert list(verify(opened)) == []
    opened.close()


def test_no_update_is_lost_at_any_parallelism(store: Path) -> None:
    with serve(stream(counting, **SHARED), store=store) as host:
        jobs = host.submit_many("counting", [{"input": {"customer": n % 2}} for n in range(60)])
        seen = sorted(job.result(60) for job in jobs)
    assert seen == sorted([*range(1, 31)] * 2)
    sound(store)


def test_what_is_read_and_written_is_replayed_and_not_done_again(store: Path) -> None:
    attempts = list[Any]()

    def flaky(case: Any) -> Any:
        here = session()
        before = here.get("n", 0)
        here.set("n", before + 1)
        here.update(lambda table: {**table, "m": table["n"] * 10})
        attempts.append(before)
        if len(attempts) == 1:
            raise ConnectionError("once more")
        return here.get()

    made = stream(flaky, policy=Policy(retries=2, backoff=0), **SHARED)
    with serve(made, store=store) as host:
        assert host.submit("flaky", {"customer": 7}).result(30) == {"n": 1, "m": 10}
        assert attempts == [0, 0], "the second attempt read what the first one did"
        assert host.submit("flaky", {"customer": 7}).result(30) == {"n": 2, "m": 20}
        assert host.submit("flaky", {"customer": 8}).result(30) == {"n": 1, "m": 10}
    sound(store)


def test_streams_that_name_the_same_sessions_share_them(store: Path) -> None:
    def reading(case: Any) -> Any:
        return session().get("n", 0)

    one = stream(counting, sessions="customers", **SHARED)
    two = stream(reading, sessions="customers", **SHARED)
    apart = stream(reading, name="apart", **SHARED)
    with serve(one, two, apart, store=store) as host:
        for n in (1, 2):
            assert host.submit("counting", {"customer": 1}).result(30) == n
        assert host.submit("reading", {"customer": 1}).result(30) == 2
        assert host.submit("reading", {"customer": 2}).result(30) == 0
        assert host.submit("apart", {"customer": 1}).result(30) == 0


def test_shadows_read_a_session_and_change_nothing(store: Path) -> None:
    def styled(case: Any, style: str) -> Any:
        return [style, session().update(counted)["n"]]

    made = stream(styled, factors={"style": ["a", "b"]}, assign="all", **SHARED)
    with serve(made, store=store) as host:
        for n in (1, 2, 3):
            assert host.submit("styled", {"customer": 1}).result(30) == ["a", n]
        host.drain()
    sound(store)


def test_jobs_without_a_session_are_told_so(store: Path) -> None:
    isolated = stream(counting, name="isolated", session="input.c")
    alone, shared = stream(counting, name="alone"), stream(counting, **SHARED)
    with serve(alone, shared, isolated, store=store) as host:
        for name, input in (("alone", {}), ("counting", {}), ("isolated", {"c": 1})):
            with pytest.raises(JobFailed, match="this is no job of a session"):
                host.submit(name, input).result(30)
    with pytest.raises(Invalid, match="needs a session"):
        stream(counting, isolation="shared")
    with pytest.raises(Invalid, match="sessions: has no effect"):
        stream(counting, sessions="x", session="input.a")


KILLED = """
import sys
from peira import serve, session, stream

def counted(table):
    return {**table, "n": table.get("n", 0) + 1}

@stream(session="input.customer", isolation="shared", parallel=3)
def counting(case):
    session().update(counted)
    return session().get("n")

host = serve(counting, store="live.db")
host.submit_many("counting", [{"input": {"customer": n % 2}, "key": f"k{n}"} for n in range(12)])
host.drain()
host.stop()
"""


@pytest.mark.parametrize("point", ["step.before_record:4", "step.after_record:7", "store.after_commit:9"])
def test_a_killed_job_never_writes_twice(tmp_path: Path, warm: Any, point: str) -> None:
    (tmp_path / "killed.py").write_text(KILLED)
    codes = []
    for armed in (point, ""):
        environment = {**os.environ, "PEIRA_FAILPOINT": armed}
        done = warm.run([sys.executable, "killed.py"], cwd=tmp_path, env=environment)
        codes.append(done.returncode)
    assert codes == [-signal.SIGKILL, 0], done.stderr
    view = open(tmp_path / "live.db").stream("counting")
    seen = sorted(view.result(str(job["job"]), 0) for job in view.jobs())
    assert len(seen) == 12
    assert seen[-1] == 6, "each of two sessions was counted six times"
    sound(tmp_path / "live.db")
