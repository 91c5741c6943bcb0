"""A run in a process that asks people, while it is answered, paused, resumed, cancelled and killed.

The model says after each act which questions are open, what each trial was told, and whether the process
lives.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

import peira
from peira.app.control import cancel_trials, pause_run, resume_run
from peira.app.inbox import answer, inbox
from peira.app.session import Session
from peira.app.store.retention import delete
from peira.core.log.events import Status
from peira.errors import Invalid, Unknown
from peira.stores.verify import verify

NAMES = ("a", "b", "c")
PATIENCE = 20.0
STUDY = """
import sys
from peira import Case, Policy, ask_person, run, step, study

def note(what, where):
    with open(where, "a") as out:
        out.write(what + "\\n")
    return what

@study(name="letters", cases=[Case(name, id=name) for name in "abc"], policy=Policy(interruptions=10_000))
def letters(case):
    draft = step("draft", note, case.id, sys.argv[2])
    first = ask_person("First?", show=draft)
    return [draft, first, ask_person("Second?", show=first)]

if __name__ == "__main__":
    done = run(letters, store=sys.argv[1], wait_for_people=True, progress=False, parallel=2)
    sys.exit(0 if done.status == "completed" else 5)
"""


class ControlMachine(RuleBasedStateMachine):
    """What each trial was told, which are cancelled in the newest run, and the process if it lives."""

    def __init__(self, warm: Any) -> None:
        super().__init__()
        self.warm = warm

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="peira-control-"))
        self.path, self.steps = self.folder / "s.db", self.folder / "steps"
        (self.folder / "letters.py").write_text(STUDY)
        self.said: dict[str, list[str]] = {name: [] for name in NAMES}
        self.cancelled: set[str] = set()
        self.stalled: set[str] = set()  # answered while nothing went on: the next question is not asked yet
        self.trials: dict[str, str] = {}
        self.process: Any = None
        self.paused, self.kills = False, 0
        self.start()

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        if self.process is not None:
            self.process.kill()
            self.process.wait()
        with Session.find(self.path).owned() as store:
            assert verify(store) == []
        shutil.rmtree(self.folder)

    # The model

    @property
    def open(self) -> dict[str, str]:
        """The question that each trial waits for."""
        waiting = [n for n in NAMES if len(self.said[n]) < 2 and n not in self.cancelled | self.stalled]
        return {name: "Second?" if self.said[name] else "First?" for name in waiting}

    @property
    def over(self) -> bool:
        """Whether the run under way has nothing left to do."""
        return not self.open and not self.stalled

    def settle(self) -> None:
        """Wait until store and process are as the model says."""
        deadline = time.monotonic() + PATIENCE
        while self._seen() != (expected := (self.open, self.process is not None and not self.over)):
            assert time.monotonic() < deadline, (self._seen(), expected)
            time.sleep(0.01)
        if self.process is not None and self.over:
            done = all(len(said) == 2 for said in self.said.values())
            assert self.process.wait(PATIENCE) == (0 if done else 5)
            self.process, self.paused = None, False
            self.check_outputs()

    def _seen(self) -> tuple[dict[str, str], bool]:
        with suppress(Unknown):  # there is no store yet
            found = inbox(self.path)
            asked = {one.question.case: one.question.prompt for one in found}
            assert len(asked) == len(found), "a trial waits for one question at a time"
            return asked, self.process is not None and self.process.poll() is None
        return {}, False

    def _newest(self) -> str:
        """The newest run that has started; "" if there is none."""
        with suppress(Unknown):
            run = peira.open(self.path).run()
            return "" if run.status is Status.planned else run.id
        return ""

    def check_outputs(self) -> None:
        for trial in peira.open(self.path).results().trials:
            said, name = self.said[trial.case_id], trial.case_id
            assert trial.output == ([name, *said] if len(said) == 2 else None)

    # The acts

    @precondition(lambda self: self.process is None and any(len(said) < 2 for said in self.said.values()))
    @rule()
    def start(self) -> None:
        command = [sys.executable, str(self.folder / "letters.py"), str(self.path), str(self.steps)]
        before = self._newest()
        self.process, self.paused = self.warm.start(command), False
        self.cancelled, self.stalled = set(), set()  # a new run asks again what was cancelled
        deadline = time.monotonic() + PATIENCE
        while self._newest() == before:
            assert time.monotonic() < deadline, "no run begins"
            time.sleep(0.01)
        self.settle()
        if not self.trials:
            results = peira.open(self.path).results()
            self.trials = {trial.case_id: trial.id for trial in results.trials}

    @precondition(lambda self: self.process is not None)
    @rule()
    def kill(self) -> None:
        self.process.kill()
        assert self.process.wait(PATIENCE) == -9
        self.process, self.paused = None, False
        self.kills += 1
        assert peira.open(self.path).run().status is Status.interrupted
        self.settle()

    @precondition(lambda self: self.open)
    @rule(data=st.data(), value=st.sampled_from(["x", "y"]))
    def answer(self, data: st.DataObject, value: str) -> None:
        name = data.draw(st.sampled_from(sorted(self.open)))
        [one] = [one for one in inbox(self.path) if one.question.case == name]
        assert answer(one.key, value, self.path, by="ann").taken
        self.said[name].append(value)
        if self.process is None or self.paused:
            self.stalled.add(name)
        self.settle()
        late = answer(one.key, "late", self.path, by="ben")
        assert not late.taken
        assert late.question.row.by == "ann"

    @precondition(lambda self: self.open and self.process is not None)
    @rule(data=st.data())
    def cancel_one(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.open)))
        got = cancel_trials("", [self.trials[name]], self.path)
        assert got.cancelled == (self.trials[name],)
        self.cancelled.add(name)
        if self.over and self.paused:
            self.resume()
        self.settle()

    @precondition(lambda self: self.process is not None and not self.paused)
    @rule()
    def pause(self) -> None:
        run, paused = pause_run("", self.path)
        assert paused
        assert run.status is Status.paused
        self.paused = True
        self.settle()

    @precondition(lambda self: self.paused)
    @rule()
    def resume(self) -> None:
        _, resumed = resume_run("", self.path)
        self.paused = False
        self.stalled = {name for name in self.stalled if len(self.said[name]) == 2}
        if self.process is not None:
            self.stalled = set()
            assert resumed or self.over
        self.settle()

    @precondition(lambda self: self.process is None and self.trials)
    @rule()
    def collect(self) -> None:
        """Delete what can be deleted: what is open or was answered is not lost."""
        for run in [run.id for run in peira.open(self.path).runs(limit=1000)][1:]:
            with suppress(Invalid):  # it waits for people
                delete([run], self.path)
        self.settle()


def explore(warm: Any, examples: int, steps: int) -> None:
    limits = settings(
        max_examples=examples,
        stateful_step_count=steps,
        deadline=None,
        suppress_health_check=list(HealthCheck),
        print_blob=True,
    )
    run_state_machine_as_test(lambda: ControlMachine(warm), settings=limits)


@pytest.mark.timeout(180)
def test_whatever_is_done_to_a_run_that_asks_people(warm: Any) -> None:
    explore(warm, examples=4, steps=12)


@pytest.mark.torture
def test_whatever_is_done_to_a_run_that_asks_people_at_length(warm: Any) -> None:
    explore(warm, examples=80, steps=25)
