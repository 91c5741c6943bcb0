"""`peira data`, and benchmarks in a study's place."""

from __future__ import annotations

import json

import pytest

from peira.core.registry import registry
from peira.data import BENCHMARKS, register

registry.load_module(register)


@pytest.fixture
def problems(folder):
    rows = [{"question": f"What is {n}?", "answer": f"Easy.\n#### {n}"} for n in range(6)]
    path = folder / "problems.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in [*rows, {**rows[0], "question": "what is 0"}]))
    return path.name


def test_the_benchmarks_are_listed(peira):
    done = peira("data", "list")
    assert done.code == 0
    assert "GSM8K: grade school mathematics" in done.out
    found = peira("data", "--json").document["benchmarks"]
    assert {one["name"] for one in found} >= {make.__name__ for make in BENCHMARKS}
    assert all(one["homepage"] and one["licence"] and one["prompts"] for one in found)


def test_cases_are_shown(peira, problems):
    done = peira("data", "show", "gsm8k", "--data", problems, "--few", "1")
    assert "7 cases, of which the first 1:" in done.out
    assert "input     What is 0?" in done.out
    assert "expected  0" in done.out
    document = peira("data", "show", problems, "--map", "input=question", "--json").document
    assert document["benchmark"] is None
    assert len(document["cases"]) == 5
    assert peira("data", "show", "capitals.py", "--json").document["cases"][0]["expected"] == "Paris"


def test_what_a_set_is_like(peira, problems):
    done = peira("data", "stats", problems, "--map", "input=question")
    assert done.code == 0
    assert "cases     7 (0 with an expected value)" in done.out
    assert "repeats   1 (the same but" in done.out
    assert peira("data", "stats", problems, "--map", "input=question", "--json").document["same_count"] == 1


def test_the_cases_of_a_run(peira):
    peira("run", "capitals.py", "--quiet")
    run = peira("runs", "--json").document["runs"][0]["run"]
    assert peira("data", "stats", run[:8], "--json").document["cases"] == 2


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["show"], "name: say of what"),
        (["show", "gsm8"], "'gsm8' is no benchmark, file or run; did you mean 'gsm8k'?"),
        (["stats", "nothere.jsonl"], "there is no file 'nothere.jsonl'"),
        (["stats", "capitals.jsn", "--map", "input"], "--map input: write PART=FIELD"),
        (["show", "gsm8k", "--data", "nothere"], "data: there is no file or folder nothere"),
    ],
)
def test_what_cannot_be_shown(peira, arguments, said):
    done = peira("data", *arguments)
    assert done.code == 2
    assert said in done.err


def test_a_benchmark_is_run_by_its_name(peira, problems):
    wish = ("gsm8k", "--model", "scripted:echo", "--variant", "plain", "--data", problems)
    planned = peira("plan", *wish)
    assert planned.code == 0
    done = peira("run", *wish, "--limit", "4", "--quiet", "--json")
    assert done.code == 0
    assert peira("run", *wish, "--limit", "4", "--quiet").code == 0
    shown = peira("show", "--json").document
    assert shown
    assert peira("score", *wish, "--limit", "4", "--quiet").code == 0
    assert peira("estimate", *wish).code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gsm8k"], "model: gsm8k needs one to ask: --model NAME"),
        (["gsm8k", "--model", "scripted:a", "--variant", "plan"], "did you mean 'plain'?"),
        (["capitals.py", "--model", "scripted:a"], "--model: is for benchmarks (see `peira data list`)"),
    ],
)
def test_what_cannot_be_run(peira, arguments, said):
    done = peira("run", *arguments)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


OWN = """
from peira import Benchmark

def sums():
    return Benchmark(
        name="sums", title="Sums", homepage="h", licence="own",
        data={"file": "problems.jsonl", "input": "question", "expected": "{{ answer.split('#### ')[1] }}"},
        prompts=[{"name": "plain", "template": "{{ input }}"}],
        transform="last_number", evaluators=["numeric"],
    )

mine = sums()

def register(registry):
    registry.add("benchmark", "sums", lambda: sums())
"""


def test_a_benchmark_of_ones_own(peira, folder, problems):
    (folder / "inner").mkdir()
    (folder / "inner" / "bench.py").write_text(OWN)
    (folder / problems).rename(folder / "inner" / problems)
    done = peira("run", "inner/bench.py:mine", "--model", "scripted:echo", "--quiet")
    assert done.code == 0
    assert "numeric  1.00" in done.out
    assert "model: sums needs one" in peira("run", "inner/bench.py:mine").err
    (folder / "peira.toml").write_text('plugins = ["own_bench_of_data_test:register"]\n')
    (folder / "own_bench_of_data_test.py").write_text(OWN)
    (folder / "inner" / problems).rename(folder / problems)
    assert "sums" in peira("data", "list").out
    assert "0 new, 7 reused" in peira("run", "sums", "--model", "scripted:echo", "--quiet").out
    assert "cases     7" in peira("data", "stats", "sums").out


def test_a_file_of_cases_is_run_as_it_is(peira, folder):
    (folder / "sums.csv").write_text("question,answer\n1+1,2\n2+2,4\n")
    mapped = ("--map", "input=question", "--map", "expected=answer")
    done = peira("run", "sums.csv", "--model", "scripted:echo", *mapped, "--json")
    assert done.document["study"] == "sums"
    assert [row["score"] for row in done.document["table"]["rows"]] == ["match"]
    asked = ("--prompt", "2 or 4, what is {{ input }}?", "--judge-by", "includes", "--json")
    (row,) = peira("run", "sums.csv", "--model", "scripted:echo", *mapped, *asked).document["table"]["rows"]
    assert (row["score"], row["mean"]) == ("includes", 1.0)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sums.csv",), "--model: sums.csv is a file of cases; name the model that is asked"),
        (("gone.csv", "--model", "scripted:echo"), "there is no file gone.csv"),
        (("sums.csv", "--model", "scripted:echo"), "there is no column 'expected'"),
        (("sums.csv", "--model", "scripted:echo", "--map", "input"), "--map input: write PART=FIELD"),
        (("sums.csv", "--model", "scripted:echo", "--judge-by", "inclues"), "did you mean 'includes'?"),
        (("gsm8k", "--model", "m", "--prompt", "x", "--variant", "all"), "leave out --variant"),
        (("capitals.py", "--prompt", "x"), "--prompt: is for benchmarks"),
    ],
)
def test_what_is_wrong_with_a_file_of_cases(peira, folder, words, said):
    (folder / "sums.csv").write_text("question,answer\n1+1,2\n")
    done = peira("run", *words)
    assert (done.code, said in done.err) == (2, True), done.err


def test_models_that_nobody_serves_are_refused_before_anything_runs(peira, folder):
    (folder / "rows.jsonl").write_text('{"input": "2+2?", "expected": "4"}\n')
    done = peira("run", "rows.jsonl", "--model", "gpt-4o", "--model", "opnai:gpt-4o", "--model", "scripted:4")
    assert done.code == 2
    assert "--model: model 'gpt-4o' names no provider; write 'openai:gpt-4o'" in done.err
    assert "--model: no provider 'opnai'" in done.err
    assert not list(folder.glob("**/*.db"))
