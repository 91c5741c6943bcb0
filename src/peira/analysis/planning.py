"""Planning numbers: how many cases a comparison needs, what it can see, and with what chance.

The spread comes from an earlier run, side by side as it was compared there, or is given. With several repeats
of each case in that run, what repeats leave is told apart from how cases differ, and other numbers of repeats
can be asked about.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import msgspec

from peira.analysis import layout
from peira.analysis.levels import choose_pairs, levels_of
from peira.analysis.measures import measure
from peira.analysis.sides import Match, Side, match
from peira.analysis.trials import TrialResult
from peira.core.ids import Json
from peira.errors import Invalid
from peira.stats import power as numbers
from peira.stats.components import paired_components
from peira.stats.power import Design


@dataclass(frozen=True)
class Power:
    """One comparison. `deviation` is that of a case's difference between the sides; `needed` is the number of
    cases that show `difference` with the `wanted` power, `power` what `cases` of them have, `smallest` the
    smallest difference they show. None where it is not known, or no number would do."""

    label: str
    difference: float | None = None
    deviation: float | None = None
    cases: int | None = None
    repeats: int | None = None
    power: float | None = None
    needed: int | None = None
    smallest: float | None = None
    note: str = ""


@dataclass(frozen=True)
class Planning:
    rows: tuple[Power, ...]
    alpha: float
    wanted: float

    @property
    def sentence(self) -> str:
        return "\n".join(map(self._said, self.rows))

    def _said(self, row: Power) -> str:
        if row.note:
            return f"{row.label}: {row.note}."
        parts = []
        if row.needed is not None and row.difference is not None:
            parts.append(f"a difference of {abs(row.difference):.3g} needs {row.needed:,} cases")
        if row.needed is not None and row.cases is not None and row.needed > row.cases:
            parts.append(f"you would need {row.needed - row.cases:,} more")
        if row.smallest is not None:
            parts.append(f"{row.cases:,} cases show a difference of {row.smallest:.3g}")
        return f"{row.label}: {'; '.join(parts) or 'nothing to tell'}, with power {self.wanted:g}."

    def __str__(self) -> str:
        header = ["comparison", "difference", "deviation", "cases", "power", "cases needed", "smallest"]
        names = ("difference", "deviation", "cases", "power", "needed", "smallest")
        rows = [[row.label, *(_shown(getattr(row, name)) for name in names)] for row in self.rows]
        below = f"two-sided at alpha {self.alpha:g}"
        return "\n".join([layout.plain(header, rows), "", self.sentence, below])

    def to_json(self) -> str:
        return msgspec.json.encode({**asdict(self), "sentence": self.sentence}).decode()


def _shown(value: float | int | None) -> str:
    return "-" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.3g}"


@dataclass(frozen=True)
class Question:
    """What is asked: a difference (else the one that was seen), a number of cases (else those there are)."""

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
    question: Question,
    unpaired: bool = False,
    cluster: float = 1.0,
    correlation: float = 0.0,
) -> Planning:
    """From a deviation that is given: of paired differences, or of the values of either side. Cases may come
    in clusters of that size, whose members correlate so much."""
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
    question: Question,
    a: Json = None,
    b: Json = None,
    score: str | None = None,
) -> Planning:
    """From the spread that an earlier run shows, for each pair of levels."""
    pairs = choose_pairs(levels_of(measure(trials, score), by), a, b)
    rows = tuple(_from(one, two, question) for one, two in pairs)
    return Planning(rows, question.alpha, question.wanted)


def _from(one: Side, two: Side, question: Question) -> Power:
    found, label = match(one, two), f"{one.label} - {two.label}"
    gaps = _gaps(found)
    if len(gaps) < 2:
        return Power(label, note="fewer than two cases have a score on both sides")
    mean = sum(gaps) / len(gaps)
    variance = sum((gap - mean) ** 2 for gap in gaps) / (len(gaps) - 1)
    if question.repeats is not None:
        split = _repeated(found)
        if split is None:
            return Power(label, note="nothing is repeated, so repeats cannot be asked about")
        variance = split[0] + (split[1] + split[2]) / question.repeats
    if variance <= 1e-24 * max(1.0, mean * mean):
        return Power(label, note="the differences show no spread")
    seen = mean if abs(mean) > 1e-12 else None
    difference = question.difference if question.difference is not None else seen
    return _row(label, numbers.paired(variance**0.5), difference, question.cases or len(gaps), question)


def _gaps(found: Match) -> list[float]:
    """The mean difference of each unit of evidence."""
    gathered: dict[object, list[float]] = {}
    for key in found.pairs:
        gap = found.one.cells[key].mean - found.two.cells[key].mean
        gathered.setdefault(found.one.cells[key].unit, []).append(gap)
    return [sum(gaps) / len(gaps) for gaps in gathered.values()]


def _repeated(found: Match) -> tuple[float, float, float] | None:
    one, two = (
        [(value, key) for key in found.pairs for value in side.cells[key].values]
        for side in (found.one, found.two)
    )
    between, within, other = paired_components(
        [value for value, _ in one], [key for _, key in one], [value for value, _ in two], [k for _, k in two]
    )
    return None if between is None or within is None or other is None else (between, within, other)


def _row(label: str, design: Design, difference: float | None, cases: int | None, asked: Question) -> Power:
    alpha, wanted = asked.alpha, asked.wanted
    chance = needed = smallest = None
    if difference is not None:
        needed = numbers.cases_needed(design, difference, alpha, wanted)
        chance = numbers.power(design, cases, difference, alpha) if cases else None
    if cases:
        smallest = numbers.smallest_difference(design, cases, alpha, wanted)
    return Power(label, difference, design.deviation, cases, asked.repeats, chance, needed, smallest)
