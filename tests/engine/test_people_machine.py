"""Whatever is asked, answered, cancelled, cut off and deleted, in any order: people are asked once, and every
answer reaches its trial."""

from __future__ import annotations

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import peira
from peira import Case, Policy, ask_person, step, study
from peira.app.control import cancel, cancel_trials
from peira.app.inbox import answer, inbox, question, skip
from peira.app.session import Session
from peira.app.store.retention import delete
from peira.core.contracts import Op
from peira.core.log.events import State, TasksClaimed
from peira.errors import Invalid
from peira.stores.verify import verify

NAMES = ("a", "b", "c")


def draw_up(name: str) -> str:
    """Notes in a file that it was executed: what a list would hold is part of an agent's fingerprint."""
    with open(os.environ["PEIRA_TEST_STEPS"], "a") as out:
        out.write(f"{name}\n")
    return f"draft {name}"


@study(
    name="machine",
    cases=[Case(name, id=name) for name in NAMES],
    policy=Policy(interruptions=10_000),
)
def agent(case: Any) -> Any:
    draft = step("draft", draw_up, case.id)
    first = ask_person("First?", show=draft, options=["x", "y"], otherwise="x")
    second = ask_person("Second?")
    return [draft, first, second]


class PeopleMachine(RuleBasedStateMachine):
    """The model: what each trial was told so far, and whether its next question is open."""

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="peira-people-"))
        self.path, self.steps = self.folder / "s.db", self.folder / "steps"
        os.environ["PEIRA_TEST_STEPS"] = str(self.steps)
        self.said: dict[str, list[str]] = {name: [] for name in NAMES}
        self.open: dict[str, bool] = dict.fromkeys(NAMES, False)
        self.started, self.closed = False, set[str]()
        self.trials: dict[str, str] = {}

    def teardown(self) -> None:
        if not hasattr(self, "folder"):
            return
        with Session.find(self.path).reading_if_any() as store:
            assert store is None or verify(store) == []
        shutil.rmtree(self.folder)

    @rule(parallel=st.sampled_from([1, 4]))
    def run(self, parallel: int) -> None:
        results = peira.run(agent, store=self.path, parallel=parallel, progress=False)
        self.started = True
        self.trials = {trial.case_id: trial.id for trial in results.trials}
        done = {name for name, said in self.said.items() if len(said) == 2}
        self.open = {name: name not in done for name in NAMES}
        assert results.status == ("completed" if done == set(NAMES) else "waiting for people")
        for trial in results.trials:
            expected = [f"draft {trial.case_id}", *self.said[trial.case_id]]
            assert trial.output == (expected if trial.case_id in done else None)
        assert sorted(self.steps.read_text().split()) == sorted(NAMES)  # each once, whatever happened

    some_open = precondition(lambda self: any(self.open.values()))

    def _asked(self, data: st.DataObject) -> Any:
        return data.draw(st.sampled_from(sorted(inbox(self.path), key=lambda one: one.question.case)))

    def _close(self, one: Any, value: str) -> None:
        name = one.question.case
        self.said[name].append(value)
        self.open[name] = False
        self.closed.add(one.key)

    @some_open
    @rule(data=st.data(), value=st.sampled_from(["x", "y"]))
    def answer(self, data: st.DataObject, value: str) -> None:
        one = self._asked(data)
        assert answer(one.key, value, self.path, by="ann").taken
        self._close(one, value)

    @some_open
    @rule(data=st.data())
    def answer_wrongly(self, data: st.DataObject) -> None:
        try:
            answer(self._asked(data).key, ["no text"], self.path)
        except Invalid:
            return
        raise AssertionError("it was taken")

    @some_open
    @rule(data=st.data())
    def skip_the_first(self, data: st.DataObject) -> None:
        one = self._asked(data)
        if one.question.prompt == "First?":
            assert skip(one.key, self.path, by="ben").taken
            self._close(one, "x")

    @precondition(lambda self: self.closed)
    @rule(data=st.data())
    def answer_again(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.closed)))
        late = answer(key, "y", self.path, by="late")
        assert not late.taken
        assert late.question.row.by in ("ann", "ben")

    @some_open
    @rule(data=st.data())
    def cancel_one(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from([name for name in NAMES if self.open[name]]))
        run = peira.open(self.path).run()
        got = cancel_trials(run.id, [self.trials[name]], self.path)
        assert got.cancelled == (self.trials[name],)
        self.open[name] = False

    @some_open
    @rule()
    def cancel_all(self) -> None:
        cancel("", self.path)
        self.open = dict.fromkeys(NAMES, False)

    @precondition(lambda self: self.started)
    @rule(data=st.data())
    def die(self, data: st.DataObject) -> None:
        """A process claims what may go on, and is killed; the next owner finds that."""
        with Session.find(self.path).owned() as store:
            rows = store.find("task", list(self.trials.values()))
            free = [row for row in rows.values() if row.state is State.queued]
            run = peira.open(self.path).run().id
            events = [TasksClaimed(row.kind, row.cls, "dead", (row.id,), (row.epoch + 1,)) for row in free]
            store.commit([Op(run, (event,)) for event in events]).result()
        with Session.find(self.path).owned() as store:
            assert store.active() == []

    @precondition(lambda self: self.started)
    @rule()
    def collect(self) -> None:
        """Delete all runs that can be deleted: what is open or was answered is not lost."""
        runs = [run.id for run in peira.open(self.path).runs(limit=1000)]
        for run in runs[1:]:
            with suppress(Invalid):  # it waits for people
                delete([run], self.path)

    @precondition(lambda self: self.started)
    @rule()
    def reopen(self) -> None:
        with Session.find(self.path).owned():
            pass

    @invariant()
    def the_inbox_is_what_the_model_says(self) -> None:
        if not getattr(self, "started", False):
            return
        found = inbox(self.path)
        expected = {
            (name, "First?" if not self.said[name] else "Second?") for name in NAMES if self.open[name]
        }
        assert {(one.question.case, one.question.prompt) for one in found} == expected
        assert len(found) == len(expected)
        for one in found:
            assert question(one.key, self.path).open


PeopleMachine.TestCase.settings = settings(
    max_examples=10, stateful_step_count=14, deadline=None, suppress_health_check=list(HealthCheck)
)
TestPeople = PeopleMachine.TestCase
