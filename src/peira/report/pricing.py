"""Quality against price: what each entry of a leaderboard costs for a trial, with its interval."""

from __future__ import annotations

from collections.abc import Sequence

from peira.analysis.leaderboard import Leaderboard
from peira.analysis.measures import TAKEN
from peira.analysis.trials import TrialResult
from peira.core.events import State
from peira.report.labels import Labels
from peira.report.value import Point, Priced
from peira.stats.intervals import estimate
from peira.stats.values import Estimate

UNITS = {"cost": "US$ for a trial", "took": "seconds for a trial"}


def priced(
    trials: Sequence[TrialResult], board: Leaderboard, score: str, level: float
) -> tuple[tuple[Priced, ...], str]:
    """The entries with their price and its unit: dollars where every price is known, else seconds; nothing
    where neither says anything."""
    groups = _groups(trials, board.by)
    for measure, unit in UNITS.items():
        found = {label: _price(group, measure, level) for label, group in groups.items()}
        if measure != score and all(found.values()) and any(one.mean for one in found.values() if one):
            return tuple(_entries(board, found)), unit
    return (), ""


def _groups(trials: Sequence[TrialResult], by: Sequence[str]) -> dict[str, list[TrialResult]]:
    labels, gathered = Labels(by), dict[str, list[TrialResult]]()
    for trial in trials:
        if not trial.anchor:
            gathered.setdefault(labels.short(trial), []).append(trial)
    return gathered


def _price(group: Sequence[TrialResult], measure: str, level: float) -> Estimate | None:
    done = [trial for trial in group if trial.state is State.succeeded]
    values = [TAKEN[measure](trial) for trial in done]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return estimate(known, [trial.unit for trial in done], level)


def _entries(board: Leaderboard, prices: dict[str, Estimate | None]) -> list[Priced]:
    found = []
    for entry in board.entries:
        price, mean = prices.get(entry.label), entry.mean
        if price is not None and mean is not None:
            quality = Point(entry.label, mean.mean, mean.low, mean.high, zero=False)
            cost = Point(entry.label, price.mean, price.low, price.high, zero=False)
            found.append(Priced(entry.label, quality, cost, entry.on_front))
    return found
