"""Where the variance of a score comes from, and so whether more cases or more repeats buy more certainty."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from peira.analysis.measures import Measured
from peira.analysis.sides import Contexts
from peira.stats.components import components, crossed


@dataclass(frozen=True)
class Variance:
    """Variances by source; None where the data cannot tell.

    Without repeats `repeat` is part of `interaction`. `cases` and `repeats` say by what share intervals
    narrow when there are twice as many of them.
    """

    condition: float | None
    case: float | None
    interaction: float | None
    repeat: float | None
    cases: float
    repeats: float | None

    @property
    def shares(self) -> dict[str, float]:
        """What is known of the variance, each source's share of it."""
        names = {"condition": self.condition, "case": self.case, "repeat": self.repeat}
        together = "case x condition" if self.repeat is not None else "case x condition and repeat"
        known = {name: v for name, v in {**names, together: self.interaction}.items() if v is not None}
        whole = sum(known.values())
        return {name: v / whole for name, v in known.items()} if whole and len(known) > 1 else {}

    @property
    def sources(self) -> str:
        """Where the variance comes from, largest first; empty where that cannot be told."""
        found = sorted(self.shares.items(), key=lambda one: -one[1])
        return f"variance: {', '.join(f'{name} {share:.0%}' for name, share in found)}" if found else ""

    @property
    def sentence(self) -> str:
        if self.repeats is None:
            return "Nothing is repeated: how much repeats differ, and whether more would help, is not known."
        better = "more cases buy more" if self.cases - self.repeats > 0.03 else "either buys as much"
        return (
            f"Twice the cases narrow intervals by {self.cases:.0%}, "
            f"twice the repeats by {self.repeats:.0%}: {better}."
        )


TWICE = 1 - 2**-0.5
"""How much narrower an interval is with twice the cases."""


def variance(measured: Measured) -> Variance | None:
    """The decomposition, from the cases that have every condition equally often; without two such cases only
    what repeats leave is told from the rest. None where too little is known for either."""
    context = Contexts()
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
        return Variance(*parts, TWICE, _gain(found.interaction, found.repeat, repeats))
    if len(known) < 2:
        return None
    cells = components([row[0] for row in known], [row[1:] for row in known])
    if cells.within is None or cells.between is None:
        return None
    gain = _gain(cells.between, cells.within, cells.n / cells.cases)
    return Variance(None, None, cells.between, cells.within, TWICE, gain)


Row = tuple[float, str, bytes]


def _full(known: Sequence[Row]) -> list[Row]:
    """The rows of those cases that have the whole table."""
    counts = Counter(row[1:] for row in known)
    most = max(counts.values(), default=0)
    conditions = {condition for _, condition in counts}
    whole = Counter(case for (case, _), n in counts.items() if n == most)
    return [row for row in known if whole[row[1]] == len(conditions)]


def _gain(stays: float | None, repeat: float | None, repeats: float) -> float | None:
    """By what share the error of a case's contribution falls when its repeats double."""
    if stays is None or repeat is None:
        return None
    now, then = stays + repeat / repeats, stays + repeat / (2 * repeats)
    return float(1 - (then / now) ** 0.5) if now else None
