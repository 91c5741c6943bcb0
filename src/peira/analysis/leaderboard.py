"""A leaderboard, as a value: it prints as a table with what each rank is worth."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import msgspec

from peira.analysis import layout
from peira.stats.values import Estimate


@dataclass(frozen=True)
class Entry:
    """One entry. `best` to `worst` are the ranks it may hold; two that share a letter cannot be told apart.

    `cost` (US dollars) and `took` (seconds) are means over trials, None where unknown. `on_front` is the
    chance that no other entry is at least as good, cheap and fast, and better in one of these.
    """

    label: str
    mean: Estimate | None
    n: int
    lost: int
    best: int | None = None
    worst: int | None = None
    letters: str = ""
    cost: float | None = None
    took: float | None = None
    on_front: float | None = None


@dataclass(frozen=True)
class Leaderboard:
    """Entries, best first, then those without a score; `wins[i][j]` counts the cases that i won against j."""

    by: tuple[str, ...]
    score: str
    level: float
    entries: tuple[Entry, ...]
    wins: tuple[tuple[int, ...], ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        ranked = [entry for entry in self.entries if entry.mean is not None]
        if not ranked:
            return "No entry has a score: nothing can be said."
        first = ranked[0]
        if len(ranked) == 1 or first.worst is None:
            return f"{first.label} has the best mean on {self.score}; who is best cannot be told."
        if first.worst == 1:
            return f"{first.label} is best on {self.score}."
        rivals = [e.label for e in ranked if set(e.letters) & set(first.letters) and e is not first]
        return f"{first.label} leads on {self.score}, but cannot be told apart from {', '.join(rivals)}."

    def _grid(self) -> tuple[list[str], list[list[str]]]:
        header = ["rank", ", ".join(self.by) or "entry", f"{self.score} [{100 * self.level:g}% interval]"]
        return [*header, "group", "n", "cost", "seconds", "P(on front)"], [_cells(e) for e in self.entries]

    def __str__(self) -> str:
        return "\n".join([layout.plain(*self._grid()), "", self.sentence, *self.notes])

    def markdown(self) -> str:
        return "\n\n".join([layout.markdown(*self._grid()), self.sentence, *self.notes])

    def win_matrix(self) -> str:
        """Who won against whom (rows against columns), on how many cases."""
        labels = [layout.cell(entry.label) for entry in self.entries if entry.mean is not None]
        rows = [
            [label, *("-" if i == j else str(n) for j, n in enumerate(row))]
            for i, (label, row) in enumerate(zip(labels, self.wins, strict=True))
        ]
        return layout.plain(["wins of", *labels], rows)

    def to_json(self) -> str:
        """One document: by, score, level, entries, wins, notes, sentence."""
        return msgspec.json.encode({**asdict(self), "sentence": self.sentence}).decode()


def _cells(entry: Entry) -> list[str]:
    rank = "-" if entry.best is None else f"{entry.best}-{entry.worst}"
    rank = str(entry.best) if entry.best is not None and entry.best == entry.worst else rank
    mean = layout.interval(entry.mean.mean, entry.mean.low, entry.mean.high) if entry.mean else "-"
    shown = [_number(entry.cost), _number(entry.took), _number(entry.on_front)]
    return [rank, layout.cell(entry.label), mean, entry.letters or "-", str(entry.n), *shown]


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"
