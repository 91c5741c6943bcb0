"""Evidence for a stopping rule: trials gathered into units, and handed on complete, in the planned order.

Trials end in any order, and those that end late may be those that go badly. So a unit (a case, or the cases
of one cluster) counts only when every unit planned before it does: what the rule sees, and when it decides,
is the same at any parallelism, after any interruption, and owes nothing to speed. Conditions that a rule has
given up count no more, also where trials of theirs were under way.
"""

from __future__ import annotations

import math
from collections import deque

import msgspec

from peira.core.contracts import Watch
from peira.core.events import AnyEvent, RunDecided, RunLooked, RunNoted
from peira.core.looks import Look, Span
from peira.plan.layout import Place
from peira.plan.question import Asked, unit_of

NUMBERS = (bool, int, float)
GROWTH = 1.1
"""A look is recorded when there is this much more to see than at the last one recorded."""


class Cell(msgspec.Struct, gc=False):
    """The trials of one condition in one unit: how many are not over, and what came of the others."""

    number: int
    pending: int = 0
    total: float = 0.0
    n: int = 0
    lost: int = 0
    problem: str = ""

    def span(self, least: float, most: float) -> Span:
        n = self.n + self.lost
        if not self.lost:
            return Span(mean := self.total / n, mean)
        return Span((self.total + self.lost * least) / n, (self.total + self.lost * most) / n)


class Gathered(msgspec.Struct, gc=False):
    """One unit. It is `full` once every trial of it is known."""

    key: object
    cells: dict[int, Cell] = {}
    full: bool = False


class Evidence:
    """Told of trials as they are planned, and as they end; asks the rule whenever a unit is complete."""

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self._watch: Watch = asked.rule.watch(asked.question)
        self._units: deque[Gathered] = deque()
        self._range = asked.rule.range
        self._taken, self._recorded = 0, 0
        self.given_up: frozenset[int] = frozenset()
        self.look: Look | None = None
        self.looks: list[Look] = []
        """Looks to be recorded, oldest first."""
        self.problem = self._told = ""

    @property
    def decided(self) -> bool:
        return self.look is not None and bool(self.look.answer)

    def plan(self, place: Place) -> Cell:
        """A trial is planned, in the order of the run: the cell that will count it."""
        case, number = place.case, self.asked.places[id(place.condition)]
        last = self._units[-1] if self._units else None
        key = unit_of(place.condition.cases, case.id, case.cluster)
        if last is None or last.key != key:
            self._close()
            last = Gathered(key)
            self._units.append(last)
        cell = last.cells.get(number)
        if cell is None:
            cell = last.cells[number] = Cell(number)
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
        """A trial is over. A value that is no number, or lies outside the range, ends the looking once its
        unit's turn comes."""
        cell.pending -= 1
        least, most = self._range
        if (kind := type(value)) in NUMBERS and least <= value <= most:  # type: ignore[operator]
            cell.total += value  # type: ignore[operator]
            cell.n += 1
        elif kind in NUMBERS and math.isfinite(value):  # type: ignore[arg-type]
            cell.problem = f"{value:g} does not lie within [{least:g}, {most:g}] (stop.range)"
        elif value is not None and kind not in NUMBERS:
            cell.problem = f"{value!r} is not a number"
        elif lost or value is not None:
            cell.lost += 1

    def drain(self) -> None:
        """Hand on every unit that is complete, up to the first that is not."""
        while self._units and not (self.problem or self.decided) and self._ready(self._units[0]):
            self._hand_on(self._units.popleft())
        if self.problem:
            self._units.clear()

    def _hand_on(self, unit: Gathered) -> None:
        cells = {number: cell for number, cell in unit.cells.items() if number not in self.given_up}
        self.problem = next((cell.problem for cell in cells.values() if cell.problem), "")
        spans = {n: cell.span(*self._range) for n, cell in cells.items() if cell.n + cell.lost}
        if not spans or self.problem:
            return
        self._taken += 1
        try:
            self._note(self._watch.take(spans))
        except Exception as error:  # a rule of somebody's own fails: that is told, and the run goes on
            self.problem = f"{type(error).__name__}: {error}"

    def _ready(self, unit: Gathered) -> bool:
        if not unit.full:
            return False
        waiting = [number for number, cell in unit.cells.items() if cell.pending]
        return not waiting or self.given_up.issuperset(waiting)

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
