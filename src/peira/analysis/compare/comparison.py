"""Results of comparisons: contrasts, each with interval, test and sentence, and the table of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import msgspec

from peira.analysis.compare.difference import Model
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.core.text.words import counted
from peira.stats.tests.bayes import Posterior
from peira.stats.tests.equivalence import Equivalence
from peira.stats.values import Estimate, Interval, remark_of

HOW: dict[Model, str] = {
    "pairs": "paired by",
    "groups": "not paired:",
    "design": "compared by",
    "imputed": "compared by",
}
"""The words before `Contrast.pairing`, by the model of the difference."""


@dataclass(frozen=True)
class DifferenceBounds:
    """The range of a difference over all possible values of the lost trials.

    `low` is the difference if every lost trial had gone against the first side, `high` if every one had gone
    in its favour. `lowest` and `highest` are the outer confidence bounds of these two. All are None if the
    score has no known worst and best value.
    """

    low: float | None
    high: float | None
    lowest: float | None
    highest: float | None
    lost: int


@dataclass(frozen=True)
class Contrast(ResultValue):
    """The difference of two sides (first minus second) on one score.

    `p` is the p-value of the single test, `adjusted` the one adjusted for the family. `units` counts
    independent units of evidence (cases or clusters, as `unit` says); `n` counts pairs, or values of both
    sides if unpaired. `model` says how the difference was estimated (see
    `peira.analysis.compare.difference`). `better` is the posterior probability that the first side is higher;
    `posterior` is the whole posterior, with the margin as region of practical equivalence. `shared` is the
    share of calls (or trials) in common. `more_cases` is the number of additional cases for 80% power at a
    difference of this size; None if the difference is significant or its deviation is unknown. `tailed` is
    the adjusted p-value if few units of a measure without limits hide a long tail; None if they could not.
    """

    first: str
    second: str
    paired: bool
    pairing: str
    n: int
    units: int
    unit: str
    unmatched: int
    shared: float
    shared_what: str
    model: Model = "pairs"
    difference: Estimate | None = None
    p: float | None = None
    adjusted: float | None = None
    test: str = ""
    effect: Interval | None = None
    better: float | None = None
    posterior: Posterior | None = None
    bounds: DifferenceBounds | None = None
    more_cases: int | None = None
    equivalent: Equivalence | None = None
    not_worse: Equivalence | None = None
    tailed: float | None = None
    margin_hides_tail: bool = False
    """Whether what is said of the margin holds only if few units do not hide a long tail."""

    def clear(self, alpha: float) -> bool:
        """Whether the adjusted p-value is at most alpha."""
        return self.adjusted is not None and self.adjusted <= alpha

    @property
    def overturnable(self) -> bool:
        """Whether lost trials could reverse the sign of the difference, or make it unclear.

        They could if the worst-case bounds, with their sampling error, do not lie on the side of the
        difference, or the score has no known worst and best value. False without lost trials.
        """
        if self.bounds is None or self.difference is None:
            return False
        least, most = self.bounds.lowest, self.bounds.highest
        return not (
            least is not None and least > 0 if self.difference.mean > 0 else most is not None and most < 0
        )

    def hides_tail(self, alpha: float) -> bool:
        """Whether the difference is clear only if its few units do not hide a long tail."""
        return self.clear(alpha) and self.tailed is not None and self.tailed > alpha

    def doubt(self, alpha: float) -> str:
        """What could overturn a clear difference, to be said before it; empty if nothing known could."""
        lost = self.bounds.lost if self.bounds is not None and self.overturnable else 0
        return doubt_of(lost, counted(self.units, self.unit) if self.hides_tail(alpha) else "")

    def grids(self) -> list[TextGrid]:
        """A table with this contrast as its only row."""
        header = ["sides", "difference [interval]", "p", "effect", "P(first higher)", "n"]
        return [TextGrid(header, [self.cells()])]

    @property
    def remarks(self) -> list[str]:
        """How the sides were paired."""
        return [f"{HOW[self.model]} {self.pairing}"] if self.difference else []

    def cells(self) -> list[str]:
        """The cells of its row in the comparison table."""
        found, effect = self.difference, self.effect
        size = layout.interval(effect.value, effect.low, effect.high) if effect else "-"
        return [
            f"{self.first} - {self.second}",
            f"{layout.interval(found.mean, found.low, found.high)}{remark_of(found.method)}"
            if found
            else "-",
            probability_text(self.adjusted),
            f"{effect.method} {size}" if effect and effect.value is not None else "-",
            probability_text(self.better),
            counted(self.n, "pair" if self.model == "pairs" else "value"),
        ]


def doubt_of(lost: int, units: str = "") -> str:
    """What could overturn a verdict, as the beginning of a sentence; empty if nothing could.

    These are `lost` trials, and a tail that so few `units`, if any are named, may not show.
    """
    causes = [counted(lost, "lost trial")] if lost else []
    causes += [f"a long tail that {units} may hide"] if units else []
    found = " and ".join(causes)
    return f"{found[0].upper()}{found[1:]} could overturn this: " if found else ""


def named_level(factor: str, level: str) -> str:
    """A level as sentences name it: a number, true, false or null carries the name of its factor."""
    try:
        msgspec.json.decode(level, type=float | bool | None)
    except msgspec.DecodeError:
        return level
    return f"{layout.cell(factor)}={level}" if factor else level


def contrast_sentence(
    contrast: Contrast, score: str, alpha: float, margin: float | None, factor: str = ""
) -> str:
    """One sentence about a difference: which side is higher, or that it is not clear.

    `factor` is the name of the factor whose levels the sides are; empty if they are not. `alpha` decides
    about clarity by the adjusted p-value; with a `margin` the sentence adds the result of the equivalence or
    non-inferiority test. A difference that lost trials, or a tail that few units hide, could overturn is
    said to be so first. An unclear one
    comes with the estimated number of further cases needed.
    """
    a, b = named_level(factor, contrast.first), named_level(factor, contrast.second)
    found = contrast.difference
    if found is None:
        return f"{a} and {b} cannot be compared on {score}: {contrast.pairing}."
    shown = layout.interval(found.mean, found.low, found.high)
    rest = f"{shown}, {_evidence(contrast)}{_margin(contrast, alpha, margin)}"
    if contrast.adjusted is None:
        return f"Nothing can be said about {a} and {b} on {score} with confidence: {rest}."
    if contrast.clear(alpha):
        how = "higher" if found.mean > 0 else "lower"
        return f"{contrast.doubt(alpha)}{a} scores {how} than {b} on {score}: {rest}."
    return f"{a} and {b} cannot be told apart on {score}: {rest}{_needed(contrast)}."


def _evidence(contrast: Contrast) -> str:
    """The p-value, test and number of units, as text."""
    p = probability_text(contrast.adjusted)
    p = "p unknown" if p == "-" else f"p {p}" if p[0] in "<>" else f"p = {p}"
    units = f"{contrast.units:,} {contrast.unit}{'' if contrast.units == 1 else 's'}"
    return f"{p} ({contrast.test}) on {units}"


def _margin(contrast: Contrast, alpha: float, margin: float | None) -> str:
    """The result of the equivalence or non-inferiority test, as text."""
    if contrast.equivalent is None or contrast.not_worse is None:
        return ""
    units = counted(contrast.units, contrast.unit)
    tail = f" if {units} hide no long tail" if contrast.margin_hides_tail else ""
    if contrast.equivalent.answer == "within":
        return f"; equivalent within {margin:g}{tail}"
    if contrast.not_worse.answer == "within":
        return "" if contrast.clear(alpha) else f"; not lower by more than {margin:g}{tail}"
    if contrast.not_worse.answer == "outside":
        return f"; lower by {margin:g}{tail}"
    return f"; it is not shown that the difference lies within {margin:g}"


def _needed(contrast: Contrast) -> str:
    """How many more cases the difference needs, as text."""
    if not contrast.more_cases:
        return ""
    more = f"about {contrast.more_cases:,} more {contrast.unit}s"
    return f"; you would need {more} to tell these apart (an estimate, from this difference and its spread)"


probability_text = layout.probability


@dataclass(frozen=True)
class ComparisonTable(ResultValue):
    """A family of differences on one score; `correction` names the adjustment for multiplicity."""

    by: str
    score: str
    level: float
    correction: str
    contrasts: tuple[Contrast, ...]
    margin: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def factor(self) -> str:
        """The factor whose levels are compared; empty if these are runs."""
        return "" if self.by == "run" else self.by

    @property
    def alpha(self) -> float:
        """The significance level, 1 - level."""
        return round(1 - self.level, 12)

    @property
    def sentence(self) -> str:
        """One sentence for each difference of the family."""
        return "\n".join(
            contrast_sentence(one, self.score, self.alpha, self.margin, self.factor) for one in self.contrasts
        )

    def grids(self) -> list[TextGrid]:
        """One row per contrast."""
        if not self.contrasts:
            return []
        header = [layout.cell(self.by), f"difference in {self.score} [{100 * self.level:g}% interval]"]
        header += ["p" if not self.correction else f"p ({self.correction})", "effect", "P(first higher)"]
        return [TextGrid([*header, "n"], [contrast.cells() for contrast in self.contrasts])]

    @property
    def remarks(self) -> tuple[str, ...]:
        """Pairing, methods, lost trials and what else the reader must know."""
        return tuple(dict.fromkeys([*_remarks(self), *self.notes]))

    def document(self) -> dict[str, Any]:
        """The JSON document: by, score, level, correction, margin, contrasts, sentence, notes."""
        document = {name: getattr(self, name) for name in ("by", "score", "level", "correction", "margin")}
        document["contrasts"] = [
            {
                **asdict(contrast),
                "clear": contrast.clear(self.alpha),
                "overturnable": contrast.overturnable,
                "hides_tail": contrast.hides_tail(self.alpha),
            }
            for contrast in self.contrasts
        ]
        return {**document, "sentence": self.sentence, "notes": list(self.remarks)}


def _remarks(of: ComparisonTable) -> Iterator[str]:
    """The remarks of a comparison, contrast by contrast, then on the correction."""
    for one in of.contrasts:
        if one.difference is not None:
            yield f"{HOW[one.model]} {one.pairing}"
            yield f"intervals: {one.difference.method}"
        if one.difference is not None and one.difference.excludes_zero != one.clear(of.alpha):
            yield f"{one.first} - {one.second}: interval and test disagree; go by the test"
        if one.shared:
            yield f"{one.first} and {one.second} share {one.shared:.0%} of their {one.shared_what}"
        if one.unmatched and one.model == "pairs":
            yield f"{one.first} and {one.second}: values without a partner, left out: {one.unmatched}"
        if of.margin is not None and one.posterior is not None and one.posterior.within is not None:
            yield _posterior(one, of.margin)
        if one.bounds is not None:
            yield f"{one.first} - {one.second}: {_lost(one.bounds)}"
    if of.correction in ("holm", "bonferroni") and len(of.contrasts) > 1:
        yield f"p-values by {of.correction}; intervals hold together (Bonferroni)"
    if of.correction == "bh":
        yield "p-values by Benjamini and Hochberg; each interval holds by itself"
    if of.correction in ("dunnett", "tukey"):
        yield f"p-values and intervals hold together ({of.correction})"


def _posterior(one: Contrast, margin: float) -> str:
    """The posterior probabilities with respect to the margin, as text."""
    assert one.posterior is not None
    parts = (one.posterior.above, one.posterior.within, one.posterior.below)
    chances = [probability_text(part) for part in parts]
    return (
        f"{one.first} - {one.second}, given the data: higher by more than {margin:g} with chance "
        f"{chances[0]}, equal for practical purposes {chances[1]}, lower {chances[2]}"
    )


def _lost(bounds: DifferenceBounds) -> str:
    """The worst-case range of the difference over the lost trials, as text."""
    lost = f"{bounds.lost} lost {'trial' if bounds.lost == 1 else 'trials'}"
    if bounds.low is None or bounds.high is None:
        return f"{lost} are in no number, and the score has no known worst and best"
    outer = layout.interval(bounds.low, bounds.lowest, bounds.low).partition(" ")[0]
    high = layout.interval(bounds.high, bounds.high, bounds.highest).partition(" ")[0]
    return f"with {lost} at worst or best the difference lies between {outer} and {high}"
