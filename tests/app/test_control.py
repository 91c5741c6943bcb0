"""Control of runs and single trials from elsewhere: in every state, and over the death of processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import peira
from peira import Budget, Case, Policy, ask, ask_person, study, submit
from peira.app.control import adjust_run, cancel, cancel_trials, deliver, pause_run, resume_run
from peira.app.inbox import answer, inbox, question
from peira.app.session import Session
from peira.core.log.events import CommandTaken, State
from peira.engine.control import ANSWER, CANCEL, Command, ControlFolder
from peira.errors import Invalid, Unknown
from peira.stores.verify import verify

GATES: dict[str, threading.Event] = {}
STARTED: set[str] = set()


def until(condition: Callable[[], object], seconds: float = 30.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about"
        time.sleep(0.01)


def sound(path: Path) -> None:
    with Session.find(path).reading() as store:
        assert verify(store) == []


@pytest.fixture
def gates() -> Any:
    GATES.clear()
    STARTED.clear()
    yield GATES
    for gate in GATES.values():
        gate.set()


def wait_at(case: str) -> None:
    STARTED.add(case)
    GATES.setdefault(case, threading.Event()).wait(30)


def states(path: Path, run: str) -> dict[str, Any]:
    return {t.case_id: t.state for t in peira.open(path).results(run).trials}


def ids(path: Path, run: str) -> dict[str, str]:
    return {t.case_id: t.id for t in peira.open(path).results(run).trials}


def test_single_trials_are_cancelled_in_every_state(gates: Any, tmp_path: Path) -> None:
    names = ("waits", "fails", "runs", "queued", "done")

    @study(
        name="states",
        cases=[Case(name, id=name) for name in names],
        policy=Policy(retries=3, backoff=60, jitter=False),
    )
    def states_(case: Any) -> Any:
        if case.id == "waits":
            return ask_person("Well?")
        if case.id == "fails":
            STARTED.add("fails")
            raise OSError("try again")
        if case.id == "done":
            return 1
        wait_at(case.id)
        return case.id

    path = tmp_path / "s.db"
    handle = submit(states_, store=path, parallel=1, progress=False)
    run = handle.run_id
    # One worker: of the two that wait at a gate one runs, and the other is queued behind it.
    until(lambda: STARTED & {"runs", "queued"})
    [running] = STARTED & {"runs", "queued"}
    other = "queued" if running == "runs" else "runs"
    trials = ids(path, run)
    got = cancel_trials(run, [trials[running]], path)
    assert got.cancelled == (trials[running],)
    until(lambda: other in STARTED)
    cancel_trials(run, [trials[other][:12]], path)
    until(lambda: {"fails"} <= STARTED and inbox(path))
    with Session.find(path).reading() as store:
        until(lambda: store.find("task", [trials["fails"]])[trials["fails"]].not_before > 0)
    key = inbox(path)[0].key
    assert set(cancel_trials(run, [trials["fails"], trials["waits"]], path).cancelled) == {
        trials["fails"],
        trials["waits"],
    }
    results = handle.result(timeout=30)
    assert results.counts["cancelled"] == 4
    assert results.counts["succeeded"] == 1
    assert question(key, path).row.how == "void"
    again = cancel_trials(run, [trials["done"], trials["fails"]], path)
    assert (again.cancelled, again.over) == (
        (),
        {trials["done"]: "succeeded", trials["fails"]: "cancelled"},
    )
    with pytest.raises(Unknown):
        cancel_trials(run, ["abcdef"], path)
    sound(path)


def test_a_trial_that_has_not_even_been_offered_is_cancelled(gates: Any, tmp_path: Path) -> None:
    @study(name="many", cases=[Case(str(n), id=str(n)) for n in range(6000)])
    def many(case: Any) -> Any:
        wait_at("all")
        return 1

    path = tmp_path / "s.db"
    handle = submit(many, store=path, parallel=2, progress=False)
    until(lambda: "all" in STARTED)
    trials = list(ids(path, handle.run_id).values())
    with Session.find(path).reading() as store:
        known = store.find("task", trials)
    fresh = [trial for trial in trials if trial not in known]
    chosen = [fresh[0], fresh[len(fresh) // 2], fresh[-1]]
    assert set(cancel_trials(handle.run_id, chosen, path).cancelled) == set(chosen)
    gates["all"].set()
    results = handle.result(timeout=60)
    assert (results.counts["cancelled"], results.counts["succeeded"]) == (3, 5997)
    assert (results.status, results.ok) == ("cancelled", False)
    again = peira.run(many, store=path, progress=False)  # nothing that was cancelled counts as done
    assert (again.status, again.counts["reused"], again.counts["succeeded"]) == ("completed", 5997, 3)
    sound(path)


def test_a_score_that_waits_is_cancelled_with_its_trial(tmp_path: Path) -> None:
    def right(output: Any) -> Any:
        return ask_person("Right?", show=output, options=[0, 1])

    @study(name="judged", cases=[Case("a", id="a"), Case("b", id="b")], evaluators=[right])
    def judged(case: Any) -> Any:
        return case.input

    path = tmp_path / "s.db"
    handle = submit(judged, store=path, progress=False, wait_for_people=True)
    until(lambda: len(inbox(path)) == 2)
    by_case = {one.question.case: one for one in inbox(path)}
    cancel_trials(handle.run_id, [by_case["a"].question.trial], path)
    assert [one.question.case for one in inbox(path)] == ["b"]
    answer(by_case["b"].key, 1, path)
    results = handle.result(timeout=30)
    assert results.counts["scores cancelled"] == 1
    sound(path)


def test_a_paused_run_begins_nothing_until_it_is_resumed(gates: Any, tmp_path: Path) -> None:
    @study(name="paced", cases=[Case(str(n), id=str(n)) for n in range(12)])
    def paced(case: Any) -> Any:
        wait_at(case.id)
        return 1

    path = tmp_path / "s.db"
    handle = submit(paced, store=path, parallel=2, progress=False)
    until(lambda: len(STARTED) == 2)
    run, paused = pause_run(handle.run_id, path)
    assert (run.status, paused) == ("paused", True)
    for gate in list(GATES.values()):
        gate.set()
    until(lambda: handle.progress().done == 2)
    time.sleep(0.3)
    assert len(STARTED) == 2
    assert peira.open(path).run(handle.run_id).status == "paused"
    run, resumed = resume_run(handle.run_id, path)
    assert (run.status, resumed) == ("running", True)
    while not handle.wait(0.02):
        for gate in list(GATES.values()):
            gate.set()
    assert handle.result().counts["succeeded"] == 12
    assert pause_run(handle.run_id, path)[1] is False
    sound(path)


@pytest.mark.parametrize("style", ["threads", "loop", "process"])
def test_more_trials_at_once_while_a_run_goes_on(style: str, tmp_path: Path) -> None:
    head = "async def wide(case):" if style == "loop" else "def wide(case):"
    nap = "await asyncio.sleep(0.01)" if style == "loop" else "time.sleep(0.01)"
    (tmp_path / "wide.py").write_text(
        "import asyncio, os, time\nfrom pathlib import Path\nfrom peira import Case, study\n"
        "@study(name='wide', cases=[Case(str(n), id=str(n)) for n in range(6)])\n"
        f"{head}\n"
        f"    folder = Path({str(tmp_path)!r})\n"
        "    (folder / f'began-{case.id}').touch()\n"
        "    while not (folder / 'go').exists():\n"
        f"        {nap}\n"
        "    return 1\n"
    )
    path = tmp_path / "s.db"
    runner = "process" if style == "process" else "local"
    handle = submit(str(tmp_path / "wide.py"), store=path, parallel=1, runner=runner, progress=False)

    def began() -> int:
        return len(list(tmp_path.glob("began-*")))

    until(lambda: began() == 1)
    time.sleep(0.2)
    assert began() == 1
    run, done = adjust_run(handle.run_id, path, parallel=4)
    assert (run.parallel, done) == (4, True)
    until(lambda: began() == 4)
    time.sleep(0.2)
    assert began() == 4
    (tmp_path / "go").touch()
    assert handle.result(timeout=60).counts["succeeded"] == 6
    sound(path)


def test_a_higher_budget_while_a_run_goes_on(gates: Any, tmp_path: Path) -> None:
    @study(
        name="costly",
        cases=[Case(str(n), id=str(n)) for n in range(6)],
        budget=Budget(calls=2),
        evaluators=[],
    )
    def costly(case: Any) -> Any:
        if case.id != "first":
            wait_at("all")
        return ask("scripted:echo", case.input).text

    path = tmp_path / "s.db"
    handle = submit(costly, store=path, parallel=6, progress=False)
    until(lambda: "all" in STARTED)
    run, done = adjust_run(handle.run_id, path, budget={"calls": 6})
    assert (run.budget, done) == ({"calls": 6.0}, True)
    gates["all"].set()
    assert handle.result(timeout=30).counts["succeeded"] == 6
    with pytest.raises(Invalid, match=r"budget\.trials cannot be raised"):
        adjust_run(handle.run_id, path, budget={"trials": 6})
    sound(path)


def test_two_runs_in_one_process_do_not_eat_each_others_commands(gates: Any, tmp_path: Path) -> None:
    """The service of a store is one for all its runs: whoever looks executes all, each by its own run."""
    from peira.engine.commands import CommandService

    class LiveRun:
        def __init__(self, run: str) -> None:
            self.run, self.got = run, list[str]()

        def obey(self, command: Command) -> None:
            self.got.append(command.id)

        def awaits(self, task: str) -> bool:
            return False

        def arrive(self, keys: Any) -> None: ...

    path = tmp_path / "s.db"
    with Session.find(path).owned() as store:
        service = CommandService(store)
        one, two = LiveRun("one"), LiveRun("two")
        folder = ControlFolder(Path(f"{path}.control"))
        sent = [Command(CANCEL, "one" if n % 2 else "two", "x") for n in range(20)]
        for command in sent:
            folder.send(command)
        with service.attached(one), service.attached(two):  # type: ignore[arg-type]
            threads = [threading.Thread(target=service.serve) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
    assert one.got == [command.id for command in sent if command.run == "one"]
    assert two.got == [command.id for command in sent if command.run == "two"]
    assert list(folder.pending()) == []


ASKING = """
import sys
from peira import Case, ask_person, run, study

@study(name="asking", cases=[Case(str(n), id=str(n)) for n in range(3)])
def asking(case):
    return ask_person("Well?")

if __name__ == "__main__":
    run(asking, store=sys.argv[1], wait_for_people=True, progress=False)
"""


def asking_process(folder: Path, **more: str) -> subprocess.Popen[bytes]:
    (folder / "asking.py").write_text(ASKING)
    env = {**os.environ, **more}
    return subprocess.Popen([sys.executable, str(folder / "asking.py"), str(folder / "s.db")], env=env)


def test_a_command_whose_sender_is_killed_was_not_sent(tmp_path: Path) -> None:
    send = (
        "import sys; from pathlib import Path; from peira.engine.control import Command, ControlFolder; "
        "ControlFolder(Path(sys.argv[1])).send(Command('cancel', 'r', 'ann'))"
    )
    command, env = [sys.executable, "-c", send, str(tmp_path)], {**os.environ}
    assert subprocess.run(command, env={**env, "PEIRA_FAILPOINT": "control.before_rename"}).returncode == -9
    assert list(ControlFolder(tmp_path).pending()) == []
    assert subprocess.run(command, env=env).returncode == 0
    [(_, sent)] = ControlFolder(tmp_path).pending()
    assert (sent.command, sent.by) == ("cancel", "ann")


@pytest.mark.parametrize("place", ["control.before_act", "control.before_remove"])
def test_a_command_whose_owner_is_killed_is_executed_once_by_whoever_comes_next(
    place: str, tmp_path: Path
) -> None:
    process = asking_process(tmp_path, PEIRA_FAILPOINT=f"{place}:1")
    path = tmp_path / "s.db"
    until(lambda: path.exists() and (tmp_path / "s.db.control").parent.exists() and open_now(path) == 3)
    key = inbox(path)[0].key
    outcome = answer(key, "yes", path, by="ann")  # the owner dies of it, and it is executed here
    assert outcome.taken
    assert process.wait(30) == -signal.SIGKILL
    assert question(key, path).row.by == "ann"
    assert len(inbox(path)) == 2
    assert list(ControlFolder(tmp_path / "s.db.control").pending()) == []
    events = [r.event for r in peira.open(path).events(peira.open(path).run().id)]
    assert sum(isinstance(e, CommandTaken) for e in events) == 1
    sound(path)


def open_now(path: Path) -> int:
    try:
        return len(inbox(path))
    except Unknown:
        return 0


def test_an_acknowledged_cancel_survives_the_death_of_the_owner(tmp_path: Path) -> None:
    process = asking_process(tmp_path)
    path = tmp_path / "s.db"
    until(lambda: open_now(path) == 3)
    run = peira.open(path).run()
    trial = inbox(path)[0].question.trial
    assert cancel_trials(run.id, [trial], path).cancelled == (trial,)
    process.kill()
    process.wait()
    with Session.find(path).owned() as store:
        assert store.find("task", [trial])[trial].state is State.cancelled
        assert len(store.waiting()) == 2
    assert cancel(run.id, path).run.status == "cancelled"
    assert inbox(path) == []
    sound(path)


def test_a_command_that_was_sent_while_nobody_was_there_is_executed_by_the_next_owner(
    tmp_path: Path,
) -> None:
    process = asking_process(tmp_path)
    path = tmp_path / "s.db"
    until(lambda: open_now(path) == 3)
    process.kill()
    process.wait()
    key = inbox(path)[0].key
    body = {"key": key, "value": "yes"}
    ControlFolder(tmp_path / "s.db.control").send(Command(ANSWER, "", "ann", body=body))
    assert question(key, path).open
    with Session.find(path).owned():
        pass
    assert question(key, path).row.by == "ann"
    sound(path)


@pytest.mark.parametrize("value", [[1], {"a": 1}, None])
def test_a_command_that_is_not_possible_does_nothing_and_is_gone(value: Any, tmp_path: Path) -> None:
    process = asking_process(tmp_path)
    path = tmp_path / "s.db"
    until(lambda: open_now(path) == 3)
    key = inbox(path)[0].key
    deliver(Session.find(path), Command(ANSWER, "", "ann", body={"key": key, "value": value}))
    deliver(Session.find(path), Command("explode", "", "ann", body={"key": key, "value": value}))
    assert question(key, path).open
    process.kill()
    process.wait()
    sound(path)
