"""Queries of data: every source gives the same cases, everything wrong is told at once, one pass suffices."""

from __future__ import annotations

import csv
import gzip
import json
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira import Case, Study
from peira.data import load
from peira.errors import Invalid
from peira.plan.expansion import expand
from peira.spec.fields.schema import schema

ROWS = [
    {"question": "2+2?", "answer": "4", "level": 1, "topic": "sums"},
    {"question": "3*3?", "answer": "9", "level": 2, "topic": "products"},
    {"question": "7-5?", "answer": "2", "level": 1, "topic": "sums"},
    {"question": "8/2?", "answer": "4", "level": 3, "topic": "quotients"},
]
MAPPED = {"input": "question", "expected": "answer"}


def written(path, rows=ROWS):
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(lines.encode()))
    elif path.suffix == ".jsonl":
        path.write_text(lines)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows))
    elif path.suffix == ".csv":
        with path.open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    else:
        import pyarrow
        from pyarrow import parquet

        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    return path


def problems(*args, **query):
    with pytest.raises(Invalid) as caught:
        load(*args, **query)
    return list(caught.value.problems)


@pytest.mark.parametrize("name", ["d.jsonl", "d.jsonl.gz", "d.json", "d.csv", "d.parquet"])
def test_every_format_gives_the_same_cases(tmp_path, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    by_hand = tuple(Case(row["question"], row["answer"]) for row in ROWS)
    assert load(written(tmp_path / name), **MAPPED) == by_hand == load(ROWS, **MAPPED)


def test_the_same_trials_as_listing_the_cases_by_hand(tmp_path):
    path = written(tmp_path / "d.jsonl")
    by_query = Study(name="s", agent=answer, cases={"file": str(path), **MAPPED, "slice": "topic"})
    by_hand = Study(
        name="s",
        agent=answer,
        cases=[Case(row["question"], row["answer"], slice=row["topic"]) for row in ROWS],
    )
    trials = [
        [(place.case.id, place.case.seen) for place in expand(s).layout.places()] for s in (by_query, by_hand)
    ]
    assert trials[0] == trials[1]


def answer(case):
    return case.input


def test_fields_templates_nested_names_and_metadata(tmp_path):
    row = {"q": {"text": "who?"}, "answers": ["a", "b"], "n": 3, "with blank": "w"}
    [case] = load(
        [row],
        input="{{ q.text | upper }} {{ row['with blank'] }}",
        expected="answers.1",
        id="n",
        cluster="{{ answers | join('-') }}",
        metadata={"first": "answers.0", "n": "n"},
    )
    assert case == Case("WHO? w", "b", id="3", cluster="a-b", metadata={"first": "a", "n": 3})


def test_parts_that_are_not_mapped_are_fields_of_their_own_name():
    [case] = load([{"question": "q", "id": 7, "slice": "s", "other": 1}], input="question")
    assert case == Case("q", id="7", slice="s")


def test_each_item_of_a_list_is_a_row():
    row = {"story": "s", "questions": ["a?", "b?"], "answers": ["A", "B"]}
    cases = load(
        [row],
        each="questions",
        input="{{ story }} {{ item }}",
        expected="{{ answers[nth] }}",
        cluster="story",
    )
    assert cases == (Case("s a?", "A", cluster="s"), Case("s b?", "B", cluster="s"))


def test_files_of_a_folder(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.txt").write_text("one")
    (tmp_path / "b.txt").write_text("two")
    (tmp_path / ".hidden.txt").write_text("no")
    (tmp_path / "c.md").write_text("three")
    assert load(tmp_path, pattern="**/*.txt") == (Case("one", id="a/x.txt"), Case("two", id="b.txt"))
    assert load(folder=tmp_path, pattern="*.md", input="{{ name }}: {{ text }}") == (Case("c.md: three"),)
    (tmp_path / "bad.txt").write_bytes(b"\xff")
    assert problems(tmp_path) == ["bad.txt:1: is not UTF-8 (at byte 0)"]
    assert "is like '*.zip'" in problems(tmp_path, pattern="*.zip")[0]


@pytest.mark.parametrize(
    ("query", "left"),
    [
        ({"where": "level == 1"}, ["2+2?", "7-5?"]),
        ({"where": "topic in ['products', 'quotients'] and level < 3"}, ["3*3?"]),
        ({"first": 2}, ["2+2?", "3*3?"]),
        ({"where": "level > 1", "first": 1}, ["3*3?"]),
        ({"sample": 99}, ["2+2?", "3*3?", "7-5?", "8/2?"]),
    ],
)
def test_which_rows_are_taken(query, left):
    assert [case.input for case in load(ROWS, **MAPPED, **query)] == left


def test_by_id_given_or_made():
    numbered = [{**row, "id": n} for n, row in enumerate(ROWS)]
    assert [case.id for case in load(numbered, **MAPPED, ids=[2, "0"])] == ["0", "2"]
    twice = [{"input": "q"}, {"input": "r"}, {"input": "q", "expected": 1}]
    from peira.spec.case import case_ids

    names = case_ids(load(twice))
    assert load(twice, ids=[names[2]]) == (Case("q", 1),)
    assert problems(twice, ids=["nope", names[0]]) == ["ids: there is no case 'nope'"]


def test_names_of_a_filter_reach_into_metadata_and_pairs():
    rows = [{"input": "q", "metadata": {"level": 2}}, {"input": "r", "metadata": {"level": 5}}]
    assert load(rows, where="level > 3") == load(rows, where="metadata.level > 3") == load(rows[1:])
    assert load([("q", "a"), ("r", "b")], where="expected == 'b'") == (Case("r", "b"),)


def test_everything_wrong_is_told_at_once_with_its_line(tmp_path):
    path = tmp_path / "d.jsonl"
    path.write_text('{"question": "a", "level": 1}\nnope\n{"qestion": "b", "level": 2}\n{"question": "c"}\n')
    found = problems(path, input="question", id="{{ level }}", where="level < 9")
    assert [problem.split(": ")[0] for problem in found] == [f"d.jsonl:{n}" for n in (2, 3, 4)]
    assert found[1].endswith("input: there is no field 'question'; did you mean 'qestion'?")
    assert "no value for the name 'level'" in found[2]
    whole = problems(path, input="question", id="{{ level }}")
    assert "d.jsonl:4: id: template: 'level' is undefined" in whole


def test_a_column_that_is_not_there_is_told_once(tmp_path):
    found = problems(written(tmp_path / "d.csv"), input="qestion")
    assert found == ["d.csv:1: there is no column 'qestion'; did you mean 'question'?"]


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({}, "file: give one source (file, folder, dataset, rows), not none"),
        ({"file": "x", "dataset": "y"}, "file: give one source (file, folder, dataset, rows), not file and"),
        ({"file": "x", "first": 1, "sample": 1}, "sample: give first or sample, not both"),
        ({"file": "x", "stratify": "a"}, "stratify: needs a sample to divide"),
        ({"file": "x", "where": "a +"}, "where: not an expression"),
        ({"file": "x", "input": "{{ a "}, "input: template: line 1"),
        ({"file": "x", "inptu": "a"}, "inptu: is not known here; did you mean 'input'?"),
        ({"file": "x", "sample": 0}, "sample: must be at least 1, not 0"),
    ],
)
def test_a_query_that_makes_no_sense(query, said):
    assert any(problem.startswith(said) for problem in problems(**query))


def test_a_study_tells_the_same_at_its_place(tmp_path):
    path = written(tmp_path / "d.jsonl")
    with pytest.raises(Invalid) as caught:
        Study(agent=answer, cases={"file": str(path), "input": "qestion", "first": 1})
    assert caught.value.problems == (
        "cases: d.jsonl:1: input: there is no field 'qestion'; did you mean 'question'?",
    )
    with pytest.raises(Invalid, match=r"cases\.smaple: is not known here; did you mean 'sample'"):
        Study(agent=answer, cases={"file": str(path), "smaple": 1})


def test_data_that_cannot_be_had_say_what_to_do(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    [said] = problems(dataset="openai/gsm8k", config="main", input="question")
    assert said.startswith("openai/gsm8k: ")
    assert "pip install 'peira[hub]'" in said
    assert "a copy of split test of main from https://huggingface.co/datasets/openai/gsm8k" in said
    assert "--data PATH" in said


def test_a_data_set_is_read_at_its_revision(tmp_path):
    pytest.importorskip("datasets", reason="the package datasets is not installed")
    from peira.data import read
    from peira.spec.query import Query

    written(tmp_path / "test.jsonl")
    found = read(Query(dataset=str(tmp_path), revision="a" * 40, **MAPPED), [tmp_path])
    assert found.cases == load(ROWS, **MAPPED)
    assert (found.origin["revision"], found.origin["split"]) == ("a" * 40, "test")


MEASURE = """
import resource, sys
from peira.data import load
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
load(sys.argv[1], first=1)
before = peak()
n = len(load(sys.argv[1], where="input != ''", sample=50, stratify="slice"))
print(n, peak() - before)
"""


def test_a_sample_of_a_large_file_does_not_load_it(tmp_path):
    path = tmp_path / "large.jsonl"
    line = json.dumps({"input": "x" * 900, "slice": "a"}) + "\n"
    with path.open("w") as file:
        for _ in range(40):
            file.write(line * 1000)
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(path)], check=True, capture_output=True, text=True
    )
    taken, grown = map(int, done.stdout.split())
    assert path.stat().st_size > 35_000_000
    assert taken == 50
    assert grown < 12


@given(st.lists(st.tuples(st.text(max_size=5), st.integers(0, 3)), max_size=30), st.integers(1, 40))
def test_a_sample_is_of_the_set_and_the_same_again(rows, size):
    table = [{"input": text, "metadata": {"level": level, "n": n}} for n, (text, level) in enumerate(rows)]
    one = load(table, sample=size, seed=3)
    assert one == load(iter_list(table), sample=size, seed=3)
    places = [case.metadata["n"] for case in one]
    assert len(places) == min(size, len(rows))
    assert places == sorted(set(places))
    mixed = load(table, sample=size, seed=3, shuffle=True)
    assert sorted(case.metadata["n"] for case in mixed) == places


def iter_list(rows):
    return [dict(row) for row in rows]


def test_several_files_one_after_another(tmp_path):
    paths = [str(written(tmp_path / f"{n}.jsonl", ROWS[n : n + 2])) for n in (0, 2)]
    study = Study(agent=answer, cases={"file": paths, **MAPPED})
    assert study.case_sets[""] == load(ROWS, **MAPPED)
    assert Study(agent=answer, cases={"rows": ROWS, **MAPPED}).case_sets == study.case_sets
    labelled = Study(agent=answer, cases={"file": ["2+2?", "3*3?"], "other": ["x"]})
    assert set(labelled.case_sets) == {"file", "other"}


def test_editors_know_queries():
    import jsonschema

    check = jsonschema.Draft202012Validator(schema())
    query = {"file": ["a.csv"], "input": "{{ q }}", "metadata": ["x"], "where": "n > 1", "sample": 2}
    assert check.is_valid({"agent": "a.py:f", "cases": query})
    assert check.is_valid({"agent": "a.py:f", "cases": {"one": query, "two": "b.jsonl"}})
    assert not check.is_valid({"agent": "a.py:f", "cases": {**query, "smaple": 3}})
