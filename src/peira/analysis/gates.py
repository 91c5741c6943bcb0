"""Gates for continuous integration: passed only if the results show it with confidence.

Each requirement is tested one-sided at 1 - level, with a bound that is exact for scores from 0 to 1 and for
grades from 1 to 5, whatever their distribution. Trials that failed or did not finish count as the worst
possible score, and are named by how they ended; with a measure that has no worst value a gate fails while
trials are missing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal
from xml.etree import ElementTree

from peira.analysis.compare.contrasts import ComparisonOptions, compare_runs
from peira.analysis.compare.sides import Match, match, side
from peira.analysis.table.groups import Unit
from peira.analysis.table.measures import TAKEN, Measured, ends_text, measure
from peira.core.ids import short
from peira.core.text.result_value import ResultValue
from peira.results.trials import TrialResult
from peira.stats.intervals.bounded import BoundedSample
from peira.stats.intervals.means import estimate, one_sided


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
    took: float = 0.0
    """Seconds of the trials that the check is about; those of the other run, too, if there is one."""


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

        `took` is the time of the suite in seconds; each check has that of the trials that it is about.
        """
        failed = sum(not check.met for check in self.checks)
        counts = {"tests": str(len(self.checks)), "failures": str(failed), "errors": "0", "skipped": "0"}
        root = ElementTree.Element("testsuite", {"name": suite, **counts, "time": f"{took:.3f}"})
        for check in self.checks:
            named = {"classname": suite, "name": check.demand, "time": f"{check.took:.3f}"}
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
        measured = measure(trials, demand.score).with_unfinished()
        about = [one.trial for one in measured.observations]
        return replace(_bound(measured, demand, level), took=_seconds(about))
    return replace(_no_worse(trials, demand, level), took=_seconds([*trials, *demand.trials]))


def _seconds(trials: Iterable[TrialResult]) -> float:
    """The seconds that these trials took."""
    return sum(trial.took or 0.0 for trial in trials)


def _bound(measured: Measured, demand: Bound, level: float) -> GateCheck:
    """Check the confidence bound of a mean against a limit."""
    sign = ">=" if demand.kind == "min" else "<="
    title = f"{demand.score} {sign} {demand.limit:g}"
    end = _end(measured, demand, level)
    if end.mean is None:
        return GateCheck(title, False, "no trial has a score")
    if end.bound is None:
        states = [one.trial.state for one in measured.observations if one.value is None]
        why = f"there are {ends_text(states)}" if end.lost else "the interval is unknown"
        return GateCheck(title, False, f"the mean is {end.mean:.4g}, and {why}")
    met = end.bound >= demand.limit if demand.kind == "min" else end.bound <= demand.limit
    states = [one.trial.state for one in measured.observations if one.value is None]
    counted = f", counting {ends_text(states)} as worst" if end.lost else ""
    side = "above" if demand.kind == "min" else "below"
    reason = f"the mean is {end.mean:.4g}, {side} {end.bound:.4g} with {level:.0%} confidence"
    return GateCheck(title, met, f"{reason}{counted}{end.doubt}")


@dataclass(frozen=True)
class _End:
    """The mean, its one-sided confidence bound (None if unknown), lost trials, and doubts about the bound."""

    mean: float | None
    bound: float | None
    lost: int
    doubt: str = ""


def _end(measured: Measured, demand: Bound, level: float) -> _End:
    """The confidence bound of a mean on the side of the demand.

    For scores within limits it is exact at any number of cases and any shape of the scores (`BoundedSample`;
    for yes/no answers of single trials Clopper and Pearson's), with lost trials at the worst value. Time and
    cost have Student's t with their skewness in full, and no bound if trials are lost.
    """
    known = measured.known
    lost = [one.trial.unit for one in measured.observations if one.value is None]
    values = [one.value for one in known if one.value is not None]
    units = [one.trial.unit for one in known]
    if not known:
        return _End(None, None, len(lost))
    mean, least = sum(values) / len(values), demand.kind == "min"
    if measured.ends is not None:
        worst = measured.ends[0] if least else measured.ends[1]
        sample = BoundedSample.of([*values, *(worst for _ in lost)], [*units, *lost], measured.ends)
        return _End(mean, sample.low(1 - level) if least else sample.high(1 - level), len(lost))
    if lost:
        return _End(mean, None, len(lost))
    found = estimate(values, units, 2 * level - 1)
    doubt = next((f"; the values are {why}" for why in ("few", "skewed") if f"({why})" in found.method), "")
    doubt = f"{doubt}: Student's t may promise too much" if doubt else ""
    if found.low is None or found.high is None:
        return _End(mean, None, 0, doubt)
    low, high = one_sided(values, units, level)
    return _End(mean, min(low, found.low) if least else max(high, found.high), 0, doubt)


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
    compared = compare_runs(sides, labels, demand.score, wish=wish)
    found = compared.contrasts[0]
    if found.difference is None or found.not_worse is None:
        return GateCheck(title, False, f"the runs cannot be compared: {found.pairing}")
    if found.difference.mean == 0 and _same(trials, demand.trials):
        return GateCheck(title, True, "these are the same trials, with the same scores")
    bounds = _difference_bounds(sides, demand.score, level) or (
        found.not_worse.interval.low,
        None if found.bounds is None else found.bounds.lowest,
    )
    if bounds[0] is not None and found.tailed is not None and found.paired:
        bounds = (min(bounds[0], _tailed_bound(sides, demand.score, level)), bounds[1])
    if bounds[0] is None:
        return GateCheck(title, False, "the differences show no spread, so their interval is unknown")
    what = "it is lower by" if less else "it is higher by"
    reason = f"{what} {found.difference.mean:.4g}, above {bounds[0]:.4g} with {level:.0%} confidence"
    met = bounds[0] > -demand.margin
    states = [
        one.trial.state
        for side in sides
        for one in measure(side, demand.score).with_unfinished().observations
        if one.value is None
    ]
    if not states:
        return GateCheck(title, met, reason)
    held = met and bounds[1] is not None and bounds[1] > -demand.margin
    shown = "unknown" if bounds[1] is None else f"{bounds[1]:.4g}"
    return GateCheck(title, held, f"{reason}; with {ends_text(states)} at worst its bound is {shown}")


def _tailed_bound(sides: Sequence[Sequence[TrialResult]], score: str, level: float) -> float:
    """The one-sided lower bound of a paired difference of few units that may hide a long tail."""
    found = match(*(side("", measure(trials, score).observations, ()) for trials in sides))
    return one_sided(*_gaps(found), level)[0]


def _gaps(found: Match) -> tuple[list[float], list[Unit]]:
    """The difference of each pair, and its unit."""
    gaps = [found.one.cells[key].mean - found.two.cells[key].mean for key in found.pairs]
    return gaps, [found.one.cells[key].unit for key in found.pairs]


def _difference_bounds(
    sides: Sequence[Sequence[TrialResult]], score: str, level: float
) -> tuple[float, float] | None:
    """The exact one-sided lower bound of the difference, without lost trials and with these at worst.

    None if the runs are not paired, or the score has no limits.
    """
    measured = measure([trial for trials in sides for trial in trials], score)
    one, two = (
        side("", measure(trials, measured.name).with_unfinished().observations, ()) for trials in sides
    )
    found = match(one, two)
    if measured.ends is None or not found.pairs:
        return None
    least, most = measured.ends
    limits = (least - most, most - least)
    every = [found.one.cells[key].unit for key in found.keys]
    worst = [found.one.cells[key].filled(least) - found.two.cells[key].filled(most) for key in found.keys]
    samples = BoundedSample.of(*_gaps(found), limits), BoundedSample.of(worst, every, limits)
    return samples[0].low(1 - level), samples[1].low(1 - level)
