"""One matched pair of sides, told: paired or not and why, tested, bounded by what was lost.

The unit of evidence is the case (or cluster of cases). Sides that have cases in common are paired on them,
and sides that share calls or trials may not be compared in any other way.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from peira.analysis import estimates as numbers
from peira.analysis.contrast import Bounds, Contrast
from peira.analysis.estimates import Data
from peira.analysis.evidence import UNPAIRED, evidence
from peira.analysis.family import CORRECTIONS
from peira.analysis.measures import Measured
from peira.analysis.sides import Cell, Match, shared
from peira.analysis.sizes import effect
from peira.analysis.ways import difference_by
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.stats.equivalence import equivalence
from peira.stats.values import Alternative, Estimate


@dataclass(frozen=True)
class Wish:
    """How to compare: everything but what."""

    level: float = 0.95
    margin: float | None = None
    correction: str | None = "declared"
    paired: bool | None = None
    test: str = ""
    alternative: Alternative = "two-sided"
    effect: str = ""
    interval: str = ""
    declared: str = ""

    def __post_init__(self) -> None:
        problems = []
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
        return round(1 - self.level, 12)


def contrast(found: Match, measured: Measured, wish: Wish, alpha: float) -> Contrast:
    share, what = shared(found.one, found.two)
    paired = _is_paired(found, wish, share, what)
    data = _data(found, paired)
    empty = Contrast(
        first=found.one.label,
        second=found.two.label,
        paired=paired,
        pairing=_reason(found, paired),
        n=data.one.size if paired else data.one.size + data.two.size,
        units=data.units,
        unit=data.unit,
        unmatched=found.unmatched,
        shared=share,
        shared_what=what,
        bounds=_bounds(found, paired, measured, wish.level),
    )
    if not data.one.size or not data.two.size:
        return empty
    posterior = numbers.posterior(data, wish.margin, wish.level)
    tested = evidence(data, wish.test, wish.alternative)
    clear = tested.p is not None and tested.p <= alpha
    return replace(
        empty,
        difference=difference_by(wish.interval, data, wish.level),
        p=tested.p,
        adjusted=tested.p,
        test=tested.method,
        effect=effect(data, wish.effect, wish.level),
        better=posterior.better,
        posterior=posterior,
        more_cases=None if clear else numbers.more_cases(data, alpha),
        **_margins(data, wish.margin, alpha),
    )


def _is_paired(found: Match, wish: Wish, share: float, what: str) -> bool:
    wanted = wish.paired if wish.paired is not None else wish.test not in UNPAIRED and bool(found.keys)
    if wanted and not found.keys:
        raise Invalid(f"{found.one.label} and {found.two.label} have no case in common to be paired on")
    if not wanted and share:
        raise Invalid(
            f"{found.one.label} and {found.two.label} share {share:.0%} of their {what}: "
            "an unpaired test would take them for independent; compare them paired"
        )
    return wanted


def _reason(found: Match, paired: bool) -> str:
    if paired:
        return found.by if found.pairs else "no case has a score on both sides"
    if not found.one.scored or not found.two.scored:
        return "a side has no scores"
    return "paired cases were not asked for" if found.keys else "the sides have no case in common"


def _data(found: Match, paired: bool) -> Data:
    if paired:
        cells = [[side.cells[key] for key in found.pairs] for side in (found.one, found.two)]
    else:
        cells = [list(side.scored.values()) for side in (found.one, found.two)]
    values = [np.array([cell.mean for cell in group], dtype=np.float64) for group in cells]
    units = [[cell.unit for cell in group] for group in cells]
    return Data(values[0], values[1], units[0], units[1], paired)


def _margins(data: Data, margin: float | None, alpha: float) -> dict[str, Any]:
    if margin is None:
        return {}
    interval = partial(numbers.difference, data)
    return {
        "equivalent": equivalence(interval, -margin, margin, alpha),
        "not_worse": equivalence(interval, -margin, None, alpha),
    }


def _bounds(found: Match, paired: bool, measured: Measured, level: float) -> Bounds | None:
    """What the lost trials could have made of the difference; None if none was lost."""
    lost = found.one.lost + found.two.lost
    if not lost:
        return None
    if measured.ends is None:
        return Bounds(None, None, None, None, lost)
    low, high = (_filled(found, paired, ends, level) for ends in (measured.ends, measured.ends[::-1]))
    return Bounds(low.mean, high.mean, low.low, high.high, lost)


def _filled(found: Match, paired: bool, ends: tuple[float, float], level: float) -> Estimate:
    """The difference had every lost value of the first side been the one end, of the second the other."""
    cells = [[side.cells[key] for key in found.keys] for side in (found.one, found.two)]
    if not paired:
        cells = [list(side.cells.values()) for side in (found.one, found.two)]
    return numbers.difference(_made(cells, ends, paired), level)


def _made(cells: list[list[Cell]], ends: tuple[float, float], paired: bool) -> Data:
    values = [np.array([cell.filled(end) for cell in group]) for group, end in zip(cells, ends, strict=True)]
    units = [[cell.unit for cell in group] for group in cells]
    return Data(values[0], values[1], units[0], units[1], paired)
