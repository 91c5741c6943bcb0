"""The conformance suite of streams: what every store and host promises to those who submit jobs."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from peira.app.inbox import answer_text, inbox
from peira.app.streams.host import serve
from peira.app.streams.view import StreamView
from peira.core.people.questions import ask_person
from peira.engine.streams.sessions import session
from peira.errors import JobFailed
from peira.spec.streams.stream import stream
from peira.spec.streams.triggers import after

PATIENCE = 60.0


def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds."""
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


class StreamSuite:
    """Override the fixture `store`: where a store is, or may be made, of this test's own."""

    @pytest.fixture
    def store(self) -> Any:
        """The path or address of a store that does not exist yet, or an open store."""
        raise NotImplementedError("override the fixture `store`")

    def _ends(self, view: StreamView, job: str) -> list[str]:
        return [event["state"] for event in view.events(job, kinds="task.finished")]

    def test_every_submission_is_one_job_with_one_end(self, store: Any) -> None:
        def done(case: Any) -> Any:
            if case.input % 5 == 0:
                raise ValueError("not this one")
            return case.input

        made = stream(done, parallel=4)
        with serve(made, store=store) as host:
            given = [{"input": n, "key": f"k{n}"} for n in range(20)]
            jobs = host.submit_many("done", given)
            again = host.submit_many("done", given)
            assert [job.id for job in again] == [job.id for job in jobs]
            assert all(job.wait(PATIENCE) for job in jobs)
            view = host.stream("done")
            ends = {job.id: self._ends(view, job.id) for job in jobs}
            assert all(ends[job.id] == [job.state] for job in jobs), "event and row name one end"
            assert Counter(job.state for job in jobs) == {"succeeded": 16, "failed": 4}
            assert view.stats()["states"] == {"succeeded": 16, "failed": 4}
            assert [job.result(0) for n, job in enumerate(jobs) if n % 5] == [n for n in range(20) if n % 5]
            with pytest.raises(JobFailed, match="not this one"):
                jobs[0].result(0)

    def test_looking_never_blocks(self, store: Any) -> None:
        free = threading.Event()

        def held(case: Any) -> Any:
            assert free.wait(PATIENCE)
            return case.input

        with serve(stream(held, parallel=1), store=store) as host:
            jobs = [host.submit("held", n) for n in range(2)]
            took = []
            for job in jobs:
                began = time.monotonic()
                assert job.wait(0) is False
                took.append(time.monotonic() - began)
            assert max(took) < PATIENCE / 2, "looking must not wait for the job"
            free.set()
            assert [job.result(PATIENCE) for job in jobs] == [0, 1]

    def test_a_job_is_cancelled_in_every_state_and_everybody_names_the_same_end(self, store: Any) -> None:
        begun, free = threading.Event(), threading.Event()

        def work(case: Any) -> Any:
            if case.input == "ask":
                return ask_person("send?", options=["yes", "no"])
            begun.set()
            free.wait(PATIENCE)
            return case.input

        with serve(stream(work, parallel=2), store=store) as host:
            waiting = host.submit("work", "ask")
            until(lambda: waiting.state == "waiting")
            running = [host.submit("work", "run") for _ in range(2)]
            assert begun.wait(PATIENCE)
            until(lambda: all(job.state == "running" for job in running))
            queued = host.submit("work", "run")
            assert queued.state == "queued"
            view = host.stream("work")
            for job in (queued, waiting, running[0]):
                waiter = threading.Thread(target=job.wait, args=(PATIENCE,))
                waiter.start()
                assert job.cancel() is True
                waiter.join(PATIENCE)
                assert not waiter.is_alive(), "its waiter hangs"
                assert (job.state, self._ends(view, job.id)) == ("cancelled", ["cancelled"])
                with pytest.raises(JobFailed, match="cancelled"):
                    job.result(0)
                assert job.cancel() is False
            free.set()
            assert running[1].result(PATIENCE) == "run"
            assert view.stats()["states"] == {"succeeded": 1, "cancelled": 3}
            assert inbox(store if not hasattr(store, "commit") else host.store) == []

    def test_sessions_are_done_in_order_one_at_a_time(self, store: Any) -> None:
        lock, inside, order = threading.Lock(), Counter[int](), list[tuple[int, int]]()

        def one(case: Any) -> Any:
            c = case.input["c"]
            with lock:
                inside[c] += 1
                assert inside[c] == 1, "two jobs of one session at once"
                order.append((c, case.input["n"]))
            time.sleep(0.002)
            with lock:
                inside[c] -= 1
            return session().update(lambda table: {"n": table.get("n", 0) + 1})["n"]

        made = stream(one, session="input.c", isolation="synchronized", parallel=6)
        with serve(made, store=store) as host:
            jobs = [host.submit("one", {"c": n % 3, "n": n}) for n in range(30)]
            assert [job.result(PATIENCE) for job in jobs] == [n // 3 + 1 for n in range(30)]
        for c in range(3):
            assert [n for found, n in order if found == c] == list(range(c, 30, 3))

    def test_parallel_priority_and_places_act(self, store: Any) -> None:
        lock, inside, peak, order = threading.Lock(), Counter[str](), Counter[str](), list[int]()
        free, last = threading.Event(), threading.Event()  # one of two places is free for what comes late

        def work(case: Any) -> Any:
            with lock:
                inside.update([case.input[0], "all"])
                for name in (case.input[0], "all"):
                    peak[name] = max(peak[name], inside[name])
                order.append(case.input[1])
            (last if case.input[1] == 200 else free).wait(PATIENCE)
            time.sleep(0.005)
            with lock:
                inside.subtract([case.input[0], "all"])

        one, two = (stream(work, name=name, parallel=2) for name in ("one", "two"))
        with serve(one, two, store=store, parallel=3) as host:
            first = [host.submit("one", ["one", n]) for n in (0, 200)]
            until(lambda: inside["one"] == 2)
            late = [host.submit("one", ["one", n], priority=n) for n in (-1, 1, 5)]
            other = [host.submit("two", ["two", 100]) for _ in range(6)]
            until(lambda: inside["two"] == 1)
            free.set()
            for job in (*late, *other):
                job.result(PATIENCE)
            last.set()
            for job in first:
                job.result(PATIENCE)
        assert (peak["one"], peak["two"] <= 2, peak["all"]) == (2, True, 3)
        assert [n for n in order if abs(n) < 100 and n] == [5, 1, -1]

    def test_a_stream_runs_at_most_as_many_jobs_as_it_may(self, store: Any) -> None:
        lock, free, inside, peak = threading.Lock(), threading.Event(), 0, 0

        def work(case: Any) -> Any:
            nonlocal inside, peak
            with lock:
                inside += 1
                peak = max(peak, inside)
            assert free.wait(PATIENCE)
            with lock:
                inside -= 1

        with serve(stream(work, parallel=2), store=store) as host:
            jobs = [host.submit("work", n) for n in range(6)]
            until(lambda: inside >= 2)
            time.sleep(0.2)  # time for one too many to begin
            free.set()
            assert all(job.wait(PATIENCE) for job in jobs)
        assert peak == 2

    def test_a_trigger_fires_once_for_each_cause(self, store: Any) -> None:
        def first(case: Any) -> Any:
            return {"n": case.input, "urgent": case.input % 2 == 1}

        def second(case: Any) -> Any:
            return case.input["n"]

        follows = stream(second, triggers=[after("first", where="output.urgent")])
        with serve(stream(first), follows, store=store) as host:
            for _ in range(2):
                host.submit_many("first", [{"input": n, "key": f"k{n}"} for n in range(10)])
            host.drain()
            view = host.stream("second")
            assert sorted(view.result(str(job["job"]), 0) for job in view.jobs()) == [1, 3, 5, 7, 9]

    def test_an_answer_reaches_its_own_job(self, store: Any) -> None:
        def asking(case: Any) -> Any:
            return [case.input, ask_person("which?", options=["a", "b"])]

        with serve(stream(asking, parallel=2), store=store) as host:
            jobs = [host.submit("asking", n) for n in range(2)]
            until(lambda: [job.state for job in jobs] == ["waiting", "waiting"])
            where = host.store if hasattr(store, "commit") else store
            asked = {question.task: question.key for question in inbox(where)}
            for n, answer in ((1, "b"), (0, "a")):
                answer_text(asked[jobs[n].id], answer, where, by="ann")
                assert jobs[n].result(PATIENCE) == [n, answer]

    def test_every_subscriber_gets_every_event_once_in_order(self, store: Any) -> None:
        seen: dict[str, list[str]] = {"quick": [], "again": []}
        stuck = threading.Event()
        with serve(stream(lambda case: case.input, name="echo"), store=store) as host:
            view = host.stream("echo")
            never = view.subscribe(lambda event: stuck.wait(PATIENCE), name="never")
            quick = view.subscribe(lambda event: seen["quick"].append(event["cursor"]), name="quick")
            for part in range(3):
                again = view.subscribe(lambda event: seen["again"].append(event["cursor"]), name="again")
                for job in host.submit_many("echo", [{"input": n} for n in range(20)]):
                    job.result(PATIENCE)
                until(lambda part=part: len(seen["again"]) > 20 * part)  # type: ignore[misc]
                again.stop()
            again = view.subscribe(lambda event: seen["again"].append(event["cursor"]), name="again")
            whole = [event["cursor"] for event in view.events()]
            until(lambda: len(seen["quick"]) >= len(whole) and len(seen["again"]) >= len(whole))
            stuck.set()
            for one in (never, quick, again):
                one.stop()
        for name, found in seen.items():
            assert found[: len(whole)] == whole, name

    def test_drain_and_stop_end_every_waiter(self, store: Any) -> None:
        free = threading.Event()

        def held(case: Any) -> Any:
            assert free.wait(PATIENCE)
            return case.input

        host = serve(stream(held, parallel=1), store=store)
        jobs = [host.submit("held", n) for n in range(3)]
        until(lambda: jobs[0].state == "running")
        ended = list[bool]()
        waiters = [threading.Thread(target=lambda job=job: ended.append(job.wait())) for job in jobs]
        for waiter in waiters:
            waiter.start()
        stopping = threading.Thread(target=host.stop)
        stopping.start()
        time.sleep(0.1)
        free.set()
        stopping.join(PATIENCE)
        for waiter in waiters:
            waiter.join(PATIENCE)
        assert sorted(ended) == [False, False, True], "what ran is finished, what is queued is left"
        if hasattr(store, "commit"):
            return
        with serve(stream(held, parallel=1), store=store) as later:
            view = later.stream("held")
            later.drain()
            assert sorted(view.result(str(job["job"]), 0) for job in view.jobs()) == [0, 1, 2]
