"""Power analysis: cases needed, smallest detectable difference, and power of a comparison.

The standard deviation comes from an earlier run, from the same pairing as its comparison, or is given. If
that run has repeats, within-case and between-case variance are separated, and other numbers of repeats can be
evaluated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from peira.analysis.compare.difference import Differences
from peira.analysis.compare.sides import Match, Side, choose_pairs, levels_of
from peira.analysis.table.measures import measure
from peira.core.ids import Json
from peira.core.text.result_value import ResultValue, TextGrid
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.stats import power as numbers
from peira.stats.models.variance_components import paired_components
from peira.stats.power import DifferenceVariance


@dataclass(frozen=True)
class Power:
    """The power analysis of one comparison.

    `deviation` is the standard deviation of a case's difference between the sides; `needed` the number of
    cases to detect `difference` with the wanted power; `power` the power with `cases` cases; `smallest` the
    smallest difference they detect. None where it is unknown or no number of cases suffices. From a run all
    of these are estimates: `fewest` and `most` are the cases needed at the ends of the 95% interval of the
    deviation.
    """

    label: str
    difference: float | None = None
    deviation: float | None = None
    cases: int | None = None
    repeats: int | None = None
    power: float | None = None
    needed: int | None = None
    smallest: float | None = None
    note: str = ""
    fewest: int | None = None
    most: int | None = None


@dataclass(frozen=True)
class Planning(ResultValue):
    """The power analyses of one or several comparisons."""

    rows: tuple[Power, ...]
    alpha: float
    wanted: float

    @property
    def sentence(self) -> str:
        """One line per comparison."""
        return "\n".join(map(self._row_sentence, self.rows))

    def _row_sentence(self, row: Power) -> str:
        """The power analysis of one comparison, as text."""
        if row.note:
            return f"{row.label}: {row.note}."
        parts = []
        if row.needed is not None and row.difference is not None:
            span = "" if row.fewest is None or row.most is None else f" ({row.fewest:,} to {row.most:,})"
            parts.append(f"a difference of {abs(row.difference):.3g} needs {row.needed:,} cases{span}")
        if row.needed is not None and row.cases is not None and row.needed > row.cases:
            parts.append(f"you would need {row.needed - row.cases:,} more")
        if row.smallest is not None:
            parts.append(f"{row.cases:,} cases show a difference of {row.smallest:.3g}")
        return f"{row.label}: {'; '.join(parts) or 'nothing to tell'}, with power {self.wanted:g}."

    @property
    def remarks(self) -> list[str]:
        """The significance level, and what the numbers from a run are."""
        estimated = any(row.fewest is not None for row in self.rows)
        ends = ["estimates; in parentheses, for the 95% interval of the deviation"] if estimated else []
        return [f"two-sided at alpha {self.alpha:g}", *ends]

    def grids(self) -> list[TextGrid]:
        """One row per comparison."""
        header = ["comparison", "difference", "deviation", "cases", "power", "cases needed", "smallest"]
        names = ("difference", "deviation", "cases", "power", "needed", "smallest")
        rows = [[row.label, *(_shown(getattr(row, name)) for name in names)] for row in self.rows]
        return [TextGrid(header, rows)]


def _shown(value: float | int | None) -> str:
    """A number as text; "-" for None."""
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


@dataclass(frozen=True)
class PowerQuestion:
    """The inputs of a power analysis.

    Without `difference` the observed one is used, without `cases` the observed number. Raises Invalid for
    values out of range.
    """

    difference: float | None = None
    cases: int | None = None
    repeats: int | None = None
    alpha: float = 0.05
    wanted: float = 0.8

    def __post_init__(self) -> None:
        problems = []
        if not 0 < self.alpha < self.wanted < 1:
            problems.append(f"need 0 < alpha < power < 1, not alpha {self.alpha:g}, power {self.wanted:g}")
        problems += [
            f"{name}: must be at least {least}, not {value}"
            for name, value, least in (("cases", self.cases, 2), ("repeats", self.repeats, 1))
            if value is not None and value < least
        ]
        if self.difference == 0:
            problems.append("difference: must not be 0")
        if problems:
            raise Invalid(problems)


def plan_for(
    deviation: float,
    question: PowerQuestion,
    unpaired: bool = False,
    cluster: float = 1.0,
    correlation: float = 0.0,
) -> Planning:
    """Power analysis from a given standard deviation: of paired differences, or of unpaired values.

    `cluster` is the size of clusters of cases and `correlation` their intra-cluster correlation. Raises
    Invalid for values out of range.
    """
    problems = [f"deviation: must be above 0, not {deviation:g}"] if not deviation > 0 else []
    if cluster < 1 or not 0 <= correlation <= 1:
        problems.append(
            "cluster: needs a size of at least 1 and a correlation of 0 to 1, "
            f"not {cluster:g} and {correlation:g}"
        )
    if problems:
        raise Invalid(problems)
    inflation = numbers.design_effect(cluster, correlation)
    design = (numbers.unpaired if unpaired else numbers.paired)(deviation, inflation)
    row = _row("as given", design, question.difference, question.cases, question)
    return Planning((row,), question.alpha, question.wanted)


def plan_from(
    trials: Iterable[TrialResult],
    by: str,
    question: PowerQuestion,
    a: Json = None,
    b: Json = None,
    score: str | None = None,
) -> Planning:
    """Power analysis from the trials of an earlier run, for each pair of levels.

    Pairs are chosen as in `compare`: `a` with `b`, or every pair of levels of `by`. A pair with fewer than
    two common cases, or without variation, gets a note and no numbers.
    """
    measured = measure(trials, score)
    pairs, differences = choose_pairs(levels_of(measured, by), a, b), Differences(measured)
    rows = tuple(_from(differences, one, two, by, question) for one, two in pairs)
    return Planning(rows, question.alpha, question.wanted)


def _from(differences: Differences, one: Side, two: Side, by: str, question: PowerQuestion) -> Power:
    """The power analysis of one pair of levels."""
    found, label = differences.between(one, two, by), f"{one.label} - {two.label}"
    if not found.known or found.model == "groups" or found.units < 2:
        return Power(label, note="fewer than two cases have a score on both sides")
    mean, deviation = found.estimate(1 - question.alpha).mean, found.deviation
    if question.repeats is not None:
        split = _repeated(found.found)
        if split is None:
            return Power(label, note="nothing is repeated, so repeats cannot be asked about")
        variance = split[0] + (split[1] + split[2]) / question.repeats
        deviation = variance**0.5 if variance > 1e-24 * max(1.0, mean * mean) else None
    if deviation is None:
        return Power(label, note="the differences show no spread")
    seen = mean if abs(mean) > 1e-12 else None
    difference = question.difference if question.difference is not None else seen
    row = _row(label, numbers.paired(deviation), difference, question.cases or found.units, question)
    if difference is None:
        return row
    ends = [
        numbers.cases_needed(numbers.paired(end), difference, question.alpha, question.wanted)
        for end in numbers.deviation_interval(deviation, found.units - 1)
    ]
    return replace(row, fewest=ends[0], most=ends[1])


def _repeated(found: Match) -> tuple[float, float, float] | None:
    """Between-case and within-case variances of a pair; None without repeats."""
    one, two = (
        [(value, key) for key in found.pairs for value in side.cells[key].values]
        for side in (found.one, found.two)
    )
    between, within, other = paired_components(
        [value for value, _ in one], [key for _, key in one], [value for value, _ in two], [k for _, k in two]
    )
    return None if between is None or within is None or other is None else (between, within, other)


def _row(
    label: str,
    design: DifferenceVariance,
    difference: float | None,
    cases: int | None,
    question: PowerQuestion,
) -> Power:
    """The power analysis for a given variance."""
    alpha, wanted = question.alpha, question.wanted
    chance = needed = smallest = None
    if difference is not None:
        needed = numbers.cases_needed(design, difference, alpha, wanted)
        chance = numbers.power(design, cases, difference, alpha) if cases else None
    if cases:
        smallest = numbers.smallest_difference(design, cases, alpha, wanted)
    return Power(label, difference, design.deviation, cases, question.repeats, chance, needed, smallest)


def plan_matched(won: float, lost: float, question: PowerQuestion) -> Planning:
    """Power analysis of paired proportions by McNemar's exact test.

    `won` and `lost` are the shares of cases that only the first, or only the second side gets right.
    """
    if min(won, lost) < 0 or won + lost > 1:
        raise Invalid(f"won, lost: must be shares that add up to at most 1, not {won:g} and {lost:g}")
    _no_difference(question)
    alpha, n = question.alpha, question.cases
    label = f"won {won:g}, lost {lost:g}"
    if won == lost:
        return Planning((Power(label, note="the sides do not differ"),), alpha, question.wanted)
    chance = numbers.mcnemar_power(won, lost, n, alpha) if n else None
    smallest = numbers.mcnemar_smallest(won + lost, n, alpha, question.wanted) if n else None
    needed = numbers.mcnemar_cases(won, lost, alpha, question.wanted)
    gap = round(won - lost, 12)
    deviation = (won + lost - gap**2) ** 0.5
    return Planning(
        (Power(label, gap, deviation, n, None, chance, needed, smallest),), alpha, question.wanted
    )


def plan_rates(one: float, two: float, question: PowerQuestion) -> Planning:
    """Power analysis of two independent proportions; cases are counted on each side.

    `one` and `two` are the expected proportions. Raises Invalid for values outside [0, 1], and if the
    question has a difference or repeats.
    """
    if not (0 <= one <= 1 and 0 <= two <= 1):
        raise Invalid(f"rates: must lie between 0 and 1, not {one:g} and {two:g}")
    _no_difference(question)
    alpha, n, label = question.alpha, question.cases, f"{one:g} and {two:g}, cases on each side"
    if one == two:
        return Planning((Power(label, note="the sides do not differ"),), alpha, question.wanted)
    chance = numbers.proportions_power(one, two, n, alpha) if n else None
    needed = numbers.proportions_cases(one, two, alpha, question.wanted)
    found = Power(label, round(one - two, 12), None, n, None, chance, needed)
    return Planning((found,), alpha, question.wanted)


def _no_difference(question: PowerQuestion) -> None:
    """Raise Invalid if a difference or repeats were given beside proportions."""
    problems = [
        f"{name}: does not go with shares, which say it themselves"
        for name, value in (("difference", question.difference), ("repeats", question.repeats))
        if value is not None
    ]
    if problems:
        raise Invalid(problems)
