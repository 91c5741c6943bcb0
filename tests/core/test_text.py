"""Readers that transforms and evaluators share; what they are for is tested with those."""

from __future__ import annotations

from collections import deque

from hypothesis import example, given, settings
from hypothesis import strategies as st

from peira.core.text.numbers import NUMBER, Number, last_number, last_quantity, quantities, read

PIECES = st.sampled_from(
    [
        " ",
        "  ",
        "5",
        "12",
        "1,234",
        ".5",
        "-",
        "$",
        "$ ",
        "%",
        " %",
        "/",
        " / ",
        "a",
        "H2O",
        "v1.2.3",
        "\n",
        "\u00a0",
        "e5",
    ]
)


@settings(max_examples=1000)
@given(st.lists(PIECES, max_size=40).map("".join))
@example("-$ 5 a b c d H2O")
@example("-$ 5 % a b c d e f2")
@example("1 / 2 / 3 a b")
@example("1 / 2 / 3 / 4 / 5 / 6 / 7 / 8")
@example("3/4 a b c d e 5 / 6")
def test_the_last_number_is_the_last_of_all(text: str) -> None:
    every = [read(found) for found in NUMBER.finditer(text)]
    assert last_number(text) == (every[-1] if every else None)
    last: deque[Number] = deque(quantities(text), maxlen=1)
    assert last_quantity(text) == (last[0] if last else None)
