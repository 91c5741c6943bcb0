"""The numbers behind three plots: how the answer settled, how well confidence fits, which cases are hard."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from peira.analysis.measures import Measured
from peira.analysis.results import Results
from peira.analysis.sides import Contexts
from peira.analysis.trials import TrialResult
from peira.report.labels import Labels
from peira.report.value import Bin, Convergence, HeatMap, Point, Step
from peira.stats.betting import Bets
from peira.stats.inputs import Floats
from peira.stats.intervals import estimate

STEPS, BINS, MOST_CASES, FEWEST = 60, 10, 400, 3


def convergence(
    results: Results, measured: Measured, factor: str, levels: tuple[str, str], level: float
) -> Convergence | None:
    """The running mean by case, or the running difference between two levels of a factor."""
    places = _places(results)
    values = _by_case(measured, factor, levels, places)
    if len(values) < FEWEST:
        return None
    label = f"{levels[1]} - {levels[0]}" if factor else measured.name
    bounds = ((-1.0, 1.0) if factor else (0.0, 1.0)) if measured.ends else None
    steps = _always(values, bounds, level) if bounds else _pointwise(values, level)
    return Convergence(label, tuple(steps), bounds is not None, bool(places))


def _places(results: Results) -> Mapping[str, int]:
    known = results.background
    return {id: place for place, id in enumerate(known.order())} if known else {}


def _by_case(
    measured: Measured, factor: str, levels: tuple[str, str], places: Mapping[str, int]
) -> list[float]:
    """One value for each unit of evidence, in the order in which units were first met."""
    labels = Labels([factor])
    sides: dict[tuple[str, str], tuple[list[float], list[float]]] = {}
    first: dict[tuple[str, str], int] = {}
    for one in measured.observations:
        if one.value is None:
            continue
        side = int(bool(factor) and labels.levels(one.trial)[0] != levels[0])
        sides.setdefault(one.trial.unit, ([], []))[side].append(one.value)
        place = places.get(one.trial.id, len(first))
        first[one.trial.unit] = min(place, first.get(one.trial.unit, place))
    whole = [
        unit
        for unit in sorted(first, key=first.__getitem__)
        if sides[unit][0] and (sides[unit][1] or not factor)
    ]
    return [_gap(*sides[unit]) if factor else float(np.mean(sides[unit][0])) for unit in whole]


def _gap(first: Sequence[float], second: Sequence[float]) -> float:
    return float(np.mean(second) - np.mean(first))


def _marks(n: int) -> list[int]:
    """After how many values to look: evenly, up to all."""
    return sorted({round(mark) for mark in np.linspace(min(FEWEST, n), n, min(STEPS, n))})


def _always(values: Sequence[float], bounds: tuple[float, float], level: float) -> Iterator[Step]:
    bets, before = Bets(*bounds, level), 0
    for mark in _marks(len(values)):
        now = bets.add(values[before:mark])
        before = mark
        yield Step(mark, float(np.mean(values[:mark])), now.low, now.high)


def _pointwise(values: Sequence[float], level: float) -> Iterator[Step]:
    for mark in _marks(len(values)):
        found = estimate(values[:mark], list(range(mark)), level)
        yield Step(mark, found.mean, found.low, found.high)


def calibration(trials: Sequence[TrialResult], level: float) -> tuple[Bin, ...]:
    """Stated confidence against how often it was right, where scores say both."""
    seen: list[tuple[float, float, tuple[str, str]]] = []
    for trial in trials:
        for score in trial.scores.values():
            said = score.value
            if isinstance(said, Mapping) and said.keys() >= {"confidence", "correct"}:
                seen.append((float(said["confidence"]), float(said["correct"]), trial.unit))
    groups: dict[int, list[tuple[float, float, tuple[str, str]]]] = {}
    for one in seen:
        groups.setdefault(min(BINS - 1, int(one[0] * BINS)), []).append(one)
    return tuple(_bin(groups[at], level) for at in sorted(groups))


def _bin(group: Sequence[tuple[float, float, tuple[str, str]]], level: float) -> Bin:
    found = estimate([one[1] for one in group], [one[2] for one in group], level)
    confidence = float(np.mean([one[0] for one in group]))
    return Bin(confidence, Point("", found.mean, found.low, found.high, zero=False), len(group))


def heat_map(measured: Measured, labels: Labels) -> HeatMap | None:
    """Means of cases under conditions; of very many cases, some from all parts of the order."""
    context, names = Contexts(), dict[bytes, str]()
    gathered: dict[str, dict[bytes, list[float]]] = {}
    for one in measured.observations:
        if one.value is not None:
            key = context.of(one.trial)
            if key not in names:
                names[key] = labels.short(one.trial)
            gathered.setdefault(one.trial.case_id, {}).setdefault(key, []).append(one.value)
    if len(gathered) < 2:
        return None
    order = sorted(gathered, key=lambda case: _mean(gathered[case]))
    kept = [order[round(at)] for at in np.linspace(0, len(order) - 1, min(len(order), MOST_CASES))]
    values = tuple(tuple(_cell(gathered[case].get(key)) for key in names) for case in kept)
    return HeatMap(tuple(kept), tuple(names.values()), values, len(order) - len(kept))


def _mean(cells: Mapping[bytes, Sequence[float]]) -> float:
    flat: Floats = np.array([np.mean(values) for values in cells.values()])
    return float(flat.mean())


def _cell(values: Sequence[float] | None) -> float | None:
    return None if values is None else float(np.mean(values))
