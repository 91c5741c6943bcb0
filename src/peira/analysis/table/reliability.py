"""Failure rates of trials, and drift of the anchor trials during the run.

If no trial failed, the rule of three gives the upper confidence bound of the failure rate.

Anchors are taken in the order in which they were run. A score with a significant monotone trend (Kendall's
tau, exact without ties) has drifted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from peira.analysis.compare.sides import grouped
from peira.analysis.table.groups import LOST
from peira.analysis.table.measures import Observation
from peira.core.log.events import State
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue
from peira.errors import Invalid
from peira.results.trials import FAILED, TrialResult, numbers
from peira.stats.intervals.means import estimate
from peira.stats.intervals.proportions import rule_of_three
from peira.stats.values import Estimate

# Failure rates


@dataclass(frozen=True)
class FailureRate:
    """One group: how many of the ended trials failed, and their share with its interval."""

    label: str
    failed: int
    trials: int
    units: int
    share: Estimate


@dataclass(frozen=True)
class Reliability(ResultValue):
    """Failure rates by group."""

    by: tuple[str, ...]
    level: float
    rows: tuple[FailureRate, ...]
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """One line per group."""
        return (
            "\n".join(self._row_sentence(row) for row in self.rows)
            or "No trial has ended: nothing can be said."
        )

    def _row_sentence(self, row: FailureRate) -> str:
        """The failure rate of a group, as text."""
        of = f"{row.trials:,} {'trial' if row.trials == 1 else 'trials'} of {row.units:,} "
        of += "case" if row.units == 1 else "cases"
        name = "" if row.label == "all" and not self.by else f"{row.label}: "
        if not row.failed:
            bound = f"at most {row.share.high:.2g} would, with {self.level:.0%} confidence"
            return f"{name}none of {of} failed; {bound} (rule of three)"
        shown = layout.interval(row.share.mean, row.share.low, row.share.high)
        return f"{name}{row.failed:,} of {of} failed: {shown}"


def reliability(
    trials: Iterable[TrialResult],
    by: Sequence[str] = (),
    level: float = 0.95,
    notes: Sequence[str] = (),
) -> Reliability:
    """The share of ended trials that failed, by factors; anchors are left out.

    Intervals are clustered by case. Raises Invalid for a level outside (0, 1), and Unknown for an unknown
    factor.
    """
    if not 0 < level < 1:
        raise Invalid(f"level: must lie between 0 and 1, not {level!r}")
    ended = [
        Observation(trial, float(trial.state in FAILED))
        for trial in trials
        if not trial.anchor and (trial.state in LOST or trial.state is State.succeeded)
    ]
    rows = tuple(_row(label, seen, level) for label, seen in grouped(ended, by))
    return Reliability(tuple(by), level, rows, tuple(notes))


def _row(label: str, seen: Sequence[Observation], level: float) -> FailureRate:
    """The failure rate of one group; by the rule of three if nothing failed."""
    values, units = [one.value or 0.0 for one in seen], [one.trial.unit for one in seen]
    failed, cases = int(sum(values)), len(set(units))
    if failed:
        return FailureRate(label, failed, len(seen), cases, estimate(values, units, level))
    bound = rule_of_three(cases, level)
    return FailureRate(label, 0, len(seen), cases, Estimate(0.0, 0.0, bound, len(seen), "rule of three"))


# Drift

FEWEST = 4
"""With fewer anchors no order is significant."""
ALPHA = 0.05
"""The significance level of the test for drift."""


def drift(trials: Iterable[TrialResult]) -> list[str]:
    """One line for each score of the anchors; none if there are no anchors."""
    scores: dict[str, list[float]] = {}
    for trial in trials:
        if trial.anchor:
            for score in trial.scores.values():
                for name, value in numbers(score).items():
                    scores.setdefault(name, []).append(value)
    return list(_lines(scores))


def _lines(scores: dict[str, list[float]]) -> Iterator[str]:
    """One line on the drift of each score."""
    for name, values in scores.items():
        n = len(values)
        if n < FEWEST:
            yield f"drift of {name}: {n} anchors are too few to tell; take at least {FEWEST}"
        elif min(values) == max(values):
            yield f"drift of {name}: none seen; all {n} anchors scored {values[0]:g}"
        else:
            yield _trend(name, values)


def _trend(name: str, values: list[float]) -> str:
    """The result of Kendall's test for a trend, as text."""
    from scipy.stats import kendalltau

    found = kendalltau(range(len(values)), values)
    evidence = f"{len(values)} anchors, Kendall's tau {found.statistic:.2f}, p = {found.pvalue:.3g}"
    if found.pvalue >= ALPHA:
        return f"drift of {name}: none seen ({evidence})"
    way = "rises" if found.statistic > 0 else "falls"
    return f"drift of {name}: it {way} during the run ({evidence}); compare only what was interleaved"
