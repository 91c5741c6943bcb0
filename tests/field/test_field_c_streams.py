"""Breaks of execution streams elsewhere that need streams, people or triggers: each is impossible here."""

from __future__ import annotations

import signal
import subprocess
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from peira import after, ask_person, graph, open, serve, session, step, stream
from peira.app.inbox import answer_text, inbox
from peira.app.streams.retention import JobRetention
from peira.engine.streams.jobs import MOST_HOPS
from peira.errors import Invalid, JobFailed
from peira.spec.streams.stream import JobKeep

pytestmark = pytest.mark.timeout(120)
PATIENCE = 60.0


def until(holds: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "live.db"


def held_until(free: threading.Event) -> Any:
    def held(case: Any) -> Any:
        assert free.wait(PATIENCE)
        return case.input

    return stream(held, parallel=1)


def test_cancel_while_queued_hangs_the_waiter_and_leaves_it_pending_for_ever(store: Path) -> None:
    free = threading.Event()
    with serve(held_until(free), store=store) as host, ThreadPoolExecutor(1) as waiters:
        first, queued = host.submit("held", 1), host.submit("held", 2)
        until(lambda: first.state == "running")
        waiter = waiters.submit(queued.wait, PATIENCE)
        assert queued.cancel() is True
        assert waiter.result(PATIENCE) is True
        assert queued.state == "cancelled"
        free.set()
        assert first.result(PATIENCE) == 1


def test_stop_with_work_running_raises_and_hangs_waiters(store: Path) -> None:
    free = threading.Event()
    host = serve(held_until(free), store=store)
    jobs = [host.submit("held", n) for n in range(5)]
    until(lambda: jobs[0].state == "running")
    with ThreadPoolExecutor(6) as threads:
        waiters = [threads.submit(job.wait) for job in jobs]
        stopped = threads.submit(host.stop)
        free.set()
        assert stopped.result(PATIENCE) is None
        assert [waiter.result(PATIENCE) for waiter in waiters] == [job.state == "succeeded" for job in jobs]
    assert {job.state for job in jobs} == {"succeeded", "queued"}


def test_a_cancelled_execution_is_stored_paused_and_announced_failed(store: Path) -> None:
    free, heard = threading.Event(), list[str]()

    def hear(event: dict[str, Any]) -> None:
        heard.append(event["state"])

    with serve(held_until(free), store=store) as host:
        view = host.stream("held")
        subscription = view.subscribe(hear, name="ends", kinds="task.finished")
        job = host.submit("held", 1)
        until(lambda: job.state == "running")
        assert job.cancel() is True
        free.set()
        until(lambda: heard)
        with pytest.raises(JobFailed, match="cancelled"):
            job.result(0)
        assert (job.state, heard, view.stats()["states"]) == ("cancelled", ["cancelled"], {"cancelled": 1})
        subscription.stop()
    assert open(store).stream("held").jobs()[0]["state"] == "cancelled"


def test_wait_with_a_timeout_of_0_blocks(store: Path) -> None:
    free = threading.Event()
    with serve(held_until(free), store=store) as host:
        job = host.submit("held", 1)
        began = time.monotonic()
        assert (job.wait(0), open(store).stream("held").wait(job.id, 0)) == (False, False)
        assert time.monotonic() - began < PATIENCE / 2, "as long as the job is held"
        free.set()
        assert job.result(PATIENCE) == 1


HOST = """
import time
from peira import stream

@stream(parallel=1)
def work(case):
    time.sleep(case.input)
    return case.input
"""


def test_kill_9_leaves_it_active_for_ever_and_queued_work_vanishes(tmp_path: Path, warm: Any) -> None:
    (tmp_path / "live.py").write_text(HOST)
    command = ["peira", "serve", "live.py", "--store", "live.db"]
    for turn in range(2):
        process = warm.start(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        assert "peira serves work" in process.stdout.readline()
        view = open(tmp_path / "live.db").stream("work")
        if turn == 0:
            jobs = view.submit_many([{"input": 0.5}, {"input": 0}, {"input": 0.01}])
            until(lambda jobs=jobs: jobs[0].state == "running")
        else:
            assert [job.result(PATIENCE) for job in jobs] == [0.5, 0, 0.01]
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE)
    assert view.stats()["states"] == {"succeeded": 3}


def test_resume_after_a_pause_repeats_steps_and_never_moves_on(store: Path) -> None:
    steps = list[str]()

    def plan(case: Any) -> Any:
        step("plan", lambda: steps.append("plan") or "planned")
        return "planned"

    def act(case: Any) -> Any:
        steps.append("act")
        return "done"

    made = graph(
        nodes={"plan": plan, "review": plan, "act": act},
        edges=[("plan", "review"), ("review", "act")],
        start="plan",
        ends=["act"],
        pauses=["review"],
    )
    with serve(stream(name="agent", agent=made), store=store) as host:
        job = host.submit("agent", 1)
        until(lambda: job.state == "waiting")
        before = list(steps)
        [question] = inbox(store)
        answer_text(question.key, question.question.options[0] if question.question.options else "go", store)
        job.wait(PATIENCE)
        assert job.state == "succeeded"
        assert steps == [*before, "act"], "nothing is done again, and it goes on"


def test_resuming_a_running_job_runs_it_twice(store: Path) -> None:
    begun, free = list[int](), threading.Event()

    def held(case: Any) -> Any:
        begun.append(case.input)
        assert free.wait(PATIENCE)
        return case.input

    with serve(stream(held), store=store) as host:
        job = host.submit("held", 1)
        until(lambda: job.state == "running")
        view = host.stream("held")
        view.pause()
        view.resume()
        view.resume()
        assert host.submit("held", 1, key=view.jobs()[0]["key"]).id == job.id
        free.set()
        assert job.result(PATIENCE) == 1
    assert begun == [1]


def test_exhausted_steps_are_reported_as_success(store: Path) -> None:
    def again(case: Any) -> Any:
        return "again"

    made = graph(
        nodes={"a": again, "b": again},
        edges=[("a", "a", "output == 'again'"), ("a", "b")],
        start="a",
        ends=["b"],
        visits=3,
    )
    with serve(stream(name="loop", agent=made), store=store) as host:
        job = host.submit("loop", 1)
        with pytest.raises(JobFailed):
            job.result(PATIENCE)
        assert job.state == "exhausted"


def test_a_slow_subscriber_slows_execution(store: Path) -> None:
    stuck = threading.Event()
    with serve(stream(lambda case: case.input, name="echo"), store=store) as host:
        told = list[Any]()

        def slow(event: Any) -> None:
            told.append(event)
            stuck.wait(PATIENCE)

        never = host.stream("echo").subscribe(slow, name="slow")
        for job in host.submit_many("echo", [{"input": n} for n in range(200)]):
            job.result(PATIENCE)
        assert len(told) <= 1, "all jobs ended while it was at its first event"
        stuck.set()
        never.stop()


def test_an_event_trigger_triggers_itself(store: Path) -> None:
    with pytest.raises(Invalid, match="each would start the next for ever: one -> one"):
        serve(stream(lambda case: 1, name="one", triggers=[after("one")]), store=store)
    names = [f"s{n}" for n in range(MOST_HOPS + 3)]
    chain = [
        stream(lambda case: 1, name=name, triggers=[after(names[n - 1])] if n else [])
        for n, name in enumerate(names)
    ]
    with serve(*chain, store=store) as host:
        host.submit("s0", 1).result(PATIENCE)
        host.drain()
        done = [name for name in names if host.stream(name).jobs()]
    assert done == names[: MOST_HOPS + 1]


def test_retention_takes_results_from_live_waiters(store: Path) -> None:
    go = threading.Event()

    def held(case: Any) -> Any:
        assert go.wait(PATIENCE)
        return case.input

    with serve(stream(held, keep={"count": 0}), store=store) as host:
        retention = JobRetention(host.store, {"held": JobKeep(count=0)}, print, look=0.001)
        jobs = host.submit_many("held", [{"input": n} for n in range(8)])
        with ThreadPoolExecutor(8) as waiters:
            found = [waiters.submit(job.result, PATIENCE) for job in jobs]
            go.set()
            assert [one.result() for one in found] == list(range(8))
        for _ in range(3):  # many looks of the retention later, whoever comes late has it too
            assert retention.look() == 0
        assert [job.result(0) for job in jobs] == list(range(8))
        retention.stop()


def test_a_state_file_is_torn_to_0_bytes(store: Path) -> None:
    def count(case: Any) -> Any:
        return session().update(lambda table: {"n": table.get("n", 0) + 1})["n"]

    made = stream(count, session="input.c", isolation="shared")
    with serve(made, store=store) as host:
        assert host.submit("count", {"c": 1}).result(PATIENCE) == 1
    view = open(store).stream("count")
    view.submit({"c": 1}, key="sent")  # the files beside the store, of which one is torn
    [message] = Path(f"{store}.control").glob("*.json")
    message.with_name(f"0{message.name}").write_bytes(b"")  # a name of its own, which comes first
    with serve(made, store=store) as host:
        assert host.stream("count").job("sent").result(PATIENCE) == 2, "the state is there, and the job"
        assert host.submit("count", {"c": 1}).result(PATIENCE) == 3


def test_a_human_answer_is_delivered_to_the_wrong_one_of_two_executions(store: Path) -> None:
    def asking(case: Any) -> Any:
        return [case.input, ask_person("which?", options=["a", "b"])]

    with serve(stream(asking), store=store) as host:
        first, second = host.submit("asking", 1), host.submit("asking", 2)
        until(lambda: (first.state, second.state) == ("waiting", "waiting"))
        asked = {question.task: question.key for question in inbox(store)}
        answer_text(asked[second.id], "b", store)
        assert second.result(PATIENCE) == [2, "b"]
        assert first.state == "waiting", "nobody answered this one"
        answer_text(asked[first.id], "a", store)
        assert first.result(PATIENCE) == [1, "a"]


def test_priority_isolation_and_global_concurrency_are_never_read(store: Path) -> None:
    lock, order, now, most = threading.Lock(), list[int](), Counter[str](), Counter[str]()
    gates = {"first": threading.Event(), "last": threading.Event()}

    def work(case: Any) -> Any:
        told = ("all", case.input["c"])
        with lock:
            order.append(case.input["n"])
            now.update(told)
            for one in told:
                most[one] = max(most[one], now[one])
        if case.input["c"] in gates:
            assert gates[case.input["c"]].wait(PATIENCE)
        time.sleep(0.005)
        with lock:
            now.subtract(told)

    apart = stream(work, name="apart", parallel=4)
    ordered = stream(work, name="ordered", session="input.c", isolation="synchronized", parallel=4)
    with serve(apart, ordered, store=store, parallel=2) as host:
        first, last = (host.submit("apart", {"c": name, "n": 0}) for name in gates)
        until(lambda: now["all"] == 2)
        late = [host.submit("apart", {"c": "x", "n": n}, priority=n) for n in (1, 3, 2)]
        gates["first"].set()  # one place is free, and then both
        assert all(job.wait(PATIENCE) for job in (first, *late))
        gates["last"].set()
        assert last.wait(PATIENCE)
        one = [host.submit("ordered", {"c": "y", "n": -n}) for n in range(1, 6)]
        assert all(job.wait(PATIENCE) for job in one)
    assert most["all"] == 2, "the limit of the host"
    assert most["y"] == 1, "one job of a session at a time"
    assert [n for n in order if n] == [3, 2, 1, -1, -2, -3, -4, -5]


def test_listing_5k_sessions_takes_seconds(store: Path) -> None:
    def listed(n: int) -> float:
        took = list[float]()
        for _ in range(5):
            began = time.process_time()
            assert len({job["session"] for job in view.jobs(limit=n)}) == n
            took.append(time.process_time() - began)
        return min(took)

    made = stream(lambda case: None, name="noop", session="input.c")
    with serve(made, store=store) as host:
        host.stream("noop").pause()
        host.submit_many("noop", [{"input": {"c": n}} for n in range(5000)])
    view = open(store).stream("noop")
    assert listed(5000) < 0.25, "CPU seconds, ten times what it takes; elsewhere 4.5"
