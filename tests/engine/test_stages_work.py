"""The work of a study's tasks: it goes to another process and back, and its copies are apart."""

from __future__ import annotations

import pytest

from peira import Case, Study, exact
from peira.core.context import SeenCase
from peira.core.contracts import Ended, Work
from peira.core.log.events import Result, State
from peira.engine.sources.study import StudySource
from peira.engine.stages import GenerateWork, TrialReader
from peira.errors import Invalid
from peira.plan.expansion import expand
from peira.spec.modules import reference
from peira.stores.memory import MemoryStore
from peira.testing.script import scripted, scripted_attempt


def test_a_trial_is_the_same_after_its_message() -> None:
    work = scripted_attempt("one", ["return", {"a": [1]}]).work
    again = TrialReader({"scripted": reference(scripted)}).read(work.message())
    assert isinstance(again, GenerateWork)
    assert again.message() == work.message()
    assert (again.stage, again.scope(), again.asynchronous) == (work.stage, work.scope(), work.asynchronous)


def test_the_reader_loads_what_it_can_and_what_it_cannot_fails_its_attempts(tmp_path) -> None:
    (tmp_path / "broken.py").write_text("raise SystemExit(3)")
    code = {"scripted": reference(scripted), "broken": f"{tmp_path}/broken.py:agent"}
    reader = TrialReader(code)
    reader.load()
    message = scripted_attempt("one", ["return", 1]).work.message()
    assert reader.read(message).case == SeenCase([["return", 1]], "one")
    with pytest.raises(Invalid, match=r"broken\.py"):
        reader.read({**message, "agent": "broken"})


def works() -> list[Work]:
    """One of each kind: a trial, the search for its answer, and the judging of that."""
    study = Study(
        name="s",
        agent=lambda case, f: "x",
        cases=[Case({"n": [1]}, expected={"n": [1]}, metadata={"m": [1]})],
        factors={"f": [{"x": [1]}]},
        evaluators=[exact()],
        transform="first_line",
    )
    source = StudySource(expand(study), MemoryStore())
    [trial] = source.more(1)
    value = Ended(State.succeeded, Result(metrics={"calls": 1.0}), "x")
    [find] = source.follow(trial, value)
    [judge] = source.follow(find, value)
    return [trial.work, find.work, judge.work]


def test_only_trials_go_to_other_processes() -> None:
    trial, find, judge = works()
    assert trial.reader
    for here in (find, judge):
        assert here.reader == ""
        with pytest.raises(Invalid, match="in the process of the run"):
            here.message()


def test_what_is_done_to_a_copy_does_not_reach_the_work() -> None:
    trial, find, judge = works()
    before = trial.message()
    copy = trial.copy()
    copy.case.input["n"].append(2)
    copy.case.metadata["m"].append(2)
    copy.condition["f"]["x"].append(2)
    assert trial.message() == before == works()[0].message()
    for work in (find, judge):
        copy = work.copy()
        assert (copy.stage, copy.scope()) == (work.stage, work.scope())
        copy.place.case.expected["n"].append(2)
        copy.place.condition.factors["f"]["x"].append(2)
        copy.output.result.metrics["calls"] = 9.0
        assert work.place.case.expected == {"n": [1]}
        assert work.place.condition.factors == {"f": {"x": [1]}}
        assert work.output.result.metrics == {"calls": 1.0}
