"""Trials of a run that match a question, page by page: also of a run with a million trials.

Trials are numbered in the order of the plan. What is asked about conditions is answered by the plan alone;
for scores, costs, times and words the trials are read, for at most `BUDGET` seconds at a time: a page says
up to where it has looked, and the next one goes on from there.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import msgspec

from peira.core.ids import Json, canonical
from peira.core.log.events import State
from peira.core.text.grid import cell
from peira.core.text.secrets import value_without_keys, without_keys
from peira.plan.conditions import LevelLabels
from peira.plan.manifest import Manifest
from peira.plan.trials import Layout
from peira.results.reader import ResultReader
from peira.results.trials import FAILED, TrialResult, end_word, is_correct, named, numbers
from peira.web.rest.documents import TrialList, TrialRow

BUDGET = 0.15
"""Seconds for which trials are read for one page."""
CHUNK, TEXT = 100, 160
"""Trials that are read together, and the number of characters of a text in a list."""
MOST = 200
"""The most trials of a page."""
LONGEST_KEY = 4_096
"""Characters that a key has at the most."""


class TrialQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which trials are asked for; what is empty is not asked about.

    `condition` is NAME=LEVEL, several separated by line breaks. `state` is failed, correct, wrong, unscored,
    or a state of a trial. `score` names a score, `least` and `most` bound it. `cost` and `took` are lower
    bounds. `text` is looked for in input, output, expected answer and failure. `after` is the number of the
    last trial that was seen, -1 at the start.
    """

    condition: str = ""
    state: str = ""
    case: str = ""
    score: str = ""
    least: float | None = None
    most: float | None = None
    cost: float | None = None
    took: float | None = None
    text: str = ""
    after: int = -1
    limit: int = 50

    @property
    def reads(self) -> bool:
        """Whether trials must be read to answer: the plan alone does not say."""
        bounds = (self.least, self.most, self.cost, self.took)
        return bool(self.state or self.score or self.text or any(one is not None for one in bounds))

    @property
    def levels(self) -> dict[str, str]:
        """The levels that the condition must have, as text."""
        pairs = (line.partition("=") for line in self.condition.splitlines() if "=" in line)
        return {name.strip(): level.strip() for name, _, level in pairs}


class TrialSearch:
    """Finds trials of one run; `rows` is the store, or as it was when the run ended."""

    def __init__(self, manifest: Manifest, layout: Layout, rows: Any, run: str) -> None:
        self.layout = layout
        self._labels = LevelLabels.kept(manifest.snapshot)
        self._reader = ResultReader(manifest, rows, run, layout=layout)
        self.names = tuple(part.name for part in manifest.evaluators)

    def page(self, query: TrialQuery, budget: float = BUDGET) -> TrialList:
        """The next trials that match, as many as are asked for or as can be found in the time."""
        found, last, done = self._find(query, budget)
        rows = [trial_row(trial, number) for number, trial in found]
        return TrialList(rows, len(self.layout), self._position(last), None if done else last)

    def next(self, query: TrialQuery, back: bool = False, budget: float = BUDGET) -> int | None:
        """The number of the next trial that matches (the one before, if `back`); None if none was found."""
        found, _, _ = self._find(msgspec.structs.replace(query, limit=1), budget, back)
        return found[0][0] if found else None

    def _find(
        self, query: TrialQuery, budget: float, back: bool = False
    ) -> tuple[list[tuple[int, TrialResult]], int, bool]:
        """The trials found, the number of the last one looked at, and whether that was the end."""
        limit, until = max(1, min(query.limit, MOST)), time.monotonic() + budget
        candidates = self._candidates(query, back)
        found: list[tuple[int, TrialResult]] = []
        last, size = query.after, CHUNK if query.reads else limit
        while chunk := list(islice(candidates, size)):
            for number, trial in zip(chunk, self.read(chunk), strict=True):
                last = number
                if _fits(trial, query):
                    found.append((number, trial))
                    if len(found) == limit:
                        return found, last, next(candidates, None) is None and number == chunk[-1]
            if time.monotonic() > until:
                return found, last, next(candidates, None) is None
        return found, last, True

    def read(self, indexes: Sequence[int]) -> list[TrialResult]:
        """The trials with these numbers."""
        return list(self._reader.of([self.layout.place(index) for index in indexes]))

    def _position(self, number: int) -> int:
        """How many trials of the plan come up to this one."""
        chosen = self.layout.chosen
        return number + 1 if chosen is None else bisect_right(chosen, number)

    def _candidates(self, query: TrialQuery, back: bool) -> Iterator[int]:
        """The numbers of trials whose condition and case fit, in order, after (or before) the last one."""
        chosen = self.layout.chosen
        for start, end in self._ranges(query.levels, query.case, back):
            first, last = (start, min(end, query.after)) if back else (max(start, query.after + 1), end)
            numbers = reversed(range(first, last)) if back else range(first, last)
            yield from numbers if chosen is None else (n for n in numbers if _holds(chosen, n))

    def _ranges(self, levels: Mapping[str, str], case: str, back: bool = False) -> Iterator[tuple[int, int]]:
        """The ranges of numbers of the conditions and cases that fit."""
        layout = self.layout
        if not levels and not case:
            yield 0, layout.size
            return
        matching = {
            label: [at for at, one in enumerate(cases) if case in one.id] if case else None
            for label, cases in layout.case_sets.items()
        }
        ends = range(len(layout.conditions))
        for at in reversed(ends) if back else ends:
            condition, start, end = layout.conditions[at], layout.start(at), layout.start(at + 1)
            if not self._is(condition, levels):
                continue
            some, repeats = matching[condition.cases], layout.repeats * condition.replicates
            if some is None:
                yield start, end
                continue
            for one in reversed(some) if back else some:
                yield start + one * repeats, start + (one + 1) * repeats

    def _is(self, condition: Any, levels: Mapping[str, str]) -> bool:
        shown = {"agent": condition.agent, **self._labels.shown(condition.shown)}
        return all(name in shown and cell(shown[name]) == level for name, level in levels.items())

    def factors(self, most: int = 40) -> dict[str, list[str]]:
        """The levels of each factor that varies, as text, for a filter; of a large plan, the first ones."""
        found: dict[str, dict[str, None]] = {}
        for condition in islice(self.layout.conditions, 2_000):
            for name, level in self._labels.shown(condition.shown).items():
                found.setdefault(name, {})[cell(level)] = None
        return {name: list(levels)[:most] for name, levels in found.items() if len(levels) > 1}


def _holds(chosen: Sequence[int], number: int) -> bool:
    at = bisect_right(chosen, number)
    return at > 0 and chosen[at - 1] == number


def _fits(trial: TrialResult, query: TrialQuery) -> bool:
    """Whether what is recorded of a trial is what is asked for."""
    if query.state and not _is_so(trial, query.state):
        return False
    if query.score or query.least is not None or query.most is not None:
        values = _values(trial, query.score)
        least = -float("inf") if query.least is None else query.least
        most = float("inf") if query.most is None else query.most
        if not any(least <= value <= most for value in values):
            return False
    if query.cost is not None and (trial.cost is None or trial.cost < query.cost):
        return False
    if query.took is not None and (trial.took is None or trial.took < query.took):
        return False
    return not query.text or query.text.casefold() in _words(trial)


def _is_so(trial: TrialResult, state: str) -> bool:
    if state in ("correct", "wrong"):
        return is_correct(trial) is (state == "correct")
    if state == "unscored":
        return trial.state is State.succeeded and is_correct(trial) is None
    if state == "failed":
        lost = any(score.state in FAILED for score in trial.scores.values())
        return trial.state in FAILED or (trial.state is State.succeeded and lost)
    return state in (trial.state.value, end_word(trial.state))


def _values(trial: TrialResult, name: str) -> list[float]:
    """The numbers of a score, or of all scores."""
    found = {key: value for score in trial.scores.values() for key, value in numbers(score).items()}
    return [value for key, value in found.items() if name in ("", key, key.partition(".")[0])]


def _words(trial: TrialResult) -> str:
    failure = f"{trial.failure.type}: {trial.failure.message}" if trial.failure else ""
    parts = (trial.input, trial.output, trial.expected)
    return "\n".join([*map(_text, parts), failure, trial.case_id, trial.id]).casefold()


def trial_row(trial: TrialResult, number: int, judged_by: str = "") -> TrialRow:
    """A trial as a row of a list; right or wrong by this score, or else by its first yes/no score."""
    failure = f"{trial.failure.type}: {trial.failure.message}" if trial.failure else ""
    scores: dict[str, Json] = {}
    for score in trial.scores.values():
        if score.state is State.succeeded and not score.no_verdict:
            scores |= value_without_keys(named(score))
        else:
            scores[score.name] = "no verdict" if score.no_verdict else end_word(score.state)
    return TrialRow(
        id=trial.id,
        number=number,
        state=end_word(trial.state),
        agent=trial.agent,
        case=trial.case_id,
        repeat=trial.repeat,
        condition=dict(trial.condition),
        scores=scores,
        correct=is_correct(trial, judged_by),
        input=_brief(trial.input),
        output=_brief(trial.output) if trial.state is State.succeeded else "",
        failure=without_keys(failure)[:TEXT],
        cost=trial.cost,
        took=trial.took,
    )


def _text(value: Json) -> str:
    return value if isinstance(value, str) else "" if value is None else canonical(value).decode()


def _brief(value: Json) -> str:
    """The beginning of a value as one line."""
    # What is cut off here may be half of a key; it lies beyond all that is shown.
    text = without_keys(_text(value)[: 4 * TEXT + LONGEST_KEY])[: 4 * TEXT]
    line = " ".join(text.split())
    return line if len(line) <= TEXT else f"{line[: TEXT - 1]}…"
