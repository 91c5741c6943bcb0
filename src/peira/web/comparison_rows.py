"""Two sides of a comparison, case by case: the trials of two levels of a factor, or of two runs, in pairs.

Pairs have the same case, the same other levels and the same repeat. They are numbered by the plans alone, so
that a page of them is found at once in runs of any size; then they are read, for a bounded time.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, islice
from typing import Any

import msgspec

from peira.core.ids import canonical
from peira.core.log.events import State
from peira.core.text.grid import cell
from peira.errors import Invalid
from peira.plan.conditions import LevelLabels
from peira.results.trials import TrialResult, is_correct
from peira.web.reader import PlannedRun
from peira.web.rendering import shown
from peira.web.rest.documents import TrialRow
from peira.web.trial_search import BUDGET, TrialSearch, trial_row

CHUNK, TEXT, MOST = 50, 2_000, 100
SHOW = ("differs", "a", "b", "all")
"""Which pairs are shown: those that differ, A right and B wrong, B right and A wrong, all."""


class CompareQuery(msgspec.Struct, frozen=True):
    """What is compared: a `run` with an `other` one, or the levels `a` and `b` of the factor `by` in it.

    Without a `score` it is the study's primary outcome, or else its first score.
    """

    run: str = ""
    other: str = ""
    by: str = ""
    a: str = ""
    b: str = ""
    score: str = ""
    show: str = "differs"
    after: int = -1
    limit: int = 25


class PairRow(msgspec.Struct, frozen=True):
    """A case on both sides: the trials, their outputs (shortened), and whether these are the same."""

    number: int
    case: str
    repeat: int
    condition: dict[str, Any]
    a: TrialRow
    b: TrialRow
    input: str
    expected: str
    output_a: str
    output_b: str
    same: bool


class PairList(msgspec.Struct, frozen=True):
    """Pairs that match; `next` is the `after` of the next page, null at the end."""

    first: str
    second: str
    rows: list[PairRow]
    total: int
    scanned: int
    next: int | None = None


class CompareDocument(msgspec.Struct, frozen=True):
    """A comparison: the difference with its interval and its sentence, and the pairs, page by page."""

    comparison: dict[str, Any]
    pairs: PairList


@dataclass(frozen=True)
class ComparedSides:
    """Both sides: their searches, labels, and which conditions of both are compared."""

    one: TrialSearch
    two: TrialSearch
    labels: tuple[str, str]
    runs: tuple[str, str]
    pairs: tuple[tuple[int, int], ...]
    """Positions of conditions, of the first and of the second side."""

    def page(self, query: CompareQuery, budget: float = BUDGET) -> PairList:
        """The next pairs that match, as many as are asked for or as can be read in the time."""
        if query.show not in SHOW:
            raise Invalid(f"show: {query.show!r} is not known; there are: {', '.join(SHOW)}")
        limit, until = max(1, min(query.limit, MOST)), time.monotonic() + budget
        numbers = iter(range(max(-1, query.after) + 1, self.size))
        rows: list[PairRow] = []
        last, done = query.after, True
        while chunk := list(islice(numbers, CHUNK)):
            for row in self._read(chunk, query.score):
                last = row.number
                if _fits(row, query.show):
                    rows.append(row)
                if len(rows) == limit:
                    break
            done = last == self.size - 1
            if len(rows) == limit or time.monotonic() > until:
                break
        return PairList(*self.labels, rows, self.size, last + 1, None if done else last)

    @cached_property
    def _cases(self) -> dict[tuple[str, str], list[tuple[int, int]]]:
        """The positions of the cases that two sets of cases have in common."""
        found = {}
        for first, second in self.pairs:
            names = self.one.layout.conditions[first].cases, self.two.layout.conditions[second].cases
            if names not in found:
                known = {case.id: at for at, case in enumerate(self.two.layout.case_sets[names[1]])}
                cases = enumerate(self.one.layout.case_sets[names[0]])
                found[names] = [(at, known[case.id]) for at, case in cases if case.id in known]
        return found

    def _common(self, pair: tuple[int, int]) -> tuple[list[tuple[int, int]], int]:
        """The cases and the number of repeats that two conditions have in common."""
        one, two = self.one.layout, self.two.layout
        first, second = one.conditions[pair[0]], two.conditions[pair[1]]
        repeats = min(one.repeats * first.replicates, two.repeats * second.replicates)
        return self._cases[first.cases, second.cases], repeats

    @cached_property
    def _ends(self) -> list[int]:
        """The cumulative numbers of pairs by pair of conditions."""
        return list(accumulate(len(cases) * repeats for cases, repeats in map(self._common, self.pairs)))

    @property
    def size(self) -> int:
        """The number of pairs."""
        return self._ends[-1] if self._ends else 0

    def _place(self, number: int) -> tuple[int, int]:
        """The numbers of both trials of a pair in their plans."""
        at = bisect_right(self._ends, number)
        first, second = self.pairs[at]
        cases, repeats = self._common(self.pairs[at])
        case, repeat = divmod(number - (self._ends[at - 1] if at else 0), repeats)
        one, two = self.one.layout, self.two.layout
        of_one = one.start(first) + cases[case][0] * one.repeats * one.conditions[first].replicates
        of_two = two.start(second) + cases[case][1] * two.repeats * two.conditions[second].replicates
        return of_one + repeat, of_two + repeat

    def _read(self, numbers: list[int], score: str) -> Iterator[PairRow]:
        """The pairs with these numbers, right or wrong by this score."""
        places = [self._place(number) for number in numbers]
        ones = self.one.read([place[0] for place in places])
        twos = self.two.read([place[1] for place in places])
        for number, place, one, two in zip(numbers, places, ones, twos, strict=True):
            yield _pair(number, place, (one, two), score)


def _pair(number: int, place: tuple[int, int], pair: tuple[TrialResult, TrialResult], score: str) -> PairRow:
    one, two = pair
    verdicts = is_correct(one, score), is_correct(two, score)
    common = {name: level for name, level in one.condition.items() if two.condition.get(name) == level}
    return PairRow(
        number=number,
        case=one.case_id,
        repeat=one.repeat,
        condition=common,
        a=trial_row(one, place[0], score),
        b=trial_row(two, place[1], score),
        input=shown(one.input)[:TEXT],
        expected="" if one.expected is None else shown(one.expected)[:TEXT],
        output_a=_output(one),
        output_b=_output(two),
        same=one.state == two.state and one.output == two.output and verdicts[0] == verdicts[1],
    )


def _output(trial: TrialResult) -> str:
    if trial.state is State.succeeded:
        return shown(trial.output)[:TEXT]
    return f"{trial.failure.type}: {trial.failure.message}"[:TEXT] if trial.failure else ""


def _fits(row: PairRow, show: str) -> bool:
    if row.a.state == row.b.state == "not begun":
        return False
    if show == "a":
        return row.a.correct is True and row.b.correct is not True
    if show == "b":
        return row.b.correct is True and row.a.correct is not True
    return show == "all" or not row.same


def level_sides(planned: PlannedRun, rows: Any, query: CompareQuery) -> ComparedSides:
    """The sides of two levels of a factor; those that are not named are the first two that differ."""
    search = TrialSearch(planned.manifest, planned.layout, rows, planned.run.id)
    factors = search.factors()
    if not factors:
        raise Invalid("this run has one condition: there is nothing to compare in it; choose another run")
    by = query.by or next(iter(factors))
    if by not in factors:
        raise Invalid(f"by: {by!r} does not vary in this run; there are: {', '.join(factors)}")
    levels = factors[by]
    first = query.a or levels[0]
    second = query.b or next(level for level in levels if level != first)
    for level in (first, second):
        if level not in levels:
            raise Invalid(f"{by}: there is no level {level!r}; there are: {', '.join(levels)}")
    labels = LevelLabels.kept(planned.manifest.snapshot)
    sides: tuple[dict[bytes, int], dict[bytes, int]] = {}, {}
    for at, condition in enumerate(planned.layout.conditions):
        known = labels.shown(condition.shown)
        rest = {name: level for name, level in known.items() if name != by}
        key = canonical(rest if by == "agent" else {**rest, "agent": condition.agent})
        for side, level in zip(sides, (first, second), strict=True):
            if by in known and cell(known[by]) == level:
                side.setdefault(key, at)
    pairs = tuple((at, sides[1][key]) for key, at in sides[0].items() if key in sides[1])
    named = f"{by}={first}", f"{by}={second}"
    return ComparedSides(search, search, named, (planned.run.id, planned.run.id), pairs)


def run_sides(one: PlannedRun, two: PlannedRun, rows: tuple[Any, Any]) -> ComparedSides:
    """The sides of two runs: equal conditions are compared."""
    searches = [
        TrialSearch(side.manifest, side.layout, of, side.run.id)
        for side, of in zip((one, two), rows, strict=True)
    ]
    keys: list[dict[bytes, int]] = []
    for side in (one, two):
        labels = LevelLabels.kept(side.manifest.snapshot)
        found: dict[bytes, int] = {}
        for at, condition in enumerate(side.layout.conditions):
            found.setdefault(canonical(dict(labels.shown(condition.shown))), at)
        keys.append(found)
    pairs = tuple((at, keys[1][key]) for key, at in keys[0].items() if key in keys[1])
    named = f"run {one.run.id[:12]}", f"run {two.run.id[:12]}"
    return ComparedSides(searches[0], searches[1], named, (one.run.id, two.run.id), pairs)
