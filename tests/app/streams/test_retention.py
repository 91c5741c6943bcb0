"""What is kept of ended jobs: by count, age and size; nothing is taken from who waits, or from others."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira import entry_streams, graph, open, serve, session, stream
from peira.app.streams.retention import EndedJob, JobRetention, expired_jobs
from peira.errors import Invalid, NotKept
from peira.spec.streams.stream import JobKeep
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

pytestmark = pytest.mark.timeout(120)


def echo(case: Any) -> Any:
    return {"same": "for all"} if case.input == "same" else case.input


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 50)), max_size=20),
    st.none() | st.integers(0, 100),
    st.none() | st.integers(0, 10),
    st.none() | st.integers(0, 200),
)
def test_what_is_kept_is_within_every_limit_and_the_newest(
    jobs: list[tuple[int, int]], age: int | None, count: int | None, size: int | None
) -> None:
    ended = [EndedJob(str(n), float(at), bytes_) for n, (at, bytes_) in enumerate(jobs)]
    gone = set(expired_jobs(ended, JobKeep(age=age, count=count, size=size), now=100.0))
    kept = [job for job in ended if job.id not in gone]
    assert count is None or len(kept) <= count
    assert age is None or all(100 - job.at <= age for job in kept)
    assert size is None or sum(job.size for job in kept) <= size
    if age is None and count is None and size is None:
        assert not gone
    for job in kept:
        assert all(other.at <= job.at for other in ended if other.id in gone) or size is not None or count


def test_the_newest_stay_and_shared_outputs_are_taken_from_nobody(tmp_path: Path) -> None:
    store = tmp_path / "live.db"
    with serve(stream(echo, keep={"count": 2}), store=store) as host:
        jobs = [host.submit("echo", "same" if n % 2 else {"n": n}, key=f"k{n}") for n in range(5)]
        assert all(job.wait(30) for job in jobs)
        time.sleep(0.01)
        retention = JobRetention(host.store, {"echo": JobKeep(count=2)}, print, grace=0.0, look=60.0)
        retention.look()
        retention.stop()
        for n in (0, 2):
            with pytest.raises(NotKept, match="its output was not kept"):
                jobs[n].result(0)
            assert jobs[n].state == "succeeded"
        assert jobs[3].result(0) == jobs[1].result(0) == {"same": "for all"}
        assert jobs[4].result(0) == {"n": 4}
        assert host.stream("echo").document(jobs[0].id)["kept"] is False
        assert host.submit("echo", 9, key="k0").id == jobs[0].id, "a key is known for ever"
    assert len(open(store).stream("echo").results().trials) == 2
    opened = SqliteStore(store, readonly=True)
    assert list(verify(opened)) == []
    opened.close()


def test_a_waiter_gets_its_result_however_little_is_kept(tmp_path: Path) -> None:
    with serve(stream(echo, keep={"count": 0}), store=tmp_path / "live.db") as host:
        retention = JobRetention(host.store, {"echo": JobKeep(count=0)}, print, look=0.01)
        found, failed = list[Any](), list[BaseException]()

        def wait(n: int) -> None:
            try:
                found.append(host.submit("echo", n).result(30))
            except BaseException as problem:
                failed.append(problem)

        waiters = [threading.Thread(target=wait, args=(n,)) for n in range(8)]
        for waiter in waiters:
            waiter.start()
        for waiter in waiters:
            waiter.join()
        retention.stop()
    assert (sorted(found), failed) == (list(range(8)), [])


def test_a_session_stays_when_the_job_that_wrote_it_goes(tmp_path: Path) -> None:
    def count(case: Any) -> Any:
        who = case.input["who"]
        return [who, session().update(lambda before: {"n": before.get("n", 0) + 1, "who": who})["n"]]

    made = stream(count, session="input.who", isolation="shared", keep={"count": 1})
    with serve(made, store=tmp_path / "live.db") as host:
        first = host.submit("count", {"who": "ann"}, key="first")
        assert first.result(30) == ["ann", 1]
        time.sleep(0.01)
        assert host.submit("count", {"who": "ben"}, key="second").result(30) == ["ben", 1]
        retention = JobRetention(host.store, {"count": JobKeep(count=1)}, print, grace=0.0, look=60.0)
        retention.look()
        retention.stop()
        with pytest.raises(NotKept):
            first.result(0)
        assert host.submit("count", {"who": "ann"}, key="third").result(30) == ["ann", 2]


def test_a_store_that_cannot_let_go_of_payloads_is_told_at_once(postgres_url: str) -> None:
    with pytest.raises(Invalid, match=r"streams\.echo\.keep: this kind of store keeps all payloads"):
        serve(stream(echo, keep={"count": 2}), store=postgres_url)


def test_entry_points_of_a_graph_are_streams_over_one_agent(tmp_path: Path) -> None:
    def plan(case: Any) -> Any:
        return ["planned", session().update(lambda table: {"n": table.get("n", 0) + 1})["n"]]

    def act(case: Any) -> Any:
        return ["acted", session().get("n", 0)]

    made = graph(
        nodes={"plan": plan, "act": act},
        edges=[],
        start={"chat": "plan", "tick": "act"},
        ends=["plan", "act"],
    )
    streams = entry_streams(made, session="input.customer", isolation="shared", sessions="customers")
    assert [one.name for one in streams] == ["chat", "tick"]
    with serve(*streams, store=tmp_path / "live.db") as host:
        assert host.submit("chat", {"customer": 1}).result(30) == ["planned", 1]
        assert host.submit("tick", {"customer": 1}).result(30) == ["acted", 1]
    with pytest.raises(Invalid, match="several entry points"):
        entry_streams(graph(nodes={"act": act}, edges=[], start="act", ends=["act"]))
