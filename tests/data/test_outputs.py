"""Outputs that were made elsewhere, out of the files they stand in."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile

import pytest

from peira.data.outputs import RecordedOutput, outputs_of
from peira.data.outputs.record import ABSENT, score_of
from peira.errors import Invalid
from peira.spec.data_files import Problems

RECORDED = Path(__file__).parent / "recorded"
LOG = RECORDED / "capitals.eval"


def read(source: Any, **wishes: Any) -> list[RecordedOutput]:
    problems = Problems()
    found = list(outputs_of(source, problems, **wishes))
    problems.refuse()
    return found


def refused(source: Any, **wishes: Any) -> list[str]:
    problems = Problems()
    list(outputs_of(source, problems, **wishes))
    return problems.lines()


def test_a_row_says_what_it_says() -> None:
    row = {
        "case": 7,
        "output": {"answer": 1.0},
        "expected": "x",
        "repeat": 2,
        "agent": "planner",
        "size": "small",
        "latency": 1.5,
        "usage": {"input": 3, "output": 4},
        "cost": 0.25,
        "metrics": {"confidence": 0.5},
        "slice": "easy",
        "cluster": "c",
        "metadata": {"level": 1},
    }
    [one] = read([row])
    assert (one.case, one.output, one.expected, one.repeat) == ("7", {"answer": 1}, "x", 2)
    assert (one.agent, one.condition, one.took) == ("planner", {"size": "small"}, 1.5)
    assert one.metrics == {
        "confidence": 0.5,
        "calls": 1.0,
        "input_tokens": 3.0,
        "output_tokens": 4.0,
        "cost": 0.25,
    }
    assert (one.slice, one.cluster, one.metadata, one.where) == ("easy", "c", {"level": 1}, "rows:1")


def test_a_condition_may_be_a_table_and_factors_may_be_named() -> None:
    rows = [{"case": "a", "output": "x", "condition": {"n": 1, "m": 2}, "noise": 3}]
    assert read(rows)[0].condition == {"n": 1, "m": 2}
    assert read(rows, factors=["n"])[0].condition == {"n": 1}
    plain = [{"case": "a", "output": "x", "n": 1, "id": "3f"}]
    assert read(plain)[0].condition == {"n": 1, "id": "3f"}
    assert read(plain, factors=["n"])[0].condition == {"n": 1}
    assert refused(plain, factors=["m"])[0].startswith("rows:1: there is no 'm'")


def test_a_file_can_be_a_factor(tmp_path: Path) -> None:
    (tmp_path / "small.jsonl").write_text('{"case": "a", "output": "x"}\n')
    [one] = read(tmp_path / "small.jsonl", factors=["file"])
    assert one.condition == {"file": "small"}


def test_columns_may_stand_elsewhere() -> None:
    rows = [{"question": "q", "reply": {"text": "yes", "id": 3}, "model": "m"}]
    [one] = read(rows, fields={"input": "question", "output": "reply.text"})
    assert (one.input, one.output, one.condition, one.case) == ("q", "yes", {"model": "m"}, None)


def test_every_bad_row_is_told_by_its_line(tmp_path: Path) -> None:
    path = tmp_path / "bad.jsonl"
    lines = [
        '{"case": "a", "output": "x"}',
        '{"case": "a"}',
        '{"output": "x"}',
        "{not json",
        '{"case": "a", "output": "x", "repeat": -1}',
        '{"case": "a", "output": "x", "cost": "dear"}',
        '{"case": "a", "output": "x", "latency": -1}',
        '{"case": "", "output": "x"}',
        '{"case": "a", "output": "x", "metrics": [1]}',
        "[1]",
        '{"case": "a", "error": ""}',
    ]
    path.write_text("\n".join(lines))
    problems = Problems()
    good = list(outputs_of(path, problems))
    assert [one.number for one in good] == [1, 11]
    assert good[1].output is ABSENT
    assert good[1].error == "failed"
    assert [text.split(":")[1] for text in problems.lines()] == ["2", "3", "4", "5", "6", "7", "8", "9", "10"]


def test_cells_are_written_texts(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("case,output,size,repeat,error,expected\na,,1,0,,\nb,,2,1,timeout,x\n")
    first, second = read(path)
    assert (first.output, first.condition, first.expected, first.written) == ("", {"size": "1"}, None, True)
    assert (second.error, second.repeat, second.expected) == ("timeout", 1, "x")


def test_a_log_of_inspect() -> None:
    """The log was made by Inspect itself, of a scripted solver: two epochs of three samples."""
    found = read(LOG)
    assert [(one.case, one.repeat, one.output) for one in found] == [
        ("fr", 0, "Paris"),
        ("2", 0, "Lima"),
        ("long", 0, "y" * 400),
        ("fr", 1, "Lyon"),
        ("2", 1, "It is Lima"),
        ("long", 1, "z"),
    ]
    peru = found[1]
    assert (peru.input, peru.expected) == ("Capital of Peru?", ["Lima", "Ciudad de los Reyes"])
    assert peru.facts == {"style": "brief", "task": "capitals", "model": "mockllm/model"}
    assert peru.metadata == {"continent": "America"}
    assert peru.metrics["inspect.match"] == 1.0
    assert (peru.metrics["input_tokens"], peru.metrics["output_tokens"]) == (7, 3)
    assert found[3].metrics["inspect.includes"] == 0.0
    assert [one.condition for one in read(LOG, factors=["model"])] == [{"model": "mockllm/model"}] * 6


def log(path: Path, samples: list[dict[str, Any]]) -> Path:
    """A log as older versions of Inspect write it: deflated."""
    with ZipFile(path, "w", ZIP_DEFLATED) as archive:
        for sample in samples:
            name = f"samples/{sample['id']}_epoch_{sample.get('epoch', 1)}.json"
            archive.writestr(name, json.dumps(sample))
        archive.writestr("header.json", json.dumps({"version": 2, "eval": {"task": "t", "model": "m/x"}}))
    return path


def test_logs_hold_errors_messages_and_attachments(tmp_path: Path) -> None:
    long = "long " * 100
    parts = [{"type": "reasoning", "text": "no"}, {"type": "text", "text": "yes"}]
    samples: list[dict[str, Any]] = [
        {"id": 1, "epoch": 1, "input": "q", "target": "", "error": {"message": "no luck"}},
        {
            "id": 2,
            "epoch": 1,
            "input": [{"role": "user", "content": "attachment://abc", "id": "x"}],
            "target": ["t"],
            "output": {"choices": [{"message": {"content": parts}}]},
            "attachments": {"abc": long},
            "scores": {"s": {"value": {"a": 1, "b": "I", "c": "?"}}},
        },
    ]
    failed, said = read(log(tmp_path / "x.eval", samples))
    assert (failed.error, failed.output, failed.expected) == ("no luck", ABSENT, None)
    assert said.input == [{"role": "user", "content": long}]
    assert (said.output, said.expected) == ("yes", "t")
    assert said.metrics == {"inspect.s.a": 1.0, "inspect.s.b": 0.0}


@pytest.mark.parametrize("content", [b"", b"no zip", LOG.read_bytes()[:-200]])
def test_a_log_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "x.eval").write_bytes(content)
    with pytest.raises(Invalid, match=r"x\.eval"):
        read(tmp_path / "x.eval")


def test_a_damaged_sample_is_told_and_the_others_are_read(tmp_path: Path) -> None:
    whole = bytearray(LOG.read_bytes())
    with ZipFile(LOG) as archive:
        info = archive.getinfo("samples/fr_epoch_1.json")
    start = info.header_offset + 30 + len(info.filename) + 8
    whole[start : start + 40] = bytes(40)
    (tmp_path / "x.eval").write_bytes(bytes(whole))
    problems = Problems()
    found = list(outputs_of(tmp_path / "x.eval", problems))
    assert len(found) == 5
    assert problems.lines()[0].startswith("x.eval:1: samples/fr_epoch_1.json: cannot be read")


def samples(folder: Path, rows: list[dict[str, Any]], task: str = "gsm8k") -> Path:
    path = folder / f"samples_{task}_2026-11-02T10-00-00.123456.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_samples_of_the_harness(tmp_path: Path) -> None:
    base = {
        "doc_id": 4,
        "doc": {"question": "q"},
        "target": "18",
        "arguments": {"gen_args_0": {"arg_0": "Q: q\nA:", "arg_1": {"until": ["Q:"]}}},
        "resps": [["it is 18", "it is 19"]],
        "metrics": ["exact_match"],
    }
    rows = [
        {**base, "filter": "strict-match", "filtered_resps": ["[invalid]"], "exact_match": 0.0},
        {**base, "filter": "flexible-extract", "filtered_resps": ["18"], "exact_match": 1.0},
    ]
    path = samples(tmp_path, rows)
    (tmp_path / "results_2026-11-02T10-00-00.123456.json").write_text('{"model_name": "org/model"}')
    found = read(path)
    assert [(one.case, one.repeat, one.output) for one in found] == [
        ("4", 0, "it is 18"),
        ("4", 1, "it is 19"),
    ]
    assert (found[0].input, found[0].expected, found[0].slice) == ("Q: q\nA:", "18", "gsm8k")
    assert found[0].facts == {"task": "gsm8k", "model": "org/model"}
    scores = {"lm_eval.exact_match.strict-match": 0.0, "lm_eval.exact_match.flexible-extract": 1.0}
    assert found[0].scores == found[0].metrics == scores
    assert {tuple(score) for score in found[1].scores.values()} == {("no_verdict",)}  # scored with the first


def test_a_choice_is_the_likeliest(tmp_path: Path) -> None:
    row = {
        "doc_id": 0,
        "doc": {},
        "target": "1",
        "arguments": [["Q", " no"], ["Q", " yes"]],
        "resps": [[["-3.5", "False"]], [["-0.5", "True"]]],
        "filtered_resps": [["-3.5", "False"], ["-0.5", "True"]],
        "metrics": ["acc"],
        "acc": 1.0,
    }
    [one] = read(samples(tmp_path, [row], "piqa"))
    assert (one.output, one.expected, one.input) == ("1", "1", "Q")
    bad = samples(tmp_path, [{**row, "resps": []}, {"doc": 1}], "bad")
    assert len(refused(bad)) == 2


def test_fields_are_for_tables() -> None:
    with pytest.raises(Invalid, match="names of their own"):
        read(LOG, fields={"output": "x"})


def test_other_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match=r"outputs are read from \.eval, \.jsonl"):
        read(tmp_path / "x.docx")


def test_parquet(tmp_path: Path) -> None:
    arrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = [{"case": "a", "output": "x", "size": 1}, {"case": "b", "output": "y", "size": 2}]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "x.parquet")
    assert [(one.case, one.condition) for one in read(tmp_path / "x.parquet")] == [
        ("a", {"size": 1}),
        ("b", {"size": 2}),
    ]


def test_all_of_a_harness_run_is_kept() -> None:
    """Made by the harness itself (recorded/make.py): two filters, choices and perplexity."""
    folder = RECORDED / "lm_eval" / "org__scripted"
    sums, which, prose = (
        read(next(folder.glob(f"samples_{task}_*.jsonl"))) for task in ("sums", "which", "prose")
    )
    by_filter = {"lm_eval.exact_match.strict-match": 0.0, "lm_eval.exact_match.flexible-extract": 1.0}
    assert [one.scores for one in sums] == [by_filter, dict.fromkeys(by_filter, 1.0)]
    assert (sums[0].output, sums[0].expected, sums[0].input) == ("It is 3.", "3", "Question: 1 + 2?\nAnswer:")
    assert sums[0].metadata == {"question": "1 + 2?", "answer": "3"}
    assert (sums[0].about, sums[0].slice) == ({"served": "org/scripted"}, "sums")
    rows = json.loads(sums[0].attached["lm_eval.json"])
    assert [(row["filter"], row["filtered_resps"]) for row in rows] == [
        ("strict-match", ["[invalid]"]),
        ("flexible-extract", ["3"]),
    ]
    assert (which[0].output, which[0].metadata["choices"]) == ("0", ["ice", "steam"])
    assert which[0].metrics["loglikelihood.1"] == -3.0
    assert which[0].scores == {"lm_eval.acc": 1, "lm_eval.acc_norm": 0}
    assert prose[0].scores["lm_eval.word_perplexity"] == pytest.approx(2.718281828**2)
    assert prose[0].metrics["lm_eval.word_perplexity.loglikelihood"] == -8
    assert prose[0].metrics["lm_eval.bits_per_byte.units"] == 17


@pytest.mark.parametrize("name", ["sums.eval", "sums.json"])
def test_all_of_a_log_of_inspect_is_kept(name: str) -> None:
    """Made by Inspect itself (recorded/make.py), in both formats; one score in it is NaN."""
    found = {one.case: one for one in read(RECORDED / name)}
    one = found["plain"]
    assert one.scores == {
        "inspect.match": {"value": 1.0, "reason": "The sum is 3."},
        "inspect.verdict": {"value": 1.0, "reason": "says 3"},
        "inspect.parts": {"short": 1, "polite": 0.5},
        "inspect.label": {"value": "friendly"},
        "inspect.several": {"0": 1, "1": 0, "2": 1},
    }
    assert found["unscored"].scores["inspect.verdict"] == {"no_verdict": "the judge did not answer"}
    assert found["unscored"].output == "The sum is 3."
    assert one.about == {"served": "mockllm/model", "finish": "max_tokens"}
    assert (
        one.metrics
        | {
            "calls": 2,
            "input_tokens": 16,
            "output_tokens": 7,
            "cached_tokens": 4,
            "written_tokens": 2,
            "reasoning_tokens": 3,
            "tool_calls": 1,
            "tool_calls.add": 1,
        }
        == one.metrics
    )
    assert found["choice"].metadata == {"choices": ["2", "3"]}
    sample = json.loads(one.attached["inspect.json"])
    assert [message["role"] for message in sample["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert sample["messages"][3]["content"][0]["reasoning"] == "one and two are three"
    broken = found["broken"]
    assert broken.error == "RuntimeError('the tool is broken')"
    assert "in solve" in broken.trace
    assert one.offers == {"inspect.match": "numeric"}


def test_results_of_promptfoo() -> None:
    """Made by promptfoo itself (recorded/make.py): a failed assertion is a score, an error is a failure."""
    found = read(RECORDED / "promptfoo.json")
    assert len(found) == 24
    one = next(one for one in found if one.case == "france")
    assert (one.input, one.output) == ({"country": "France"}, "Paris")
    assert one.facts == {"provider": "small", "prompt": "Capital of {{country}}?"}
    assert one.scores["promptfoo.pass"]["value"] is False
    assert one.scores["promptfoo.says"] == 0
    assert one.scores["promptfoo.equals"] == {"value": 1, "reason": "Assertion passed"}
    assert (one.metrics["cost"], one.metrics["input_tokens"]) == (0.001, 9)
    assert one.about["finish"] == "stop"
    assert sum(one.error == "no route" for one in found) == 8
    assert json.loads(one.attached["promptfoo.json"])["testIdx"] == 0


def test_results_of_deepeval() -> None:
    """Made by DeepEval itself (recorded/make.py); a metric that failed is no verdict."""
    france, peru = read(RECORDED / "deepeval.json")
    assert (france.case, france.input, france.output, france.expected) == (
        "france",
        "Capital of France?",
        "Paris",
        "Paris",
    )
    assert peru.scores == {
        "deepeval.Short": {"value": 0.25, "passed": False, "reason": "22 characters"},
        "deepeval.Broken": {"no_verdict": "the judge timed out"},
    }
    assert peru.metadata == {"retrieval_context": ["Lima is the capital of Peru."]}
    assert (peru.took, peru.metrics["cost"], peru.metrics["tool_calls.search"]) == (1.5, 0.002, 1)
    assert peru.facts == {"model": "scripted", "temperature": "0"}


def test_logs_of_openai_evals(tmp_path: Path) -> None:
    """Lines as its `LocalRecorder` writes them."""

    def event(sample: str, kind: str, data: Any) -> dict[str, Any]:
        return {
            "run_id": "r",
            "event_id": 0,
            "sample_id": sample,
            "type": kind,
            "data": data,
            "created_by": "",
        }

    prompt = [{"role": "user", "content": "Capital of France?"}]
    usage = {"prompt_tokens": 4, "completion_tokens": 1}
    lines = [
        {"spec": {"completion_fns": ["gpt-4"], "eval_name": "capitals.dev.v0", "base_eval": "capitals"}},
        event("capitals.dev.0", "sampling", {"prompt": prompt, "sampled": ["Paris"], "usage": usage}),
        event("capitals.dev.1", "error", {"type": "Timeout", "message": "too slow"}),
        event("capitals.dev.0", "match", {"correct": True, "expected": "Paris", "picked": "Paris"}),
        event("capitals.dev.0", "metrics", {"accuracy": 1.0}),
        {"final_report": {"accuracy": 1.0}, "run_id": "r"},
    ]
    path = tmp_path / "230101_gpt-4_capitals.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    right, late = read(path)
    assert (right.case, right.input, right.output, right.expected) == (
        "capitals.dev.0",
        prompt,
        "Paris",
        "Paris",
    )
    assert right.scores == {"openai_evals.match": True, "openai_evals.accuracy": 1}
    assert right.facts == {"task": "capitals", "model": "gpt-4"}
    assert (right.metrics["input_tokens"], right.metrics["output_tokens"]) == (4, 1)
    assert (late.error, late.output) == ("too slow", ABSENT)


def test_a_wide_table_has_a_column_of_outputs_for_each_level(tmp_path: Path) -> None:
    path = tmp_path / "wide.csv"
    path.write_text("question,expected,gpt,claude\nq1,a,A,B\nq2,b,C,\n")
    found = read(path, fields={"input": "question"}, wide={"model": ["gpt", "claude"]})
    assert [(one.input, one.condition, one.output) for one in found] == [
        ("q1", {"model": "gpt"}, "A"),
        ("q1", {"model": "claude"}, "B"),
        ("q2", {"model": "gpt"}, "C"),
    ]
    assert len(refused(path, fields={"input": "question"}, wide={"model": ["gtp"]})) == 2


def test_scores_of_other_tools() -> None:
    assert score_of(float("nan")) == {"no_verdict": "it was not scored"}
    assert score_of(None, "no idea") == {"no_verdict": "no idea"}
    assert score_of({"a": float("nan"), "b": 1}) == {"b": 1}
    assert score_of([True, "x"]) == {"0": True, "1": "x"}
    assert score_of(0.5, "") == {"value": 0.5}
    assert score_of({"no_verdict": 1, "x": {"deep": float("inf")}}) == {
        "no_verdict_": 1,
        "x": '{"deep": "inf"}',
    }


def test_traces_of_langfuse(tmp_path: Path) -> None:
    item = {
        "id": "t1",
        "name": "answer",
        "sessionId": None,
        "input": {"q": "2+2?"},
        "output": "4",
        "metadata": {"level": "easy"},
        "tags": ["maths"],
        "latency": 1.5,
        "totalCost": 0.25,
        "scores": [
            {"name": "right", "dataType": "BOOLEAN", "value": 1, "comment": "it is"},
            {"name": "tone", "dataType": "CATEGORICAL", "value": 0, "stringValue": "kind"},
        ],
    }
    broken = {
        **item,
        "id": "t2",
        "output": None,
        "level": "ERROR",
        "statusMessage": "timed out",
        "scores": [],
    }
    file = tmp_path / "traces.json"
    file.write_text(json.dumps({"data": [item, broken]}))
    one, two = read(file)
    assert (one.case, one.input, one.output, one.took) == ("t1", {"q": "2+2?"}, "4", 1.5)
    assert one.metadata == {"tags": ["maths"], "level": "easy"}
    assert one.scores["langfuse.right"] == {"value": True, "reason": "it is"}
    assert one.scores["langfuse.tone"] == "kind"
    assert one.metrics["cost"] == 0.25
    assert (two.output, two.error) == (ABSENT, "timed out")


def test_tables_of_trackers(tmp_path: Path) -> None:
    file = tmp_path / "eval_results_table.json"
    table = {"columns": ["input", "output", "expected"], "data": [["2+2?", "4", "4"], ["3+3?", "7", "6"]]}
    file.write_text(json.dumps(table))
    assert [(one.input, one.output, one.expected) for one in read(file)] == [
        ("2+2?", "4", "4"),
        ("3+3?", "7", "6"),
    ]
