"""The sides of a comparison: levels of a factor, their trials, and which trials form pairs.

Repeats are averaged within a case and condition. Pairs of the same case under several other conditions, and
cases of the same cluster, form one unit of evidence. If the sides have no other condition in common (agents
with different factors, fractional designs), the other conditions are averaged over, which the result states.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

from peira.analysis.table.groups import Unit, check_names, groupable, key_of, label_of
from peira.analysis.table.measures import Measured, Observation
from peira.core.ids import Json, canonical
from peira.core.registry import nearest
from peira.core.text import grid as layout
from peira.core.text.grid import cell
from peira.errors import Invalid, Unknown
from peira.results.trials import TrialResult

# Sides and matching

Key = tuple[str, bytes]
"""A case id and the canonical JSON of the other factors' levels."""


class CaseCell(NamedTuple):
    """The repeats of one case under one condition: the observed values and the number lost."""

    unit: Unit
    values: tuple[float, ...]
    lost: int

    @property
    def mean(self) -> float:
        """The mean of the observed values."""
        return sum(self.values) / len(self.values)

    def filled(self, end: float) -> float:
        """The mean with every lost value imputed as `end`."""
        return (sum(self.values) + self.lost * end) / (len(self.values) + self.lost)


@dataclass(frozen=True, eq=False)
class Side:
    """One side of a comparison: its cells by case and condition, its trials and its calls.

    `leave` are the factors that are ignored when pairing.
    """

    label: str
    cells: Mapping[Key, CaseCell]
    trials: frozenset[str]
    calls: frozenset[str]
    leave: tuple[str, ...] = ()

    @property
    def lost(self) -> int:
        """The number of lost values."""
        return sum(cell.lost for cell in self.cells.values())

    @cached_property
    def scored(self) -> dict[Key, CaseCell]:
        """The cells that have values."""
        return {key: cell for key, cell in self.cells.items() if cell.values}


def side(label: str, observations: Iterable[Observation], leave: Iterable[str]) -> Side:
    """Build a side from observations; factors in `leave` are ignored when pairing.

    Repeats of the same case and condition are collected in one cell, lost values included.
    """
    ignored, seen = tuple(leave), list(observations)
    context = Contexts(ignored)
    by_key: dict[Key, list[Observation]] = {}
    for one in seen:
        key = (one.trial.case_id, context.of(one.trial))
        if (found := by_key.get(key)) is None:
            by_key[key] = [one]
        else:
            found.append(one)
    calls = frozenset(call for one in seen for call in one.trial.calls)
    return Side(label, _cells(by_key), frozenset([one.trial.id for one in seen]), calls, ignored)


class Contexts:
    """Keys of conditions, with some factors left out; each distinct condition is encoded only once.

    The cache is keyed by the identity of condition objects, so it must not outlive the trials.
    """

    def __init__(self, leave: Iterable[str] = ()) -> None:
        self._leave = set(leave)
        self._cache: dict[tuple[int, str], bytes] = {}

    def of(self, trial: TrialResult) -> bytes:
        """The canonical JSON of a trial's condition without the factors left out."""
        place = (id(trial.condition), trial.agent)
        if (found := self._cache.get(place)) is None:
            found = self._cache[place] = self._read(trial)
        return found

    def _read(self, trial: TrialResult) -> bytes:
        """Encode a trial's condition without the factors left out."""
        rest = {name: value for name, value in trial.condition.items() if name not in self._leave}
        return canonical(rest if "agent" in self._leave else {**rest, "agent": trial.agent})


def _cells(by_key: Mapping[Key, list[Observation]]) -> dict[Key, CaseCell]:
    """The cells of grouped observations."""
    found = {}
    for key, group in by_key.items():
        values = tuple([one.value for one in group if one.value is not None])
        found[key] = CaseCell(group[0].trial.unit, values, len(group) - len(values))
    return found


@dataclass(frozen=True, eq=False)
class Match:
    """Both sides with their common keys, whether scored or lost; `by` describes what a pair is."""

    one: Side
    two: Side
    keys: tuple[Key, ...]
    by: str
    matched: bool = True
    """Whether pairs have the same other conditions; if not, these are averaged over."""

    @cached_property
    def pairs(self) -> list[Key]:
        """The keys with values on both sides."""
        return [key for key in self.keys if self.one.cells[key].values and self.two.cells[key].values]

    @property
    def unmatched(self) -> int:
        """The number of scored cells of either side without a partner."""
        return len(self.one.scored) + len(self.two.scored) - 2 * len(self.pairs)


def match(one: Side, two: Side) -> Match:
    """Match two sides by case and condition, or by case alone if they have no condition in common."""
    keys = _common(one, two)
    if keys or not {case for case, _ in one.cells} & {case for case, _ in two.cells}:
        return Match(one, two, keys, "case and condition" if _several(keys) else "case")
    first, second = _averaged(one), _averaged(two)
    return Match(first, second, _common(first, second), "case, averaged over the other factors", False)


def _common(one: Side, two: Side) -> tuple[Key, ...]:
    """The keys that both sides have."""
    return tuple(key for key in one.cells if key in two.cells)


def _several(keys: Iterable[Key]) -> bool:
    """Whether the keys have more than one condition."""
    return len({condition for _, condition in keys}) > 1


def _averaged(found: Side) -> Side:
    """The side with its cells pooled over conditions."""
    by_case: dict[Key, list[CaseCell]] = {}
    for (case, _), one in found.cells.items():
        by_case.setdefault((case, b""), []).append(one)
    cells = {
        key: CaseCell(
            group[0].unit, tuple(v for cell in group for v in cell.values), sum(c.lost for c in group)
        )
        for key, group in by_case.items()
    }
    return Side(found.label, cells, found.trials, found.calls, found.leave)


def shared(one: Side, two: Side) -> tuple[float, str]:
    """The share of calls that the sides have in common; of trials, if there are no calls."""
    calls = bool(one.calls or two.calls)
    a, b = (one.calls, two.calls) if calls else (one.trials, two.trials)
    what = "calls" if calls else "trials"
    return (2 * len(a & b) / (len(a) + len(b)) if a or b else 0.0), what


# Levels and groups

Pair = tuple[Side, Side]
LabelKey = str | bytes
"""A hashable key of a level; see `peira.analysis.table.groups.key_of`."""


def unique(labels: Iterable[str]) -> list[str]:
    """Labels made unique by a number where two look the same (1 and "1"; shortened texts)."""
    seen: dict[str, int] = {}
    found = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        found.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return found


@dataclass(frozen=True, eq=False)
class Levels:
    """The sides of a factor's levels, in order of appearance."""

    sides: dict[LabelKey, Side]

    def named(self, wanted: Json) -> Side:
        """The side of a level, given as its value or as displayed; raises Unknown for any other."""
        if (found := self.sides.get(key_of(wanted))) is not None:
            return found
        shown = {one.label: one for one in self.sides.values()}
        label = layout.cell(wanted)
        if label not in shown:
            raise Unknown(f"no level {label!r}{nearest(label, shown)}")
        return shown[label]


def levels_of(measured: Measured, by: str) -> Levels:
    """The sides of all levels of a factor or attribute."""
    trials = [one.trial for one in measured.observations]
    check_names([by], groupable(trials), {name for trial in trials for name in trial.scores})
    by_level: dict[LabelKey, list[Observation]] = {}
    shown: dict[LabelKey, str] = {}
    known: dict[int, list[Observation]] = {}
    for one in measured.observations:
        # Trials share their conditions: a level is read once for each.
        place = id(one.trial.condition)
        if by in one.trial.condition and (found := known.get(place)) is not None:
            found.append(one)
            continue
        label = label_of(one.trial, by)
        key = key_of(label)
        if key not in shown:
            shown[key] = layout.cell(label)
        known[place] = by_level.setdefault(key, [])
        known[place].append(one)
    names = unique(shown.values())
    return Levels({key: side(name, by_level[key], (by,)) for key, name in zip(by_level, names, strict=True)})


def choose_pairs(levels: Levels, a: Json = None, b: Json = None, baseline: Json = None) -> list[Pair]:
    """The pairs to compare: `a` with `b`, all with the baseline, or every pair.

    Raises Invalid with fewer than two levels, or if a level would be compared with itself.
    """
    every = list(levels.sides.values())
    if len(every) < 2:
        names = ", ".join(one.label for one in every) or "no trial"
        raise Invalid(f"there is nothing to compare: {names} is all there is")
    first, second, base = (None if one is None else levels.named(one) for one in (a, b, baseline))
    against = second or base
    if first is not None and first is against:
        raise Invalid(f"{first.label} cannot be compared with itself")
    if first is not None:
        return [(first, other) for other in ([against] if against else every) if other is not first]
    if against is not None:
        return [(one, against) for one in every if one is not against]
    return [(later, earlier) for earlier, later in combinations(every, 2)]


Grouped = list[tuple[str, list[Observation]]]
"""Groups of observations with their labels."""


def grouped(seen: Sequence[Observation], by: Sequence[str]) -> Grouped:
    """Group observations by factors, each with its label; without names there is one group "all".

    Raises Unknown for a name that is not a factor or attribute.
    """
    check_names(by, groupable(one.trial for one in seen), ())
    by_key: dict[tuple[LabelKey, ...], list[Observation]] = {}
    for one in seen:
        key = tuple(key_of(label_of(one.trial, name)) for name in by)
        by_key.setdefault(key, []).append(one)
    labels = unique(
        ", ".join(cell(label_of(group[0].trial, name)) for name in by) or "all" for group in by_key.values()
    )
    return list(zip(labels, by_key.values(), strict=True))
