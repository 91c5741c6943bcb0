"""A comparison, as a value: each difference with all that must be known of it, as a table and in words."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass

import msgspec

from peira.analysis import layout
from peira.analysis.contrast import Bounds, Contrast, chance, said
from peira.stats.values import Estimate


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
        return "\n".join(said(one, self.score, self.alpha, self.margin) for one in self.contrasts)

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
        chance(contrast.adjusted),
        f"{effect.method} {size}" if effect and effect.value is not None else "-",
        chance(contrast.better),
        f"{contrast.n} {'pairs' if contrast.paired else 'values'}",
    ]


def _remarks(of: Comparison) -> Iterator[str]:
    for one in of.contrasts:
        if one.difference is not None:
            yield f"{'paired by' if one.paired else 'not paired:'} {one.pairing}"
            yield f"intervals: {one.difference.method}"
        if one.difference is not None and _excludes_zero(one.difference) != one.clear(of.alpha):
            yield f"{one.first} - {one.second}: interval and test disagree; go by the test"
        if one.shared:
            yield f"{one.first} and {one.second} share {one.shared:.0%} of their {one.shared_what}"
        if one.unmatched and one.paired:
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
    assert one.posterior is not None
    parts = (one.posterior.above, one.posterior.within, one.posterior.below)
    chances = [chance(part) for part in parts]
    return (
        f"{one.first} - {one.second}, given the data: higher by more than {margin:g} with chance "
        f"{chances[0]}, equal for practical purposes {chances[1]}, lower {chances[2]}"
    )


def _excludes_zero(found: Estimate) -> bool:
    return found.low is not None and found.high is not None and found.low * found.high > 0


def _lost(bounds: Bounds) -> str:
    lost = f"{bounds.lost} lost {'trial' if bounds.lost == 1 else 'trials'}"
    if bounds.low is None or bounds.high is None:
        return f"{lost} are in no number, and the score has no known worst and best"
    outer = layout.interval(bounds.low, bounds.lowest, bounds.low).partition(" ")[0]
    high = layout.interval(bounds.high, bounds.high, bounds.highest).partition(" ")[0]
    return f"with {lost} at worst or best the difference lies between {outer} and {high}"
