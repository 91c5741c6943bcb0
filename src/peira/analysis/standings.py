"""Who stands where after a contest, as a value: it prints as a table with what each rank is worth."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import msgspec

from peira.analysis import layout


@dataclass(frozen=True)
class Standing:
    """One side. `best` to `worst` are the ranks it may hold; sides that share a letter cannot be told apart.
    Bounds of None are unknown."""

    label: str
    strength: float
    low: float | None
    high: float | None
    won: int
    tied: int
    lost: int
    best: int | None = None
    worst: int | None = None
    letters: str = ""
    elo: float | None = None


@dataclass(frozen=True)
class Standings:
    """Sides, strongest first; `wins[i][j]` counts the games that i won against j, `ties[i][j]` their ties.

    `games` are those with a verdict in both orders; of the others `no_verdict` are without one, or not done.
    """

    by: str
    level: float
    entries: tuple[Standing, ...]
    wins: tuple[tuple[int, ...], ...]
    ties: tuple[tuple[int, ...], ...]
    games: int
    inconsistent: int
    no_verdict: int
    method: str
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        if not self.entries:
            return "No game has a verdict: nothing can be said."
        first = self.entries[0]
        if first.worst == 1:
            return f"{first.label} is preferred to every other."
        if first.worst is None:
            return f"{first.label} won most; who is best cannot be told."
        rivals = [e.label for e in self.entries[1:] if set(e.letters) & set(first.letters)]
        return f"{first.label} leads, but cannot be told apart from {', '.join(rivals)}."

    def _grid(self) -> tuple[list[str], list[list[str]]]:
        asked = any(entry.elo is not None for entry in self.entries)
        header = ["rank", self.by, f"strength [{100 * self.level:g}% interval]", "group", "won-tied-lost"]
        return [*header, *(["elo"] if asked else [])], [_cells(entry) for entry in self.entries]

    def __str__(self) -> str:
        return "\n".join([layout.plain(*self._grid()), "", self.sentence, *self.notes])

    def markdown(self) -> str:
        return "\n\n".join([layout.markdown(*self._grid()), self.sentence, *self.notes])

    def win_matrix(self) -> str:
        """Who won against whom (rows against columns), in how many games; ties count as half."""
        labels = [layout.cell(entry.label) for entry in self.entries]
        rows = [
            [label, *("-" if i == j else f"{won + tied / 2:g}" for j, (won, tied) in enumerate(counts))]
            for i, (label, counts) in enumerate(zip(labels, map(zip, self.wins, self.ties), strict=True))
        ]
        return layout.plain(["wins of", *labels], rows)

    def to_json(self) -> str:
        """One document, with everything in it and the sentence."""
        return msgspec.json.encode({**asdict(self), "sentence": self.sentence}).decode()


def _cells(entry: Standing) -> list[str]:
    rank = "-" if entry.best is None else f"{entry.best}-{entry.worst}"
    rank = str(entry.best) if entry.best is not None and entry.best == entry.worst else rank
    strength = layout.interval(entry.strength, entry.low, entry.high)
    shown = [rank, layout.cell(entry.label), strength, entry.letters or "-"]
    rating = [] if entry.elo is None else [f"{entry.elo:.0f}"]
    return [*shown, f"{entry.won}-{entry.tied}-{entry.lost}", *rating]
