"""Generate, transform, evaluate: each stage on its own, each result known by what it was made from."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import peira
from peira import Case, Study, evaluate, exact, generate, numeric, run, transform
from peira.core.ids import canonical
from peira.core.log.events import TasksClaimed
from peira.core.transforms import NoAnswer, from_json, to_json
from peira.errors import Invalid, Unknown
from peira.spec.study_files import dump, load

SOURCE = """
from pathlib import Path
from peira import Case, study

SAID = ["the sum is 4", "I cannot tell", "it is 6 or 7", "8", "of course 4"]

def note(what):
    with Path("log.txt").open("a") as file:
        file.write(what + chr(10))

def last(output):
    note("transform")
    digits = [word for word in output.split() if word.isdigit()]
    from peira.core.transforms import NoAnswer
    return int(digits[-1]) if digits else NoAnswer("no digits")

def right(output, expected):
    note("evaluate")
    return output == expected

CASES = [Case(i, expected=want) for i, want in enumerate([4, 5, 7, 9, 4])]

@study(cases=CASES, transform=last, evaluators=[right])
def sums(case):
    note("generate")
    return SAID[case.input]
"""


def logged(folder: Path) -> Counter[str]:
    file = folder / "log.txt"
    counts = Counter(file.read_text().split()) if file.exists() else Counter()
    file.unlink(missing_ok=True)
    return counts


def claimed(store: str, kind: str) -> int:
    records = peira.open(store).events(limit=100_000)
    return sum(
        len(r.event.tasks) for r in records if isinstance(r.event, TasksClaimed) and r.event.task_kind == kind
    )


def test_evaluators_judge_the_answer_and_none_is_counted_apart_from_wrong(folder: Path, written) -> None:
    results = run(written(SOURCE), store="s.db", progress=False)
    assert results.ok
    assert [t.answer for t in results.trials] == [4, NoAnswer("no digits"), 7, 8, 4]
    assert [t.no_answer for t in results.trials] == ["", "no digits", "", "", ""]
    assert [t.output for t in results.trials][1] == "I cannot tell"
    assert [t.scores["right"].value for t in results.trials] == [True, False, True, False, True]
    [row] = results.table().rows
    assert (row["mean"], row["n"], row["no_answer"], row["failed"]) == (0.6, 5, 1, 0)
    assert "no answer" in str(results.table())
    assert results.counts["answers"] == results.counts["scores"] == 5
    assert logged(folder) == {"generate": 5, "transform": 5, "evaluate": 4}


def test_each_stage_runs_on_its_own_and_nothing_is_done_twice(folder: Path, written) -> None:
    study = written(SOURCE)
    generated = generate(study, store="s.db", progress=False)
    assert logged(folder) == {"generate": 5}
    assert {t.found.state for t in generated.trials if t.found} == {"queued"}
    transform(study, store="s.db", progress=False)
    assert logged(folder) == {"transform": 5}
    evaluate(study, store="s.db", progress=False)
    assert logged(folder) == {"evaluate": 4}
    assert run(study, store="s.db", progress=False).ok
    assert logged(folder) == {}


def test_another_transform_finds_anew_and_judges_only_answers_that_changed(folder: Path, written) -> None:
    study = written(SOURCE)
    run(study, store="s.db", progress=False)
    logged(folder)
    written(SOURCE.replace("int(digits[-1])", "int(digits[0])"))
    results = run(study, store="s.db", progress=False)
    assert [t.answer for t in results.trials][2] == 6
    assert logged(folder) == {"transform": 5, "evaluate": 1}


def test_a_corrected_reference_judges_its_own_cases_and_finds_nothing_anew(folder: Path, written) -> None:
    study = written(SOURCE)
    run(study, store="s.db", progress=False)
    logged(folder)
    written(SOURCE.replace("[4, 5, 7, 9, 4]", "[4, 5, 7, 8, 4]"))
    results = run(study, store="s.db", progress=False)
    assert results.trials[3].scores["right"].value is True
    assert logged(folder) == {"evaluate": 1}


def test_equal_outputs_are_transformed_once_and_judged_case_by_case(folder: Path) -> None:
    def same(case: object) -> str:
        return "4"

    cases = [Case(i, expected=str(i)) for i in range(200)]
    study = Study(cases=cases, agent=same, transform="identity", evaluators=[exact()])
    results = run(study, store="s.db", parallel=8, progress=False)
    assert results.ok
    assert sum(t.scores["exact"].value for t in results.trials) == 1
    assert claimed("s.db", "transform") == 1
    assert results.counts["answers"] == results.counts["scores"] == 200


def test_a_transform_that_fails_loses_no_output_and_is_tried_again(folder: Path, written) -> None:
    study = written(SOURCE.replace("digits = [", "1 / (len(output) - 1); digits = ["))
    results = run(study, store="s.db", policy={"retries": 0}, progress=False)
    assert not results.ok
    [failure] = results.failures
    assert (failure.stage, failure.failure.type) == ("transform", "ZeroDivisionError")
    assert failure.trial.output == "8"
    assert {s.state for s in failure.trial.scores.values()} == {"blocked"}
    assert "lost" in str(results.table())
    logged(folder)
    written(SOURCE)
    assert run(study, store="s.db", progress=False).ok
    assert logged(folder) == {"transform": 5, "evaluate": 1}


def test_evaluations_live_side_by_side_under_names(folder: Path, written) -> None:
    study = written(SOURCE)
    first = run(study, store="s.db", progress=False)
    other = evaluate(first, [exact()], transform="identity", name="strict", progress=False)
    assert [t.scores["exact"].value for t in other.trials] == [False] * 5
    look = peira.open("s.db")
    again = look.results(f"{first.run_id[:8]}@strict")
    assert again.run_id == other.run_id
    assert set(again.trials[0].scores) == {"exact"}
    assert set(look.results(first.run_id).trials[0].scores) == {"right"}
    assert look.run(other.run_id).evaluation == "strict"
    with pytest.raises(Unknown, match="did you mean 'strict'"):
        look.results(f"{first.run_id[:8]}@stric")
    with pytest.raises(Invalid, match="does not name an evaluation"):
        evaluate(first, [exact()], name="a b", progress=False)
    resumed = evaluate(other.run_id, store="s.db", progress=False)
    assert [t.scores["exact"].value for t in resumed.trials] == [False] * 5


def test_an_evaluator_sees_what_the_trial_said_took_and_cost(folder: Path, written) -> None:
    written(
        SOURCE.replace("def right(output, expected):", "def right(output, expected, trial):").replace(
            'note("evaluate")',
            "assert trial.output in SAID and trial.took >= 0 and trial.cost == 0 and trial.tools is None",
        )
    )
    assert run(folder / "s.py", store="s.db", progress=False).ok


def test_a_run_is_scored_again_from_its_own_transform_when_the_file_is_gone(folder: Path, written) -> None:
    study = written(SOURCE)
    done = generate(study, store="s.db", progress=False)
    study.unlink()
    results = evaluate(done.run_id, store="s.db", progress=False)
    assert [t.scores["right"].value for t in results.trials] == [True, False, True, False, True]


def test_what_is_wrong_with_a_transform_is_said_with_all_else() -> None:
    with pytest.raises(Invalid) as refused:
        Study(cases=[1], agent=len, transform=["strip_reasonin", {"regex": {"pattern": "("}}], repeats=0)
    assert any(p.startswith("transform: ") for p in refused.value.problems)
    assert any(p.startswith("repeats: ") for p in refused.value.problems)


def test_a_chain_of_names_options_and_functions_is_written_and_read(folder: Path, written) -> None:
    written(SOURCE)
    study = load("s.py").model_copy(update={"transform": ("strip_reasoning", {"regex": {"pattern": "4"}})})
    assert dump(study)["transform"] == ["strip_reasoning", {"regex": {"pattern": "4"}}]
    assert dump(load("s.py"))["transform"].endswith("s.py:last")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["answer", "no_answer", "x"]), inner, max_size=2)
    ),
    max_leaves=5,
)


@settings(max_examples=15, deadline=None)
@given(said=st.lists(JSON, min_size=1, max_size=6))
def test_every_answer_reaches_the_evaluator_as_it_was_found(tmp_path_factory, said) -> None:
    seen: list[object] = []

    def hear(output: object, case: object) -> bool:
        seen.append((case.id, canonical(output)))  # type: ignore[attr-defined]
        return True

    def say(case: object) -> object:
        return said[case.input]  # type: ignore[attr-defined]

    study = Study(cases=list(range(len(said))), agent=say, transform="identity", evaluators=[hear])
    store = str(tmp_path_factory.mktemp("said") / "s.db")
    results = run(study, store=store, progress=False)
    assert results.ok
    assert [canonical(t.answer) for t in results.trials] == list(map(canonical, said))
    assert all(from_json(to_json(value)) == value for value in said)
    assert sorted(seen) == sorted((t.case_id, canonical(said[t.input])) for t in results.trials)


def test_numbers_are_found_and_judged(folder: Path) -> None:
    study = Study(
        cases=[Case("a", expected=12)], agent=say_twelve, transform="last_number", evaluators=[numeric()]
    )
    assert run(study, store="s.db", progress=False).trials[0].scores["numeric"].value is True


def say_twelve(case: object) -> str:
    return "twelve: 12"
