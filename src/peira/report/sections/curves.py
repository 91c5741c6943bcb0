"""The data of plots: convergence, calibration, the heat map of cases, and distributions."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from peira.analysis.compare.sides import Contexts
from peira.analysis.results import Results
from peira.analysis.table.measures import Measured
from peira.core.log.events import State
from peira.report.labels import ConditionLabels
from peira.report.value import (
    Bin,
    ConditionSpread,
    Convergence,
    ConvergenceStep,
    Distribution,
    HeatMap,
    PlotPoint,
)
from peira.results.trials import TrialResult
from peira.stats.inputs import Floats
from peira.stats.intervals.bounded import scale_of
from peira.stats.intervals.means import estimate
from peira.stats.sequential.confidence_sequence import ConfidenceSequence

STEPS, BINS, MOST_CASES, FEWEST = 60, 10, 400, 3


# Convergence


def convergence(
    results: Results, measured: Measured, factor: str, levels: tuple[str, str], level: float
) -> Convergence | None:
    """The running mean by case, or the running difference between two levels of a factor.

    None with fewer than three cases. The intervals are a confidence sequence for scores within limits, else
    pointwise.
    """
    places = _places(results)
    values = _by_case(measured, factor, levels, places)
    if len(values) < FEWEST:
        return None
    label = f"{levels[1]} - {levels[0]}" if factor else measured.name
    bounds = measured.ends
    if bounds is not None and factor:
        bounds = (bounds[0] - bounds[1], bounds[1] - bounds[0])
    steps = _sequential_steps(values, bounds, level) if bounds else _pointwise_steps(values, level)
    return Convergence(label, tuple(steps), bounds is not None, bool(places))


def _places(results: Results) -> Mapping[str, int]:
    """The position of each trial in the planned order; empty if unknown."""
    known = results.background
    return {id: place for place, id in enumerate(known.order())} if known else {}


def _by_case(
    measured: Measured, factor: str, levels: tuple[str, str], places: Mapping[str, int]
) -> list[float]:
    """One value per unit of evidence, in the order in which units first appear."""
    labels = ConditionLabels([factor])
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
    """The difference of two means."""
    return float(np.mean(second) - np.mean(first))


def _marks(n: int) -> list[int]:
    """The numbers of values at which to show the running mean, evenly spaced."""
    return sorted({round(mark) for mark in np.linspace(min(FEWEST, n), n, min(STEPS, n))})


def _sequential_steps(
    values: Sequence[float], bounds: tuple[float, float], level: float
) -> Iterator[ConvergenceStep]:
    """The running mean with a confidence sequence."""
    intervals, before = ConfidenceSequence(*bounds, level), 0
    for mark in _marks(len(values)):
        now = intervals.add(values[before:mark])
        before = mark
        yield ConvergenceStep(mark, float(np.mean(values[:mark])), now.low, now.high)


def _pointwise_steps(values: Sequence[float], level: float) -> Iterator[ConvergenceStep]:
    """The running mean with pointwise intervals."""
    limits = scale_of(values)
    for mark in _marks(len(values)):
        found = estimate(values[:mark], list(range(mark)), level, limits)
        yield ConvergenceStep(mark, found.mean, found.low, found.high)


# Calibration


def calibration(trials: Sequence[TrialResult], level: float) -> tuple[Bin, ...]:
    """Stated confidence against the share of correct answers, for scores with both parts."""
    seen: list[tuple[float, float, tuple[str, str]]] = []
    for trial in trials:
        for score in trial.scores.values():
            parts = score.value
            if isinstance(parts, Mapping) and parts.keys() >= {"confidence", "correct"}:
                seen.append((float(parts["confidence"]), float(parts["correct"]), trial.unit))
    groups: dict[int, list[tuple[float, float, tuple[str, str]]]] = {}
    for one in seen:
        groups.setdefault(min(BINS - 1, int(one[0] * BINS)), []).append(one)
    return tuple(_bin(groups[at], level) for at in sorted(groups))


def _bin(group: Sequence[tuple[float, float, tuple[str, str]]], level: float) -> Bin:
    """One calibration bin."""
    found = estimate([one[1] for one in group], [one[2] for one in group], level)
    confidence = float(np.mean([one[0] for one in group]))
    return Bin(confidence, PlotPoint("", found.mean, found.low, found.high, zero=False), len(group))


# Heat map


def heat_map(measured: Measured, labels: ConditionLabels) -> HeatMap | None:
    """The means of cases by condition, hardest first; with very many cases, an even selection."""
    context, names = Contexts(), dict[bytes, str]()
    by_case: dict[str, dict[bytes, list[float]]] = {}
    for one in measured.observations:
        if one.value is not None:
            key = context.of(one.trial)
            if key not in names:
                names[key] = labels.short(one.trial)
            by_case.setdefault(one.trial.case_id, {}).setdefault(key, []).append(one.value)
    if len(by_case) < 2:
        return None
    order = sorted(by_case, key=lambda case: _mean(by_case[case]))
    kept = [order[round(at)] for at in np.linspace(0, len(order) - 1, min(len(order), MOST_CASES))]
    values = tuple(tuple(_cell(by_case[case].get(key)) for key in names) for case in kept)
    return HeatMap(tuple(kept), tuple(names.values()), values, len(order) - len(kept))


def _mean(cells: Mapping[bytes, Sequence[float]]) -> float:
    """The mean of a case's condition means."""
    flat: Floats = np.array([np.mean(values) for values in cells.values()])
    return float(flat.mean())


def _cell(values: Sequence[float] | None) -> float | None:
    """The mean of a cell; None if it is empty."""
    return None if values is None else float(np.mean(values))


# Distributions

MOST_SPREADS, MOST_QUANTILES = 8, 101
MEASURED: dict[str, Callable[[TrialResult], float | None]] = {
    "cost": lambda trial: trial.cost,
    "took": lambda trial: trial.took,
}
"""Measures of trials whose distributions are shown beside that of the main score."""


def distributions(
    trials: Sequence[TrialResult], measured: Measured | None, labels: ConditionLabels
) -> tuple[Distribution, ...]:
    """The distributions of the main score over cases, and of costs and seconds over trials.

    What has fewer than three different values is left out: a mean says as much.
    """
    found = [_case_spreads(measured, labels)] if measured else []
    done = [trial for trial in trials if trial.state is State.succeeded]
    for name, value in MEASURED.items():
        pairs = ((labels.short(trial), value(trial)) for trial in done)
        found.append(_distribution(name, "trials", pairs))
    return tuple(one for one in found if one is not None)


def _case_spreads(measured: Measured, labels: ConditionLabels) -> Distribution | None:
    """The distribution of a score over cases, each by the mean of its repeats."""
    cells: dict[tuple[str, str], list[float]] = {}
    for one in measured.observations:
        if one.value is not None:
            cells.setdefault((labels.short(one.trial), one.trial.case_id), []).append(one.value)
    pairs = ((label, float(np.mean(values))) for (label, _), values in cells.items())
    return _distribution(measured.name, "cases", pairs)


def _distribution(measure: str, of: str, pairs: Iterable[tuple[str, float | None]]) -> Distribution | None:
    """The distribution of the known values by condition; None if it has fewer than three values."""
    groups: dict[str, list[float]] = {}
    for label, value in pairs:
        if value is not None and math.isfinite(value):
            groups.setdefault(label, []).append(value)
    if len({value for values in groups.values() for value in values}) < FEWEST:
        return None
    spreads = [
        ConditionSpread(label, len(values), _quantiles(values))
        for label, values in list(groups.items())[:MOST_SPREADS]
    ]
    return Distribution(measure, of, tuple(spreads), max(0, len(groups) - MOST_SPREADS))


def _quantiles(values: Sequence[float]) -> tuple[float, ...]:
    """All values in order, or evenly chosen ones of many, with the smallest and the largest."""
    ordered: Floats = np.sort(np.array(values, dtype=np.float64))
    places = np.linspace(0, len(ordered) - 1, min(len(ordered), MOST_QUANTILES)).round().astype(int)
    return tuple(map(float, ordered[places]))
