"""Gates for continuous integration: passed only if the results show it with confidence.

Each requirement is tested one-sided at 1 - level. Trials that failed or did not finish count as the worst
possible score if scores lie between 0 and 1; with any other score a gate fails while trials are missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal
from xml.etree import ElementTree

from peira.analysis.compare.contrasts import ComparisonOptions, compare_runs
from peira.analysis.table.measures import TAKEN, Measured, measure
from peira.analysis.value import ResultValue
from peira.core.ids import short
from peira.results.trials import TrialResult
from peira.stats.intervals.means import bounds, estimate


@dataclass(frozen=True)
class Bound:
    """A requirement that the mean of a score is at least (`min`) or at most (`max`) a limit."""

    score: str
    limit: float
    kind: Literal["min", "max"]


@dataclass(frozen=True)
class NoWorse:
    """A requirement of non-inferiority to another run by at most a margin.

    Higher is better for scores, lower for cost and time.
    """

    run: str
    trials: Sequence[TrialResult]
    score: str
    margin: float


@dataclass(frozen=True)
class GateCheck:
    """One requirement, whether it was met, and the evidence as one sentence."""

    demand: str
    met: bool
    reason: str


@dataclass(frozen=True)
class GateResult(ResultValue):
    """The checks of a gate; prints as one line each."""

    checks: tuple[GateCheck, ...]

    @property
    def met(self) -> bool:
        """Whether all requirements were met."""
        return all(check.met for check in self.checks)

    @property
    def sentence(self) -> str:
        """One line for each requirement."""
        return "\n".join(f"{'met' if c.met else 'NOT MET'}: {c.demand}: {c.reason}" for c in self.checks)

    def document(self) -> dict[str, Any]:
        """The JSON document: met, and the checks."""
        return {"met": self.met, **asdict(self)}

    def junit(self, suite: str, took: float = 0.0) -> str:
        """The checks as JUnit XML test cases.

        `took` is the time of the trials that were checked, in seconds: that of the suite, and in equal parts
        of its checks.
        """
        failed = sum(not check.met for check in self.checks)
        counts = {"tests": str(len(self.checks)), "failures": str(failed), "errors": "0", "skipped": "0"}
        root = ElementTree.Element("testsuite", {"name": suite, **counts, "time": f"{took:.3f}"})
        each = f"{took / max(1, len(self.checks)):.3f}"
        for check in self.checks:
            named = {"classname": suite, "name": check.demand, "time": each}
            case = ElementTree.SubElement(root, "testcase", named)
            if not check.met:
                ElementTree.SubElement(case, "failure", {"message": check.reason})
        return ElementTree.tostring(root, encoding="unicode", xml_declaration=True)


def judge(
    trials: Sequence[TrialResult], demands: Sequence[Bound | NoWorse], level: float = 0.95
) -> GateResult:
    """Check all requirements against the trials.

    Each is tested one-sided at 1 - level; the gate is passed if all are met.
    """
    return GateResult(tuple(_check(trials, demand, level) for demand in demands))


def _check(trials: Sequence[TrialResult], demand: Bound | NoWorse, level: float) -> GateCheck:
    """Check one requirement."""
    if isinstance(demand, Bound):
        return _bound(measure(trials, demand.score), demand, level)
    return _no_worse(trials, demand, level)


def _bound(measured: Measured, demand: Bound, level: float) -> GateCheck:
    """Check the confidence bound of a mean against a limit."""
    sign = ">=" if demand.kind == "min" else "<="
    title = f"{demand.score} {sign} {demand.limit:g}"
    mean, end, lost = _end(measured, demand, 2 * level - 1)
    if mean is None:
        return GateCheck(title, False, "no trial has a score")
    if end is None:
        why = f"{lost} trials have no score" if lost else "the interval is unknown"
        return GateCheck(title, False, f"the mean is {mean:.4g}, and {why}")
    met = end >= demand.limit if demand.kind == "min" else end <= demand.limit
    counted = f", counting {lost} lost {'trial' if lost == 1 else 'trials'} as worst" if lost else ""
    side = "above" if demand.kind == "min" else "below"
    return GateCheck(
        title, met, f"the mean is {mean:.4g}, {side} {end:.4g} with {level:.0%} confidence{counted}"
    )


def _end(measured: Measured, demand: Bound, level: float) -> tuple[float | None, float | None, int]:
    """The mean, the relevant confidence bound (None if unknown), and the number of lost trials."""
    known = [one for one in measured.observations if one.value is not None]
    lost = [one.trial.unit for one in measured.observations if one.value is None]
    if not known:
        return None, None, len(lost)
    values = [one.value for one in known if one.value is not None]
    units = [one.trial.unit for one in known]
    found = estimate(values, units, level)
    if not lost:
        return found.mean, found.low if demand.kind == "min" else found.high, 0
    if measured.ends is None:
        return found.mean, None, len(lost)
    filled = bounds(values, units, lost, *measured.ends, level=level)
    return found.mean, filled.lowest if demand.kind == "min" else filled.highest, len(lost)


def _same(one: Sequence[TrialResult], two: Sequence[TrialResult]) -> bool:
    """Whether both runs consist of the same trials with the same scores."""
    return {trial.id: trial.scores for trial in one} == {trial.id: trial.scores for trial in two}


def _no_worse(trials: Sequence[TrialResult], demand: NoWorse, level: float) -> GateCheck:
    """Check non-inferiority to another run."""
    title = f"{demand.score} no worse than in {short(demand.run)} by {demand.margin:g}"
    wish, sides = ComparisonOptions(level=level, margin=demand.margin), [trials, demand.trials]
    labels = ["this run", short(demand.run)]
    if less := demand.score in TAKEN:
        sides, labels = sides[::-1], labels[::-1]
    compared = compare_runs(sides[0], sides[1], (labels[0], labels[1]), demand.score, wish=wish)
    found = compared.contrasts[0]
    if found.difference is None or found.not_worse is None:
        return GateCheck(title, False, f"the runs cannot be compared: {found.pairing}")
    if found.difference.mean == 0 and _same(trials, demand.trials):
        return GateCheck(title, True, "these are the same trials, with the same scores")
    if found.not_worse.p is None:
        return GateCheck(title, False, "the differences show no spread, so their interval is unknown")
    low = found.not_worse.interval.low
    what = "it is lower by" if less else "it is higher by"
    reason = f"{what} {found.difference.mean:.4g}, above {low:.4g} with {level:.0%} confidence"
    met = found.not_worse.answer == "within"
    if found.bounds is None:
        return GateCheck(title, met, reason)
    worst = found.bounds.lowest
    held = met and worst is not None and worst > -demand.margin
    shown = "unknown" if worst is None else f"{worst:.4g}"
    return GateCheck(title, held, f"{reason}; with {found.bounds.lost} lost at worst its bound is {shown}")
