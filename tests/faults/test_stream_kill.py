"""A host that is killed at random moments: each accepted submission is one job with one end.

Two streams, sessions, questions to people, timers, and triggers that follow from ends.
"""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from peira import open
from peira.app.inbox import answer_text, inbox
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

HOST = """
import time
from peira import after, ask_person, every, serve, session, step, stream

def counted(table):
    return {"n": table.get("n", 0) + 1}

def work(case):
    if case.input is None:
        return {"n": -1, "urgent": False}
    with open("done.txt", "a") as file:
        file.write(f"{case.input['s']} {case.input['n']}\\n")
    step("begin", int, case.input["n"])
    time.sleep(case.input["sleep"])
    seen = session().update(counted)["n"]
    if case.input["ask"]:
        ask_person("send?", options=["yes", "no"])
    return {"n": case.input["n"], "seen": seen, "urgent": case.input["n"] % 4 == 0}

def follow(case):
    return case.input["n"]

timer = every("1s", missed="all")
work = stream(work, session="input.s", isolation="synchronized", parallel=4, triggers=[timer])
follow = stream(follow, triggers=[after("work", where="output.urgent")], parallel=2)
host = serve(work, follow, store="live.db", wait=60)
print("ready", flush=True)
host.wait()
"""
PATIENCE = 120.0


class KilledHost:
    """A host in a process of its own that is killed and started again."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store = folder, folder / "live.db"
        (folder / "host.py").write_text(HOST)
        self.process = self._start()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "host.py"], cwd=self.folder, stdout=subprocess.PIPE, text=True
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        return process

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.communicate(timeout=PATIENCE)

    def restart(self) -> None:
        self.process = self._start()

    def answer_some(self, rng: random.Random) -> None:
        for question in inbox(self.store):
            if rng.random() < 0.5:
                answer_text(question.key, "yes", self.store, by="ann")


def run_with_kills(folder: Path, kills: int, jobs: int, questions: int, sessions: int) -> None:
    rng = random.Random(kills)
    host = KilledHost(folder)
    asking = set(rng.sample(range(jobs), questions))
    given = [
        {"s": n % sessions, "n": n, "ask": n in asking, "sleep": rng.choice([0, 0, 0.01])}
        for n in range(jobs)
    ]
    accepted: dict[str, dict[str, Any]] = {}
    parts = [given[n :: kills + 1] for n in range(kills + 1)]
    order: list[list[int]] = []
    for part in parts:
        view = open(host.store).stream("work")
        made = view.submit_many({"input": one, "key": f"k{one['n']}"} for one in part)
        accepted.update((job.id, one) for job, one in zip(made, part, strict=True))
        order.append([one["n"] for one in part])
        time.sleep(rng.uniform(0, 0.4))
        if len(order) <= kills:
            host.answer_some(rng)
            host.kill()
            host.restart()
    view = open(host.store).stream("work")
    deadline = time.monotonic() + PATIENCE
    while not all(view.wait(job, 0) for job in accepted):
        assert time.monotonic() < deadline
        host.answer_some(rng)
        time.sleep(0.05)
    follow = open(host.store).stream("follow")
    wanted = sorted(one["n"] for one in given if one["n"] % 4 == 0)
    while len(follow.jobs()) < len(wanted) or not all(follow.wait(str(j["job"]), 0) for j in follow.jobs()):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    host.kill()
    _check(host, accepted, order, sessions)
    assert sorted(follow.result(str(job["job"]), 0) for job in follow.jobs()) == wanted, "a trigger, once"


def _check(
    host: KilledHost, accepted: dict[str, dict[str, Any]], order: list[list[int]], sessions: int
) -> None:
    view = open(host.store).stream("work")
    listed = view.jobs(limit=1_000_000)
    timed = [str(job["key"]) for job in listed if str(job["key"]).startswith("every-")]
    assert len(timed) == len(set(timed)), "a moment of a timer is one job"
    assert {str(job["job"]) for job in listed if job["key"] not in timed} == set(accepted)
    assert {view.state(job) for job in accepted} == {"succeeded"}
    ends = [event["task"] for event in view.events(kinds="task.finished") if event["task"] in accepted]
    assert sorted(ends) == sorted(accepted), "each has one end"
    arrived = [n for part in order for n in part]
    for number in range(sessions):
        mine = [n for n in arrived if n % sessions == number]
        seen = {accepted[job]["n"]: view.result(job, 0)["seen"] for job in accepted}
        assert [seen[n] for n in mine] == list(range(1, len(mine) + 1)), "in order, each counted once"
    store = SqliteStore(host.store, readonly=True)
    assert list(verify(store)) == []
    store.close()


@pytest.mark.timeout(300)
def test_jobs_outlive_random_kills_of_their_host(tmp_path: Path) -> None:
    run_with_kills(tmp_path, kills=3, jobs=40, questions=5, sessions=7)


@pytest.mark.torture
@pytest.mark.timeout(1800)
def test_jobs_outlive_a_hundred_random_kills(tmp_path: Path) -> None:
    run_with_kills(tmp_path, kills=100, jobs=400, questions=20, sessions=14)
