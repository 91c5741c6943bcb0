"""Questions to people: asked once, answered once, and waited for at no cost."""

from __future__ import annotations

import asyncio
import threading
import time
from pathlib import Path
from typing import Any

import pytest

import peira
from peira import Case, ask_person, run, step, study, submit
from peira.app.control import cancel
from peira.app.inbox import answer, answer_text, inbox, question, skip
from peira.app.session import Session
from peira.core.log.events import State, TaskFinished, TasksClaimed
from peira.errors import Invalid, NotInTrial, Unknown
from peira.stores.memory import MemoryStore
from peira.stores.verify import verify

CASES = [Case("a", id="a"), Case("b", id="b")]


def sound(path: Path) -> None:
    with Session.find(path).reading() as store:
        assert verify(store) == []


def lines(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


@pytest.fixture
def asking(tmp_path: Path) -> Any:
    """A study whose agent draws up a letter in a step, and asks whether to send it."""
    note = tmp_path / "steps"

    def draw_up(what: str, file: str) -> str:
        with open(file, "a") as out:
            out.write(f"{what}\n")
        return f"Dear {what}"

    @study(name="letters", cases=CASES)
    def letters(case: Any) -> Any:
        letter = step("letter", draw_up, case.input, str(note))
        said = ask_person("Send this?", show=letter, options=["send", "drop"], to="editors")
        return f"{letter}: {said}"

    return letters, note


def outputs(results: Any) -> list[Any]:
    return [trial.output for trial in results.trials]


def test_a_run_ends_waiting_and_goes_on_with_the_answers(asking: Any, tmp_path: Path) -> None:
    letters, steps = asking
    path = tmp_path / "s.db"
    first = run(letters, store=path, progress=False)
    assert (first.status, dict(first.counts)) == ("waiting for people", {"planned": 2, "waiting": 2})
    asked = inbox(path)
    assert {(one.question.prompt, one.question.to, one.question.case) for one in asked} == {
        ("Send this?", "editors", "a"),
        ("Send this?", "editors", "b"),
    }
    by_case = {one.question.case: one for one in asked}
    assert by_case["a"].question.show == "Dear a"
    assert by_case["a"].question.trial == next(t.id for t in first.trials if t.case_id == "a")
    taken = answer(by_case["a"].key, "send", path, by="ann", took=2.5)
    assert (taken.taken, taken.question.row.by, taken.question.row.took) == (True, "ann", 2.5)
    second = run(letters, store=path, progress=False)
    assert (second.status, second.counts["succeeded"], second.counts["waiting"]) == (
        "waiting for people",
        1,
        1,
    )
    skipped = skip(by_case["b"].key, path, by="ben")
    assert (skipped.taken, skipped.question.row.how) == (True, "skipped")
    third = run(letters, store=path, progress=False)
    assert sorted(map(str, outputs(third))) == ["Dear a: send", "None"]
    [failed] = third.failures
    assert (failed.failure.type, "ben skipped it" in failed.failure.message) == ("Unanswered", True)
    assert sorted(lines(steps)) == ["a", "b"]  # each step once, over all runs
    sound(path)


def test_waiting_counts_as_no_attempt_and_holds_no_worker(asking: Any, tmp_path: Path) -> None:
    letters, _ = asking
    path = tmp_path / "s.db"
    run(letters, store=path, parallel=1, progress=False)  # both were asked, by one worker
    with Session.find(path).reading() as store:
        assert store.active() == []
        assert {(t.state, t.attempts, t.interruptions) for t in store.waiting()} == {(State.waiting, 0, 0)}


@pytest.mark.parametrize("runner", ["local", "process"])
@pytest.mark.parametrize("style", ["plain", "awaited"])
def test_it_works_the_same_in_threads_loops_and_processes(
    runner: str, style: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    head = "async def agent(case):" if style == "awaited" else "def agent(case):"
    step_of = "await step('s', later)" if style == "awaited" else "step('s', now)"
    (tmp_path / "letters.py").write_text(
        "import asyncio\nfrom peira import Case, ask_person, step, study\n"
        "def now():\n    return 'x'\n"
        "async def later():\n    await asyncio.sleep(0)\n    return 'x'\n"
        "@study(name='letters', cases=[Case('a', id='a'), Case('b', id='b')])\n"
        f"{head}\n"
        f"    x = {step_of}\n"
        "    first = ask_person('One?', show=case.input)\n"
        "    second = ask_person('Two?', schema={'type': 'integer'})\n"
        "    return [x, case.input, first, second]\n"
    )
    monkeypatch.chdir(tmp_path)
    handle = submit("letters.py", store="s.db", runner=runner, progress=False, wait_for_people=True)
    done = 0
    while done < 4 and not handle.wait(0):
        for one in inbox("s.db"):
            value = 3 if one.question.schema else f"to {one.question.case}"
            done += answer(one.key, value, "s.db").taken
        time.sleep(0.02)
    results = handle.result(timeout=30)
    assert results.status == "completed"
    assert sorted(outputs(results)) == [["x", "a", "to a", 3], ["x", "b", "to b", 3]]
    sound(tmp_path / "s.db")


def test_equal_questions_of_one_trial_and_of_several_get_their_own_answers(tmp_path: Path) -> None:
    @study(name="same", cases=CASES)
    def same(case: Any) -> Any:
        return [ask_person("Why?"), ask_person("Why?"), ask_person("Why?", key="named")]

    store = MemoryStore()
    for _ in range(3):
        run(same, store=store, progress=False)
        open_now = inbox(store)
        assert len(open_now) == 2
        for one in open_now:
            answer(one.key, f"{one.question.case} {one.question.key} {one.key[:8]}", store)
    got = run(same, store=store, progress=False)
    assert got.status == "completed"
    for trial in got.trials:
        assert [text.split()[0] for text in trial.output] == [trial.case_id] * 3
        assert len(set(trial.output)) == 3


def test_editing_the_agent_loses_no_answer(tmp_path: Path) -> None:
    store = MemoryStore()

    @study(name="edited", cases=CASES)
    def edited(case: Any) -> Any:
        return ask_person("Right?", show=case.input, options=[0, 1])

    run(edited, store=store, progress=False)
    before = {one.question.case: one for one in inbox(store)}
    answer(before["a"].key, 1, store)

    @study(name="edited", cases=CASES)
    def edited_since(case: Any) -> Any:
        return {"answer": ask_person("Right?", show=case.input, options=[0, 1])}

    again = run(edited_since, store=store, progress=False)
    assert again.counts["succeeded"] == 1
    [left] = inbox(store)  # the open one is asked once, by the trial as it is now
    assert (left.key, left.task) == (before["b"].key, next(t.id for t in again.trials if t.case_id == "b"))
    answer(left.key, 0, store)
    assert sorted(t.output["answer"] for t in run(edited_since, store=store, progress=False).trials) == [0, 1]
    third = run(edited, store=store, progress=False)  # and as it was: it waited, and its answer is there
    assert sorted(map(int, outputs(third))) == [0, 1]
    assert verify(store) == []


def test_the_first_answer_wins_and_the_second_is_told_who_was_first(asking: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    run(asking[0], store=path, progress=False)
    key = inbox(path)[0].key
    results: list[Any] = []
    together = threading.Barrier(4)

    def say(name: str) -> None:
        together.wait()
        results.append((name, answer(key, "send" if name < "c" else "drop", path, by=name)))

    threads = [threading.Thread(target=say, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    [winner] = [name for name, outcome in results if outcome.taken]
    assert {outcome.question.row.by for _, outcome in results} == {winner}
    assert answer(key[:10], "drop", path, by="late").taken is False
    sound(path)


@pytest.mark.parametrize("value", ["maybe", 1, None, ["send"], True])
def test_an_answer_is_validated_before_it_is_taken(asking: Any, tmp_path: Path, value: Any) -> None:
    path = tmp_path / "s.db"
    run(asking[0], store=path, progress=False)
    key = inbox(path)[0].key
    with pytest.raises(Invalid, match="not a possible answer"):
        answer(key, value, path)
    assert question(key, path).open


def test_what_people_type_is_read_as_text_where_possible_and_as_json_otherwise(tmp_path: Path) -> None:
    @study(name="typed", cases=[Case("a", id="a")])
    def typed(case: Any) -> Any:
        first = ask_person("Text?")
        second = ask_person("Scale?", options=[0, 1])
        third = ask_person("Form?", schema={"type": "object", "required": ["n"]})
        return [first, second, third]

    store = MemoryStore()
    for text in ("12", "1", '{"n": 2}'):
        run(typed, store=store, progress=False)
        [one] = inbox(store)
        if text != "12":
            with pytest.raises(Invalid):
                answer_text(one.key, "nonsense", store)
        assert answer_text(one.key, text, store).taken
    assert outputs(run(typed, store=store, progress=False)) == [["12", 1, {"n": 2}]]


def test_a_deadline_answers_with_otherwise_or_fails_the_task(tmp_path: Path) -> None:
    @study(name="late", cases=CASES)
    def late(case: Any) -> Any:
        if case.id == "a":
            return ask_person("Soon?", options=["yes", "no"], within=0.2, otherwise="no")
        return ask_person("Soon?", within=0.2)

    path = tmp_path / "s.db"
    results = run(late, store=path, wait_for_people=True, progress=False)
    ends = {t.case_id: t for t in results.trials}
    assert ends["a"].output == "no"
    assert ends["b"].failure.type == "Unanswered"
    assert "deadline" in ends["b"].failure.message
    sound(path)


def test_a_deadline_that_passed_while_nobody_ran_counts_too(tmp_path: Path) -> None:
    @study(name="late", cases=[Case("a", id="a")])
    def late(case: Any) -> Any:
        return ask_person("Soon?", options=["yes", "no"], within=0.3, otherwise="no")

    path = tmp_path / "s.db"
    run(late, store=path, progress=False)
    [one] = inbox(path)
    time.sleep(0.35)
    assert inbox(path) == []
    refused = answer(one.key, "yes", path, by="ann")
    assert (refused.taken, refused.question.row.by) == (False, "deadline")
    assert outputs(run(late, store=path, progress=False)) == ["no"]
    sound(path)


def test_an_evaluator_may_ask_people_and_shared_scores_are_asked_once(tmp_path: Path) -> None:
    def right(output: Any) -> Any:
        return ask_person("Right?", show=output, options=[0, 1])

    @study(name="judged", cases=[Case("x", id="a")], repeats=3, evaluators=[right])
    def judged(case: Any) -> Any:
        return "the same"

    store = MemoryStore()
    first = run(judged, store=store, progress=False)
    assert (first.status, first.counts["succeeded"]) == ("waiting for people", 3)
    [one] = inbox(store)
    assert (one.question.evaluator, one.question.case) == ("right", "a")
    answer(one.key, 1, store)
    second = run(judged, store=store, progress=False)
    assert (second.status, [row.score.value for row in second.scores]) == ("completed", [1, 1, 1])
    assert verify(store) == []


def test_questions_asked_together_are_one_wait(tmp_path: Path) -> None:
    @study(name="together", cases=[Case("a", id="a")])
    async def together(case: Any) -> Any:
        async def ask(n: int) -> Any:
            return ask_person(f"Question {n}?")

        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(ask(n)) for n in range(3)]
        return [task.result() for task in tasks]

    store = MemoryStore()
    for _ in range(3):
        if run(together, store=store, progress=False).status == "completed":
            break
        for one in inbox(store):
            answer(one.key, one.question.prompt, store)
    else:
        raise AssertionError("it was never done")
    assert verify(store) == []


def test_code_that_catches_everything_waits_all_the_same(tmp_path: Path) -> None:
    @study(name="greedy", cases=[Case("a", id="a")])
    def greedy(case: Any) -> Any:
        try:
            return ask_person("Well?")
        except BaseException:
            return "swallowed"

    store = MemoryStore()
    assert run(greedy, store=store, progress=False).counts["waiting"] == 1
    answer(inbox(store)[0].key, "yes", store)
    assert outputs(run(greedy, store=store, progress=False)) == ["yes"]


def test_cancelling_the_run_voids_its_questions_and_the_next_run_asks_again(
    asking: Any, tmp_path: Path
) -> None:
    letters, steps = asking
    path = tmp_path / "s.db"
    first = run(letters, store=path, progress=False)
    keys = {one.key for one in inbox(path)}
    cancelled = cancel(first.run_id, path)
    assert (cancelled.done, cancelled.run.status, cancelled.run.counts) == (
        True,
        "cancelled",
        {"planned": 2, "generate.cancelled": 2},
    )
    assert inbox(path) == []
    assert {question(key, path).row.how for key in keys} == {"void"}
    refused = answer(next(iter(keys)), "send", path)
    assert (refused.taken, refused.question.row.how) == (False, "void")
    run(letters, store=path, progress=False)
    assert {one.key for one in inbox(path)} == keys
    assert sorted(lines(steps)) == ["a", "b"]
    sound(path)


def test_a_living_run_that_is_cancelled_voids_its_questions(asking: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    handle = submit(asking[0], store=path, wait_for_people=True, progress=False)
    while len(inbox(path)) < 2:
        time.sleep(0.02)
    handle.cancel()
    assert handle.result().counts["cancelled"] == 2
    assert inbox(path) == []
    sound(path)


def test_every_answer_is_durable_with_its_task_before_the_task_goes_on(asking: Any, tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    handle = submit(asking[0], store=path, wait_for_people=True, progress=False)
    while len(inbox(path)) < 2:
        time.sleep(0.02)
    for one in inbox(path):
        answer(one.key, "send", path)
    handle.result(timeout=30)
    kinds = [record.event for record in peira.open(path).events(handle.run_id)]
    for task in {e.task for e in kinds if isinstance(e, TaskFinished)}:
        about = [e for e in kinds if getattr(e, "task", "") == task or task in getattr(e, "tasks", ())]
        tags = [e.__struct_config__.tag for e in about]
        assert tags == [
            "tasks.claimed",
            "step.recorded",
            "question.asked",
            "task.waiting",
            "question.answered",
            "tasks.claimed",
            "task.finished",
        ]
        assert [e.epochs for e in about if isinstance(e, TasksClaimed)][1:] != [()]


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"prompt": " "}, "prompt: must be text"),
        ({"options": []}, "options: must be a list"),
        ({"options": "send"}, "options: must be a list"),
        ({"options": [1, 1.0]}, "given twice"),
        ({"options": [1], "schema": {"type": "integer"}}, "not both"),
        ({"options": ["send"], "otherwise": "drop"}, "otherwise: drop is none of send"),
        ({"within": 0}, "within: must be more than 0"),
        ({"schema": {"type": "nonsense"}}, "schema"),
    ],
)
def test_what_is_wrong_with_a_question_is_said(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        ask_person(given.pop("prompt", "Well?"), **given)


def test_people_are_asked_in_trials_only_and_unknown_questions_are_none() -> None:
    with pytest.raises(NotInTrial):
        ask_person("Well?")
    with pytest.raises(Unknown):
        question("ab" * 32, MemoryStore())
