"""Run, fail, name, delete, collect, back up, restore, merge, in any order: a model knows what each run shows.

What is kept is exactly as it was when its run ended, the store verifies after every step, and nothing that
was recorded is paid for again.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from peira import open as opened
from peira import run
from peira.app.store.migration import merge
from peira.app.store.retention import collect, delete
from peira.errors import Invalid
from peira.spec.limits import Keep
from peira.stores.sqlite.store import SqliteStore
from peira.stores.verify import verify

STUDY = """
from pathlib import Path
from peira import ask, exact, step, study

@study(name="NAME", cases=[f"NAME{n}" for n in range(3)], evaluators=[exact()], policy={"retries": 0})
def agent(case):
    step("look", len, case.input)
    ask("scripted:", case.input)
    if case.input in Path("bad").read_text().split():
        raise ValueError("not today")
    return case.input * 1_000
"""
STUDIES = ("p", "q")
STORES = ("a.db", "b.db")
Shown = list[tuple[Any, ...]]


@dataclass
class Stored:
    """What a store should hold: what each of its runs shows, in order, and which have names."""

    runs: dict[str, Shown] = field(default_factory=dict)
    study: dict[str, str] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)


class Housekeeping(RuleBasedStateMachine):
    """Two stores and their models."""

    @initialize()
    def begin(self) -> None:
        self.before = Path.cwd()
        self.folder = Path(tempfile.mkdtemp(prefix="peira-house-"))
        os.chdir(self.folder)
        for name in STUDIES:
            Path(f"{name}.py").write_text(STUDY.replace("NAME", name))
        self.model = {store: Stored() for store in STORES}
        self.number = 0
        self.saved: tuple[str, Stored] | None = None

    def teardown(self) -> None:
        os.chdir(getattr(self, "before", Path.cwd()))
        shutil.rmtree(getattr(self, "folder", "/nonexistent"), ignore_errors=True)

    def shown(self, store: str, run_id: str) -> Shown:
        trials = opened(store).results(run_id).trials
        return [(t.id, t.state, t.output, t.attempts, t.took, t.calls, dict(t.scores)) for t in trials]

    @rule(
        store=st.sampled_from(STORES),
        study=st.sampled_from(STUDIES),
        bad=st.sets(st.integers(0, 2)),
        named=st.booleans(),
    )
    def execute(self, store: str, study: str, bad: set[int], named: bool) -> None:
        """A run, which goes on with what is there; some trials fail that have not succeeded before."""
        Path("bad").write_text(" ".join(f"{study}{n}" for n in bad))
        self.number += 1
        name = f"named-{self.number}" if named else ""
        done = run(f"{study}.py", store=store, progress=False, name=name)
        kept = self.model[store]
        succeeded = {t[0] for shown in kept.runs.values() for t in shown if t[1] == "succeeded"}
        assert done.spent.calls <= len([t for t in done.trials if t.id not in succeeded])
        assert all(t.state == "succeeded" for t in done.trials if t.id in succeeded)
        kept.runs[done.run_id], kept.study[done.run_id] = self.shown(store, done.run_id), study
        if named:
            kept.names.add(done.run_id)

    @rule(store=st.sampled_from(STORES), data=st.data())
    def remove(self, store: str, data: st.DataObject) -> None:
        kept = self.model[store]
        if kept.runs:
            chosen = data.draw(st.sets(st.sampled_from(sorted(kept.runs)), min_size=1, max_size=2))
            delete(sorted(chosen), store)
            for one in chosen:
                del kept.runs[one]

    @rule(store=st.sampled_from(STORES), count=st.integers(0, 2))
    def tidy(self, store: str, count: int) -> None:
        kept = self.model[store]
        if not kept.runs:
            return
        order = [one.id for one in opened(store).runs()]
        collect(Keep(count=count), store)
        for study in STUDIES:
            loose = [one for one in order if one not in kept.names and kept.study[one] == study]
            for one in loose[count:]:
                del kept.runs[one]

    @rule(store=st.sampled_from(STORES))
    def back_up(self, store: str) -> None:
        if Path(store).exists():
            self.forget_copy()
            opened(store).backup("copy.db")
            kept = self.model[store]
            self.saved = store, Stored(dict(kept.runs), dict(kept.study), set(kept.names))

    def forget_copy(self) -> None:
        for file in self.folder.glob("copy.db*"):
            shutil.rmtree(file) if file.is_dir() else file.unlink()

    @precondition(lambda self: self.saved is not None)
    @rule()
    def compare_copy(self) -> None:
        assert self.saved is not None
        _, kept = self.saved
        assert {one.id for one in opened("copy.db").runs()} == kept.runs.keys()
        assert {one: self.shown("copy.db", one) for one in kept.runs} == kept.runs

    @rule(into=st.sampled_from(STORES))
    def join(self, into: str) -> None:
        [other] = [one for one in STORES if one != into]
        if not (Path(into).exists() and Path(other).exists()):
            return
        ours, theirs = self.model[into], self.model[other]
        if problem := self.refusal(other, into):
            assert "was deleted here" in problem or "gone on differently" in problem
            return
        ours.runs |= theirs.runs
        ours.study |= theirs.study
        ours.names |= theirs.names

    def refusal(self, other: str, into: str) -> str:
        """Why the stores cannot be merged: one of them has deleted a run meanwhile."""
        try:
            merge(other, into)
        except Invalid as refused:
            return refused.problems[0]
        return ""

    @invariant()
    def is_as_the_model_says(self) -> None:
        for path, kept in getattr(self, "model", {}).items():
            if Path(path).exists():
                assert {one.id for one in opened(path).runs()} == kept.runs.keys()
                assert {one: self.shown(path, one) for one in kept.runs} == kept.runs
                store = SqliteStore(path, readonly=True)
                assert verify(store) == []
                store.close()


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]


@pytest.mark.timeout(60)
def test_whatever_is_done_in_whichever_order() -> None:
    """A sample; `make torture` does more."""
    machine = Housekeeping.TestCase()
    machine.settings = settings(
        max_examples=8, stateful_step_count=8, suppress_health_check=SLOW, deadline=None
    )
    machine.runTest()


@pytest.mark.torture
@pytest.mark.timeout(3600)
def test_whatever_is_done_for_long() -> None:
    machine = Housekeeping.TestCase()
    machine.settings = settings(
        max_examples=80, stateful_step_count=14, suppress_health_check=SLOW, deadline=None
    )
    machine.runTest()
