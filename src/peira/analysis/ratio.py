"""Ratios of two numbers that every trial has, such as cost per success.

The ratio of the totals, not the mean of ratios: what a success costs, wrong answers paid for. By Fieller's
theorem, which says when there are too few successes to bound it at all; or by the delta method.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from peira.analysis import layout
from peira.analysis.grouped import grouped
from peira.analysis.measures import Observation, measure
from peira.analysis.trials import TrialResult
from peira.core.registry import nearest
from peira.errors import Invalid, Unknown
from peira.stats import ratios as stats
from peira.stats.values import Interval

METHODS: dict[str, Callable[..., Interval]] = {"fieller": stats.fieller, "delta": stats.delta}


@dataclass(frozen=True)
class Ratio:
    """One group: the ratio (None where the lower total is 0), its trials and its units of evidence."""

    label: str
    ratio: Interval
    n: int
    units: int
    lost: int


@dataclass(frozen=True)
class Ratios:
    top: str
    bottom: str
    by: tuple[str, ...]
    level: float
    rows: tuple[Ratio, ...]
    notes: tuple[str, ...] = ()

    def _grid(self) -> tuple[list[str], list[list[str]]]:
        title = f"{self.top} per {self.bottom} [{100 * self.level:g}% interval]"
        return [", ".join(self.by) or "group", title, "n"], [
            [row.label, _shown(row.ratio), f"{row.n} ({row.units} {'case' if row.units == 1 else 'cases'})"]
            for row in self.rows
        ]

    @property
    def remarks(self) -> list[str]:
        methods = sorted({row.ratio.method for row in self.rows if row.n})
        lost = sum(row.lost for row in self.rows)
        said = [f"intervals: {', '.join(methods)}"] if methods else []
        said += [f"not in the ratios: {lost} lost {'trial' if lost == 1 else 'trials'}"] if lost else []
        none = [row.label for row in self.rows if row.n and row.ratio.value is None]
        said += [f"no {self.bottom} at all: {', '.join(none)}"] if none else []
        return [*said, *self.notes]

    def __str__(self) -> str:
        shown = any(row.n for row in self.rows)
        text = layout.plain(*self._grid()) if shown else "No trial has both numbers: nothing can be said."
        return "\n".join([text, *self.remarks])

    def markdown(self) -> str:
        return "\n\n".join([layout.markdown(*self._grid()), *self.remarks])

    def to_json(self) -> str:
        return msgspec.json.encode({**asdict(self), "notes": self.remarks}).decode()


def _shown(found: Interval) -> str:
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
    """`top` per `bottom`: scores, metrics, cost or took."""
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
    known = [one for one in seen if one.value is not None and above.get(one.trial.id) is not None]
    units = [one.trial.unit for one in known]
    if not known:
        return Ratio(label, Interval(None, None, None, 0, "unknown"), 0, 0, len(seen))
    values = [above[one.trial.id] for one in known]
    found = method(values, [one.value for one in known], units, level)
    return Ratio(label, found, len(known), len(set(units)), len(seen) - len(known))
