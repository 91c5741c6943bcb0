"""A cell of the calibration table: a method in a situation, its observed and best attainable rate.

`coverage` is that of intervals at 0.95, `rejection` that of tests at 0.05 under the null hypothesis,
`anytime` the error rate of confidence sequences that are checked after every value, `power` that of a study
whose forecast stands as best attainable. Rates are enumerated
where possible, else simulated with fixed seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

Kind = Literal["coverage", "rejection", "anytime", "power"]
Rng = np.random.Generator
Bounds = tuple[float | None, float | None]


@dataclass(frozen=True)
class Cell:
    """One rate; `attainable` is the best rate that discreteness permits to an oracle method."""

    method: str
    situation: str
    kind: Kind
    found: float
    attainable: float
    rounds: int = 0
    note: str = ""

    @property
    def error(self) -> float:
        """The standard error of the simulation; 0 if enumerated."""
        return math.sqrt(max(self.found * (1 - self.found), 1e-4) / self.rounds) if self.rounds else 0.0

    @property
    def verdict(self) -> str:
        """ "ok" if within the limits up to two standard errors of the simulation, else how it misses them."""
        slack = 2 * self.error + 1e-9
        if self.kind == "power":
            off = self.found - self.attainable
            return "ok" if abs(off) <= 0.03 + slack else "TOO RARELY" if off < 0 else "TOO OFTEN"
        if self.kind == "anytime":
            return "ok" if self.found <= 0.05 + slack else "TOO OFTEN"
        if self.kind == "rejection":
            if self.found > 0.055 + slack:
                return "TOO OFTEN"
            return "ok" if self.found >= min(0.04, self.attainable - 0.005) - slack else "rarely"
        if self.found < 0.94 - slack:
            return "TOO RARELY"
        return "ok" if self.found <= max(0.97, self.attainable + 0.01) + slack else "wide"


def covered(draw: Callable[[Rng], Bounds], truth: float, rounds: int, seed: int) -> float:
    """The share of intervals that contain the truth; a missing bound is infinite."""
    rng, held = np.random.default_rng(seed), 0
    for _ in range(rounds):
        low, high = draw(rng)
        held += (low is None or low <= truth) and (high is None or truth <= high)
    return held / rounds


def rejected(draw: Callable[[Rng], float | None], rounds: int, seed: int) -> tuple[float, float]:
    """The share of p-values up to 0.05, and the largest share up to 0.05 that any threshold gives."""
    rng = np.random.default_rng(seed)
    found = np.array([1.0 if (p := draw(rng)) is None else p for _ in range(rounds)])
    return enumerated(found, np.full(rounds, 1 / rounds))


def enumerated(p: np.ndarray, chances: np.ndarray) -> tuple[float, float]:
    """The same as `rejected`, for enumerated outcomes with known probabilities."""
    order = np.argsort(p)
    shares, last = np.cumsum(chances[order]), np.append(np.diff(p[order]) > 0, True)
    below = shares[last & (shares <= 0.05 + 1e-9)]
    return float(chances[p <= 0.05].sum()), float(below[-1]) if below.size else 0.0


def narrowest(chances: np.ndarray) -> float:
    """The smallest probability of at least 0.95 of a set of adjacent outcomes.

    It is the coverage of an interval that knows all nuisance parameters.
    """
    sums = np.concatenate([[0.0], np.cumsum(chances)])
    ends = np.searchsorted(sums, sums + 0.95 - 1e-12)
    inside = ends < sums.size
    return float((sums[ends[inside]] - sums[inside]).min())


def table(cells: Iterable[Cell]) -> str:
    """The cells as a Markdown table."""
    lines = ["| method | situation | found | best attainable | verdict |", "|---|---|---|---|---|"]
    for cell in cells:
        margin = f" ± {2 * cell.error:.3f}" if cell.rounds else ""
        note = f" ({cell.note})" if cell.note else ""
        lines.append(
            f"| {cell.method} | {cell.situation} | {cell.found:.3f}{margin} | {cell.attainable:.3f} "
            f"| {cell.verdict}{note} |"
        )
    return "\n".join(lines)
