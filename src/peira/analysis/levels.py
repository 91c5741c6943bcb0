"""The levels of a factor as sides of comparisons: which there are, their names, and which meet which."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import combinations

from peira.analysis import layout
from peira.analysis.groups import check_names, key_of, label_of
from peira.analysis.measures import Measured, Observation
from peira.analysis.sides import Side, side
from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import Invalid, Unknown

Pair = tuple[Side, Side]
LabelKey = str | bytes


def unique(labels: Iterable[str]) -> list[str]:
    """The same labels, told apart by a number where two of them look the same (1 and "1"; long texts)."""
    seen: dict[str, int] = {}
    found = []
    for label in labels:
        seen[label] = seen.get(label, 0) + 1
        found.append(label if seen[label] == 1 else f"{label} ({seen[label]})")
    return found


@dataclass(frozen=True, eq=False)
class Levels:
    """The sides in the order in which their levels come."""

    sides: dict[LabelKey, Side]

    def named(self, wanted: Json) -> Side:
        """The side of a level: as a value, or as it is shown."""
        if (found := self.sides.get(key_of(wanted))) is not None:
            return found
        shown = {one.label: one for one in self.sides.values()}
        label = layout.cell(wanted)
        if label not in shown:
            raise Unknown(f"no level {label!r}{nearest(label, shown)}")
        return shown[label]


def levels_of(measured: Measured, by: str) -> Levels:
    """The observations of each level of a factor (or attribute)."""
    trials = [one.trial for one in measured.observations]
    factors = {name for trial in trials for name in trial.condition}
    check_names([by], factors, {name for trial in trials for name in trial.scores})
    gathered: dict[LabelKey, list[Observation]] = {}
    shown: dict[LabelKey, str] = {}
    for one in measured.observations:
        label = label_of(one.trial, by)
        key = key_of(label)
        if key not in shown:
            shown[key] = layout.cell(label)
        gathered.setdefault(key, []).append(one)
    names = unique(shown.values())
    return Levels({key: side(name, gathered[key], (by,)) for key, name in zip(gathered, names, strict=True)})


def choose_pairs(levels: Levels, a: Json = None, b: Json = None, baseline: Json = None) -> list[Pair]:
    """Which levels with which: `a` with `b`; all with the baseline; or every pair."""
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
