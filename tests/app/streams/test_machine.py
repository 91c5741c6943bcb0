"""A stream under random submits, cancels, pauses, answers, kills, restarts and jumps of the clock.

Against a model: every accepted submission is one job; each ends once; sessions are in order; answers reach
their own job; timers fire once for each moment; the store is sound after every kill.
"""

from __future__ import annotations

import atexit
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from peira import every, open, stream
from peira.app.inbox import answer_text, inbox
from peira.app.streams.view import StreamView
from peira.engine.streams.timers import StreamTimers
from peira.errors import Unknown
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify
from peira.testing import ManualClock, MemoryStore
from tests import warm

HOST = """
import time
from pathlib import Path
from peira import after, ask_person, every, stream
from peira.app.streams.host import Host
from peira.core.clock import SystemClock

class JumpingClock(SystemClock):
    def now(self):
        return time.time() + float(Path("jump.txt").read_text() or 0)

def work(case):
    with open("begun.txt", "a") as file:
        file.write(f"{case.input['s']} {case.input['n']}\\n")
    if case.input.get("ask"):
        return [case.input["n"], ask_person("which?", options=["a", "b"])]
    if case.input.get("sleep"):
        time.sleep(case.input["sleep"])
    return [case.input["n"], case.input["n"] % 2 == 1]

def follow(case):
    return case.input[0]

def tick(case):
    return None

three = stream(tick, triggers=[every("60s", missed="all")])
one = stream(work, name="work", session="input.s", isolation="synchronized", parallel=3)
two = stream(follow, name="follow", triggers=[after("work", where="input.follow")])
host = Host([one, two, three], "live.db", parallel=3, wait=30, clock=JumpingClock())
print("ready", flush=True)
host.wait()
"""
PATIENCE = 60.0
_warm: list[Any] = []


def warm_processes() -> Any:
    """What starts hosts in processes that have peira imported; one for all examples."""
    if not _warm:
        beginning = warm.beginning()
        _warm.extend([beginning.__enter__(), beginning])
        atexit.register(beginning.__exit__, None, None, None)
    return _warm[0]


def until(holds: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


class StreamMachine(RuleBasedStateMachine):
    """The jobs that were accepted are in `jobs`, with what was submitted; `cancelled` and `answered` say
    what was done to them."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp())
        (self.folder / "host.py").write_text(HOST)
        self.jump, self.latest = 0.0, time.time()
        self._jump(0.0)
        self.began = time.time()
        self.jobs: dict[str, dict[str, Any]] = {}
        self.cancelled: set[str] = set()
        self.answered: dict[str, str] = {}
        self.paused, self.number = False, 0
        self.process: Any = None
        self.start()

    def _jump(self, by: float) -> None:
        self.jump += by
        self.latest = max(self.latest, time.time() + self.jump)
        draft = self.folder / "jump.draft"
        draft.write_text(str(self.jump))
        draft.replace(self.folder / "jump.txt")

    @rule(by=st.sampled_from([-200.0, -30.0, 70.0, 130.0]))
    def clock_jump(self, by: float) -> None:
        self._jump(by)

    def start(self) -> None:
        self.process = warm_processes().start(
            [sys.executable, "host.py"], cwd=self.folder, stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == "ready\n"
        self.paused = False

    @property
    def view(self) -> StreamView:
        return open(self.folder / "live.db").stream("work")

    @rule(
        session=st.integers(0, 2),
        kind=st.sampled_from(["plain", "plain", "ask", "sleep"]),
        follow=st.booleans(),
        priority=st.integers(-1, 1),
    )
    def submit(self, session: int, kind: str, follow: bool, priority: int) -> None:
        n, self.number = self.number, self.number + 1
        sleep = 0.05 if kind == "sleep" else 0
        input = {"s": session, "n": n, "ask": kind == "ask", "follow": follow, "sleep": sleep}
        job = self.view.submit(input, key=f"k{n}", priority=priority)
        self.jobs[job.id] = input

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def submit_again(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted(self.jobs)))
        assert self.view.submit({"s": 9, "n": -1}, key=f"k{self.jobs[job]['n']}").id == job

    @precondition(lambda self: self.jobs)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        job = data.draw(st.sampled_from(sorted(self.jobs)))
        if self.view.cancel(job):
            self.cancelled.add(job)

    @precondition(lambda self: self.process is not None)
    @rule()
    def answer(self) -> None:
        asked = inbox(self.folder / "live.db")
        for question in asked[:1]:
            value = "a" if len(self.answered) % 2 else "b"
            answer_text(question.key, value, self.folder / "live.db", by="ann")
            self.answered.setdefault(question.task, value)

    @precondition(lambda self: self.process is not None)
    @rule()
    def pause(self) -> None:
        self.view.pause()
        self.paused = True

    @precondition(lambda self: self.process is not None and self.paused)
    @rule()
    def resume(self) -> None:
        self.view.resume()
        self.paused = False

    @precondition(lambda self: self.process is not None)
    @rule()
    def kill(self) -> None:
        assert self.process is not None
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=PATIENCE)
        self.process = None

    @precondition(lambda self: self.process is None)
    @rule()
    def restart(self) -> None:
        self.start()

    @invariant()
    def every_accepted_submission_is_one_job(self) -> None:
        if not getattr(self, "jobs", None):
            return
        listed = [str(job["job"]) for job in self.view.jobs()]
        assert sorted(listed) == sorted(self.jobs)

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        try:
            self.finish()
        finally:
            if self.process is not None:
                self.process.kill()
                self.process.communicate()
            shutil.rmtree(self.folder, ignore_errors=True)

    def finish(self) -> None:
        """Let everything end, and compare with the model."""
        if self.process is None:
            self.start()
        if self.paused:
            self.view.resume()
        if not self.jobs:
            return

        def over() -> bool:
            self.answer()
            return all(self.view.wait(job, 0) for job in self.jobs)

        until(over)
        view = self.view
        for job, asked in self.jobs.items():
            ends = [event["state"] for event in view.events(job, kinds="task.finished")]
            state = view.state(job)
            assert ends == [state], "one end, which event and row name alike"
            assert (state == "cancelled") == (job in self.cancelled)
            if state == "succeeded" and asked["ask"]:
                assert view.result(job, 0) == [asked["n"], self.answered[job]]
        self.check_followers()
        self.check_sessions()
        self.check_timers()
        opened = SqliteStore(self.folder / "live.db", readonly=True)
        assert list(verify(opened)) == []
        opened.close()

    def check_timers(self) -> None:
        """Each moment is one job, none is of the future, and every job is done."""
        view = open(self.folder / "live.db").stream("tick")
        until(lambda: all(view.wait(str(job["job"]), 0) for job in view.jobs()))
        keys = [str(job["key"]) for job in view.jobs()]
        moments = [float(key.partition(":")[2]) for key in keys]
        assert len(set(keys)) == len(keys)
        latest = max(self.latest, time.time() + self.jump)
        assert all(moment % 60 == 0 and moment <= latest + 1 for moment in moments)
        assert len(moments) <= (latest - self.began) / 60 + 10, "no moment is made up"
        if moments:
            first, last = min(moments), max(moments)
            assert len(moments) == (last - first) / 60 + 1, "each in between, also while no host was there"

    def check_sessions(self) -> None:
        """The jobs of a session began in the order of their arrival; an attempt that was killed, again."""
        begun = self.folder / "begun.txt"
        lines = begun.read_text().splitlines() if begun.exists() else []  # all may have been cancelled before
        for number in range(3):
            mine = [int(n) for session, n in map(str.split, lines) if int(session) == number]
            assert mine == sorted(mine), "a job began before one that came earlier had ended"

    def check_followers(self) -> None:
        wanted = sorted(
            asked["n"]
            for job, asked in self.jobs.items()
            if asked["follow"] and self.view.state(job) == "succeeded"
        )
        try:
            follow = open(self.folder / "live.db").stream("follow")
        except Unknown:
            assert not wanted
            return
        until(
            lambda: len(follow.jobs()) >= len(wanted) and all(follow.wait(j["job"], 0) for j in follow.jobs())
        )
        assert sorted(follow.result(str(job["job"]), 0) for job in follow.jobs()) == wanted


@given(st.lists(st.floats(-500, 500, allow_nan=False), max_size=20), st.sampled_from(["one", "all", "skip"]))
@settings(max_examples=60, deadline=None)
def test_a_clock_that_jumps_makes_no_moment_two_jobs(jumps: list[float], missed: Any) -> None:
    clock = ManualClock(1_000_000.0)
    timed = stream(lambda case: None, name="timed", triggers=[every("60s", missed=missed)])
    timers = StreamTimers([timed], MemoryStore(), clock)
    keys, last = list[str](), clock.now()
    for jump in jumps:
        clock.advance(jump)
        keys += [job.key for job in timers.due()]
        last = max(last, clock.now())
    assert len(set(keys)) == len(keys)
    moments = [float(key.partition(":")[2]) for key in keys]
    assert all(moment % 60 == 0 and 1_000_000 < moment <= last for moment in moments)
    if missed == "all":
        assert len(moments) == int(last // 60) - 1_000_000 // 60


def sized(examples: int) -> settings:
    """So many examples, each of a dozen steps, with a real host that is really killed."""
    return settings(
        max_examples=examples,
        stateful_step_count=12,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )


class LongStreamMachine(StreamMachine):
    """The same, for the long sweep."""


StreamMachine.TestCase.settings = sized(4)
TestStreams = pytest.mark.timeout(300)(StreamMachine.TestCase)
LongStreamMachine.TestCase.settings = sized(60)
TestStreamsAtLength = pytest.mark.torture(pytest.mark.timeout(1800)(LongStreamMachine.TestCase))
