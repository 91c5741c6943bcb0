"""Variance components of a score, and whether more cases or more repeats reduce the error more."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from peira.analysis.compare.sides import Contexts
from peira.analysis.effects.regression import factors_of, names_of
from peira.analysis.table.measures import Measured
from peira.analysis.value import ResultValue, TextGrid
from peira.results.trials import TrialResult
from peira.stats.inputs import Codes, Floats, sizes, totals
from peira.stats.models.variance_components import components, crossed


@dataclass(frozen=True)
class Variance(ResultValue):
    """Variance components by source; None where they cannot be estimated.

    Without repeats, `repeat` is part of `interaction`. `cases` and `repeats` are the shares by which
    intervals narrow if their number is doubled. `factors` decomposes `condition` into main effects and
    interactions, for full factorial conditions.
    """

    condition: float | None
    case: float | None
    interaction: float | None
    repeat: float | None
    cases: float
    repeats: float | None
    factors: tuple[tuple[str, float], ...] = ()

    @property
    def shares(self) -> dict[str, float]:
        """The share of each source in the total variance."""
        names: dict[str, float | None] = {**(dict(self.factors) or {"condition": self.condition})}
        names |= {"case": self.case, "repeat": self.repeat}
        together = "case x condition" if self.repeat is not None else "case x condition and repeat"
        known = {name: v for name, v in {**names, together: self.interaction}.items() if v is not None}
        whole = sum(known.values())
        return {name: v / whole for name, v in known.items()} if whole and len(known) > 1 else {}

    @property
    def sources(self) -> str:
        """The shares as text, largest first; empty if unknown."""
        found = self._largest()
        return (
            f"variance, estimated: {', '.join(f'{name} {share:.0%}' for name, share in found)}"
            if found
            else ""
        )

    def _largest(self) -> list[tuple[str, float]]:
        """The sources and their shares, largest first."""
        return sorted(self.shares.items(), key=lambda one: -one[1])

    def grids(self) -> list[TextGrid]:
        """The shares of the sources."""
        rows = [[name, f"{share:.0%}"] for name, share in self._largest()]
        return [TextGrid(["source", "share of the variance (estimate)"], rows)] if rows else []

    @property
    def sentence(self) -> str:
        """How much twice the cases, or twice the repeats, would narrow intervals."""
        if self.repeats is None and self.repeat is not None:
            return "The repeats of a case agree with each other: more of them would tell nothing new."
        if self.repeats is None:
            return "Nothing is repeated: how much repeats differ, and whether more would help, is not known."
        better = "more cases buy more" if self.cases - self.repeats > 0.03 else "either buys as much"
        return (
            f"Twice the cases narrow intervals by {self.cases:.0%}, "
            f"twice the repeats by {self.repeats:.0%}: {better}."
        )


Row = tuple[float, str, bytes]
"""A value, its case and its condition."""
TWICE = 1 - 2**-0.5
"""The share by which an interval narrows with twice the cases."""


def variance(measured: Measured) -> Variance | None:
    """The variance components, from the cases with a balanced set of all conditions.

    With fewer than two such cases only the variance of repeats is separated from the rest. None if there is
    too little data for either.
    """
    context = Contexts()
    trials = {context.of(one.trial): one.trial for one in measured.observations}
    known = [
        (one.value, one.trial.case_id, context.of(one.trial))
        for one in measured.observations
        if one.value is not None
    ]
    full = _full(known)
    found = crossed(*zip(*full, strict=True)) if full else None
    if found is not None:
        repeats = len(full) / len({row[1:] for row in full})
        parts = (found.condition, found.case, found.interaction, found.repeat)
        factors = _factors(full, trials, found.condition or 0.0)
        return Variance(*parts, TWICE, _gain(found.interaction, found.repeat, repeats), factors)
    if len(known) < 2:
        return None
    cells = components([row[0] for row in known], [row[1:] for row in known])
    if cells.within is None or cells.between is None:
        return None
    gain = _gain(cells.between, cells.within, cells.n / cells.cases)
    return Variance(None, None, cells.between, cells.within, TWICE, gain)


def _factors(
    full: Sequence[Row], trials: Mapping[bytes, TrialResult], condition: float
) -> tuple[tuple[str, float], ...]:
    """The variance of conditions decomposed into main effects and interactions, as their means are."""
    means: dict[bytes, list[float]] = {}
    for value, _, where in full:
        means.setdefault(where, []).append(value)
    there = [trials[where] for where in means]
    factors = factors_of(there, names_of(there))
    if len(factors) < 2 or len(there) != prod(len(factor.levels) for factor in factors):
        return ()
    values = np.array([sum(each) / len(each) for each in means.values()])
    whole = float(((values - values.mean()) ** 2).sum())
    parts = {factor.name: _between(values, factor.codes) for factor in factors}
    rest = max(0.0, whole - sum(parts.values()))
    together = "interactions" if len(factors) > 2 else " x ".join(parts)
    if whole == 0:
        return ()
    return tuple((name, condition * (part / whole)) for name, part in {**parts, together: rest}.items())


def _between(values: Floats, codes: Codes) -> float:
    """The sum of squares between groups."""
    each = sizes(codes)
    return float(each @ (totals(codes, values) / each - values.mean()) ** 2)


def _full(known: Sequence[Row]) -> list[Row]:
    """The rows of the cases with a balanced set of all conditions."""
    counts = Counter(row[1:] for row in known)
    most = max(counts.values(), default=0)
    conditions = {condition for _, condition in counts}
    whole = Counter(case for (case, _), n in counts.items() if n == most)
    return [row for row in known if whole[row[1]] == len(conditions)]


def _gain(stays: float | None, repeat: float | None, repeats: float) -> float | None:
    """The share by which the standard error of a case's contribution falls when its repeats double."""
    if stays is None or repeat is None:
        return None
    now, then = stays + repeat / repeats, stays + repeat / (2 * repeats)
    return float(1 - (then / now) ** 0.5) if now else None
