"""How often trials fail: the share that ended without an output, also when none did.

Nothing failed is not the same as nothing fails: where no trial failed, the rule of three says how large a
share of cases could still fail without that having shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass

import msgspec

from peira.analysis import layout
from peira.analysis.grouped import grouped
from peira.analysis.measures import Observation
from peira.analysis.trials import FAILED, TrialResult
from peira.core.events import State
from peira.errors import Invalid
from peira.stats.intervals import estimate
from peira.stats.proportions import rule_of_three
from peira.stats.values import Estimate


@dataclass(frozen=True)
class Row:
    """One group: how many of the trials that ended failed, and the share with its interval."""

    label: str
    failed: int
    trials: int
    units: int
    share: Estimate


@dataclass(frozen=True)
class Reliability:
    by: tuple[str, ...]
    level: float
    rows: tuple[Row, ...]
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        return "\n".join(self._said(row) for row in self.rows) or "No trial has ended: nothing can be said."

    def _said(self, row: Row) -> str:
        of = f"{row.trials:,} {'trial' if row.trials == 1 else 'trials'} of {row.units:,} "
        of += "case" if row.units == 1 else "cases"
        name = "" if row.label == "all" and not self.by else f"{row.label}: "
        if not row.failed:
            bound = f"at most {row.share.high:.2g} would, with {self.level:.0%} confidence"
            return f"{name}none of {of} failed; {bound} (rule of three)"
        shown = layout.interval(row.share.mean, row.share.low, row.share.high)
        return f"{name}{row.failed:,} of {of} failed: {shown}"

    def __str__(self) -> str:
        return "\n".join([self.sentence, *self.notes])

    def markdown(self) -> str:
        return "\n\n".join([*self.sentence.splitlines(), *self.notes])

    def to_json(self) -> str:
        return msgspec.json.encode({**asdict(self), "sentence": self.sentence}).decode()


def reliability(
    trials: Iterable[TrialResult],
    by: Sequence[str] = (),
    level: float = 0.95,
    notes: Sequence[str] = (),
) -> Reliability:
    """The share of trials that failed, by factors."""
    if not 0 < level < 1:
        raise Invalid(f"level: must lie between 0 and 1, not {level!r}")
    ended = [
        Observation(trial, float(trial.state in FAILED))
        for trial in trials
        if not trial.anchor and (trial.state in FAILED or trial.state is State.succeeded)
    ]
    rows = tuple(_row(label, seen, level) for label, seen in grouped(ended, by))
    return Reliability(tuple(by), level, rows, tuple(notes))


def _row(label: str, seen: Sequence[Observation], level: float) -> Row:
    values, units = [one.value or 0.0 for one in seen], [one.trial.unit for one in seen]
    failed, cases = int(sum(values)), len(set(units))
    if failed:
        return Row(label, failed, len(seen), cases, estimate(values, units, level))
    bound = rule_of_three(cases, level)
    return Row(label, 0, len(seen), cases, Estimate(0.0, 0.0, bound, len(seen), "rule of three"))
