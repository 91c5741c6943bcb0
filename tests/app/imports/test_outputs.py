"""Outputs made elsewhere become trials: onto a study, or as a study of their own."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira import Case, Study, evaluate, match, run
from peira.app import open as look_at
from peira.app.imports.intake import ImportResult
from peira.app.imports.outputs import import_outputs
from peira.app.session import Session
from peira.core.log.events import State
from peira.errors import Invalid
from peira.stores.memory import MemoryStore
from peira.stores.verify import verify
from peira.transforms import number_after

SHARED = Path(os.environ.get("PEIRA_SHARED_DATA") or Path(__file__).parents[4] / "shared" / "data")
GSM8K = SHARED / "gsm8k" / "example_model_solutions.jsonl"
PUBLISHED = {
    ("6b", "finetuning"): 0.2168,
    ("6b", "verification"): 0.3904,
    ("175b", "finetuning"): 0.3472,
    ("175b", "verification"): 0.5625,
}
LOG = Path(__file__).parents[2] / "data" / "recorded" / "capitals.eval"
CASES = [Case("Capital of France?", "Paris", id="fr"), Case("Capital of Peru?", "Lima", id="pe")]


def asked(case: Any, model: str, size: int) -> str:
    return "?"


def capitals(**changes: Any) -> Study:
    said: dict[str, Any] = {
        "name": "capitals",
        "agent": asked,
        "cases": CASES,
        "factors": {"model": ["a", "b"], "size": [1, 2]},
        "repeats": 2,
        "evaluators": [match()],
    }
    return Study(**{**said, **changes})


def imported(rows: Any, study: Any = None, **wishes: Any) -> ImportResult:
    return import_outputs(rows, study, progress=False, **wishes)


def outputs(done: ImportResult) -> dict[tuple[Any, ...], Any]:
    return {
        (*(t.condition.values()), t.case_id, t.repeat): t.output
        for t in done.results
        if t.state is State.succeeded
    }


def row(case: str, model: str, size: Any, output: str, **more: Any) -> dict[str, Any]:
    return {"case": case, "model": model, "size": size, "output": output, **more}


# Onto a study


def test_rows_become_the_results_of_their_trials() -> None:
    store = MemoryStore()
    rows = [
        row("fr", "a", 1, "Paris", latency=2.5, usage={"input": 1, "output": 2}, cost=0.5),
        row("fr", "a", 1.0, "Lyon"),
        row("pe", "b", 2, "Lima", repeat=1),
        {"input": "Capital of Peru?", "model": "b", "size": 2, "repeat": 0, "error": "timeout"},
    ]
    done = imported(rows, capitals(), store=store)
    assert (done.recorded, done.failed, done.same, done.refused) == (3, 1, 0, 0)
    assert outputs(done) == {("a", 1, "fr", 0): "Paris", ("a", 1, "fr", 1): "Lyon", ("b", 2, "pe", 1): "Lima"}
    first = next(t for t in done.results if t.output == "Paris")
    assert (first.took, first.cost, first.metrics["output_tokens"]) == (2.5, 0.5, 2)
    assert first.about["imported"].startswith("rows (sha256 ")
    [failure] = done.results.failures
    assert failure.failure is not None
    assert failure.failure.message == "timeout"
    assert any(note.startswith("imported from rows (sha256 ") for note in done.results.notes)
    assert verify(store) == []


def test_a_run_goes_on_from_what_was_imported() -> None:
    store, study = MemoryStore(), capitals()
    imported([row("fr", "a", 1, "Paris"), row("pe", "a", 1, "Lima")], study, store=store)
    results = run(study, store=store, progress=False)
    assert results.counts["reused"] == 2
    assert results.counts["succeeded"] == 14
    assert {t.output for t in results if t.condition == {"model": "a", "size": 1} and not t.repeat} == {
        "Paris",
        "Lima",
    }
    assert sum(t.scores["match"].value for t in results) == 2
    assert any(note.startswith("imported from") for note in results.notes)
    assert verify(store) == []


def test_nothing_that_exists_is_overwritten() -> None:
    store, study = MemoryStore(), capitals(repeats=1)
    run(study, store=store, progress=False)
    done = imported([row("fr", "a", 1, "Paris"), row("pe", "a", 1, "?")], study, store=store)
    assert (done.recorded, done.same, done.refused) == (0, 1, 1)
    assert done.problems == ("rows:1: has another result already, which is kept",)
    assert {t.output for t in done.results} == {"?"}


def test_a_failure_makes_way_for_a_success_and_not_the_other_way() -> None:
    store, study = MemoryStore(), capitals()
    bad = {"case": "fr", "model": "a", "size": 1, "error": "timeout"}
    assert imported([bad], study, store=store).failed == 1
    assert imported([bad], study, store=store).same == 1
    assert imported([row("fr", "a", 1, "Paris")], study, store=store).recorded == 1
    assert imported([bad], study, store=store).refused == 1
    assert verify(store) == []


def test_what_belongs_nowhere_is_told_line_by_line_and_the_rest_is_taken() -> None:
    twins = [*CASES, Case("Capital of Peru?", "Lima", id="twin")]
    rows = [
        row("zz", "a", 1, "x"),
        row("fr", "c", 1, "x"),
        {"case": "fr", "model": "a", "output": "x"},
        row("fr", "a", 1, "x", colour="red"),
        {"input": "Capital of Peru?", "model": "a", "size": 1, "output": "x"},
        {"input": "Capital of Mars?", "model": "a", "size": 1, "output": "x"},
        row("fr", "a", 1, "x", input="Another question?"),
        row("fr", "a", 1, "x", repeat=2),
        row("fr", "a", 1, "first"),
        row("fr", "a", 1, "other", repeat=0),
    ]
    done = imported(rows, capitals(cases=twins), store=MemoryStore())
    assert done.problems == (
        "rows:1: the study has no case 'zz'",
        "rows:2: the study has no condition model=c, size=1",
        "rows:3: it may belong to several conditions: model=a, size=1; model=a, size=2",
        "rows:4: there is no factor 'colour'; known: model, size",
        "rows:5: 2 cases have this input; say which by its id, in `case`",
        "rows:6: the study has no such input",
        "rows:7: its input is not that of case 'fr'",
        "rows:8: repeat 2: the study has 2 of them, counted from 0",
        "rows:10: is answered otherwise by rows:9",
    )
    assert (done.recorded, done.refused) == (1, 9)


def test_what_is_refused_altogether_makes_no_store(tmp_path: Path) -> None:
    store = tmp_path / "x.db"
    with pytest.raises(Invalid, match="has no case 'zz'"):
        imported([row("zz", "a", 1, "x")], capitals(), store=store)
    with pytest.raises(Invalid, match="there are no outputs"):
        imported([], capitals(), store=store)
    with pytest.raises(Invalid, match="cannot read"):
        imported(tmp_path / "none.jsonl", store=store)
    with pytest.raises(Invalid) as refusal:
        imported([row("fr", "a", 1, "x")], capitals(), store=store, name="n", evaluators=["match"])
    assert len(refusal.value.problems) == 2
    assert not store.exists()


def test_cells_stand_for_levels(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("case,model,size,output\nfr,a,1,Paris\npe,b,2,Lima\n")
    done = imported(path, capitals(), store=MemoryStore())
    assert outputs(done) == {("a", 1, "fr", 0): "Paris", ("b", 2, "pe", 0): "Lima"}


def test_agents_and_case_sets_have_names(tmp_path: Path) -> None:
    def direct(case: Any) -> str:
        return "?"

    study = Study(
        name="two",
        agents={"direct": direct, "asked": asked},
        cases={"easy": CASES[:1], "hard": CASES[1:]},
        factors={"model": ["a"], "size": [1]},
        evaluators=[],
    )
    rows = [
        {"case": "fr", "agent": "direct", "output": "1"},
        {"case": "pe", "agent": "asked", "model": "a", "size": 1, "output": "2"},
        {"case": "pe", "output": "3"},
    ]
    done = imported(rows, study, store=MemoryStore())
    assert {(t.agent, t.case_id): t.output for t in done.results if t.output} == {
        ("direct", "fr"): "1",
        ("asked", "pe"): "2",
    }
    assert done.problems[0].startswith("rows:3: it may belong to several conditions: agent=asked")


@settings(max_examples=25, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["fr", "pe"]), st.sampled_from("ab"), st.sampled_from([1, 2]), st.booleans()
        ),
        min_size=1,
        max_size=12,
        unique_by=lambda one: one[:3],
    ),
    st.randoms(use_true_random=False),
)
def test_any_order_any_split_and_any_repetition_give_the_same_results(rows: Any, chance: Any) -> None:
    study = capitals(repeats=1)
    written = [
        row(case, model, size, f"{case}{model}{size}")
        if good
        else {"case": case, "model": model, "size": size, "error": "e"}
        for case, model, size, good in rows
    ]
    whole, parts = MemoryStore(), MemoryStore()
    expected = imported(written, study, store=whole)
    shuffled = written + written[: len(written) // 2]
    chance.shuffle(shuffled)
    cut = chance.randrange(len(shuffled) + 1)
    for part in (shuffled[:cut], shuffled[cut:], shuffled):
        if part:
            found = imported(part, study, store=parts)
    ours = {t.id: (t.state, t.output) for t in expected.results}
    assert {t.id: (t.state, t.output) for t in found.results} == ours
    assert found.recorded == found.failed == 0
    assert verify(parts) == []


# As a study of their own


def test_outputs_make_a_study() -> None:
    store = MemoryStore()
    rows = [
        {"case": "fr", "input": "Capital of France?", "expected": "Paris", "model": m, "output": said}
        for m, said in (("a", "Paris"), ("b", "Lyon"))
    ]
    done = imported(rows, name="lands", evaluators=[match()], store=store)
    assert done.results.study == "lands"
    assert {t.condition["model"]: t.scores["match"].value for t in done.results} == {"a": True, "b": False}
    judged = evaluate(done.results, [lambda output: len(output)], progress=False)
    assert {next(iter(t.scores.values())).value for t in judged} == {5, 4}
    again = imported(rows, name="lands", evaluators=[match()], store=store)
    assert (again.recorded, again.same, again.results.run_id) == (0, 2, done.results.run_id)
    assert len(look_at(store).runs()) == 3
    assert verify(store) == []


def test_what_was_not_imported_fails_with_a_clear_word() -> None:
    store = MemoryStore()
    rows = [
        {"case": "fr", "model": "openai:a", "output": "x"},
        {"case": "fr", "model": "b", "output": "y"},
        {"case": "pe", "model": "b", "output": "z"},
    ]
    done = imported(rows, store=store)
    assert done.results.counts["left"] == 1
    assert evaluate(done.results, [lambda output: output == "x"], progress=False).status == "completed"
    results = run(done.results.run_id, store=store, progress=False)
    assert (results.counts["reused"], results.counts["failed"]) == (3, 1)
    [missing] = results.failures
    assert missing.failure is not None
    assert missing.failure.message.startswith("no output of case 'pe' under model=openai:a was imported")
    assert missing.trial.attempts == 1


def test_only_conditions_that_were_met_are_planned() -> None:
    rows = [
        {"case": "fr", "m": 1, "n": 1, "output": "x"},
        {"case": "fr", "m": 2, "n": 2, "output": "y"},
    ]
    done = imported(rows, store=MemoryStore())
    assert [dict(t.condition) for t in done.results] == [{"m": 1, "n": 1}, {"m": 2, "n": 2}]
    assert done.results.counts == {"planned": 2, "succeeded": 2}


def test_repeats_are_counted_and_agents_are_labels() -> None:
    rows = [{"input": "q", "agent": who, "output": f"{who}{n}"} for n in range(3) for who in "xy"]
    done = imported(rows, store=MemoryStore())
    assert {(t.agent, t.repeat): t.output for t in done.results} == {
        (who, n): f"{who}{n}" for n in range(3) for who in "xy"
    }


def test_cases_may_stand_in_a_file_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text('{"id": "fr", "input": "France?", "expected": "Paris"}\n{"id": "pe", "input": "Peru?"}\n')
    rows = [{"case": "fr", "output": "Paris"}, {"case": "zz", "output": "x"}]
    done = imported(rows, cases=path, evaluators=[match()], store=MemoryStore())
    assert done.problems == ("rows:2: the study has no case 'zz'",)
    assert [t.scores["match"].value for t in done.results if t.scores] == [True]


def test_columns_that_are_no_factors_are_noticed() -> None:
    rows = [{"case": n, "output": "x", "request": f"r{n}", "model": "ab"[n % 2]} for n in range(60)]
    with pytest.raises(Invalid, match="are request, model factors"):
        imported(rows, store=MemoryStore())
    done = imported(rows, factors=["model"], store=MemoryStore())
    assert done.recorded == 60


def test_rows_that_disagree_about_a_case_are_told() -> None:
    rows = [
        {"case": "fr", "input": "q", "m": 1, "output": "x"},
        {"case": "fr", "input": "other", "m": 2, "output": "x"},
        {"case": "fr", "input": "q", "output": "x"},
    ]
    with pytest.raises(Invalid, match=r"rows:2: case 'fr' has another input before"):
        imported(rows, store=MemoryStore())
    with pytest.raises(Invalid, match=r"rows:3: there is no value for 'm'"):
        imported([rows[0], rows[0], rows[2]], store=MemoryStore())


def test_a_log_of_inspect_is_a_study() -> None:
    store = MemoryStore()
    done = imported(LOG, evaluators=[match()], store=store)
    assert (done.results.study, done.recorded) == ("capitals", 6)
    scores = {(t.case_id, t.repeat): t.scores["match"].value for t in done.results}
    assert scores[("fr", 0)] is True
    assert scores[("fr", 1)] is False
    assert {t.slice for t in done.results} == {"capitals"}


def test_tasks_with_equal_ids_stay_apart(tmp_path: Path) -> None:
    for task in ("one", "two"):
        path = tmp_path / f"samples_{task}_2026-11-02T10-00-00.1.jsonl"
        sample = {"doc_id": 0, "doc": {}, "target": "t", "arguments": [[f"{task}?", {}]], "resps": [[task]]}
        path.write_text(json.dumps(sample) + "\n")
    done = imported(sorted(tmp_path.iterdir()), store=MemoryStore(), factors=[])
    assert {t.case_id: t.output for t in done.results} == {"one/0": "one", "two/0": "two"}


# The proof


@pytest.mark.skipif(
    not GSM8K.exists(),
    reason="the GSM8K data is not here; set PEIRA_SHARED_DATA to the folder that holds gsm8k/",
)
def test_recorded_outputs_of_gsm8k_are_judged_as_published(tmp_path: Path) -> None:
    path = tmp_path / "gsm8k.jsonl"
    with path.open("w") as file:
        file.writelines(json.dumps(one) + "\n" for one in solutions())
    done = imported(
        path,
        transform=number_after("A:"),
        evaluators=["numeric"],
        factors=["size", "method"],
        store=MemoryStore(),
    )
    assert (done.recorded, done.failed, done.refused) == (5276, 0, 0)
    flags: dict[Any, list[bool]] = {}
    for trial in done.results:
        score = trial.scores["numeric"].value
        assert score is bool(trial.metrics["published"]), trial.output
        flags.setdefault((trial.condition["size"], trial.condition["method"]), []).append(score)
    assert {key: round(sum(found) / len(found), 4) for key, found in flags.items()} == PUBLISHED
    [contrast] = done.results.compare("method", "verification", "finetuning", score="numeric").contrasts
    assert contrast.difference.mean == pytest.approx((0.3904 + 0.5625 - 0.2168 - 0.3472) / 2, abs=1e-4)


def solutions() -> Iterator[dict[str, Any]]:
    with GSM8K.open(encoding="utf-8") as file:
        for number, line in enumerate(file):
            said = json.loads(line)
            for size, method in PUBLISHED:
                one = said[f"{size}_{method}"]
                yield {
                    "case": number,
                    "input": said["question"],
                    "expected": number_after("A:").apply(said["ground_truth"]),
                    "size": size,
                    "method": method,
                    "output": one["solution"],
                    "metrics": {"published": float(one["is_correct"])},
                }


# Scores that came with the outputs

RECORDED = LOG.parent


def samples(folder: Path, model: str, task: str, docs: int) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"samples_{task}_2026-11-02T10-00-00.1.jsonl"
    (folder / "results_2026-11-02T10-00-00.1.json").write_text(json.dumps({"model_name": model}))
    rows = [
        {
            "doc_id": n,
            "doc": {"n": n},
            "target": "1",
            "arguments": [[f"{task} {n}?", {}]],
            "resps": [[f"{model} {n}"]],
            "filter": by,
            "filtered_resps": ["1"],
            "metrics": [f"{task}_acc"],
            f"{task}_acc": float(by == "loose"),
        }
        for by in ("strict", "loose")
        for n in range(docs)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_every_filter_is_a_score_and_every_task_a_set_of_cases(tmp_path: Path) -> None:
    store = MemoryStore()
    files = [samples(tmp_path / m, m, task, 3) for m in ("small", "large") for task in ("arc", "gsm")]
    done = imported(files, store=store)
    assert (done.recorded, done.same, done.refused, done.scores) == (12, 0, 0, 24)
    assert len(done.results) == 12  # 2 models, 3 + 3 cases
    assert {tuple(t.condition) for t in done.results} == {("model",)}
    means = {(row["model"], row["score"]): row["mean"] for row in done.results.table("model").rows}
    for model in ("small", "large"):
        for task in ("arc", "gsm"):
            assert means[model, f"lm_eval.{task}_acc.strict"] == 0
            assert means[model, f"lm_eval.{task}_acc.loose"] == 1
    assert {tuple(sorted(t.scores)) for t in done.results if t.slice == "arc"} == {
        ("lm_eval.arc_acc.loose", "lm_eval.arc_acc.strict")
    }
    again = imported(files, store=store)
    assert (again.recorded, again.same, again.scores) == (0, 12, 0)


def test_scores_of_a_log_are_shown_like_any(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    done = imported(RECORDED / "sums.eval", store=path)
    assert (done.recorded, done.failed, done.scores, done.unscored) == (3, 1, 15, 0)
    assert done.offers == {"inspect.match": "numeric"}
    assert [str(one.score.no_verdict) for one in done.results.no_verdicts] == [
        "no verdict: the judge did not answer"
    ]
    found = {t.case_id: t for t in done.results}
    assert found["plain"].scores["inspect.verdict"].value == {"value": 1, "reason": "says 3"}
    assert found["plain"].about["served"] == "mockllm/model"
    failure = found["broken"].failure
    assert failure is not None
    assert "RuntimeError: the tool is broken" in failure.trace
    [kept] = found["plain"].artifacts
    with Session.find(str(path)).reading() as store:
        assert not list(verify(store))
        assert json.loads(store.get(kept.digest))["messages"][1]["tool_calls"][0]["function"] == "add"


def test_what_a_case_is_not_scored_on_is_no_verdict_of_it() -> None:
    """Assertions of promptfoo differ from test to test: each is a score of its own cases only."""
    done = imported(RECORDED / "promptfoo.json", store=MemoryStore())
    assert (done.recorded, done.failed, done.unscored) == (16, 8, 0)
    assert {frozenset(t.scores) for t in done.results if t.case_id == "france"} == {
        frozenset(f"promptfoo.{name}" for name in ("pass", "score", "says", "equals"))
    }
    assert not done.results.no_verdicts


def test_a_study_can_ask_for_scores_that_come_with_outputs() -> None:
    study = Study(
        name="capitals",
        cases=[
            Case("Capital of France?", id="fr", metadata={"continent": "Europe"}),
        ],
        agent=lambda case: "",
        repeats=2,
        evaluators=[{"name": "imported", "score": "inspect.match"}],
    )
    done = import_outputs(LOG, study, store=MemoryStore())
    assert {t.repeat: t.scores["inspect.match"].value for t in done.results} == {
        0: {"value": 1, "reason": "Paris"},
        1: {"value": 0, "reason": "Lyon"},
    }
