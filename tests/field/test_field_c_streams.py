"""Breaks of execution streams elsewhere that need streams, people or triggers: each is impossible here.

cancel while queued hangs the waiter              StreamSuite: a_job_is_cancelled_in_every_state
stop hangs waiters                                StreamSuite: drain_and_stop_end_every_waiter
cancelled is stored paused, announced failed      StreamSuite: everybody_names_the_same_end
wait(timeout=0) blocks                            StreamSuite: looking_never_blocks
retention takes results from live waiters         tests/app/streams/test_retention.py
kill -9 leaves "active", queued work vanishes     tests/faults/test_stream_kill.py
an answer reaches the wrong execution             StreamSuite: an_answer_reaches_its_own_job
priority, isolation, concurrency never read       StreamSuite: parallel_priority_and_places_act, sessions
state file torn to 0 bytes                        no state file: sessions are in the store
listing 5k sessions takes seconds                 benchmarks/streams.py
"""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from peira import after, graph, serve, step, stream
from peira.app.inbox import answer_text, inbox
from peira.engine.streams.jobs import MOST_HOPS
from peira.errors import Invalid, JobFailed

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
