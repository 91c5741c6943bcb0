"""One side against another, as a value, and in one plain sentence."""

from __future__ import annotations

from dataclasses import dataclass

from peira.analysis import layout
from peira.stats.bayes import Posterior
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
    nothing is paired). `better` is the posterior chance that the first is higher; `posterior`
    is all of it, with the margin as region of practical equivalence. `shared` is the share of calls (or
    trials) in common. `more_cases` would show a difference of this size four times in five; None if
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
    posterior: Posterior | None = None
    bounds: Bounds | None = None
    more_cases: int | None = None
    equivalent: Equivalence | None = None
    not_worse: Equivalence | None = None

    def clear(self, alpha: float) -> bool:
        return self.adjusted is not None and self.adjusted <= alpha


def said(contrast: Contrast, score: str, alpha: float, margin: float | None) -> str:
    """One plain sentence about one difference."""
    a, b, found = contrast.first, contrast.second, contrast.difference
    if found is None:
        return f"{a} and {b} cannot be compared on {score}: {contrast.pairing}."
    shown = layout.interval(found.mean, found.low, found.high)
    rest = f"{shown}, {_evidence(contrast)}{_margin(contrast, alpha, margin)}"
    if contrast.adjusted is None:
        return f"Nothing can be said about {a} and {b} on {score} with confidence: {rest}."
    if contrast.clear(alpha):
        how = "higher" if found.mean > 0 else "lower"
        return f"{a} scores {how} than {b} on {score}: {rest}."
    return f"{a} and {b} cannot be told apart on {score}: {rest}{_needed(contrast)}."


def _evidence(contrast: Contrast) -> str:
    p = chance(contrast.adjusted)
    p = "p unknown" if p == "-" else f"p {p}" if p[0] in "<>" else f"p = {p}"
    units = f"{contrast.units:,} {contrast.unit}{'' if contrast.units == 1 else 's'}"
    return f"{p} ({contrast.test}) on {units}"


def _margin(contrast: Contrast, alpha: float, margin: float | None) -> str:
    if contrast.equivalent is None or contrast.not_worse is None:
        return ""
    if contrast.equivalent.answer == "within":
        return f"; equivalent within {margin:g}"
    if contrast.not_worse.answer == "within":
        return "" if contrast.clear(alpha) else f"; not lower by more than {margin:g}"
    outside = contrast.not_worse.answer == "outside"
    return f"; {'lower by' if outside else 'it is not shown that the difference lies within'} {margin:g}"


def _needed(contrast: Contrast) -> str:
    if not contrast.more_cases:
        return ""
    return f"; you would need about {contrast.more_cases:,} more {contrast.unit}s to tell these apart"


def chance(p: float | None) -> str:
    """A probability as people read it."""
    if p is None:
        return "-"
    return "< 0.001" if p < 0.001 else "> 0.999" if p > 0.999 else f"{p:.3f}"
