from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from peira.analysis.table.means import tabulate
from peira.analysis.table.value import Table, TableRow
from peira.core.log.events import State
from peira.core.text.grid import interval
from peira.results.trials import Score, TrialResult


def made() -> list[TrialResult]:
    """Two models on ten cases: the small one is right on every second, the large one on all it answered."""
    trials = []
    for model in ("small", "large"):
        for case in range(10):
            lost = model == "large" and case == 9
            scores = {"match": Score("match", State.succeeded, model == "large" or case % 2 == 0)}
            trials.append(
                TrialResult(
                    id=f"{model} {case}",
                    agent="answer",
                    condition={"model": model, "style": "plain"},
                    case_id=f"case {case}",
                    state=State.failed if lost else State.succeeded,
                    scores={} if lost else scores,
                )
            )
    return trials


def test_a_table_reads_in_any_terminal() -> None:
    assert str(tabulate(made(), ["model", "style"], notes=["declared, not executed: hypotheses"])) == (
        "model  style  score  mean [95% interval]  n              failed\n"
        "small  plain  match  0.50 [0.22, 0.78]    10 (10 cases)  0\n"
        "large  plain  match  1.00 [0.68, 1.00]    9 (9 cases)    1\n"
        "intervals: exact\n"
        "not in the means: 1 failed trial\n"
        "model=large, style=plain, match: with 1 lost trial at worst or best 0.900 to 1.000, "
        "95% bounds 0.556 to 1.000\n"
        "declared, not executed: hypotheses"
    )


def test_a_table_as_markdown_html_and_json() -> None:
    table = tabulate(made(), ["model"], level=0.9)
    assert table.markdown().splitlines()[:4] == [
        "| model | score | mean \\[90% interval\\] | n | failed |",
        "| --- | --- | --- | --- | --- |",
        "| small | match | 0.50 \\[0.24, 0.76\\] | 10 (10 cases) | 0 |",
        "| large | match | 1.00 \\[0.73, 1.00\\] | 9 (9 cases) | 1 |",
    ]
    assert "<td>1.00 [0.73, 1.00]</td>" in table._repr_html_()
    assert "<p>not in the means: 1 failed trial</p>" in table._repr_html_()
    document = json.loads(table.to_json())
    assert list(document) == ["by", "level", "columns", "rows", "notes"]
    assert list(document["rows"][0]) == document["columns"]
    assert document["rows"] == table.rows


@given(st.lists(st.text() | st.none() | st.lists(st.text(), max_size=2), min_size=1, max_size=3))
def test_no_label_breaks_the_layout(labels: list[object]) -> None:
    row = TableRow(tuple(labels), "a|b\n<b>", 0.5, 0.25, 0.75, 4, 2, 0, 0, "t")
    table = Table(tuple("xyz"[: len(labels)]), 0.95, (row, row))
    assert len(str(table).split("\n")) == len(table.markdown().split("\n")) - 1 == 3
    assert str(table).isprintable() or all(c.isprintable() or c == "\n" for c in str(table) if c.isascii())
    assert "<b>" not in table._repr_html_()
    assert "<b>" not in table.markdown()


def test_wide_characters_keep_the_columns_aligned() -> None:
    rows = tuple(
        TableRow((label,), "s", 0.5, 0.25, 0.75, 4, 2, 0, 0, "t")
        for label in ("東京", "e\u0301", "long name")
    )
    lines = str(Table(("city",), 0.95, rows)).split("\n")
    assert lines[1].startswith("東京       s")
    assert lines[2].startswith("e\u0301          s")
    assert lines[3].startswith("long name  s")


def test_numbers_are_shown_to_the_digits_their_interval_supports() -> None:
    assert interval(0.8214, 0.71, 0.9) == "0.82 [0.71, 0.90]"
    assert interval(0.82141, 0.8209, 0.8219) == "0.8214 [0.8209, 0.8219]"
    assert interval(1234.56, 1100.2, 1390.9) == "1235 [1100, 1391]"
    assert interval(12.345, 10.9, 13.9) == "12.3 [10.9, 13.9]"
    assert interval(-0.0001, -0.5, 0.5) == "0.00 [-0.50, 0.50]"
    assert interval(0.0, 0.0, 0.0) == "0.00 [0.00, 0.00]"
    assert interval(2e-7, 1e-7, 3e-7) == "2e-07 [1e-07, 3e-07]"
    assert interval(5e12, 4.98e12, 5.02e12) == "5e+12 [4.98e+12, 5.02e+12]"
    assert interval(7.0, None, None) == "7.00 [unknown]"
    assert interval(None, None, None) == "-"


@given(st.floats(-1e150, 1e150), st.floats(0, 1e150), st.floats(0, 1e150))
def test_any_interval_can_be_shown(mean: float, below: float, above: float) -> None:
    assert interval(mean, mean - below, mean + above).count(",") == 1
