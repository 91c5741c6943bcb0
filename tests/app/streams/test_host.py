"""Streams are served: every accepted submission is one job with one end, whatever happens to the host."""

from __future__ import annotations

import gc
import signal
import subprocess
import time
import tracemalloc
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from peira import after, every, open, serve, stream
from peira.app.inbox import answer_text, inbox
from peira.app.streams.host import Host
from peira.app.streams.view import StreamView
from peira.errors import Invalid, JobFailed, StoreInUse, Unknown
from peira.spec.streams.stream import Stream
from peira.testing import ManualClock

pytestmark = pytest.mark.timeout(120)


def echo(case: Any) -> Any:
    if case.input == "fail":
        raise ValueError("not this one")
    if isinstance(case.input, dict):
        time.sleep(case.input.get("sleep", 0))
    return case.input


def styled(case: Any, style: str) -> Any:
    return f"{style} {case.input}"


def made(agent: Any = echo, **fields: Any) -> Stream:
    found: Stream = stream(agent, **fields)
    return found


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "live.db"


def test_a_job_is_done_and_the_same_key_is_the_same_job(store: Path) -> None:
    with serve(made(), store=store) as host:
        first = host.submit("echo", {"n": 1}, key="a")
        assert first.result(20) == {"n": 1}
        assert host.submit("echo", {"n": 2}, key="a").id == first.id
        assert first.result(0) == {"n": 1}
        assert host.submit("echo", 5).id != host.submit("echo", 5).id
        with pytest.raises(Unknown, match="no stream 'ecko' is served here; did you mean 'echo'"):
            host.submit("ecko")
    assert [job["key"] for job in open(store).stream("echo").jobs() if job["key"] == "a"] == ["a"]


def test_bad_submissions_are_refused_with_every_problem_and_leave_nothing(store: Path) -> None:
    with serve(made(), store=store) as host:
        with pytest.raises(Invalid) as caught:
            host.submit("echo", {1: object()}, key="", priority=5000)
        assert [line.partition(":")[0] for line in caught.value.problems] == ["input", "key", "priority"]
        assert host.stream("echo").jobs() == []


def test_looking_never_blocks_and_failures_say_why(store: Path) -> None:
    with serve(made(), store=store) as host:
        slow = host.submit("echo", {"sleep": 1.5})
        before = time.monotonic()
        assert slow.wait(0) is False
        assert time.monotonic() - before < 1
        with pytest.raises(TimeoutError):
            slow.result(0.05)
        failed = host.submit("echo", "fail")
        with pytest.raises(JobFailed, match="not this one"):
            failed.result(20)
        assert failed.state == "failed"
        assert slow.result(20) == {"sleep": 1.5}


def test_jobs_of_a_session_are_done_one_at_a_time_in_order(store: Path, tmp_path: Path) -> None:
    log = tmp_path / "log.txt"

    def note(case: Any) -> int:
        with log.open("a") as file:
            file.write(f"begin {case.input['c']} {case.input['n']}\n")
        time.sleep(0.02)
        with log.open("a") as file:
            file.write(f"end {case.input['c']} {case.input['n']}\n")
        return int(case.input["n"])

    served = made(note, session="input.c", isolation="synchronized", parallel=8)
    with serve(served, store=store) as host:
        jobs = [host.submit("note", {"c": n % 3, "n": n}) for n in range(18)]
        assert [job.result(30) for job in jobs] == list(range(18))
    lines = [line.split() for line in log.read_text().splitlines()]
    for session in "012":
        mine = [(what, int(n)) for what, c, n in lines if c == session]
        assert mine == [(what, n) for n in range(int(session), 18, 3) for what in ("begin", "end")]


def test_sessions_stay_in_order_when_a_clock_is_set_back_and_a_host_dies(store: Path) -> None:
    order = list[int]()

    def note(case: Any) -> None:
        order.append(case.input["n"])

    served = made(note, session="input.c", isolation="synchronized")
    clock = ManualClock(1_000_000.0)
    with Host([served], store, clock=clock) as host:
        host.stream("note").pause()
        for n in range(2):
            host.submit("note", {"c": 1, "n": n})
            clock.advance(-3600.0)
    with serve(served, store=store) as host:
        host.drain()
    assert order == [0, 1]


def test_the_condition_of_a_job_is_drawn_from_its_key(store: Path) -> None:
    served = made(styled, factors={"style": ["plain", "loud"]}, assign="random", evaluators=["exact"])
    with serve(served, store=store) as host:
        jobs = {f"k{n}": host.submit("styled", "x", key=f"k{n}", expected="loud x") for n in range(30)}
        outputs = {key: job.result(30) for key, job in jobs.items()}
        host.drain()
    assert {*outputs.values()} == {"plain x", "loud x"}
    results = open(store).stream("styled").results()
    means = {row["style"]: (row["mean"], row["n"]) for row in results.table("style").rows}
    counts = {style: sum(output.startswith(style) for output in outputs.values()) for style in means}
    assert means == {"plain": (0.0, counts["plain"]), "loud": (1.0, counts["loud"])}
    assert any("hold for one look" in note for note in results.table().notes)
    with serve(served, store=store.with_name("other.db")) as host:
        again = {key: host.submit("styled", "x", key=key).result(30) for key in jobs}
    assert again == outputs


def asked(case: Any, style: str) -> Any:
    from peira import ask_person

    return ask_person("send?", options=["yes"]) if style == "loud" else "plain"


def test_shadows_answer_nobody_and_ask_nobody(store: Path) -> None:
    factors = {"style": ["plain", "loud"]}
    with serve(made(styled, factors=factors, assign="all", evaluators=["exact"]), store=store) as host:
        job = host.submit("styled", "x", expected="plain x")
        assert job.result(20) == "plain x"
        host.drain()
    rows = open(store).stream("styled").results().table("style").rows
    assert {row["style"]: row["mean"] for row in rows} == {"plain": 1.0, "loud": 0.0}
    with serve(made(asked, factors=factors, assign="all"), store=store) as host:
        assert host.submit("asked", "x").result(20) == "plain"
        host.drain()
    [shadow] = [
        one for one in open(store).stream("asked").results().trials if one.condition["style"] == "loud"
    ]
    assert shadow.failure is not None
    assert "a shadow asks no people" in shadow.failure.message


def test_triggers_fire_once_for_each_cause(store: Path) -> None:
    first = made(echo, name="first")
    urgent = made(echo, name="urgent", triggers=[after("first", where="output.urgent")])
    last = made(echo, name="last", triggers=[after("urgent"), every("0.2s", input="tick")])
    with serve(first, urgent, last, store=store) as host:
        jobs = [host.submit("first", {"urgent": n % 2 == 0, "n": n}, group=f"g{n}") for n in range(6)]
        assert all(job.wait(20) for job in jobs)
        deadline = time.monotonic() + 20
        while len(host.stream("last").jobs()) < 5 and time.monotonic() < deadline:
            time.sleep(0.05)
        host.drain()
    opened = open(store)
    assert len(opened.stream("urgent").jobs()) == 3
    assert {job["group"] for job in opened.stream("urgent").jobs()} == {"g0", "g2", "g4"}
    keys = [str(job["key"]) for job in opened.stream("last").jobs()]
    assert len([key for key in keys if key.startswith("after-urgent")]) == 3
    ticks = [float(key.partition(":")[2]) for key in keys if key.startswith("every")]
    assert len(ticks) == len(set(ticks)) >= 1


def test_streams_that_would_never_end_are_refused_before_anything_is_opened(store: Path) -> None:
    with pytest.raises(Invalid, match="each would start the next for ever"):
        serve(made(name="a", triggers=[after("b")]), made(name="b", triggers=[after("a")]), store=store)
    assert not store.exists()


HOSTED = """
import sys, time
from peira import ask_person, stream

@stream(session="input.c", isolation="synchronized", parallel=3)
def support(case):
    with open("done.txt", "a") as file:
        file.write(f"{case.input['n']}\\n")
    time.sleep(case.input.get("sleep", 0))
    return ask_person("send?", options=["yes", "no"]) if case.input.get("ask") else case.input["n"]
"""


class Hosted:
    """A host in a process of its own."""

    def __init__(self, folder: Path, warm: Any) -> None:
        self.folder, self.warm = folder, warm
        (folder / "live.py").write_text(HOSTED)

    def start(self) -> Any:
        command = ["peira", "serve", "live.py", "--store", "live.db"]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = self.warm.start(command, cwd=self.folder, text=True, **pipes)
        assert "peira serves support" in process.stdout.readline()
        return process

    @property
    def stream(self) -> StreamView:
        return open(self.folder / "live.db").stream("support")


@pytest.fixture
def hosted(tmp_path: Path, warm: Any) -> Hosted:
    return Hosted(tmp_path, warm)


def ended(process: Any, number: int) -> int:
    process.send_signal(number)
    process.communicate(timeout=60)
    return int(process.returncode)


def test_what_was_submitted_outlives_every_kill(hosted: Hosted) -> None:
    process = hosted.start()
    jobs = [hosted.stream.submit({"c": n % 2, "n": n, "sleep": 0.3}, key=f"k{n}") for n in range(6)]
    question = hosted.stream.submit({"c": 9, "n": 99, "ask": True}, key="q")
    behind = hosted.stream.submit({"c": 9, "n": 100}, key="behind")
    deadline = time.monotonic() + 30
    while question.state != "waiting" and time.monotonic() < deadline:
        time.sleep(0.02)
    assert ended(process, signal.SIGKILL) == -signal.SIGKILL
    alone = hosted.stream.submit({"c": 5, "n": 7}, key="alone")  # while nobody is there
    assert alone.state == "queued"
    assert "alone" in [job["key"] for job in hosted.stream.jobs()]
    for _ in range(2):  # waiting is no attempt, over any number of kills
        process = hosted.start()
        assert all(job.wait(30) for job in (alone, *jobs))
        assert ended(process, signal.SIGKILL) == -signal.SIGKILL
    process = hosted.start()
    try:
        assert [job.result(30) for job in jobs] == list(range(6))
        assert (question.state, behind.state) == ("waiting", "queued")
        [asked] = inbox(hosted.folder / "live.db")
        answer_text(asked.key, "yes", hosted.folder / "live.db", by="ann")
        assert question.result(30) == "yes"
        assert behind.result(30) == 100
    finally:
        assert ended(process, signal.SIGTERM) == 0
    command = ["peira", "verify", "--store", "live.db"]
    assert hosted.warm.run(command, cwd=hosted.folder).returncode == 0


def test_a_job_is_cancelled_in_every_state_from_another_process(hosted: Hosted) -> None:
    process = hosted.start()
    try:
        running = hosted.stream.submit({"c": 1, "n": 1, "sleep": 60})
        queued = hosted.stream.submit({"c": 1, "n": 2})
        waiting = hosted.stream.submit({"c": 2, "n": 3, "ask": True})
        deadline = time.monotonic() + 30
        while (running.state, waiting.state) != ("running", "waiting") and time.monotonic() < deadline:
            time.sleep(0.02)
        for job in (queued, waiting, running):
            assert job.cancel() is True
            assert job.state == "cancelled"
            assert job.cancel() is False
        after_all = hosted.stream.submit({"c": 1, "n": 4})
        assert after_all.result(30) == 4  # the session goes on
        assert hosted.stream.stats()["states"] == {"succeeded": 1, "cancelled": 3}
    finally:
        ended(process, signal.SIGTERM)


def test_the_next_host_waits_for_the_one_before(hosted: Hosted) -> None:
    first = hosted.start()
    command = ["peira", "serve", "live.py", "--store", "live.db"]
    refused = hosted.warm.run(command, cwd=hosted.folder)
    assert (refused.returncode, "in use by process" in refused.stderr) == (4, True)
    later = hosted.warm.start([*command, "--wait"], cwd=hosted.folder, text=True, stdout=subprocess.PIPE)
    try:
        jobs = [hosted.stream.submit({"c": 1, "n": n, "sleep": 0.3}) for n in range(3)]
        until_states(["running", "queued", "queued"], *jobs)
        assert ended(first, signal.SIGTERM) == 0
        assert "peira serves support" in later.stdout.readline()
        assert [job.result(30) for job in jobs] == [0, 1, 2]
    finally:
        assert ended(later, signal.SIGTERM) == 0


def test_a_drain_ends_while_others_submit(store: Path) -> None:
    for _ in range(4):
        host, jobs = serve(made(), store=store), list[Any]()

        def submit(host: Host = host, jobs: list[Any] = jobs) -> None:
            while host.serves("echo"):
                jobs.append(host.submit("echo", 1))

        with ThreadPoolExecutor(9) as threads:
            submitting = [threads.submit(submit) for _ in range(8)]
            time.sleep(0.05)
            threads.submit(host.drain).result(30)
            assert [one.result(30) for one in submitting] == [None] * 8
        states = Counter(job.state for job in jobs)
        assert set(states) <= {"succeeded", "queued"}, "done, or left for the next host"
        host.stop()
    with serve(made(), store=store) as host:
        host.drain()
        assert set(host.stream("echo").stats()["states"]) == {"succeeded"}


@pytest.mark.parametrize("other", [False, True])
def test_jobs_are_cancelled_while_nobody_serves_their_stream(hosted: Hosted, other: bool) -> None:
    """With `other`, the store belongs to a host of another stream meanwhile."""
    process = hosted.start()
    waiting = hosted.stream.submit({"c": 1, "n": 1, "ask": True})
    behind = hosted.stream.submit({"c": 1, "n": 2}, key="behind")
    running = hosted.stream.submit({"c": 2, "n": 3, "sleep": 60})
    until_states(["waiting", "queued", "running"], waiting, behind, running)
    assert ended(process, signal.SIGKILL) == -signal.SIGKILL
    sent, later = (hosted.stream.submit({"c": 1, "n": n}, key=f"k{n}") for n in (4, 5))
    keys = set(hosted.stream.document(sent.id))
    with serve(made(), store=hosted.folder / "live.db") if other else nullcontext():
        for job in (waiting, behind, running, sent):
            assert job.cancel() is True
            assert job.state == "cancelled"
            assert job.cancel() is False
            [event] = job.events(kinds="task.finished")
            assert event["state"] == "cancelled"
        assert inbox(hosted.folder / "live.db") == [], "its question is void"
    assert set(hosted.stream.document(sent.id)) == keys, "a job is shown with the same keys from the first"
    process = hosted.start()
    try:
        assert later.result(30) == 5
        assert hosted.stream.stats()["states"] == {"succeeded": 1, "cancelled": 4}
    finally:
        assert ended(process, signal.SIGTERM) == 0
    done = (hosted.folder / "done.txt").read_text().split()
    assert (sorted(done), done[-1]) == (["1", "3", "5"], "5"), "nothing of it was begun again"
    command = ["peira", "verify", "--store", "live.db"]
    assert hosted.warm.run(command, cwd=hosted.folder).returncode == 0


def until_states(states: list[str], *jobs: Any) -> None:
    deadline = time.monotonic() + 30
    while [job.state for job in jobs] != states:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_paused_stream_takes_jobs_and_begins_none(hosted: Hosted) -> None:
    process = hosted.start()
    try:
        hosted.stream.pause()
        job = hosted.stream.submit({"c": 1, "n": 1})
        assert job.wait(1.0) is False
        hosted.stream.resume()
        assert job.result(30) == 1
        hosted.stream.drain()
        process.communicate(timeout=60)
        assert process.returncode == 0
    finally:
        if process.poll() is None:
            ended(process, signal.SIGKILL)
    with pytest.raises(StoreInUse, match="no host serves it"):
        hosted.stream.pause()


def test_a_list_has_every_job_once_while_their_states_change(store: Path) -> None:
    with serve(made(parallel=4), store=store) as host:
        last = host.submit_many("echo", [{"input": {"n": n, "sleep": 0.002}} for n in range(1500)])[-1]
        view, looks = open(store).stream("echo"), 0
        while last.state == "queued":
            listed = [job["job"] for job in view.jobs(limit=2000)]
            assert (len(listed), len(set(listed))) == (1500, 1500)
            looks += 1
    assert looks > 3


def test_jobs_that_have_ended_take_no_memory(store: Path) -> None:
    def done(n: int) -> int:
        for job in host.submit_many("echo", [{"input": {"n": i}} for i in range(n)]):
            assert job.wait(60)
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    with serve(made(session="input.n", isolation="synchronized"), store=store) as host:
        host.submit("echo", "ask").wait(60)
        tracemalloc.start()
        try:
            before = done(500)
            after = done(1000)
        finally:
            tracemalloc.stop()
    assert (after - before) / 1000 < 300, "bytes a job; one that is held takes more than twice as many"
