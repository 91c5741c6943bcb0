"""Two sides of a comparison, matched: the same case under the same other conditions is one pair.

Repeats are averaged within a case and condition. Pairs of one case (under several other conditions), and
cases of one cluster, stay together as one unit of evidence. Where the sides share no other condition (agents
that take different factors, fractions of a design) the other conditions are averaged over, and that is said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from peira.analysis.groups import Unit
from peira.analysis.measures import Observation
from peira.analysis.trials import TrialResult
from peira.core.ids import canonical

Key = tuple[str, bytes]


@dataclass(frozen=True)
class Cell:
    """The repeats of one case under one condition: their values, and how many were lost."""

    unit: Unit
    values: tuple[float, ...]
    lost: int

    @cached_property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)

    def filled(self, end: float) -> float:
        """The mean, had every lost value been `end`."""
        return (sum(self.values) + self.lost * end) / (len(self.values) + self.lost)


@dataclass(frozen=True, eq=False)
class Side:
    label: str
    cells: Mapping[Key, Cell]
    trials: frozenset[str]
    calls: frozenset[str]

    @property
    def lost(self) -> int:
        return sum(cell.lost for cell in self.cells.values())

    @cached_property
    def scored(self) -> dict[Key, Cell]:
        return {key: cell for key, cell in self.cells.items() if cell.values}


def side(label: str, observations: Iterable[Observation], leave: Iterable[str]) -> Side:
    """The observations of one side; factors in `leave` are what tells the sides apart, or averaged over."""
    context, seen = Contexts(leave), list(observations)
    gathered: dict[Key, list[Observation]] = {}
    for one in seen:
        gathered.setdefault((one.trial.case_id, context.of(one.trial)), []).append(one)
    calls = frozenset(call for one in seen for call in one.trial.calls)
    return Side(label, _cells(gathered), frozenset(one.trial.id for one in seen), calls)


class Contexts:
    """The conditions of trials, without some factors; trials of one condition share it, so each is read once.

    Only for as long as the trials are kept: conditions are known by where they are in memory."""

    def __init__(self, leave: Iterable[str] = ()) -> None:
        self._leave = set(leave)
        self._seen: dict[tuple[int, str], bytes] = {}

    def of(self, trial: TrialResult) -> bytes:
        place = (id(trial.condition), trial.agent)
        if place not in self._seen:
            self._seen[place] = self._read(trial)
        return self._seen[place]

    def _read(self, trial: TrialResult) -> bytes:
        rest = {name: value for name, value in trial.condition.items() if name not in self._leave}
        return canonical(rest if "agent" in self._leave else {**rest, "agent": trial.agent})


def _cells(gathered: Mapping[Key, list[Observation]]) -> dict[Key, Cell]:
    return {
        key: Cell(
            group[0].trial.unit,
            tuple(one.value for one in group if one.value is not None),
            sum(one.value is None for one in group),
        )
        for key, group in gathered.items()
    }


@dataclass(frozen=True)
class Match:
    """Both sides by the keys they have in common, whether scored or lost; `by` says what a pair is."""

    one: Side
    two: Side
    keys: tuple[Key, ...]
    by: str

    @property
    def pairs(self) -> list[Key]:
        """The keys that have a value on both sides."""
        return [key for key in self.keys if self.one.cells[key].values and self.two.cells[key].values]

    @property
    def unmatched(self) -> int:
        """Scored cells of either side that have no partner."""
        paired = set(self.pairs)
        return sum(key not in paired for found in (self.one, self.two) for key in found.scored)


def match(one: Side, two: Side) -> Match:
    keys = _common(one, two)
    if keys or not {case for case, _ in one.cells} & {case for case, _ in two.cells}:
        return Match(one, two, keys, "case and condition" if _several(keys) else "case")
    first, second = _averaged(one), _averaged(two)
    return Match(first, second, _common(first, second), "case, averaged over the other factors")


def _common(one: Side, two: Side) -> tuple[Key, ...]:
    return tuple(key for key in one.cells if key in two.cells)


def _several(keys: Iterable[Key]) -> bool:
    return len({condition for _, condition in keys}) > 1


def _averaged(found: Side) -> Side:
    gathered: dict[Key, list[Cell]] = {}
    for (case, _), cell in found.cells.items():
        gathered.setdefault((case, b""), []).append(cell)
    cells = {
        key: Cell(group[0].unit, tuple(v for cell in group for v in cell.values), sum(c.lost for c in group))
        for key, group in gathered.items()
    }
    return Side(found.label, cells, found.trials, found.calls)


def shared(one: Side, two: Side) -> tuple[float, str]:
    """The share of calls (of trials, where none made calls) that the sides have in common."""
    calls = bool(one.calls or two.calls)
    a, b = (one.calls, two.calls) if calls else (one.trials, two.trials)
    what = "calls" if calls else "trials"
    return (2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0), what
