"""A design that people bring: rows, CSV, JSON, and everything that can be wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.space import Dimension, Space
from peira.design.custom import Custom
from peira.errors import Invalid

SPACE = Space(
    (
        Dimension("model", ("small", "large")),
        Dimension("tools", (True, False, None)),
        Dimension("temperature", scale="continuous", low=0, high=1),
    )
)
ROW: dict[str, Any] = {"model": "small", "tools": True, "temperature": 0.5}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def told(design: Custom, space: Space = SPACE) -> tuple[str, ...]:
    with pytest.raises(Invalid) as error:
        design.points(space, 0)
    return error.value.problems


def test_rows_in_their_order_and_equal_ones_replicated() -> None:
    rows = [ROW, {**ROW, "model": "large"}, ROW, {**ROW, "replicates": 3}, {**ROW, "block": "monday"}]
    design = Custom(rows=rows, replicates=2)
    points = list(design.points(SPACE, 0))
    assert [(p.factors["model"], p.block, p.replicates) for p in points] == [
        ("small", "", 10),
        ("large", "", 2),
        ("small", "monday", 2),
    ]
    assert design.size(SPACE) == 3


def test_a_value_becomes_the_level_it_equals() -> None:
    space = Space((Dimension("n", (1, 2)), Dimension("flag", (True, 1))))
    points = list(Custom(rows=[{"n": 1.0, "flag": 1.0}]).points(space, 0))
    assert repr(points[0].factors) == "{'n': 1, 'flag': 1}"


def test_csv_and_json_say_the_same(folder: Path) -> None:
    (folder / "runs.csv").write_text(
        "model, tools, temperature, block, period\nsmall, true, 0.50, a, 1\n\nlarge, null, 1, b, 2\n"
    )
    rows = [
        {**ROW, "block": "a", "period": 1},
        {"model": "large", "tools": None, "temperature": 1, "block": "b", "period": 2},
    ]
    (folder / "runs.json").write_text(json.dumps(rows))
    expected = list(Custom(rows=rows).points(SPACE, 0))
    assert list(Custom(file="runs.csv").points(SPACE, 0)) == expected
    assert list(Custom(file="runs.json").points(SPACE, 0)) == expected


def test_every_problem_of_a_csv_with_its_line(folder: Path) -> None:
    (folder / "runs.csv").write_text("model,temprature\nsmall,0.5\nlrage,2\nlarge,0.1\n")
    assert told(Custom(file="runs.csv")) == (
        "runs.csv:2 and 2 more: no factor 'temprature'; did you mean 'temperature'?",
        "runs.csv:2 and 2 more: there is no value for 'tools'",
        "runs.csv:2 and 2 more: there is no value for 'temperature'",
        "runs.csv:3: model: 'lrage' is not one of its levels; did you mean 'large'?",
    )


def test_every_problem_of_rows(folder: Path) -> None:
    rows = [ROW, {**ROW, "temperature": 3}, {**ROW, "colour": "red"}, {**ROW, "replicates": 0, "block": 7}]
    assert told(Custom(rows=rows)) == (
        "rows[2]: no factor 'colour'; known: block, model, period, plot, replicates, temperature, tools",
        "rows[1]: temperature: must be from 0 to 1, not 3",
        "rows[3]: block: must be a text, not 7",
        "rows[3]: replicates: must be at least 1, not 0",
    )


def test_whole_numbers_and_what_is_no_number(folder: Path) -> None:
    space = Space((Dimension("n", scale="integer", low=1, high=9),))
    (folder / "runs.csv").write_text("n\n3\n2.5\nmany\nnan\n")
    assert told(Custom(file="runs.csv"), space) == (
        "runs.csv:3: n: must be a whole number, not 2.5; say 2",
        "runs.csv:4: n: must be a number from 1 to 9, not 'many'",
        "runs.csv:5: n: must be from 1 to 9, not nan",
    )


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("runs.csv", "model\n", "runs.csv: needs a line with the names"),
        ("runs.csv", "model,model\na,b\n", "runs.csv:1: the column 'model' is there twice"),
        ("runs.csv", "model\na,b\nc\n", "runs.csv:2: has 2 values for 1 columns"),
        ("runs.csv", 'model\n"a\n', "runs.csv:2: unexpected end of data"),
        ("runs.json", "{}", "runs.json: must be a list of at least one table"),
        ("runs.json", "[1]", "runs.json[0]: must be a table"),
        ("runs.json", "[", "runs.json: Expecting value"),
        ("runs.txt", "", "file: runs.txt is neither .csv nor .json"),
    ],
)
def test_files_that_are_no_design(folder: Path, name: str, text: str, problem: str) -> None:
    (folder / name).write_text(text)
    with pytest.raises(Invalid) as error:
        Custom(file=name)
    assert problem in str(error.value)


def test_bad_parameters() -> None:
    with pytest.raises(Invalid, match="say one of rows and file"):
        Custom()
    with pytest.raises(Invalid, match="say one of rows and file"):
        Custom(rows=[ROW], file="runs.csv")
    with pytest.raises(Invalid, match=r"cannot read gone.csv: No such file"):
        Custom(file="gone.csv")
    with pytest.raises(Invalid, match="file: must be a path, not 3"):
        Custom(file=3)  # type: ignore[arg-type]


def test_a_long_list_of_problems_is_shortened() -> None:
    problems = told(Custom(rows=[{**ROW, "model": f"m{nth}"} for nth in range(500)]))
    assert len(problems) == 51
    assert problems[-1] == "... and 450 more like these"


def test_a_factor_may_be_called_block() -> None:
    space = Space((Dimension("block", ("a", "b")),))
    points = list(Custom(rows=[{"block": "a"}]).points(space, 0))
    assert (points[0].factors, points[0].block) == ({"block": "a"}, "")


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=20))
def test_no_row_is_lost_and_none_is_twice(rows: list[tuple[int, int]]) -> None:
    space = Space((Dimension("a", (0, 1, 2)), Dimension("b", (0, 1))))
    points = list(Custom(rows=[{"a": a, "b": b} for a, b in rows]).points(space, 0))
    assert sum(p.replicates for p in points) == len(rows)
    assert [(p.factors["a"], p.factors["b"]) for p in points] == list(dict.fromkeys(rows))
