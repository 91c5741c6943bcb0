"""Agreement of a judge with human labels, on the labelled outputs."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from peira.analysis.judges.labels import Rating, Ratings
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.core.text.words import counted
from peira.errors import Invalid
from peira.stats import student
from peira.stats.agreement import Scale, Weights, cohen_kappa, krippendorff_alpha
from peira.stats.inputs import coded
from peira.stats.intervals.means import estimate
from peira.stats.intervals.resampling import jackknife
from peira.stats.tests.paired import difference
from peira.stats.values import Estimate, Interval

FEW = 30
"""Fewer labelled cases than this are too few to assess a judge."""

MOST_CATEGORIES = 20
"""With more distinct numbers than this, they are not treated as categories."""


@dataclass(frozen=True)
class Agreement(ResultValue):
    """Agreement of a judge with human labels.

    `share` is the share of equal ratings, `bias` the judge's mean rating minus the people's. `kappa` and
    `alpha` are chance-corrected; `weighted` (quadratic kappa) and `graded` (interval alpha) give partial
    credit on numeric scales. `confusion[i][j]` counts the outputs that people rated `categories[i]` and the
    judge `categories[j]`. What cannot be estimated is None.
    """

    score: str
    level: float
    labelled: int
    cases: int
    share: Estimate
    kappa: Interval | None
    weighted: Interval | None
    alpha: Interval
    graded: Interval | None
    bias: Estimate | None
    categories: tuple[float | str, ...]
    confusion: tuple[tuple[int, ...], ...]
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The score, and the number of labelled outputs and cases."""
        of = f"{counted(self.labelled, 'labelled output')} of {counted(self.cases, 'case')}"
        return f"{self.score} on {of}"

    def grids(self) -> list[TextGrid]:
        """The agreement measures, and the confusion matrix if there is one."""
        measures = TextGrid(["", f"[{100 * self.level:g}% interval]"], self._rows())
        return [measures, self._matrix()] if self.confusion else [measures]

    def _rows(self) -> list[list[str]]:
        """The rows of the agreement measures."""
        measures = {
            "kappa": self.kappa,
            "weighted kappa (quadratic)": self.weighted,
            "alpha (nominal)": self.alpha,
            "alpha (interval)": self.graded,
        }
        rows = [["the same verdict", layout.interval(self.share.mean, self.share.low, self.share.high)]]
        rows += [[name, layout.interval(m.value, m.low, m.high)] for name, m in measures.items() if m]
        if self.bias is not None:
            rows.append(
                ["judge above people by", layout.interval(self.bias.mean, self.bias.low, self.bias.high)]
            )
        return rows

    def matrix(self) -> str:
        """The confusion matrix: people in rows, the judge in columns."""
        return layout.plain(*self._matrix())

    def _matrix(self) -> TextGrid:
        """The confusion matrix as a grid."""
        shown = [layout.cell(_whole(one)) for one in self.categories]
        rows = [[label, *map(str, row)] for label, row in zip(shown, self.confusion, strict=True)]
        return TextGrid(["people \\ judge", *shown], rows)

    @property
    def sentence(self) -> str | None:
        """Reservations: few labels, or agreement that is not shown."""
        return "\n".join(self.notes) or None

    @property
    def remarks(self) -> tuple[str, ...]:
        """None: the notes are the sentence."""
        return ()

    def document(self) -> dict[str, Any]:
        """The fields; the sentence is made of their notes."""
        return asdict(self)


def agreement(found: Ratings, level: float = 0.95) -> Agreement:
    """The agreement on all labelled outputs; intervals are clustered by case.

    Raises Invalid if no rated output has a label, or for a level outside (0, 1).
    """
    if not 0 < level < 1:
        raise Invalid(f"level: must lie between 0 and 1, not {level!r}")
    both = found.labelled
    if not both:
        raise Invalid(f"none of the outputs that {found.score} rates has a label")
    units = [one.unit for one in both]
    categories = _categories(both, found.numeric)
    kappa = _kappa(both, categories, "none", level) if categories else None
    ordered = found.numeric and len(categories) > 2
    alpha = _alpha(both, "nominal", level)
    return Agreement(
        score=found.score,
        level=level,
        labelled=len(both),
        cases=len(set(units)),
        share=estimate([float(one.judged == one.label) for one in both], units, level),
        kappa=kappa,
        weighted=_kappa(both, categories, "quadratic", level) if ordered else None,
        alpha=alpha,
        graded=_alpha(both, "interval", level) if found.numeric and not found.binary else None,
        bias=_bias(both, level) if found.numeric else None,
        categories=tuple(categories),
        confusion=_confusion(both, categories),
        notes=tuple(_notes(both, kappa or alpha, categories)),
    )


def _bias(both: Sequence[Rating], level: float) -> Estimate:
    """The mean difference of judge and people."""
    judged, labels = [float(one.judged) for one in both], [float(one.label or 0) for one in both]
    return difference(judged, labels, [one.unit for one in both], level)


def _categories(both: Sequence[Rating], numeric: bool) -> list[float | str]:
    """All values in order; empty if there are too many distinct numbers."""
    found = {one.judged for one in both} | {one.label for one in both if one.label is not None}
    if numeric and len(found) > MOST_CATEGORIES:
        return []
    return sorted(found, key=lambda one: (isinstance(one, str), one))


def _kappa(
    both: Sequence[Rating], categories: Sequence[Hashable], weights: Weights, level: float
) -> Interval:
    """Cohen's kappa with its interval clustered by case."""

    def of(kept: Sequence[int]) -> Interval:
        one, two = [both[i].label for i in kept], [both[i].judged for i in kept]
        return cohen_kappa(one, two, weights, categories, level)

    return _by_case(of, [one.unit for one in both], level)


def _alpha(both: Sequence[Rating], scale: Scale, level: float) -> Interval:
    """Krippendorff's alpha with its interval clustered by case."""

    def of(kept: Sequence[int]) -> Interval:
        return krippendorff_alpha([(both[i].judged, both[i].label) for i in kept], scale, level)

    return _by_case(of, [one.unit for one in both], level)


def _by_case(
    measure: Callable[[Sequence[int]], Interval], units: Sequence[Hashable], level: float
) -> Interval:
    """An agreement measure; with several outputs per case, its interval is by jackknife over cases."""
    codes, groups = coded(units, len(units))
    whole = measure(range(len(units)))
    if groups == len(units) or whole.value is None:
        return whole
    members = [np.flatnonzero(codes == group) for group in range(groups)]
    spread = jackknife(
        lambda kept: measure(np.concatenate([members[g] for g in kept]).tolist()).value, groups
    )
    if spread is None:
        return Interval(whole.value, None, None, whole.n, "unknown")
    low, high = student.around(whole.value, spread, level)
    return Interval(whole.value, max(-1.0, low), min(1.0, high), whole.n, f"{whole.method}, by case")


def _confusion(both: Sequence[Rating], categories: Sequence[Hashable]) -> tuple[tuple[int, ...], ...]:
    """The confusion matrix of the labelled outputs."""
    place = {category: at for at, category in enumerate(categories)}
    table = [[0] * len(categories) for _ in categories]
    for one in both if categories else ():
        table[place[one.label]][place[one.judged]] += 1
    return tuple(map(tuple, table))


def _notes(both: Sequence[Rating], found: Interval, categories: Sequence[object]) -> list[str]:
    """Reservations about few labels, unknown or unproven agreement, and many values."""
    cases = len({one.unit for one in both})
    notes = []
    if cases < FEW:
        notes.append(
            f"too few to say: {counted(cases, 'labelled case')}; label {FEW} or more, chosen at random"
        )
    if found.value is None:
        notes.append("agreement beyond chance is unknown: there is nothing to disagree about")
    elif found.low is None:
        notes.append("how sure that is cannot be told: they disagree too seldom")
    elif found.low <= 0:
        notes.append("agreement beyond chance is not shown")
    if not categories:
        notes.append(
            f"more than {MOST_CATEGORIES} different values: kappa and the table are for few; see alpha"
        )
    return notes


def _whole(value: float | str) -> float | str:
    """An integral float as an integer."""
    return int(value) if isinstance(value, float) and value.is_integer() else value
