"""Means of a judge's score corrected by the outputs that people labelled.

A judge rates everything and people a part. `prediction-powered`: the people's mean, made surer by the judge,
and right however wrong the judge is. `rogan-gladen`: a yes/no judge's share, corrected by how often it errs.
The unit of evidence is the case. Both need labels of outputs that were chosen at random.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import msgspec

from peira.analysis import layout
from peira.analysis.agreement import FEW
from peira.analysis.groups import Unit, check_names, key_of, label_of
from peira.analysis.ratings import Rating, Ratings
from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.stats.intervals import estimate
from peira.stats.judged import prediction_powered, rogan_gladen
from peira.stats.values import Estimate

METHODS = ("prediction-powered", "rogan-gladen")


@dataclass(frozen=True)
class CorrectedMean:
    """One group: what the judge says, what people say of the labelled part, and the corrected mean (None
    where too little is labelled). `cases` are rated, `labelled` of them by people too."""

    labels: tuple[Json, ...]
    judged: Estimate
    people: Estimate | None
    corrected: Estimate | None
    cases: int
    labelled: int


@dataclass(frozen=True)
class Corrected:
    """Corrected means by group. It prints as a table."""

    by: tuple[str, ...]
    score: str
    method: str
    level: float
    body: tuple[CorrectedMean, ...]
    notes: tuple[str, ...] = ()

    def _grid(self) -> tuple[list[str], list[list[str]]]:
        header = [*map(layout.cell, self.by), f"{self.score}, corrected [{100 * self.level:g}% interval]"]
        return [*header, "as judged", "as labelled", "cases", "labelled"], [_cells(one) for one in self.body]

    def __str__(self) -> str:
        return "\n".join([layout.plain(*self._grid()), *self.notes])

    def markdown(self) -> str:
        return "\n\n".join([layout.markdown(*self._grid()), *self.notes])

    def to_json(self) -> str:
        return msgspec.json.encode(asdict(self)).decode()


def corrected(
    found: Ratings,
    by: Sequence[str] = (),
    method: str = "prediction-powered",
    level: float = 0.95,
    notes: Sequence[str] = (),
) -> Corrected:
    """Of a score of numbers, by factors and attributes; rogan-gladen only of yes/no scores and labels."""
    _check(found, method, level)
    by = tuple(dict.fromkeys(by))
    check_names(by, {name for one in found.every for name in one.trial.condition}, {found.score})
    groups: dict[tuple[str | bytes, ...], list[Rating]] = {}
    for one in found.every:
        groups.setdefault(tuple(key_of(label_of(one.trial, name)) for name in by), []).append(one)
    rates = _rates(found.labelled) if method == "rogan-gladen" else None
    rows = tuple(_row(by, rated, rates, level) for rated in groups.values())
    return Corrected(by, found.score, method, level, rows, (*_notes(rows, method), *notes))


def _check(found: Ratings, method: str, level: float) -> None:
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
"""Of outputs that are good: how many the judge found, of how many; and the same of those that are not."""


def _rates(labelled: Iterable[Rating]) -> Rates:
    """How a yes/no judge errs, on all that is labelled: it is the same judge in every group."""
    said = [(one.judged == 1, one.label == 1) for one in labelled]
    good, bad = [judged for judged, good in said if good], [not judged for judged, good in said if not good]
    return sum(good), len(good), sum(bad), len(bad)


def _row(by: Sequence[str], rated: Sequence[Rating], rates: Rates | None, level: float) -> CorrectedMean:
    labels = tuple(label_of(rated[0].trial, name) for name in by)
    units = [one.unit for one in rated]
    judged = estimate([float(one.judged) for one in rated], units, level)
    both = [one for one in rated if one.label is not None]
    people = (
        estimate([float(one.label or 0) for one in both], [one.unit for one in both], level) if both else None
    )
    better = _by_rates(rated, rates, level) if rates else _powered(rated, both, level)
    return CorrectedMean(labels, judged, people, better, len(set(units)), len({one.unit for one in both}))


def _powered(rated: Sequence[Rating], both: Sequence[Rating], level: float) -> Estimate | None:
    """By case: the mean label and the mean rating of its labelled outputs; of other cases the mean rating."""
    if not both:
        return None
    known = {one.unit for one in both}
    truth, same = _means(both, people=True), _means(both)
    rest = _means([one for one in rated if one.unit not in known])
    if not rest:  # all is labelled: the people's mean is the mean
        return estimate(truth, range(len(truth)), level)
    return prediction_powered(truth, same, rest, level=level)


def _by_rates(rated: Sequence[Rating], rates: Rates, level: float) -> Estimate | None:
    if not rates[1] or not rates[3]:
        return None
    return rogan_gladen(sum(one.judged == 1 for one in rated), len(rated), *rates, level=level)


def _means(rated: Sequence[Rating], people: bool = False) -> list[float]:
    gathered: dict[Unit, list[float]] = {}
    for one in rated:
        gathered.setdefault(one.unit, []).append(float((one.label if people else one.judged) or 0))
    return [sum(values) / len(values) for values in gathered.values()]


def _notes(rows: Sequence[CorrectedMean], method: str) -> list[str]:
    said = [f"{method}; right if the labelled outputs were chosen at random"]
    few = [row for row in rows if row.labelled < FEW]
    if few and method == "prediction-powered":
        said.append(f"too few to rely on: fewer than {FEW} labelled cases in {len(few)} of {len(rows)} rows")
    if method == "rogan-gladen":
        said.append("outputs count as independent; how the judge errs is taken to be the same in every row")
    return said


def _cells(one: CorrectedMean) -> list[str]:
    shown = [one.corrected, one.judged, one.people]
    means = [layout.interval(m.mean, m.low, m.high) if m else "-" for m in shown]
    return [*map(layout.cell, one.labels), *means, str(one.cases), str(one.labelled)]
