"""Where trials stand, in words: trials of one condition share theirs, so that each is put into words once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from peira.analysis.groups import label_of
from peira.analysis.layout import cell
from peira.analysis.trials import TrialResult


@dataclass(frozen=True)
class Labels:
    """The conditions of trials, of what varies.

    Only for as long as the trials are kept: conditions are known by where they are in memory."""

    by: Sequence[str]
    _seen: dict[tuple[int, str], tuple[str, ...]] = field(default_factory=dict)

    def levels(self, trial: TrialResult) -> tuple[str, ...]:
        place = (id(trial.condition), trial.agent)
        if place not in self._seen:
            self._seen[place] = tuple(cell(label_of(trial, name)) for name in self.by)
        return self._seen[place]

    def short(self, trial: TrialResult) -> str:
        """The levels alone."""
        return ", ".join(self.levels(trial)) or "all"

    def full(self, trial: TrialResult) -> str:
        """With the names of their factors."""
        return self.named(self.levels(trial))

    def named(self, levels: Sequence[str]) -> str:
        pairs = zip(map(cell, self.by), levels, strict=True)
        return ", ".join(f"{name}={level}" for name, level in pairs) or "all"
