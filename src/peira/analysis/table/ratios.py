"""Ratios of two measures, such as cost per success, with intervals.

The ratio of totals, not the mean of ratios: cost per success includes the cost of wrong answers. By Fieller's
theorem, which is unbounded if there are too few successes, or by the delta method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from peira.analysis.compare.sides import grouped
from peira.analysis.table.measures import Observation, measure
from peira.core.registry import nearest
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.errors import Invalid, Unknown
from peira.results.trials import TrialResult
from peira.stats.intervals import ratios as stats
from peira.stats.values import Interval

METHODS: dict[str, Callable[..., Interval]] = {"fieller": stats.fieller, "delta": stats.delta}
"""The interval methods by name."""


@dataclass(frozen=True)
class Ratio:
    """One group: the ratio (None if the denominator is 0), its trials and units of evidence."""

    label: str
    ratio: Interval
    n: int
    units: int
    lost: int


@dataclass(frozen=True)
class Ratios(ResultValue):
    """Ratios of two measures by group."""

    top: str
    bottom: str
    by: tuple[str, ...]
    level: float
    rows: tuple[Ratio, ...]
    notes: tuple[str, ...] = ()

    nothing = "No trial has both numbers: nothing can be said."

    def grids(self) -> list[TextGrid]:
        """One row per group."""
        if not any(row.n for row in self.rows):
            return []
        title = f"{self.top} per {self.bottom} [{100 * self.level:g}% interval]"
        rows = [[row.label, _shown(row.ratio), layout.size(row.n, row.units)] for row in self.rows]
        return [TextGrid([", ".join(self.by) or "group", title, "n"], rows)]

    @property
    def remarks(self) -> list[str]:
        """The methods, lost trials, groups with a denominator of 0, and the notes."""
        methods = sorted({row.ratio.method for row in self.rows if row.n})
        lost = sum(row.lost for row in self.rows)
        lines = [f"intervals: {', '.join(methods)}"] if methods else []
        lines += [f"not in the ratios: {lost} lost {'trial' if lost == 1 else 'trials'}"] if lost else []
        none = [row.label for row in self.rows if row.n and row.ratio.value is None]
        lines += [f"no {self.bottom} at all: {', '.join(none)}"] if none else []
        return [*lines, *self.notes]

    def document(self) -> dict[str, Any]:
        """The fields, with the remarks as notes."""
        return {**asdict(self), "notes": self.remarks}


def _shown(found: Interval) -> str:
    """A ratio with its interval, as text."""
    if found.value is None or "unbounded" not in found.method:
        return layout.interval(found.value, found.low, found.high)
    return layout.interval(found.value, None, None).replace("unknown", "unbounded")


def ratio(
    trials: Iterable[TrialResult],
    top: str,
    bottom: str,
    by: Sequence[str] = (),
    method: str = "fieller",
    level: float = 0.95,
    notes: Sequence[str] = (),
) -> Ratios:
    """The ratio of `top` to `bottom` (scores, metrics, cost or took) by factors.

    Raises Unknown for an unknown method and Invalid for a level outside (0, 1).
    """
    if method not in METHODS:
        raise Unknown(f"no method {method!r}{nearest(method, METHODS)}")
    if not 0 < level < 1:
        raise Invalid(f"level: must lie between 0 and 1, not {level!r}")
    found = list(trials)
    above = {one.trial.id: one.value for one in measure(found, top).observations}
    below = grouped(measure(found, bottom).observations, by)
    rows = tuple(_row(label, seen, above, METHODS[method], level) for label, seen in below)
    return Ratios(top, bottom, tuple(by), level, rows, tuple(notes))


def _row(
    label: str,
    seen: Sequence[Observation],
    above: dict[str, Any],
    method: Callable[..., Interval],
    level: float,
) -> Ratio:
    """The ratio of one group."""
    known = [one for one in seen if one.value is not None and above.get(one.trial.id) is not None]
    units = [one.trial.unit for one in known]
    if not known:
        return Ratio(label, Interval(None, None, None, 0, "unknown"), 0, 0, len(seen))
    values = [above[one.trial.id] for one in known]
    found = method(values, [one.value for one in known], units, level)
    return Ratio(label, found, len(known), len(set(units)), len(seen) - len(known))
