"""Evidence for a stopping rule: trials gathered into units, and handed on complete, in the planned order.

Trials end in any order, and those that end late may be those that go badly. So a unit (a case, or the cases
of one cluster) counts only when every unit planned before it does: what the rule sees, and when it decides,
is the same at any parallelism, after any interruption, and owes nothing to speed. Conditions that a rule has
given up count no more, also where trials of theirs were under way.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from peira.core.contracts import Watch
from peira.core.events import AnyEvent, RunDecided, RunLooked, RunNoted
from peira.core.looks import Look, Span
from peira.plan.layout import Place
from peira.plan.question import Asked, unit_of

GROWTH = 1.1
"""A look is recorded when there is this much more to see than at the last one recorded."""


@dataclass(slots=True)
class Cell:
    """The trials of one condition in one unit: how many are not over, and what came of the others."""

    pending: int = 0
    total: float = 0.0
    n: int = 0
    lost: int = 0

    def span(self, least: float, most: float) -> Span:
        n = self.n + self.lost
        return Span((self.total + self.lost * least) / n, (self.total + self.lost * most) / n)


@dataclass(slots=True)
class Gathered:
    """One unit. It is `full` once every trial of it is known."""

    key: object
    cells: dict[int, Cell] = field(default_factory=dict)
    full: bool = False


class Evidence:
    """Told of trials as they are planned, and as they end; asks the rule whenever a unit is complete."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self._watch: Watch = asked.rule.watch(asked.question)
        self._units: deque[Gathered] = deque()
        self._taken, self._recorded = 0, 0
        self.given_up: frozenset[int] = frozenset()
        self.look: Look | None = None
        self.looks: list[Look] = []
        """Looks to be recorded, oldest first."""
        self.problem = self._told = ""

    @property
    def decided(self) -> bool:
        return self.look is not None and bool(self.look.answer)

    def number(self, place: Place) -> int:
        """The number of a place's condition, as the rule knows it."""
        return self.asked.places[id(place.condition)]

    def plan(self, place: Place) -> Cell:
        """A trial is planned, in the order of the run: the cell that will count it."""
        key = unit_of(place.condition.cases, place.case.id, place.case.cluster)
        if not self._units or self._units[-1].key != key:
            self._close()
            self._units.append(Gathered(key))
        cell = self._units[-1].cells.setdefault(self.number(place), Cell())
        cell.pending += 1
        return cell

    def _close(self) -> None:
        if self._units:
            self._units[-1].full = True

    def close(self) -> None:
        """No further trials will be planned."""
        self._close()
        self.drain()

    def count(self, cell: Cell, value: object, lost: bool) -> None:
        """A trial is over. A value that is no number, or lies outside the range, ends the looking."""
        cell.pending -= 1
        if isinstance(value, (bool, int, float)) and math.isfinite(value):
            self._add(cell, float(value))
        elif value is not None and not isinstance(value, float):
            self.problem = self.problem or f"{value!r} is not a number"
        elif lost or value is not None:
            cell.lost += 1

    def _add(self, cell: Cell, value: float) -> None:
        least, most = self.asked.rule.range
        if not least <= value <= most:
            self.problem = self.problem or f"{value:g} does not lie within [{least:g}, {most:g}] (stop.range)"
        cell.total += value
        cell.n += 1

    def drain(self) -> None:
        """Hand on every unit that is complete, up to the first that is not."""
        while self._units and not (self.problem or self.decided) and self._ready(self._units[0]):
            unit = self._units.popleft()
            spans = dict(self._spans(unit))
            if spans:
                self._taken += 1
                self._note(self._watch.take(spans))

    def _ready(self, unit: Gathered) -> bool:
        gone = self.given_up
        return unit.full and all(not cell.pending for n, cell in unit.cells.items() if n not in gone)

    def _spans(self, unit: Gathered) -> Iterator[tuple[int, Span]]:
        least, most = self.asked.rule.range
        for number, cell in unit.cells.items():
            if cell.n + cell.lost and number not in self.given_up:
                yield number, cell.span(least, most)

    def finish(self) -> None:
        """Everything is over: look at all of it once more, if the last look was at less."""
        self.close()
        if self._taken and not (self.problem or self.decided):
            look = self.look
            if look is None or look.units < self._taken:
                self._note(self._watch.finish(), last=True)
            elif not self.looks and self._recorded < look.units:
                self.looks.append(look)

    @property
    def learnt(self) -> bool:
        """There is something to record."""
        return bool(self.looks) or self.problem != self._told

    def news(self) -> list[AnyEvent]:
        """What has been learnt since this was last asked, as it is recorded."""
        looks, self.looks = self.looks, []
        rule = self.asked.name
        events: list[AnyEvent] = [RunDecided(rule, one) if one.answer else RunLooked(one) for one in looks]
        if self.problem != self._told:
            self._told = self.problem
            events.append(RunNoted(f"the stopping rule ({rule}) is not followed: {self.problem}"))
        return events

    def _note(self, look: Look | None, last: bool = False) -> None:
        if look is None:
            return
        self.look = look = msgspec.structs.replace(look, unit=self.asked.unit)
        news = bool(look.answer) or frozenset(look.given_up) != self.given_up
        self.given_up = frozenset(look.given_up)
        if news or last or look.units >= GROWTH * self._recorded:
            self._recorded = look.units
            self.looks.append(look)
