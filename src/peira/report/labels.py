"""Numbers and condition labels as reports write them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from peira.analysis.table.groups import label_of
from peira.core.text import grid as layout
from peira.core.text.grid import cell
from peira.core.text.words import lasting
from peira.report.value import PlotPoint
from peira.results.trials import TrialResult
from peira.stats.values import Estimate, remark_of


def spread(found: Estimate | PlotPoint | None) -> str:
    """A mean with its interval as text, marked if the interval may be too narrow."""
    if found is None:
        return "-"
    return f"{layout.interval(found.mean, found.low, found.high)}{remark_of(found.method)}"


def change(found: Estimate | PlotPoint | None) -> str:
    """A difference with its sign and interval, as text."""
    text = spread(found)
    return f"+{text}" if found is not None and found.mean is not None and found.mean > 0 else text


def p_value_text(p: float | None) -> str:
    """A p-value for use in a sentence."""
    return "p unknown" if p is None else "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def duration_text(seconds: float) -> str:
    """The duration of a trial, as text."""
    return lasting(seconds) if seconds >= 1 else f"{1000 * seconds:.3g} ms" if seconds >= 1e-3 else "< 1 ms"


def level_text(factor: str, level: str) -> str:
    """A level with the name of its factor."""
    return f"{cell(factor)}={level}" if factor else level


def listed(words: Sequence[str], last: str = "and") -> str:
    """Words joined as "a, b and c"."""
    if len(words) < 2:
        return "".join(words)
    return f"{', '.join(words[:-1])}{'' if last.startswith(',') else ' '}{last} {words[-1]}"


@dataclass(frozen=True)
class ConditionLabels:
    """Labels of the conditions of trials, limited to the factors in `by`.

    The cache is keyed by the identity of condition objects, so it must not outlive the trials.
    """

    by: Sequence[str]
    _seen: dict[tuple[int, str], tuple[str, ...]] = field(default_factory=dict)

    def levels(self, trial: TrialResult) -> tuple[str, ...]:
        """The trial's level of each factor, as text."""
        place = (id(trial.condition), trial.agent)
        if place not in self._seen:
            self._seen[place] = tuple(cell(label_of(trial, name)) for name in self.by)
        return self._seen[place]

    def short(self, trial: TrialResult) -> str:
        """The levels alone."""
        return ", ".join(self.levels(trial)) or "all"

    def full(self, trial: TrialResult) -> str:
        """The levels with the names of their factors."""
        return self.named(self.levels(trial))

    def named(self, levels: Sequence[str]) -> str:
        """Levels with the names of their factors."""
        pairs = zip(map(cell, self.by), levels, strict=True)
        return ", ".join(f"{name}={level}" for name, level in pairs) or "all"
