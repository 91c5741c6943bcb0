"""Means of a judge's score, corrected by the outputs that people labelled.

A judge rates all outputs and people a part. "prediction-powered" estimates the people's mean with the judge's
scores as control variate, unbiased however inaccurate the judge is. "rogan-gladen" corrects a yes/no judge's
positive rate for sensitivity and specificity. The unit of evidence is the case. Both need a random sample of
labelled outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from peira.analysis.judges.agreement import FEW
from peira.analysis.judges.labels import Rating, Ratings
from peira.analysis.table.groups import Unit, check_names, groupable, key_of, label_of
from peira.core.ids import Json
from peira.core.registry import nearest
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.errors import Invalid
from peira.stats.intervals.bounded import scale_of
from peira.stats.intervals.means import estimate
from peira.stats.intervals.prediction_powered import prediction_powered, rogan_gladen
from peira.stats.values import Estimate, clipped

METHODS = ("prediction-powered", "rogan-gladen")
"""The correction methods."""


@dataclass(frozen=True)
class CorrectedMean:
    """One group: the judge's mean, the people's mean of the labelled part, and the corrected mean.

    The corrected mean is None if too little is labelled. `cases` counts rated cases, `labelled` those that
    people rated as well.
    """

    labels: tuple[Json, ...]
    judged: Estimate
    people: Estimate | None
    corrected: Estimate | None
    cases: int
    labelled: int


@dataclass(frozen=True)
class Corrected(ResultValue):
    """Corrected means by group; prints as a table."""

    by: tuple[str, ...]
    score: str
    method: str
    level: float
    body: tuple[CorrectedMean, ...]
    notes: tuple[str, ...] = ()

    def grids(self) -> list[TextGrid]:
        """One row per group."""
        header = [*map(layout.cell, self.by), f"{self.score}, corrected [{100 * self.level:g}% interval]"]
        header += ["as judged", "as labelled", "cases", "labelled"]
        return [TextGrid(header, [_cells(one) for one in self.body])]


def corrected(
    found: Ratings,
    by: Sequence[str] = (),
    method: str = "prediction-powered",
    level: float = 0.95,
    notes: Sequence[str] = (),
) -> Corrected:
    """Corrected means of a numeric score by factors and attributes.

    Rogan-gladen needs yes/no scores.

    Raises Invalid for unknown methods, texts, or missing labels.
    """
    _check(found, method, level)
    by = tuple(dict.fromkeys(by))
    check_names(by, groupable(one.trial for one in found.every), {found.score})
    groups: dict[tuple[str | bytes, ...], list[Rating]] = {}
    for one in found.every:
        groups.setdefault(tuple(key_of(label_of(one.trial, name)) for name in by), []).append(one)
    rates = _rates(found.labelled) if method == "rogan-gladen" else None
    rows = tuple(_row(by, rated, rates, level) for rated in groups.values())
    return Corrected(by, found.score, method, level, rows, (*_notes(rows, method), *notes))


def _check(found: Ratings, method: str, level: float) -> None:
    """Raise Invalid if the method, the level or the ratings do not fit."""
    if not 0 < level < 1:
        raise Invalid(f"level: must lie between 0 and 1, not {level!r}")
    if method not in METHODS:
        raise Invalid(f"method: {method!r} is not known{nearest(method, METHODS)}")
    if not found.numeric:
        raise Invalid(
            f"{found.score}: a text has no mean; name a score of numbers, and label it with numbers"
        )
    if not found.labelled:
        raise Invalid(f"none of the outputs that {found.score} rates has a label")
    if method == "rogan-gladen" and not found.binary:
        raise Invalid(
            f"rogan-gladen: {found.score} and its labels must be 0 or 1; give a cut that makes them so"
        )


Rates = tuple[int, int, int, int]
"""True positives, labelled positives, true negatives, labelled negatives."""


def _rates(labelled: Iterable[Rating]) -> Rates:
    """Sensitivity and specificity counts over all labelled outputs, common to all groups."""
    verdicts = [(one.judged == 1, one.label == 1) for one in labelled]
    good, bad = (
        [judged for judged, good in verdicts if good],
        [not judged for judged, good in verdicts if not good],
    )
    return sum(good), len(good), sum(bad), len(bad)


def _row(by: Sequence[str], rated: Sequence[Rating], rates: Rates | None, level: float) -> CorrectedMean:
    """The corrected mean of one group."""
    labels = tuple(label_of(rated[0].trial, name) for name in by)
    units = [one.unit for one in rated]
    both = [one for one in rated if one.label is not None]
    scores, answers = [float(one.judged) for one in rated], [float(one.label or 0) for one in both]
    judged = estimate(scores, units, level, scale_of(scores))
    people = estimate(answers, [one.unit for one in both], level, scale_of(answers)) if both else None
    better = _by_rates(rated, rates, level) if rates else _powered(rated, both, level)
    better = None if better is None else clipped(better, scale_of([*scores, *answers]))
    return CorrectedMean(labels, judged, people, better, len(set(units)), len({one.unit for one in both}))


def _powered(rated: Sequence[Rating], both: Sequence[Rating], level: float) -> Estimate | None:
    """The prediction-powered mean on case means."""
    if not both:
        return None
    known = {one.unit for one in both}
    truth, same = _means(both, people=True), _means(both)
    rest = _means([one for one in rated if one.unit not in known])
    if not rest:  # everything is labelled: the people's mean needs no correction
        return estimate(truth, range(len(truth)), level, scale_of(truth))
    return prediction_powered(truth, same, rest, level=level)


def _by_rates(rated: Sequence[Rating], rates: Rates, level: float) -> Estimate | None:
    """The Rogan-Gladen mean; None without labelled positives or negatives."""
    if not rates[1] or not rates[3]:
        return None
    return rogan_gladen(sum(one.judged == 1 for one in rated), len(rated), *rates, level=level)


def _means(rated: Sequence[Rating], people: bool = False) -> list[float]:
    """The case means of labels or of judge scores."""
    by_case: dict[Unit, list[float]] = {}
    for one in rated:
        by_case.setdefault(one.unit, []).append(float((one.label if people else one.judged) or 0))
    return [sum(values) / len(values) for values in by_case.values()]


def _notes(rows: Sequence[CorrectedMean], method: str) -> list[str]:
    """Notes on the assumptions of the method, and on few labels."""
    notes = [f"{method}; right if the labelled outputs were chosen at random"]
    few = [row for row in rows if row.labelled < FEW]
    if few and method == "prediction-powered":
        notes.append(f"too few to rely on: fewer than {FEW} labelled cases in {len(few)} of {len(rows)} rows")
    if method == "rogan-gladen":
        notes.append("outputs count as independent; how the judge errs is taken to be the same in every row")
    return notes


def _cells(one: CorrectedMean) -> list[str]:
    """The cells of a group's row."""
    shown = [one.corrected, one.judged, one.people]
    means = [layout.interval(m.mean, m.low, m.high) if m else "-" for m in shown]
    return [*map(layout.cell, one.labels), *means, str(one.cases), str(one.labelled)]
