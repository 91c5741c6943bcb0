"""Work handed out as a file and taken in again: the same store as if it had been done here."""

from __future__ import annotations

import hashlib
import json
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from peira import Case, Study, ask, current_trial, evaluate, exact, generate, match, run
from peira.app import open as look_at
from peira.app.bundles.answers import ImportResult, bundle_import
from peira.app.bundles.export import ExportedBundle, bundle_export
from peira.app.bundles.work import bundle_work
from peira.core.log.events import State
from peira.errors import Invalid, Unknown
from peira.stores.memory import MemoryStore
from peira.stores.verify import verify

LANDS = {"France": "Paris", "Peru": "Lima", "Japan": "Tokyo"}
SECRET = "hunter2-is-my-key"


def guess(case: Any, model: str, size: int) -> Any:
    trial = current_trial()
    trial.report(confidence=0.5)
    trial.describe(model=model)
    if model == "broken":
        raise ValueError("no luck with this one")
    words = [*LANDS.values(), "x" * 3000 * size]
    return {"text": trial.rng.choice(words), "size": size} if size == 3 else trial.rng.choice(words)


def dear(case: Any, model: str) -> Any:
    return ask(model, case.input)


def long(output: Any, trial: Any, case: Any) -> dict[str, Any]:
    return {"length": len(str(output)), "repeat": trial.repeat, "case": case.id}


def seen(output: Any, trial: Any) -> str:
    return f"{output} in {trial.output} of {len(trial.metrics)}"


def lands(**changes: Any) -> Study:
    said: dict[str, Any] = {
        "name": "lands",
        "agent": guess,
        "cases": [Case(f"Capital of {land}?", city, id=land) for land, city in LANDS.items()],
        "factors": {"model": ["a", "broken"], "size": [1, 2, 3]},
        "repeats": 2,
        "evaluators": [exact(), long],
        "policy": {"retries": 0},
    }
    return Study(**{**said, **changes})


def exported(study: Any, path: Path, store: Any, **wishes: Any) -> ExportedBundle:
    return bundle_export(study, path, store=store, progress=False, **wishes)


def taken(path: Path, store: Any) -> ImportResult:
    return bundle_import(path, store=store, progress=False)


def found(results: Any) -> dict[str, Any]:
    """What came of each trial, apart from how long it took."""
    return {
        t.id: (t.state, t.output, t.failure and t.failure.message, dict(t.metrics), t.about.get("model"))
        for t in results
    }


def ended(results: Any) -> dict[str, Any]:
    return {id: came for id, came in found(results).items() if came[0] is not State.queued}


def scored(results: Any) -> dict[str, Any]:
    return {t.id: {name: (s.state, s.value) for name, s in t.scores.items()} for t in results}


def sealed(document: Any) -> bytes:
    text = json.dumps(document)
    return f"{hashlib.sha256(text.encode()).hexdigest()} {text}\n".encode()


def test_handed_out_worked_off_and_taken_in_it_is_as_if_done_here(tmp_path: Path) -> None:
    study, here, there = lands(), MemoryStore(), MemoryStore()
    expected = run(study, store=here, progress=False)
    work, answers = tmp_path / "work", tmp_path / "answers"
    assert exported(study, work, there).items == 36
    done = bundle_work(work, answers, study=study, progress=False)
    assert (done.items, done.answered, done.failed) == (36, 36, 18)
    first = taken(answers, there)
    assert (first.recorded, first.failed, first.same, first.refused) == (18, 18, 0, 0)
    assert found(first.results) == found(expected)
    assert exported(study, work, there, stage="evaluate").items > 18
    bundle_work(work, answers, study=study, progress=False)
    second = taken(answers, there)
    assert (second.failed, second.refused) == (0, 0)
    assert scored(second.results) == scored(expected)
    assert verify(there) == []
    assert exported(study, work, there, stage="evaluate").items == 0
    assert exported(study, work, there).items == 18  # what failed is pending still
    about = next(t.about for t in second.results if t.state is State.succeeded)
    assert about["imported"].startswith("bundle answers (sha256 ")
    assert any(note.startswith("imported from bundle answers") for note in second.results.notes)
    later = run(study, store=there, progress=False)
    assert (later.counts["reused"], later.counts["failed"]) == (18, 18)


def test_a_bundle_says_nothing_that_is_not_for_the_agent(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    cases = [Case("q", expected="the expected answer", id="one", metadata={"hint": "shown"})]
    exported(lands(cases=cases), tmp_path / "work", MemoryStore())
    text = (tmp_path / "work").read_text()
    assert "shown" in text
    assert "the expected answer" not in text
    assert SECRET not in text
    header, item, *_, footer = [json.loads(line[65:]) for line in text.splitlines()]
    assert (header["peira"], header["version"], header["stage"]) == ("bundle", 1, "generate")
    assert item["case"] == {
        "cluster": None,
        "id": "one",
        "input": "q",
        "metadata": {"hint": "shown"},
        "slice": None,
    }
    assert set(item) == {"n", "id", "agent", "condition", "case", "repeat", "seed"}
    assert footer["end"] == 12


def test_an_evaluator_is_handed_what_it_takes(tmp_path: Path) -> None:
    study, store = lands(factors={"model": ["a"], "size": [1]}, repeats=1), MemoryStore()
    generate(study, store=store, progress=False)
    exported(study, tmp_path / "work", store, stage="evaluate")
    items = [json.loads(line[65:]) for line in (tmp_path / "work").read_text().splitlines()[1:-1]]
    facts = {item["name"]: set(item["facts"]) for item in items}
    assert facts == {"exact": {"output", "expected"}, "long": {"output", "trial", "case"}}


@pytest.fixture(scope="module")
def handed_out(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, bytes, list[bytes], dict[str, Any]]:
    folder = tmp_path_factory.mktemp("bundle")
    study, store = lands(), MemoryStore()
    exported(study, folder / "work", store)
    bundle_work(folder / "work", folder / "answers", study=study, progress=False)
    header, *answers = (folder / "answers").read_bytes().splitlines(keepends=True)
    return study, header, answers, found(taken(folder / "answers", store).results)


def stored(study: Study, tmp_path: Path) -> MemoryStore:
    store = MemoryStore()
    exported(study, tmp_path / "work", store)
    return store


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_order_any_part_and_any_repetition_give_the_same_store(
    data: st.DataObject, handed_out: Any, tmp_path: Path
) -> None:
    study, header, answers, expected = handed_out
    store, path = stored(study, tmp_path), tmp_path / "answers"
    order = data.draw(st.permutations(answers * 2))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(order)), max_size=3)))
    for start, end in zip([0, *cuts], [*cuts, len(order)], strict=True):
        path.write_bytes(header + b"".join(order[start:end]))
        done = taken(path, store)
        assert done.refused == 0
        assert {
            k: v for k, v in found(done.results).items() if v[0] is not State.queued
        }.items() <= expected.items()
    assert found(done.results) == expected
    assert verify(store) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_an_altered_byte_is_refused_and_the_others_are_taken(
    data: st.DataObject, handed_out: Any, tmp_path: Path
) -> None:
    study, header, answers, expected = handed_out
    store, path = stored(study, tmp_path), tmp_path / "answers"
    which = data.draw(st.integers(0, 9))
    line = bytearray(answers[which])
    at = data.draw(st.integers(0, len(line) - 2))
    line[at] = data.draw(st.integers(0, 255).filter(lambda byte: byte != line[at] and byte not in b"\n\r"))
    path.write_bytes(header + b"".join([*answers[:which], bytes(line), *answers[which + 1 : 10]]))
    done = taken(path, store)
    assert done.refused == 1
    assert done.problems[0].startswith(f"answers:{which + 2}: ")
    assert done.recorded + done.failed == 9
    assert len(ended(done.results)) == 9
    assert ended(done.results).items() <= expected.items()


def test_an_altered_header_is_refused_with_all(handed_out: Any, tmp_path: Path) -> None:
    study, header, answers, _ = handed_out
    store = stored(study, tmp_path)
    for at in (3, 70, len(header) - 3):
        altered = bytearray(header)
        altered[at] ^= 1
        (tmp_path / "answers").write_bytes(bytes(altered) + b"".join(answers))
        with pytest.raises(Invalid, match="answers:1: "):
            taken(tmp_path / "answers", store)


def test_what_is_foreign_is_refused_by_its_line(handed_out: Any, tmp_path: Path) -> None:
    study, header, answers, _ = handed_out
    store, path = stored(study, tmp_path), tmp_path / "answers"
    one, two = (json.loads(line[65:]) for line in answers[:2])
    others = [
        {**one, "id": "0" * 64},
        {**one, "n": one["n"] + 1},
        {**one, "n": 10**9},
        {**one, "item": two["item"]},
        {k: v for k, v in one.items() if k != "output"},
        {**one, "error": "both"},
        {"hello": "world"},
        {**one, "output": 2**60},
    ]
    lines = [*map(sealed, others), b"no line\n", answers[0], sealed({**one, "output": "another"})]
    path.write_bytes(header + b"".join(lines))
    done = taken(path, store)
    assert (done.recorded, done.refused) == (1, 10)
    assert [text.split(":")[1] for text in done.problems] == [str(n) for n in [*range(2, 11), 12]]
    assert "which is no item of this plan" in done.problems[0]
    assert "another item" in done.problems[3]
    assert "is answered otherwise by answers:11" in done.problems[-1]


def test_answers_to_another_store_are_refused(handed_out: Any, tmp_path: Path) -> None:
    _, header, answers, _ = handed_out
    (tmp_path / "answers").write_bytes(header + b"".join(answers))
    other = stored(lands(seed=7), tmp_path)
    with pytest.raises(Invalid, match="bundle of another store"):
        taken(tmp_path / "answers", other)
    with pytest.raises(Unknown, match="no store"):
        taken(tmp_path / "answers", tmp_path / "none.db")
    with pytest.raises(Invalid, match="cannot read"):
        taken(tmp_path / "nothing", other)
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(Invalid, match="is empty"):
        taken(tmp_path / "empty", other)


def test_nothing_is_overwritten(handed_out: Any, tmp_path: Path) -> None:
    study, header, answers, expected = handed_out
    store, path = stored(study, tmp_path), tmp_path / "answers"
    run(study, store=store, progress=False)
    one = json.loads(answers[0][65:])
    path.write_bytes(header + sealed({**one, "output": "something else"}) + answers[1])
    done = taken(path, store)
    assert (done.recorded, done.same, done.refused) == (0, 1, 1)
    assert done.problems == ("answers:2: has another result already, which is kept",)
    assert found(done.results) == expected


SCRIPT = """
import hashlib, json, sys
for number, line in enumerate(open(sys.argv[1], encoding="utf-8")):
    digest, document = line.rstrip("\\n").split(" ", 1)
    item = json.loads(document)
    if number == 0:
        print(line, end="")
    elif "end" not in item:
        answer = {"n": item["n"], "id": item["id"], "item": digest, "output": item["case"]["input"].upper()}
        text = json.dumps(answer)
        print(hashlib.sha256(text.encode()).hexdigest(), text)
"""


def test_anything_can_work_it_off(tmp_path: Path) -> None:
    study = lands()
    store = stored(study, tmp_path)
    done = subprocess.run(
        [sys.executable, "-I", "-c", SCRIPT, str(tmp_path / "work")], capture_output=True, check=True
    )
    (tmp_path / "answers").write_bytes(done.stdout)
    came = taken(tmp_path / "answers", store)
    assert (came.recorded, came.refused) == (36, 0)
    assert {t.output for t in came.results} == {f"CAPITAL OF {land.upper()}?" for land in LANDS}


def test_work_goes_on_after_a_kill_and_tries_again_what_failed(tmp_path: Path, warm: Any) -> None:
    (tmp_path / "slow.py").write_text(
        "import os, pathlib\n"
        "from peira import study\n"
        "@study(cases=[(str(n), str(n)) for n in range(40)], policy={'retries': 0})\n"
        "def slow(case):\n"
        "    with open('made', 'a') as file:\n"
        "        file.write(case.input + '\\n')\n"
        "    if case.input == '7' and not pathlib.Path('well').exists():\n"
        "        raise ValueError('not yet')\n"
        "    return case.input\n"
    )

    def peira(*arguments: str, failpoint: str = "") -> int:
        environment = {**os.environ, "PEIRA_FAILPOINT": failpoint}
        command = ["peira", "bundle", *arguments, "--quiet"]
        process = warm.start(command, cwd=tmp_path, env=environment, stderr=subprocess.DEVNULL)
        return int(process.wait(50))

    assert peira("export", "slow.py", "-o", "w") == 0
    work = ("work", "w", "-o", "a", "--study", "slow.py", "--parallel", "1")
    assert peira(*work, failpoint="engine.before_end:20") == -9
    assert not (tmp_path / "a").exists()
    assert peira(*work) == 1
    made = (tmp_path / "made").read_text().split()
    assert 40 <= len(made) < 70
    (tmp_path / "well").touch()
    assert peira(*work) == 0
    assert (tmp_path / "made").read_text().split() == [*made, "7"]
    assert not (tmp_path / "a.work").exists()
    assert peira("import", "a") == 0
    assert {t.output for t in look_at(tmp_path / ".peira" / "peira.db").results()} == set(map(str, range(40)))


def test_limits_hold_and_what_was_not_done_is_left(tmp_path: Path) -> None:
    study = lands(agent=dear, budget={"calls": 5}, factors={"model": ["scripted:hello"]})
    store = stored(study, tmp_path)
    done = bundle_work(tmp_path / "work", tmp_path / "answers", study=study, parallel=1, progress=False)
    assert (done.finished.exit_code, done.items) == (3, 6)
    assert (done.answered, done.failed) == (5, 0)
    came = taken(tmp_path / "answers", store)
    assert came.recorded == 5
    first = next(t for t in came.results if t.state is State.succeeded)
    assert (first.output, first.metrics["calls"], "spent" in first.metrics) == (first.input, 1, False)


def test_work_refuses_other_code_and_damaged_bundles(tmp_path: Path) -> None:
    study = lands()
    stored(study, tmp_path)
    work, answers = tmp_path / "work", tmp_path / "answers"
    with pytest.raises(Invalid, match="a bundle holds no code"):
        bundle_work(work, answers)

    def other(case: Any, model: str, size: int) -> str:
        return "x"

    with pytest.raises(Invalid, match="agent guess: lands has none of that name"):
        bundle_work(work, answers, study=lands(agent=other))
    other.__name__ = other.__qualname__ = "guess"
    with pytest.raises(Invalid, match="its code here is not the code"):
        bundle_work(work, answers, study=lands(agent=other))
    whole = work.read_bytes()
    work.write_bytes(whole.replace(b"Capital of Peru", b"Capital of Mars", 1))
    with pytest.raises(Invalid, match="was altered"):
        bundle_work(work, answers, study=study)
    lines = whole.splitlines(keepends=True)
    work.write_bytes(b"".join(lines[:-1]))
    with pytest.raises(Invalid, match="it was cut off"):
        bundle_work(work, answers, study=study)
    work.write_bytes(b"".join([*lines[:3], *lines[4:]]))
    with pytest.raises(Invalid, match="does not hold the 36 items"):
        bundle_work(work, answers, study=study)
    assert not answers.exists()
    assert list(tmp_path.glob("*.work")) == []


def test_evaluators_of_the_users_own_need_their_study(tmp_path: Path) -> None:
    study, store = lands(), MemoryStore()
    generate(study, store=store, progress=False)
    exported(study, tmp_path / "work", store, stage="evaluate")
    with pytest.raises(Invalid, match="evaluator long: say the study that has it"):
        bundle_work(tmp_path / "work", tmp_path / "answers")
    with pytest.raises(Invalid, match="stage: 'judge' is not known"):
        exported(study, tmp_path / "work", store, stage="judge")


def test_what_is_judged_is_the_answer_that_the_transform_found(tmp_path: Path) -> None:
    study = lands(
        transform="last_number", evaluators=[exact(), seen], factors={"model": ["a"], "size": [1, 2]}
    )
    here, there, work, answers = MemoryStore(), MemoryStore(), tmp_path / "work", tmp_path / "answers"
    expected = run(study, store=here, progress=False)
    generate(study, store=there, progress=False)
    assert exported(study, work, there, stage="evaluate").items > 0
    items = [json.loads(line[65:]) for line in work.read_text().splitlines()[1:-1]]
    assert all("no_answer" in item["facts"]["output"] for item in items)
    bundle_work(work, answers, study=study, progress=False)
    done = taken(answers, there)
    assert (done.failed, done.refused) == (0, 0)
    assert scored(done.results) == scored(expected)
    assert verify(there) == []
    assert exported(study, work, there, stage="evaluate").items == 0


def test_scores_that_are_none_are_refused(tmp_path: Path) -> None:
    study, store = lands(evaluators=[match()]), MemoryStore()
    generate(study, store=store, progress=False)
    exported(study, tmp_path / "work", store, stage="evaluate")
    header, *items, _ = (tmp_path / "work").read_bytes().splitlines(keepends=True)
    values: list[Any] = [True, None, [1], "good", {}, 0.5]
    lines = []
    for value, line in zip(values, items, strict=False):
        item = json.loads(line[65:])
        lines.append(sealed({"n": item["n"], "id": item["id"], "item": line[:64].decode(), "output": value}))
    (tmp_path / "answers").write_bytes(header + b"".join(lines))
    done = taken(tmp_path / "answers", store)
    assert (done.recorded, done.refused) == (
        len(lines) - sum(v in (None, [1], {}) for v in values[: len(lines)]),
        3,
    )
    assert verify(store) == []
    assert evaluate(done.results, progress=False).status in ("completed", "completed with failures")


def test_a_part_of_a_study_can_be_handed_out(tmp_path: Path) -> None:
    study, store = lands(), MemoryStore()
    assert exported(study, tmp_path / "work", store, where="model == 'a' and size < 3").items == 12
    assert exported(study, tmp_path / "work", store, limit=6).items == 6
    results = run(study, store=store, progress=False, where="size == 1")
    assert exported(results.run_id, tmp_path / "work", store).items == 6  # the broken ones


def test_many_items_are_written_as_they_are_met(tmp_path: Path) -> None:
    cases = [Case(f"question {n} " * 20, id=str(n)) for n in range(1000)]
    study = lands(cases=cases, factors={"model": ["a"], "size": list(range(20))}, repeats=1, evaluators=[])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert exported(study, tmp_path / "work", MemoryStore()).items == 20_000
    assert (tmp_path / "work").stat().st_size > 10_000_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 30_000  # KiB
