"""Biases of a judge: position and length of the answers.

Position bias is measured on pairs judged in both orders. Length bias is measured on the judge's score minus
the human label; without labels only the association with length is known, which may reflect quality.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from peira.analysis.judges.labels import Rating, Ratings
from peira.analysis.ranking.tournament import Game, games, is_contest, size
from peira.analysis.table.groups import Unit
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.errors import Invalid
from peira.results.trials import Score, TrialResult
from peira.stats import student
from peira.stats.inputs import Codes, coded
from peira.stats.intervals.means import estimate
from peira.stats.intervals.resampling import jackknife
from peira.stats.values import Interval


@dataclass(frozen=True)
class Bias:
    """One measure of bias: `neutral` is its value without bias, `n` its number of observations."""

    name: str
    found: Interval
    neutral: float
    n: int
    note: str = ""

    @property
    def clear(self) -> bool:
        """Whether the interval excludes the neutral value."""
        low, high = self.found.low, self.found.high
        return low is not None and high is not None and not low <= self.neutral <= high


@dataclass(frozen=True)
class Biases(ResultValue):
    """All biases that could be measured."""

    level: float
    found: tuple[Bias, ...]

    nothing = "no bias can be measured: there are no pairs, and no scores of texts"

    def grids(self) -> list[TextGrid]:
        """One row per bias."""
        rows = [
            [one.name, layout.interval(one.found.value, one.found.low, one.found.high), f"{one.neutral:g}",
             str(one.n), "yes" if one.clear else "no"]
            for one in self.found
        ]  # fmt: skip
        header = ["bias", f"[{100 * self.level:g}% interval]", "neutral", "n", "shown"]
        return [TextGrid(header, rows)] if rows else []

    @property
    def remarks(self) -> tuple[str, ...]:
        """The notes of the biases, each once."""
        return tuple(dict.fromkeys(one.note for one in self.found if one.note))

    def document(self) -> dict[str, Any]:
        """The JSON document: level, and the biases with `clear`."""
        return {"level": self.level, "found": [{**asdict(one), "clear": one.clear} for one in self.found]}


def biases(trials: Sequence[TrialResult], found: Ratings | None, level: float = 0.95) -> Biases:
    """All biases that can be measured.

    `found` are the ratings of a score, with labels if there are any.
    """
    if not 0 < level < 1:
        raise Invalid(f"level: must lie between 0 and 1, not {level!r}")
    played = list(games(trials)) if is_contest(trials) else list(_pairs(trials))
    return Biases(level, (*_of_pairs(played, level), *(_of_scores(found, level) if found else ())))


def _pairs(trials: Iterable[TrialResult]) -> Iterator[Game]:
    """Outputs that were compared with a reference answer, as games."""
    for trial in trials:
        for score in trial.scores.values():
            if not trial.anchor and _is_pair(score):
                verdict = score.value
                longer = 1 if verdict.get("longer") else -1
                yield Game(("output", "given"), trial.unit, verdict["first"], verdict["second"], longer)


def _is_pair(score: Score) -> bool:
    """Whether a score is a pairwise verdict in both orders."""
    return isinstance(score.value, dict) and {"first", "second", "consistent"} <= set(score.value)


def _of_pairs(played: Sequence[Game], level: float) -> Iterator[Bias]:
    """Position bias, order dependence and length preference, from pairs."""
    decided = [game for game in played if game.decided]
    if not decided:
        return
    units = [game.unit for game in decided]
    first = [0.5 + ((game.first or 0.0) - (game.second or 0.0)) / 2 for game in decided]
    yield _share("first place preferred", first, units, level, 0.5)
    yield _share(
        "verdict changes with the order", [float(not g.consistent) for g in decided], units, level, 0.0
    )
    unlike = [game for game in decided if game.longer and game.won != 0.5]
    if unlike:
        longer = [float((game.longer > 0) == (game.won == 1)) for game in unlike]
        note = "longer answers may be preferred because they are better: only labels tell"
        yield _share("longer answer preferred", longer, [game.unit for game in unlike], level, 0.5, note)


def _share(
    name: str, values: Sequence[float], units: Sequence[Unit], level: float, neutral: float, note: str = ""
) -> Bias:
    """A share with its interval, as a bias."""
    found = estimate(values, units, level, (0.0, 1.0))
    return Bias(
        name, Interval(found.mean, found.low, found.high, found.n, found.method), neutral, found.n, note
    )


def _of_scores(found: Ratings, level: float) -> Iterator[Bias]:
    """Length bias of numeric scores: the slope of score minus label on the log2 length."""
    if not found.numeric:
        return
    both = [one for one in found.labelled if size(one.trial.output)]
    if len(both) > 1:
        yield _slope("score beyond the label, per doubling of length", both, True, level)
        return
    every = [one for one in found.every if size(one.trial.output)]
    if len(every) > 1:
        yield _slope("score, per doubling of length", every, False, level)


def _slope(name: str, rated: Sequence[Rating], against: bool, level: float) -> Bias:
    """The regression slope on log2 length, with a jackknife interval over cases."""
    x = np.array([math.log2(size(one.trial.output)) for one in rated])
    y = np.array([float(one.judged) - (float(one.label or 0) if against else 0.0) for one in rated])
    codes, groups = coded([one.unit for one in rated], len(rated))
    members = [np.flatnonzero(codes == group) for group in range(groups)]

    def slope(kept: Codes) -> float | None:
        at = np.concatenate([members[group] for group in kept])
        spread = x[at] - x[at].mean()
        squares = float(spread @ spread)
        return float(spread @ y[at]) / squares if squares > 1e-12 else None

    note = "" if against else "longer answers may be rated higher because they are better: only labels tell"
    return Bias(name, _jackknife_interval(slope, groups, level, len(rated)), 0.0, len(rated), note)


def _jackknife_interval(
    slope: Callable[[Codes], float | None], groups: int, level: float, n: int
) -> Interval:
    """The slope with its jackknife t interval."""
    value = slope(np.arange(groups))
    spread = None if value is None else jackknife(slope, groups)
    if value is None or spread is None:
        return Interval(value, None, None, n, "unknown")
    return Interval(value, *student.around(value, spread, level), n, "slope, by case")
