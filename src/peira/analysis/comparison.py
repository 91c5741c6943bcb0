"""A comparison, as a value: each difference with all that must be known of it, as a table and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import msgspec

from peira.analysis import layout
from peira.stats.equivalence import Equivalence
from peira.stats.values import Estimate, Interval


@dataclass(frozen=True)
class Bounds:
    """The difference had every lost trial gone against the first side (`low`), or for it (`high`).

    `lowest` and `highest` are the outer bounds of the intervals of those two. None where the score has no
    known worst and best value.
    """

    low: float | None
    high: float | None
    lowest: float | None
    highest: float | None
    lost: int


@dataclass(frozen=True)
class Contrast:
    """The first side minus the second, on one score.

    `p` is the test's own, `adjusted` the same for the whole family. `units` counts independent units of
    evidence (each a case, or a cluster of them, as `unit` says), `n` pairs (values of both sides, where
    nothing is paired). `better` is the posterior chance that the first is higher; `shared` the share of
    calls (or trials) in common. `more_cases` would show a difference of this size four times in five; None if
    it is clear, or unknown.
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
    difference: Estimate | None = None
    p: float | None = None
    adjusted: float | None = None
    test: str = ""
    effect: Interval | None = None
    better: float | None = None
    bounds: Bounds | None = None
    more_cases: int | None = None
    equivalent: Equivalence | None = None
    not_worse: Equivalence | None = None

    def clear(self, alpha: float) -> bool:
        return self.adjusted is not None and self.adjusted <= alpha


@dataclass(frozen=True)
class Comparison:
    """Differences between sides on one score; `correction` made the family of them keep its promise."""

    by: str
    score: str
    level: float
    correction: str
    contrasts: tuple[Contrast, ...]
    margin: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def alpha(self) -> float:
        return round(1 - self.level, 12)

    @property
    def sentence(self) -> str:
        """What it says, for everybody; one sentence, or one for each difference of a family."""
        return (
            "\n".join(said(contrast, self) for contrast in self.contrasts) or "There is nothing to compare."
        )

    def _grid(self) -> tuple[list[str], list[list[str]]]:
        header = [layout.cell(self.by), f"difference in {self.score} [{100 * self.level:g}% interval]"]
        header += ["p" if not self.correction else f"p ({self.correction})", "effect", "P(first higher)"]
        return [*header, "n"], [_cells(contrast) for contrast in self.contrasts]

    def __str__(self) -> str:
        table = [layout.plain(*self._grid()), ""] if self.contrasts else []
        return "\n".join([*table, self.sentence, *self.remarks])

    def markdown(self) -> str:
        parts = [layout.markdown(*self._grid())] if self.contrasts else []
        return "\n\n".join([*parts, *self.sentence.splitlines(), *self.remarks])

    def _repr_html_(self) -> str:
        return layout.as_html(*self._grid(), (*self.sentence.splitlines(), *self.remarks))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the reader must know beside the sentence: how it was made, and what is not in it."""
        return tuple(dict.fromkeys([*_remarks(self), *self.notes]))

    def to_json(self) -> str:
        """One document: by, score, level, correction, margin, contrasts, sentence, notes."""
        document = {name: getattr(self, name) for name in ("by", "score", "level", "correction", "margin")}
        document["contrasts"] = [
            {**asdict(contrast), "clear": contrast.clear(self.alpha)} for contrast in self.contrasts
        ]
        return msgspec.json.encode(
            {**document, "sentence": self.sentence, "notes": list(self.remarks)}
        ).decode()


def _cells(contrast: Contrast) -> list[str]:
    found, effect = contrast.difference, contrast.effect
    size = layout.interval(effect.value, effect.low, effect.high) if effect else "-"
    return [
        f"{contrast.first} - {contrast.second}",
        layout.interval(found.mean, found.low, found.high) if found else "-",
        _chance(contrast.adjusted),
        f"{effect.method} {size}" if effect and effect.value is not None else "-",
        _chance(contrast.better),
        f"{contrast.n} {'pairs' if contrast.paired else 'values'}",
    ]


def _chance(p: float | None) -> str:
    if p is None:
        return "-"
    return "< 0.001" if p < 0.001 else "> 0.999" if p > 0.999 else f"{p:.3f}"


def said(contrast: Contrast, of: Comparison) -> str:
    """One plain sentence about one difference."""
    a, b, found = contrast.first, contrast.second, contrast.difference
    if found is None:
        return f"{a} and {b} cannot be compared on {of.score}: {contrast.pairing}."
    shown = layout.interval(found.mean, found.low, found.high)
    rest = f"{shown}, {_evidence(contrast)}{_margin(contrast, of)}"
    if contrast.adjusted is None:
        return f"Nothing can be said about {a} and {b} on {of.score} with confidence: {rest}."
    if contrast.clear(of.alpha):
        how = "higher" if found.mean > 0 else "lower"
        return f"{a} scores {how} than {b} on {of.score}: {rest}."
    return f"{a} and {b} cannot be told apart on {of.score}: {rest}{_needed(contrast)}."


def _evidence(contrast: Contrast) -> str:
    p = _chance(contrast.adjusted)
    p = "p unknown" if p == "-" else f"p {p}" if p[0] in "<>" else f"p = {p}"
    units = f"{contrast.units:,} {contrast.unit}{'' if contrast.units == 1 else 's'}"
    return f"{p} ({contrast.test}) on {units}"


def _margin(contrast: Contrast, of: Comparison) -> str:
    if contrast.equivalent is None or contrast.not_worse is None:
        return ""
    if contrast.equivalent.answer == "within":
        return f"; equivalent within {of.margin:g}"
    if contrast.not_worse.answer == "within":
        return "" if contrast.clear(of.alpha) else f"; not lower by more than {of.margin:g}"
    outside = contrast.not_worse.answer == "outside"
    return f"; {'lower by' if outside else 'it is not shown that the difference lies within'} {of.margin:g}"


def _needed(contrast: Contrast) -> str:
    if not contrast.more_cases:
        return ""
    return f"; you would need about {contrast.more_cases:,} more {contrast.unit}s to tell these apart"


def _remarks(of: Comparison) -> Iterator[str]:
    for one in of.contrasts:
        if one.difference is not None:
            yield f"{'paired by' if one.paired else 'not paired:'} {one.pairing}"
            yield f"intervals: {one.difference.method}"
        if one.difference is not None and _excludes_zero(one.difference) != one.clear(of.alpha):
            yield f"{one.first} - {one.second}: interval and test rest on different assumptions; go by the test"
        if one.shared:
            yield f"{one.first} and {one.second} share {one.shared:.0%} of their {one.shared_what}"
        if one.unmatched and one.paired:
            yield f"{one.first} and {one.second}: values without a partner, left out: {one.unmatched}"
        if one.bounds is not None:
            yield f"{one.first} - {one.second}: {_lost(one.bounds)}"
    if of.correction in ("holm", "bonferroni") and len(of.contrasts) > 1:
        yield f"p-values by {of.correction}; intervals hold together (Bonferroni)"
    if of.correction == "bh":
        yield "p-values by Benjamini and Hochberg; each interval holds by itself"
    if of.correction in ("dunnett", "tukey"):
        yield f"p-values and intervals hold together ({of.correction})"


def _excludes_zero(found: Estimate) -> bool:
    return found.low is not None and found.high is not None and found.low * found.high > 0


def _lost(bounds: Bounds) -> str:
    lost = f"{bounds.lost} lost {'trial' if bounds.lost == 1 else 'trials'}"
    if bounds.low is None or bounds.high is None:
        return f"{lost} are in no number, and the score has no known worst and best"
    outer = layout.interval(bounds.low, bounds.lowest, bounds.low).partition(" ")[0]
    high = layout.interval(bounds.high, bounds.high, bounds.highest).partition(" ")[0]
    return f"with {lost} at worst or best the difference lies between {outer} and {high}"
