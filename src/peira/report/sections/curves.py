"""The data of plots: convergence, calibration, the heat map of cases, and distributions."""

from __future__ import annotations

import math
from array import array
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
from peira.stats.inputs import Codes, Floats, coded, hashed
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
    order = results.background.order() if results.background else ()
    values = _by_case(measured, factor, levels, order)
    if len(values) < FEWEST:
        return None
    label = f"{levels[1]} - {levels[0]}" if factor else measured.name
    bounds = measured.ends
    if bounds is not None and factor:
        bounds = (bounds[0] - bounds[1], bounds[1] - bounds[0])
    steps = _sequential_steps(values, bounds, level) if bounds else _pointwise_steps(values, level)
    return Convergence(label, tuple(steps), bounds is not None, results.background is not None)


def _by_case(measured: Measured, factor: str, levels: tuple[str, str], order: Iterable[str]) -> list[float]:
    """One value per unit of evidence, in the order in which units first appear in the order of trials."""
    seen = measured.known
    values = np.fromiter((one.value for one in seen), np.float64, len(seen))
    codes, n = coded(hashed(one.trial.unit for one in seen), len(seen))
    first = np.full(n, len(seen))
    np.minimum.at(first, codes, _positions([one.trial.id for one in seen], order, codes))
    labels = ConditionLabels([factor])
    second = np.array([bool(factor) and labels.levels(one.trial)[0] != levels[0] for one in seen], bool)
    means = [_means(codes[side], values[side], n) for side in (~second, second)]
    found = means[1] - means[0] if factor else means[0]
    by_place: Floats = found[np.argsort(first, kind="stable")]
    return list(map(float, by_place[~np.isnan(by_place)]))


def _positions(ids: Sequence[str], order: Iterable[str], otherwise: Codes) -> Codes:
    """The position of each trial in the planned order of all; `otherwise` where that is not known."""
    known = np.fromiter((int(id[:16], 16) for id in order), np.uint64)
    if not len(known):
        return otherwise
    wanted = np.fromiter((int(id[:16], 16) for id in ids), np.uint64, len(ids))
    by_id = np.argsort(known)
    at = by_id[np.minimum(np.searchsorted(known, wanted, sorter=by_id), len(known) - 1)]
    return np.where(known[at] == wanted, at, otherwise)


def _means(codes: Codes, values: Floats, n: int) -> Floats:
    """The mean of the values of each of `n` codes; NaN for those that have none."""
    sums, counts = np.bincount(codes, values, n), np.bincount(codes, minlength=n)
    found: Floats = np.divide(sums, counts, out=np.full(n, np.nan), where=counts > 0)
    return found


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
    context, places = Contexts(), dict[bytes, int]()
    names, columns = list[str](), list[int]()
    seen = measured.known
    for one in seen:
        key = context.of(one.trial)
        if key not in places:
            places[key] = len(places)
            names.append(labels.short(one.trial))
        columns.append(places[key])
    cases, n = coded(hashed(one.trial.case_id for one in seen), len(seen))
    if n < 2:
        return None
    cells, codes = np.unique(cases * len(names) + np.array(columns, np.intp), return_inverse=True)
    values = np.fromiter((one.value for one in seen), np.float64, len(seen))
    means = _means(codes, values, len(cells))
    order = np.argsort(_means(cells // len(names), means, n), kind="stable")
    kept = order[np.linspace(0, n - 1, min(n, MOST_CASES)).round().astype(int)].tolist()
    found = dict(zip(cells.tolist(), means.tolist(), strict=True))
    rows = [tuple(found.get(case * len(names) + at) for at in range(len(names))) for case in kept]
    shown = [seen[at].trial.case_id for at in np.unique(cases, return_index=True)[1][kept]]
    return HeatMap(tuple(shown), tuple(names), tuple(rows), n - len(kept))


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
    seen = measured.known
    names: dict[str, int] = {}
    columns = [names.setdefault(labels.short(one.trial), len(names)) for one in seen]
    cases, _ = coded(hashed(one.trial.case_id for one in seen), len(seen))
    codes, cells = coded(cases * max(1, len(names)) + np.array(columns, np.intp), len(seen))
    values = _means(codes, np.fromiter((one.value for one in seen), np.float64, len(seen)), cells)
    of = dict(zip(codes.tolist(), columns, strict=True))
    texts = list(names)
    return _distribution(measured.name, "cases", ((texts[of[at]], v) for at, v in enumerate(values.tolist())))


def _distribution(measure: str, of: str, pairs: Iterable[tuple[str, float | None]]) -> Distribution | None:
    """The distribution of the known values by condition; None if it has fewer than three values."""
    groups: dict[str, array[float]] = {}
    for label, value in pairs:
        if value is not None and math.isfinite(value):
            groups.setdefault(label, array("d")).append(value)
    if not groups or len(np.unique(np.concatenate(list(groups.values())))) < FEWEST:
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
