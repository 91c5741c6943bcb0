"""Where the variance of a score comes from, and so whether more cases or more repeats buy more certainty."""

from __future__ import annotations

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
    """The decomposition; None where too little is known for any."""
    known = [one for one in measured.observations if one.value is not None]
    if len(known) < 2:
        return None
    values = [one.value for one in known if one.value is not None]
    context = Contexts()
    cases, conditions = [o.trial.case_id for o in known], [context.of(o.trial) for o in known]
    cells = len(set(zip(cases, conditions, strict=True)))
    table = crossed(values, cases, conditions)
    if table is not None:
        parts = (table.condition, table.case, table.interaction, table.repeat)
        return Variance(*parts, TWICE, _gain(table.interaction, table.repeat, len(values) / cells))
    found = components(values, cases)
    if found.between is None and found.within is None:
        return None
    repeated = found.within if cells < len(values) else None
    return Variance(
        None, found.between, None, repeated, TWICE, _gain(found.between, repeated, len(values) / cells)
    )


def _gain(stays: float | None, repeat: float | None, repeats: float) -> float | None:
    """By what share the error of a case's contribution falls when its repeats double."""
    if stays is None or repeat is None:
        return None
    now, then = stays + repeat / repeats, stays + repeat / (2 * repeats)
    return float(1 - (then / now) ** 0.5) if now else None
