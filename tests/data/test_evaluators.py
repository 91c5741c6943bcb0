"""Evaluators that benchmarks use: of the answer found in an output, and of the form of a reply."""

from __future__ import annotations

import json
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira import Study
from peira.data import answer, instructions
from peira.data.evaluators import CHECKS
from peira.errors import Invalid
from peira.spec.plugins import as_evaluator, write_evaluator
from peira.spec.study_files import load, save
from peira.testing.evaluators import EvaluatorSuite


def said(output, expected, transform="last_number", evaluator="numeric"):
    return answer(transform, evaluator).judge({"output": output, "expected": expected})


def test_what_is_judged_is_the_answer_in_the_output():
    steps = {
        "name": "first_of",
        "steps": [{"name": "number_after", "marker": "####"}, {"name": "last_number"}],
    }
    assert said("It is 7.\n#### 7\nYou gave 3.", "7", steps) is True
    assert said("It is 7.\n#### 7\nYou gave 3.", "7") is False
    assert said("no number at all", "7") is False


def test_it_is_written_down_and_read_again():
    made = answer({"name": "number_after", "marker": "A:"}, {"name": "numeric", "tolerance": 0.5})
    text = json.loads(json.dumps(write_evaluator(made, None)))
    assert as_evaluator(text).identity == made.identity
    other = answer({"name": "number_after", "marker": "B:"}, {"name": "numeric", "tolerance": 0.5})
    assert other.identity != made.identity


def test_only_what_looks_at_the_output_can_be_asked():
    with pytest.raises(Invalid, match="does not look at the output"):
        answer("identity", "latency")
    with pytest.raises(Invalid, match="did you mean 'last_number'"):
        answer("last_numbr", "numeric")


class TestAnswer(EvaluatorSuite):
    judged = (
        ({"output": "It is 7. A: 8", "expected": "8"}, True),
        ({"output": "It is 7.", "expected": "7"}, False),
    )

    @pytest.fixture
    def evaluator(self):
        return answer({"name": "number_after", "marker": "A:"}, "numeric")

    @pytest.fixture
    def twin(self):
        return as_evaluator(
            {"name": "answer", "transform": {"number_after": {"marker": "A:"}}, "evaluator": "numeric"}
        )


class TestInstructions(EvaluatorSuite):
    EXPECTED: ClassVar = [
        {"id": "punctuation:no_comma"},
        {"id": "length_constraints:number_words", "num_words": 2},
    ]
    judged = (
        ({"output": "a b", "expected": EXPECTED}, {"followed": True, "share": 1, "unchecked": 0}),
        ({"output": "a", "expected": EXPECTED}, {"followed": False, "share": 0.5, "unchecked": 0}),
    )

    @pytest.fixture
    def evaluator(self):
        return instructions()

    @pytest.fixture
    def twin(self):
        return as_evaluator("instructions")


def agent(case):
    return case.input


@pytest.mark.parametrize("suffix", [".toml", ".yaml", ".json"])
def test_a_study_file_with_a_query_says_the_same_again(tmp_path, suffix):
    (tmp_path / "d.jsonl").write_text('{"q": "1+1", "a": "2"}\n{"q": "2+2", "a": "4"}\n')
    (tmp_path / "agent.py").write_text("def agent(case):\n    return case.input\n")
    (tmp_path / "s.toml").write_text(
        'agent = "agent.py:agent"\n'
        'cases = {file = "d.jsonl", input = "q", expected = "a", sample = 1, seed = 4, shuffle = true}\n'
        'evaluators = [{name = "answer", transform = "last_number", evaluator = "numeric"}]\n'
    )
    study = load(tmp_path / "s.toml")
    assert study.data[""]["files"] == ["d.jsonl"]
    save(study, tmp_path / f"t{suffix}")
    again = load(tmp_path / f"t{suffix}")
    assert again.case_sets == study.case_sets
    assert again.data == study.data
    assert "d.jsonl" in (tmp_path / f"t{suffix}").read_text()


def test_several_sets_each_by_a_query(tmp_path):
    rows = [{"input": "a"}, {"input": "b"}]
    (tmp_path / "d.json").write_text(json.dumps(rows))
    query = {"file": str(tmp_path / "d.json"), "first": 1}
    study = Study(agent=agent, cases={"one": query, "two": ["x", "y"]})
    assert {label: len(cases) for label, cases in study.case_sets.items()} == {"one": 1, "two": 2}
    assert set(study.data) == {"one"}


KEPT = [
    ("keywords:existence", {"keywords": ["Sun", "moon"]}, "The moon and the sun.", "The moon."),
    ("keywords:frequency", {"keyword": "ha", "frequency": 2, "relation": "at least"}, "ha ha", "ha"),
    ("keywords:frequency", {"keyword": "ha", "frequency": 2, "relation": "less than"}, "ha", "ha ha"),
    ("keywords:forbidden_words", {"forbidden_words": ["no"]}, "nothing", "No!"),
    (
        "keywords:letter_frequency",
        {"letter": "e", "let_frequency": 2, "let_relation": "at least"},
        "Eve",
        "Eva",
    ),
    ("length_constraints:number_words", {"num_words": 3, "relation": "at least"}, "a b c", "a b"),
    (
        "length_constraints:number_sentences",
        {"num_sentences": 2, "relation": "less than"},
        "One.",
        "One. Two!",
    ),
    ("length_constraints:number_paragraphs", {"num_paragraphs": 2}, "a\n***\nb", "a\n\nb"),
    (
        "length_constraints:nth_paragraph_first_word",
        {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "then"},
        "First.\n\nThen, more.",
        "Then.\n\nFirst.",
    ),
    ("detectable_content:number_placeholders", {"num_placeholders": 2}, "[name] at [place]", "[name]"),
    ("detectable_content:postscript", {"postscript_marker": "P.S."}, "Bye.\nP.S. more", "Bye."),
    ("detectable_format:number_bullet_lists", {"num_bullets": 2}, "* a\n* b", "* a\n**b**"),
    ("detectable_format:constrained_response", {}, "My answer is no.", "No."),
    ("detectable_format:number_highlighted_sections", {"num_highlights": 2}, "*a* and **b**", "*a* only"),
    (
        "detectable_format:multiple_sections",
        {"section_spliter": "Section", "num_sections": 2},
        "Section 1\na\nSection 2\nb",
        "Section 1\na",
    ),
    ("detectable_format:json_format", {}, '```json\n{"a": 1}\n```', "{a: 1}"),
    ("detectable_format:title", {}, "<<A title>>\ntext", "A title"),
    ("combination:two_responses", {}, "one\n******\ntwo", "one\n******\none"),
    ("combination:repeat_prompt", {"prompt_to_repeat": "Say it."}, "Say it. I did.", "I did."),
    ("startend:end_checker", {"end_phrase": "The end."}, "So. the end.", "The end. Not."),
    ("startend:quotation", {}, '"quoted"', '"open'),
    (
        "change_case:capital_word_frequency",
        {"capital_frequency": 2, "capital_relation": "at least"},
        "A BIG Thing",
        "A big thing",
    ),
    ("change_case:english_capital", {}, "LOUD.", "Loud."),
    ("change_case:english_lowercase", {}, "quiet.", "Quiet."),
    ("punctuation:no_comma", {}, "a b", "a, b"),
]


@pytest.mark.parametrize(("name", "arguments", "kept", "broken"), KEPT)
def test_an_instruction_is_kept_or_not(name, arguments, kept, broken):
    expected = [{"id": name, **arguments}]
    judge = instructions().judge
    assert judge({"output": kept, "expected": expected})["followed"] is True
    assert judge({"output": broken, "expected": expected})["followed"] is False
    assert judge({"output": " ", "expected": expected})["followed"] is False
    apart = json.dumps({"ids": [name], "arguments": [{**arguments, "other": None}]})
    assert judge({"output": kept, "expected": apart})["share"] == 1


def test_every_check_is_tried_here():
    assert {name for name, *_ in KEPT} == set(CHECKS)


def test_what_cannot_be_checked_is_counted_or_refused():
    known, unknown = {"id": "punctuation:no_comma"}, {"id": "language:response_language", "language": "de"}
    found = instructions().judge({"output": "x", "expected": [known, unknown]})
    assert found == {"followed": True, "share": 1.0, "unchecked": 1}
    for expected in ([unknown], "text", None, [1]):
        with pytest.raises(Invalid):
            instructions().judge({"output": "x", "expected": expected})
    with pytest.raises(Invalid, match="needs 'num_words'"):
        instructions().judge({"output": "x", "expected": [{"id": "length_constraints:number_words"}]})


@given(st.text(max_size=200))
def test_no_text_breaks_a_check(text):
    for name, arguments, *_ in KEPT:
        score = instructions().judge({"output": text, "expected": [{"id": name, **arguments}]})
        assert score["share"] in (0, 1)


def test_recorded_outputs_of_four_models_get_their_published_flags(gsm8k):
    """Every one of the 5,276 outputs recorded with GSM8K, by the number after the last "A:"."""
    path = gsm8k.with_name("example_model_solutions.jsonl")
    if not path.exists():
        pytest.skip(f"there is no {path}")
    judge = answer({"name": "number_after", "marker": "A:"}, "numeric").judge
    marks = {"6b_finetuning": 0, "6b_verification": 0, "175b_finetuning": 0, "175b_verification": 0}
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for row in rows:
        expected = row["ground_truth"].rsplit("A:", 1)[1]
        for model in marks:
            right = judge({"output": row[model]["solution"], "expected": expected})
            assert right is row[model]["is_correct"]
            marks[model] += right
    shares = [round(n / len(rows), 4) for n in marks.values()]
    assert (len(rows), shares) == (1319, [0.2168, 0.3904, 0.3472, 0.5625])
