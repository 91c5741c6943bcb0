"""Tables and lines at the width of a terminal: numbers stay whole, words stay whole."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from peira.cli.output import grid
from peira.core.text.words import wrapped

HEADER = ["model", "style", "score", "mean [95% interval]", "n", "failed"]
ROWS = [
    [f"a-very-long-model-name-{n}", "think first", "includes", "0.58 [0.34, 0.78]", "19 (19 cases)", "1"]
    for n in ("one", "two")
]


def test_a_mean_with_its_interval_is_never_folded() -> None:
    shown = grid(HEADER, ROWS, width=80)
    assert max(map(len, shown.splitlines())) <= 80
    assert shown.count("0.58 [0.34, 0.78]") == 2
    assert shown.count("19 (19 cases)") == 2
    assert shown.count("think first") == 2


def test_what_fits_nowhere_is_folded_and_nothing_is_lost() -> None:
    shown = grid(HEADER, ROWS, width=40)
    assert max(map(len, shown.splitlines())) <= 40
    assert sum(map(shown.count, "034578")) >= sum(map("".join(ROWS[0] + ROWS[1]).count, "034578"))


@given(st.text("ab -", max_size=200), st.integers(10, 90))
def test_lines_are_broken_between_words(line: str, width: int) -> None:
    shown = wrapped(line, width)
    assert shown.split() == line.split()
    assert all(len(part) <= width or len(part.split()) == 1 for part in shown.splitlines())


def test_the_indent_of_a_line_stays() -> None:
    assert wrapped("  one two three", 9) == "  one two\n  three"
