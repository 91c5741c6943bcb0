"""Workers that do only some classes of work, and runs that wait for people, who answer anywhere."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import peira
from peira.app.control import cancel, cancel_trials, pause_run, resume_run
from peira.app.inbox import answer, inbox
from peira.app.run import RunOptions
from peira.app.session import Session
from peira.app.workers import WorkerOptions, submit_shared, work
from peira.core.log.events import State, Status, TasksClaimed
from peira.errors import Invalid
from peira.stores.verify import verify

SCORED = """
import time
from peira import Case, exact, study


@study(cases=[Case(i, expected=i) for i in range(24)], transform="identity", evaluators=[exact()])
def numbers(case):
    time.sleep(0.02)
    if case.input == 5:
        raise ValueError("no")
    return case.input
"""
ASKING = """
import os
import time
from peira import Case, ask_person, exact, study


@study(cases=[Case(i, expected="yes") for i in range(12)], evaluators=[exact()])
def asking(case):
    time.sleep(0.02)
    return ask_person(f"Is {case.input} a number?", options=["yes", "no"]) if case.input in (2, 7) else "yes"
"""
HELD = """

def wait(n):
    while n == 0 and not os.path.exists("go"):
        time.sleep(0.05)
"""
WORKER = """
import sys
from peira.app.session import Session
from peira.app.workers import WorkerOptions, work

if __name__ == "__main__":
    classes = tuple(sys.argv[2].split(",")) if len(sys.argv) > 2 else ("generate", "transform", "evaluate")
    run = sys.argv[3] if len(sys.argv) > 3 else ""
    work(Session.find(sys.argv[1]), WorkerOptions(parallel=2, lease=10.0, classes=classes, run=run))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, text in {"scored.py": SCORED, "asking.py": ASKING, "worker.py": WORKER}.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def submit(study: str, address: str, **options: Any) -> str:
    return submit_shared(study, RunOptions(workers=0, **options), Session.find(address))


def wait_for(condition: Callable[[], Any]) -> Any:
    until = time.monotonic() + 40
    while not (found := condition()):
        assert time.monotonic() < until
        time.sleep(0.05)
    return found


def sound(address: str) -> None:
    with Session.find(address).reading() as store:
        assert verify(store) == []


def owners(address: str, run: str) -> dict[str, set[str]]:
    """Who has claimed tasks of each kind."""
    found: dict[str, set[str]] = defaultdict(set)
    with Session.find(address).reading() as store:
        for record in store.events(run, 0, 100_000):
            if isinstance(record.event, TasksClaimed):
                found[record.event.task_kind].add(record.event.owner)
    return found


def trials(address: str, run: str) -> dict[str, str]:
    """The ids of a run's trials, by their inputs."""
    return {str(trial.input): trial.id for trial in peira.open(address).results(run)}


def test_workers_of_two_classes_do_a_run_together(folder, postgres_url, join):
    run = submit("scored.py", postgres_url)
    workers = [join("evaluate"), join("generate,transform")]
    assert [worker.wait(timeout=50) for worker in workers] == [0, 0]
    ended = peira.open(postgres_url).run(run)
    assert ended.status is Status.failures
    assert ended.counts == {
        "planned": 24, "evaluate.succeeded": 23, "generate.failed": 1, "generate.succeeded": 23,
        "transform.succeeded": 23,
    }  # fmt: skip
    did = owners(postgres_url, run)
    assert did["generate"] == did["transform"]
    assert len(did["generate"]) == len(did["evaluate"]) == 1
    assert did["generate"].isdisjoint(did["evaluate"]), "each has done its own class only"
    alone = peira.run("scored.py", store="alone.db", progress=False)
    assert str(peira.open(postgres_url).results(run).table()) == str(alone.table())
    sound(postgres_url)


def test_what_is_left_is_for_others(folder, postgres_url):
    run = submit("scored.py", postgres_url)
    session = Session.find(postgres_url)
    left = work(session, WorkerOptions(parallel=2, classes=("generate",)))
    assert left is not None
    assert "other classes" in left.reason
    assert peira.open(postgres_url).run(run).status is not Status.completed
    assert work(session, WorkerOptions(parallel=2, classes=("generate",))) is None, "nothing of its class"
    work(session, WorkerOptions(parallel=2, classes=("transform",)))
    ended = work(session, WorkerOptions(parallel=2, classes=("evaluate",)))
    assert ended is not None
    assert ended.counts["evaluate.succeeded"] == 23
    assert {kind: len(who) for kind, who in owners(postgres_url, run).items()} == {
        "generate": 1, "transform": 1, "evaluate": 1,
    }  # fmt: skip


def test_classes_that_do_not_exist_are_refused(postgres_url):
    with pytest.raises(Invalid, match="'judge'; the classes are generate, transform, evaluate"):
        work(Session.find(postgres_url), WorkerOptions(classes=("judge",)))
    assert not Session.find(postgres_url).exists


def test_a_run_ends_with_open_questions_and_a_later_one_goes_on(folder, postgres_url, join):
    run = submit("asking.py", postgres_url)
    assert [worker.wait(timeout=50) for worker in [join(), join()]] == [0, 0]
    ended = peira.open(postgres_url).run(run)
    assert ended.status is Status.waiting
    assert ended.counts["generate.waiting"] == 2
    assert ended.counts["generate.succeeded"] == 10
    for one in inbox(postgres_url):
        assert answer(one.key, "yes", postgres_url, by="ann").taken
    again = submit("asking.py", postgres_url)
    work(Session.find(postgres_url), WorkerOptions(parallel=2))
    assert peira.open(postgres_url).results(again).counts["succeeded"] == 2
    sound(postgres_url)


def test_a_run_that_stays_is_answered_from_anywhere(folder, postgres_url, join):
    run = submit("asking.py", postgres_url, wait_for_people=True)
    first = join()
    asked = wait_for(lambda: (found := inbox(postgres_url)) and len(found) == 2 and found)
    first.kill()  # who asked is gone; another has the trials that wait
    second = join()
    wait_for(lambda: peira.open(postgres_url).run(run).status is Status.running)
    assert answer(asked[0].key, "yes", postgres_url, by="ann").taken
    time.sleep(1.0)
    assert second.poll() is None, f"one question is open: {second.communicate()[1].decode()}"
    assert answer(asked[1].key, "no", postgres_url, by="ann").taken
    assert second.wait(timeout=50) == 0
    results = peira.open(postgres_url).results(run)
    assert results.status == "completed"
    assert sorted(str(trial.output) for trial in results) == ["no"] + ["yes"] * 11
    sound(postgres_url)


def test_an_answer_is_used_while_others_still_work(folder, postgres_url, join):
    """A worker whose trials all wait goes on when they are answered: the run is open while another works."""
    text = ASKING.replace("time.sleep(0.02)", "wait(case.input)").replace(
        "case.input in (2, 7)", "case.input"
    )
    Path("asking.py").write_text(text + HELD)
    run = submit("asking.py", postgres_url)
    workers = [join(), join()]
    asked = wait_for(lambda: (found := inbox(postgres_url)) and len(found) == 11 and found)
    time.sleep(1.0)  # until one of them has put its trials aside
    for one in asked:
        assert answer(one.key, "yes", postgres_url, by="ann").taken
    results = peira.open(postgres_url)
    wait_for(lambda: sum(trial.output == "yes" for trial in results.results(run)) == 11)
    Path("go").touch()
    assert [worker.wait(timeout=50) for worker in workers] == [0, 0]
    ended = results.run(run)
    assert (ended.status, ended.counts["generate.succeeded"]) == (Status.completed, 12)
    sound(postgres_url)


def test_who_has_the_store_alone_leaves_shared_runs_to_workers(folder, postgres_url, join):
    Path("other.py").write_text(SCORED.replace("numbers", "others"))
    run = submit("scored.py", postgres_url)
    worker = join()
    wait_for(lambda: owners(postgres_url, run))
    worker.kill()
    worker.wait(timeout=20)
    peira.run("other.py", store=postgres_url, wait=30.0, progress=False)
    ended = work(Session.find(postgres_url), WorkerOptions(parallel=2))
    assert ended is not None
    assert ended.counts["generate.succeeded"] == 23
    sound(postgres_url)


def test_a_command_reaches_the_members_of_another_run(folder, postgres_url, join):
    """Commands are executed by one member, whichever run it works on."""
    slow = SCORED.replace("0.02", "1.5")
    Path("scored.py").write_text(slow)
    Path("other.py").write_text(slow.replace("numbers", "others"))
    runs = [submit("scored.py", postgres_url), submit("other.py", postgres_url)]
    workers = [join("generate,transform,evaluate", run) for run in runs]
    for run in runs:
        wait_for(lambda run=run: owners(postgres_url, run))
    for run in runs:
        some = list(trials(postgres_url, run).values())[::2]
        assert len(cancel_trials(run, some, postgres_url).cancelled) > 2, "more than are executed"
        assert pause_run(run, postgres_url)[1]
        assert resume_run(run, postgres_url)[1]
        assert cancel(run, postgres_url).done
    assert [worker.wait(timeout=50) for worker in workers] == [0, 0]


def test_single_trials_are_cancelled_wherever_they_are(folder, postgres_url, join):
    """At either worker, running or waiting, in a range that it has not begun, or not handed out yet."""
    text = ASKING.replace("time.sleep(0.02)", "wait(case.input % 3)").replace("range(12)", "range(30)")
    Path("asking.py").write_text(text.replace("case.input in (2, 7)", "case.input % 3") + HELD)
    run = submit("asking.py", postgres_url)
    workers = [join(), join()]
    ids = trials(postgres_url, run)

    def rows() -> dict[str, Any]:
        with Session.find(postgres_url).reading() as store:
            return store.find("task", list(ids.values()))

    def found_in(state: State, seen: dict[str, Any]) -> dict[str, str]:
        """Trials in a state, one of each worker that has any."""
        return {row.owner: row.id for row in seen.values() if row.state is state}

    seen: dict[str, Any] = {}

    def both_at_work() -> bool:
        seen.clear()
        seen.update(rows())
        return len(found_in(State.running, seen)) == 2 and bool(found_in(State.waiting, seen))

    wait_for(both_at_work)
    unbegun = sorted(set(ids.values()) - seen.keys())
    assert len(unbegun) > 4
    chosen = [*found_in(State.running, seen).values(), *found_in(State.waiting, seen).values(), *unbegun[4:]]
    assert set(cancel_trials(run, chosen, postgres_url).cancelled) == set(chosen)
    assert cancel_trials(run, chosen[:1], postgres_url).over == {chosen[0]: "cancelled"}
    why = {row.result.failure.message for row in rows().values() if row.state is State.cancelled}
    assert len(why) == 1, "all say the same of who asked for it"
    Path("go").touch()
    assert {worker.wait(timeout=50) for worker in workers} <= {0, 1}
    ended = peira.open(postgres_url).run(run)
    assert ended.counts["generate.cancelled"] == len(chosen)
    left = 30 - len(chosen)
    assert left == sum(ended.counts.get(f"generate.{state}", 0) for state in ("succeeded", "waiting"))
    assert not {question.question.trial for question in inbox(postgres_url)} & set(chosen)
    sound(postgres_url)
