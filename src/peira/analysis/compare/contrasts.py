"""Compares levels of a factor, agents or runs: pairs the trials, estimates, tests and corrects.

The unit of evidence is the case (or cluster of cases). Sides with cases in common are paired on them; sides
that share calls or trials must be compared paired, since they are not independent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from peira.analysis.compare.comparison import ComparisonTable, Contrast, DifferenceBounds
from peira.analysis.compare.difference import Difference, Differences
from peira.analysis.compare.effect_sizes import effect
from peira.analysis.compare.family import CORRECTIONS, Family, chosen
from peira.analysis.compare.imputation import Missing, at_worst, check_missing
from peira.analysis.compare.sides import Pair, Side, choose_pairs, levels_of, shared, side
from peira.analysis.table.measures import Measured, measure
from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import Invalid, Unknown
from peira.results.trials import TrialResult
from peira.stats.tests.equivalence import equivalence
from peira.stats.values import Alternative


@dataclass(frozen=True)
class ComparisonOptions:
    """The options of a comparison other than its sides and score.

    `correction` None means no adjustment; "declared" takes the correction of the study's analysis plan, given
    as `declared`. Empty `test`, `effect` and `interval` select the methods that fit the data. `missing` says
    what is done about lost trials. Raises Invalid for a level outside (0, 1), a margin that is not positive,
    an unknown correction, or an unknown `missing`.
    """

    level: float = 0.95
    margin: float | None = None
    correction: str | None = "declared"
    paired: bool | None = None
    test: str = ""
    alternative: Alternative = "two-sided"
    effect: str = ""
    interval: str = ""
    declared: str = ""
    missing: Missing = "ended"

    def __post_init__(self) -> None:
        problems = []
        check_missing(self.missing)
        if not 0 < self.level < 1:
            problems.append(f"level: must lie between 0 and 1, not {self.level!r}")
        if self.margin is not None and not self.margin > 0:
            problems.append(f"margin: must be above 0, not {self.margin!r}")
        if self.correction is not None and self.correction not in CORRECTIONS:
            problems.append(
                f"correction: there is no {self.correction!r}{nearest(self.correction, CORRECTIONS)}"
            )
        if problems:
            raise Invalid(problems)

    @property
    def alpha(self) -> float:
        """The significance level, 1 - level."""
        return round(1 - self.level, 12)


def contrast(
    differences: Differences, one: Side, two: Side, wish: ComparisonOptions, alpha: float, by: str = ""
) -> Contrast:
    """Compare one side with another; `by` is the factor whose levels they are, if they are levels.

    Returns difference, test, effect size, posterior and worst-case bounds. A contrast without values on both
    sides has only its pairing and counts. `alpha` decides whether `more_cases` is computed; the options may
    have another level, for simultaneous intervals.
    """
    found = differences.between(one, two, by, wish.paired, wish.test, wish.interval)
    share, what = shared(one, two)
    empty = Contrast(
        first=one.label,
        second=two.label,
        paired=found.data.paired,
        pairing=_reason(found),
        n=found.n,
        units=found.units,
        unit=found.data.unit,
        unmatched=found.found.unmatched,
        shared=share,
        shared_what=what,
        model=found.model,
        bounds=_bounds(found, differences.measured, wish.level),
    )
    if not found.known:
        return empty
    posterior = found.posterior(wish.margin, wish.level)
    tested = found.evidence(wish.test, wish.alternative)
    clear = tested.p is not None and tested.p <= alpha
    tailed = None if wish.test or wish.interval else found.tailed(wish.alternative)
    return replace(
        empty,
        difference=found.estimate(wish.level, wish.interval),
        p=tested.p,
        adjusted=tested.p,
        tailed=tailed,
        test=tested.method,
        effect=effect(found.data if wish.effect else found.unit_data, wish.effect, wish.level),
        better=posterior.better,
        posterior=posterior,
        more_cases=None if clear else found.more_cases(alpha),
        **_margins(found, wish.margin, alpha),
    )


def _reason(found: Difference) -> str:
    """What the pairing was, or why the sides cannot be paired."""
    sides = found.found
    if found.model == "design":
        return "case, adjusted for the other factors"
    if found.model == "imputed":
        return "case, with lost trials imputed: right if they are missing at random, given the others"
    if found.model == "pairs":
        return sides.by if sides.pairs else "no case has a score on both sides"
    if not sides.one.scored or not sides.two.scored:
        return "a side has no scores"
    return "paired cases were not asked for" if sides.keys else "the sides have no case in common"


def _margins(found: Difference, margin: float | None, alpha: float) -> dict[str, Any]:
    """The equivalence and non-inferiority tests against the margin, if there is one."""
    if margin is None:
        return {}
    ends = {"equivalent": margin, "not_worse": None}
    shown = {name: equivalence(found.estimate, -margin, high, alpha) for name, high in ends.items()}
    if found.tailed_spread is None:
        return shown
    held = {name: equivalence(found.tailed_estimate, -margin, high, alpha) for name, high in ends.items()}
    return {**shown, "margin_hides_tail": any(held[n].answer != one.answer for n, one in shown.items())}


def _bounds(found: Difference, measured: Measured, level: float) -> DifferenceBounds | None:
    """The worst-case range of the difference over the lost trials; None if none was lost."""
    lost = found.found.one.lost + found.found.two.lost
    if not lost:
        return None
    if measured.ends is None:
        return DifferenceBounds(None, None, None, None, lost)
    low, high = (found.filled(ends, level) for ends in (measured.ends, measured.ends[::-1]))
    return DifferenceBounds(low.mean, high.mean, low.low, high.high, lost)


def compare_levels(
    trials: Iterable[TrialResult],
    by: str,
    a: Json = None,
    b: Json = None,
    score: str | None = None,
    slice: str | None = None,
    baseline: Json = None,
    wish: ComparisonOptions | None = None,
    notes: Sequence[str] = (),
) -> ComparisonTable:
    """Compare levels of a factor: `a` with `b`, all with the `baseline`, or every pair.

    `score` names the measure (the only one by default), `slice` restricts the cases, and `notes` are passed
    on. Raises Unknown for unknown names and levels, Invalid if there is nothing to compare.
    """
    wish = wish or ComparisonOptions()
    measured = measure(_in_slice(trials, slice), score)
    remarks = (*loss_notes(measured, wish.missing), *notes)
    if wish.missing == "worst":
        measured = at_worst(measured)
    pairs = choose_pairs(levels_of(measured, by), a, b, baseline)
    return compare_sides(by, measured, pairs, wish, remarks, by)


def loss_notes(measured: Measured, missing: Missing, where: str = "differences") -> list[str]:
    """What is said of lost and unfinished trials, given what is done about the lost."""
    said = measured.remarks(where)
    done = {"impute": "imputed", "worst": "counted as worst"}.get(missing)
    return [line.replace(f"not in the {where}", done) if done else line for line in said]


def compare_runs(
    runs: Sequence[Iterable[TrialResult]],
    labels: Sequence[str],
    score: str | None = None,
    slice: str | None = None,
    wish: ComparisonOptions | None = None,
    notes: Sequence[str] = (),
) -> ComparisonTable:
    """Compare two runs or every pair of several, paired on equal case, agent and condition.

    `labels` name the runs. All must have the measure `score`; without a name, the only score there is.
    """
    wish = wish or ComparisonOptions()
    if wish.missing != "ended":
        raise Invalid("missing: runs are compared by what ended; name a factor to compare its levels")
    trials = [list(_in_slice(found, slice)) for found in runs]
    measured = measure([trial for found in trials for trial in found], score)
    of = [measure(found, measured.name) for found in trials]
    sides = [side(label, found.observations, ()) for label, found in zip(labels, of, strict=True)]
    remarks = (*measured.remarks("differences"), *notes)
    return compare_sides("run", measured, list(combinations(sides, 2)), wish, remarks)


def _in_slice(trials: Iterable[TrialResult], slice: str | None) -> list[TrialResult]:
    """The trials of one slice (all without a name); raises Unknown for a slice that does not exist."""
    found = list(trials)
    if slice is None:
        return found
    kept = [trial for trial in found if trial.slice == slice]
    if found and not kept:
        names = {trial.slice for trial in found if trial.slice is not None}
        raise Unknown(f"no slice {slice!r}{nearest(slice, names)}")
    return kept


def compare_sides(
    by: str,
    measured: Measured,
    pairs: Sequence[Pair],
    wish: ComparisonOptions,
    notes: Sequence[str] = (),
    factor: str = "",
) -> ComparisonTable:
    """Compare these pairs as one family, with the correction applied.

    `factor` has the sides as levels.
    """
    wish = replace(wish, correction=chosen(wish.correction, wish.declared, pairs))
    family = Family(pairs, wish.correction, wish.level)
    differences, own = Differences(measured, wish.missing), replace(wish, level=family.own_level)
    found = [contrast(differences, *pair, own, wish.alpha, factor) for pair in pairs]
    adjusted = family.adjusted(found, wish.alternative, differences.reach)
    correction = wish.correction or "" if len(pairs) > 1 else ""
    return ComparisonTable(
        by, measured.name, wish.level, correction, tuple(adjusted), wish.margin, tuple(notes)
    )
