"""What a family of comparisons says about the order: which ranks are possible, and who cannot be told apart.

Both take the pairs that a simultaneous comparison found to differ, as (better, worse), with entries numbered
from 0; if those hold together with the level's chance, so do all ranks together.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import combinations
from string import ascii_lowercase


def rank_intervals(entries: int, different: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
    """The best and the worst rank (from 1) that each entry may hold."""
    _check(entries, different)
    best, worst = [1] * entries, [entries] * entries
    for better, worse in set(different):
        best[worse] += 1
        worst[better] -= 1
    return list(zip(best, worst, strict=True))


def letters(order: Sequence[int], different: Collection[tuple[int, int]]) -> list[str]:
    """The compact letter display, letters given out along `order`, best first (Piepho's insert and absorb).

    Two entries that share a letter cannot be told apart; two that share none differ.
    """
    _check(len(order), different)
    if sorted(order) != list(range(len(order))):
        raise ValueError("the order names every entry once")
    apart = {frozenset(pair) for pair in different}
    columns = [set(order)]
    for i, j in combinations(order, 2):
        if frozenset((i, j)) in apart:
            columns = _absorbed([part for column in columns for part in _split(column, i, j)])
    place = {entry: index for index, entry in enumerate(order)}
    columns.sort(key=lambda column: sorted(place[entry] for entry in column))
    marks = [_name(index) for index in range(len(columns))]
    return [
        "".join(mark for mark, column in zip(marks, columns, strict=True) if entry in column)
        for entry in range(len(order))
    ]


def _split(column: set[int], i: int, j: int) -> list[set[int]]:
    return [column - {i}, column - {j}] if i in column and j in column else [column]


def _absorbed(columns: list[set[int]]) -> list[set[int]]:
    """Without those that another contains; of equal ones the first stays."""
    return [
        column
        for index, column in enumerate(columns)
        if not any(
            column < other or (column == other and place < index) for place, other in enumerate(columns)
        )
    ]


def _name(index: int) -> str:
    """a ... z, then a1 ... z1, and so on."""
    turn, place = divmod(index, len(ascii_lowercase))
    return ascii_lowercase[place] + (str(turn) if turn else "")


def _check(entries: int, different: Collection[tuple[int, int]]) -> None:
    pairs = set(different)
    if any(i == j or not (0 <= i < entries and 0 <= j < entries) or (j, i) in pairs for i, j in pairs):
        raise ValueError(f"pairs name two of the entries 0 to {entries - 1}, the better one first")
