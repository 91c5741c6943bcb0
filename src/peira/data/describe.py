"""What a set of cases is like: how many, in which slices and clusters, how long, how often the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from peira.core.ids import Json
from peira.data.duplicates import duplicates, plain
from peira.data.sampling import content
from peira.spec.case import Case, case_ids

SHOWN = 100


class Stats(msgspec.Struct, frozen=True):
    """`length` is of the inputs, in characters: least, median, most. `same` are groups of case ids whose
    inputs say the same, `near` pairs with their similarity; each is told up to a number, and counted."""

    cases: int
    digest: str
    expected: int
    slices: dict[str, int]
    clusters: int
    length: tuple[int, int, int]
    same_count: int
    same: list[list[str]]
    near_count: int
    near: list[tuple[str, str, float]]


def stats(cases: Sequence[Case], threshold: float = 0.8) -> Stats:
    ids, found = case_ids(cases), duplicates((case.input for case in cases), threshold)
    lengths = sorted(len(_text(case.input)) for case in cases) or [0]
    return Stats(
        cases=len(cases),
        digest=content(cases),
        expected=sum(case.expected is not None for case in cases),
        slices=dict(Counter(case.slice for case in cases if case.slice is not None)),
        clusters=len({case.cluster for case in cases if case.cluster is not None}),
        length=(lengths[0], lengths[len(lengths) // 2], lengths[-1]),
        same_count=sum(len(group) - 1 for group in found.same),
        same=[[ids[place] for place in group] for group in found.same[:SHOWN]],
        near_count=len(found.near),
        near=[(ids[a], ids[b], share) for a, b, share in found.near[:SHOWN]],
    )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else plain(value)
