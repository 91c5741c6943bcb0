"""Baselines answer from the seed of each trial, or always alike; in files and in every runner."""

from __future__ import annotations

from collections import Counter

import pytest

from peira import Case, Study, run
from peira.errors import Invalid
from peira.spec.study_files import load
from peira.stores.memory import MemoryStore


def outputs(agent, cases, **options):
    study = Study(name="s", agent=agent, cases=cases)
    return [trial.output for trial in run(study, store=MemoryStore(), progress=False, **options)]


def test_answers_are_as_likely_as_is_said():
    cases = [Case(n) for n in range(600)]
    even = Counter(outputs({"kind": "random", "answers": ["a", "b", "c"]}, cases))
    assert set(even) == {"a", "b", "c"}
    assert min(even.values()) > 140
    weighted = Counter(outputs({"kind": "random", "answers": ["a", "b"], "weights": [9, 1]}, cases))
    assert 480 < weighted["a"] < 590
    assert set(outputs({"kind": "random", "answers": ["a", "b"], "weights": [0, 1]}, cases)) == {"b"}


def test_the_choices_of_a_case():
    cases = [Case({"q": n, "choices": {"A": "x", "B": "y"}}) for n in range(30)]
    assert set(outputs({"kind": "random", "of": "choices"}, cases)) == {"A", "B"}
    listed = [Case(n, metadata={"options": [n, n + 1]}) for n in range(30)]
    found = outputs({"kind": "random", "of": "options"}, listed)
    assert {answer - n for n, answer in enumerate(found)} == {0, 1}


def test_a_child_process_draws_the_same():
    cases, agent = [Case(n) for n in range(12)], {"kind": "random", "answers": [1, 2, 3]}
    assert outputs(agent, cases) == outputs(agent, cases, runner="process", parallel=2)


def test_a_constant_and_a_study_file(tmp_path):
    (tmp_path / "s.toml").write_text(
        'cases = [{input = "a"}]\n[agents.always]\nkind = "constant"\nanswer = "B"\n'
        '[agents.chance]\nkind = "random"\nanswers = ["A", "B"]\n'
    )
    results = run(load(tmp_path / "s.toml"), store=MemoryStore(), progress=False)
    assert {trial.agent: trial.output for trial in results}["always"] == "B"


@pytest.mark.parametrize(
    "options", [{}, {"answers": ["a"], "of": "x"}, {"answers": ["a"], "weights": [1, 2]}, {"anwers": ["a"]}]
)
def test_wrong_options_are_refused(options):
    with pytest.raises(Invalid):
        Study(name="s", agent={"kind": "random", **options}, cases=[Case(1)])


def test_an_object_with_run_is_an_agent():
    class Team:
        def run(self, case):
            return case.input + 1

    assert outputs(Team(), [Case(1), Case(2)]) == [2, 3]
