"""What sways a judge that should not: the place at which an answer stands, and how long it is.

Place is measured on pairs that were judged both ways round. Length is measured on what the judge says beyond
what people say; where there are no labels it is only seen to go along with length, which may be deserved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass

import msgspec
import numpy as np

from peira.analysis import layout
from peira.analysis.games import Game, games, is_contest, size
from peira.analysis.groups import Unit
from peira.analysis.ratings import Rating, Ratings
from peira.analysis.trials import Score, TrialResult
from peira.errors import Invalid
from peira.stats import student
from peira.stats.inputs import Codes, coded
from peira.stats.intervals import estimate
from peira.stats.jackknife import jackknife
from peira.stats.values import Interval


@dataclass(frozen=True)
class Bias:
    """One measure. It is `neutral` where nothing sways the judge; `n` is what it was measured on."""

    name: str
    found: Interval
    neutral: float
    n: int
    note: str = ""

    @property
    def clear(self) -> bool:
        """The interval leaves out what is neutral."""
        low, high = self.found.low, self.found.high
        return low is not None and high is not None and not low <= self.neutral <= high


@dataclass(frozen=True)
class Biases:
    level: float
    found: tuple[Bias, ...]

    def __str__(self) -> str:
        if not self.found:
            return "no bias can be measured: there are no pairs, and no scores of texts"
        rows = [
            [one.name, layout.interval(one.found.value, one.found.low, one.found.high), f"{one.neutral:g}",
             str(one.n), "yes" if one.clear else "no"]
            for one in self.found
        ]  # fmt: skip
        header = ["bias", f"[{100 * self.level:g}% interval]", "neutral", "n", "shown"]
        notes = dict.fromkeys(one.note for one in self.found if one.note)
        return "\n".join([layout.plain(header, rows), *notes])

    def to_json(self) -> str:
        found = [{**asdict(one), "clear": one.clear} for one in self.found]
        return msgspec.json.encode({"level": self.level, "found": found}).decode()


def biases(trials: Sequence[TrialResult], found: Ratings | None, level: float = 0.95) -> Biases:
    """All that can be measured. `found` are the ratings of a score, with labels where there are any."""
    if not 0 < level < 1:
        raise Invalid(f"level: must lie between 0 and 1, not {level!r}")
    played = list(games(trials)) if is_contest(trials) else list(_pairs(trials))
    return Biases(level, (*_of_pairs(played, level), *(_of_scores(found, level) if found else ())))


def _pairs(trials: Iterable[TrialResult]) -> Iterator[Game]:
    """Outputs that were compared with a given answer, as games."""
    for trial in trials:
        for score in trial.scores.values():
            if not trial.anchor and _is_pair(score):
                said = score.value
                longer = 1 if said.get("longer") else -1
                yield Game(("output", "given"), trial.unit, said["first"], said["second"], longer)


def _is_pair(score: Score) -> bool:
    return isinstance(score.value, dict) and {"first", "second", "consistent"} <= set(score.value)


def _of_pairs(played: Sequence[Game], level: float) -> Iterator[Bias]:
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
    found = estimate(values, units, level)
    return Bias(
        name, Interval(found.mean, found.low, found.high, found.n, found.method), neutral, found.n, note
    )


def _of_scores(found: Ratings, level: float) -> Iterator[Bias]:
    """Of numbers: what each doubling of the length adds to the score, beyond what it adds to the label."""
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
    return Bias(name, _jackknifed(slope, groups, level, len(rated)), 0.0, len(rated), note)


def _jackknifed(slope: Callable[[Codes], float | None], groups: int, level: float, n: int) -> Interval:
    value = slope(np.arange(groups))
    spread = None if value is None else jackknife(slope, groups)
    if value is None or spread is None:
        return Interval(value, None, None, n, "unknown")
    return Interval(value, *student.around(value, spread, level), n, "slope, by case")
