from __future__ import annotations

import json

import pytest

from peira.errors import Invalid
from peira.spec.case import Case
from peira.spec.data_files import read_cases

CASES = (
    Case("q", "a", id="1", slice="easy"),
    Case("r"),
    Case('é\n"x"', "b", cluster="c", metadata={"topic": "t"}),
)


def problems(path):
    with pytest.raises(Invalid) as caught:
        read_cases(path)
    return list(caught.value.problems)


def as_dict(case):
    fields = {
        name: getattr(case, name) for name in ("input", "expected", "id", "slice", "cluster", "metadata")
    }
    return {name: value for name, value in fields.items() if value}


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".yaml", ".yml", ".toml"])
def test_the_same_cases_from_every_format(tmp_path, suffix):
    import tomli_w
    import yaml

    path, rows = tmp_path / f"cases{suffix}", [as_dict(case) for case in CASES]
    text = {
        ".jsonl": lambda: "\n\n".join(map(json.dumps, rows)),
        ".json": lambda: json.dumps(rows),
        ".toml": lambda: tomli_w.dumps({"cases": rows}),
    }.get(suffix, lambda: yaml.safe_dump(rows))()
    path.write_bytes(b"\xef\xbb\xbf" + text.encode())
    assert read_cases(path) == CASES


def test_columns_of_a_csv_file(tmp_path):
    path = tmp_path / "cases.csv"
    path.write_text('id,input,expected,topic\n7,"a ""q""\nin two lines",x,t\n\n,r,,\n')
    assert read_cases(path) == (
        Case('a "q"\nin two lines', "x", id="7", metadata={"topic": "t"}),
        Case("r", metadata={"topic": ""}),
    )


def test_every_bad_line_is_named_at_once(tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_text('{"input": 1}\n{"inptu": 2}\nnope\n[1]\n{"input": 1e999}\n')
    found = problems(path)
    assert [p.split(": ")[0] for p in found] == [f"cases.jsonl:{n}" for n in (2, 2, 3, 4, 5)]
    assert "cases.jsonl:2: inptu: is not a field of a case; did you mean 'input'?" in found
    assert "cases.jsonl:4: a case as a list is (input, expected), not 1 items" in found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("question,answer\nq,a\n", ["cases.csv:1: there is no column 'input'; known: answer, question"]),
        ("input,x,x\nq,a,b\n", ["cases.csv:1: the column 'x' is there twice"]),
        (
            "input,expected\nq,a\nr\ns,a,b\n",
            ["cases.csv:3: 1 cells under 2 columns", "cases.csv:4: 3 cells under 2 columns"],
        ),
        ('input\n"q\n', ["cases.csv:2: unexpected end of data"]),
        ("", ["cases.csv:1: there is no column 'input'"]),
    ],
)
def test_a_bad_csv_file(tmp_path, text, expected):
    (tmp_path / "cases.csv").write_text(text)
    assert problems(tmp_path / "cases.csv") == expected


def test_many_problems_are_counted(tmp_path):
    path = tmp_path / "cases.jsonl"
    path.write_text("nope\n" * 1000)
    found = problems(path)
    assert len(found) == 51
    assert found[-1] == "... and 950 more like these"


def test_other_files_are_refused(tmp_path):
    (tmp_path / "cases.txt").write_text("q")
    (tmp_path / "cases.json").write_text('{"a": 1, "a": 2}')
    (tmp_path / "cases.yaml").write_text("a: 1")
    (tmp_path / "cases.csv").write_bytes(b"input\n\xff\n")
    assert problems(tmp_path / "cases.txt")[0].startswith("cases.txt is no case file; use one of .jsonl")
    assert problems(tmp_path / "cases.json")[0].endswith("the key 'a' is given twice")
    assert problems(tmp_path / "cases.yaml")[0].startswith("cases.yaml must hold a list of cases")
    assert problems(tmp_path / "cases.csv")[0].endswith("is not UTF-8 (at byte 6)")
