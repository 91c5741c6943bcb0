"""A source with a stopping rule: it offers only the trials that are still needed.

Trials are grouped into units. The rule gets each unit when all its trials have ended, in the planned order.
`StoppingEvidence` does the counting and calls the rule; `AdaptiveSource` wraps the study's source;
`DecidedSource` is for studies whose answer is recorded already. In a run everything here is called with the
execution's lock held; the lock is released while the rule itself runs.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from typing import Any

import msgspec

from peira.core.codec import decode
from peira.core.contracts import Ended, Offer, Store, Watch
from peira.core.log.events import AnyEvent, Result, RunDecided, RunLooked, RunNoted, State
from peira.core.looks import Look, Span
from peira.core.verdicts import no_verdict, part_of
from peira.engine.sources.study import EVALUATE, StudySource, trial_of
from peira.engine.stages import EvaluateWork
from peira.errors import message_of
from peira.plan.stopping import StopQuestion, unit_of
from peira.plan.trials import Place

NO_LOCK: AbstractContextManager[object] = nullcontext()
"""For callers that hold no lock."""
NUMBERS = (bool, int, float)
"""The types of values that the rule can use."""
GROWTH = 1.1
"""A look is recorded when the evidence has grown by this factor since the last recorded one."""


class UnitCell(msgspec.Struct, gc=False):
    """The trials of one condition in one unit: `pending` ones, and sums over those that ended.

    `lost` are trials without a value; `problem` says why a value is not usable.
    """

    number: int
    pending: int = 0
    total: float = 0.0
    n: int = 0
    lost: int = 0
    problem: str = ""

    def span(self, least: float, most: float) -> Span:
        """The mean value; its bounds assume that lost values are the least or the greatest possible."""
        n = self.n + self.lost
        if not self.lost:
            return Span(mean := self.total / n, mean)
        return Span((self.total + self.lost * least) / n, (self.total + self.lost * most) / n)


class EvidenceUnit(msgspec.Struct, gc=False):
    """One unit of evidence, with a cell per condition; `full` once all its trials are planned."""

    key: object
    cells: dict[int, UnitCell] = {}
    full: bool = False


Unlocked = AbstractContextManager[object]
"""A context in which the caller's lock is released: a rule may be code of users."""


class StoppingEvidence:
    """Counts trials as they are planned and as they end; calls the rule on complete units.

    `given_up` are the conditions that need no more trials; `look` is the last look; `problem` says why the
    rule is no longer followed, "" while it is.
    """

    def __init__(self, asked: StopQuestion) -> None:
        self.asked = asked
        self._watch: Watch = asked.rule.watch(asked.question)
        self._units: deque[EvidenceUnit] = deque()
        self._range = asked.rule.range
        self._units_given, self._recorded = 0, 0
        self.given_up: frozenset[int] = frozenset()
        self.look: Look | None = None
        self.looks: list[Look] = []
        """Looks that are not recorded yet, oldest first."""
        self.problem = self._reported_problem = ""

    @property
    def decided(self) -> bool:
        """Whether the rule has found the answer."""
        return self.look is not None and bool(self.look.answer)

    def plan(self, place: Place) -> UnitCell:
        """Count a planned trial, in the order of the run; returns its cell."""
        case, number = place.case, self.asked.places[id(place.condition)]
        last = self._units[-1] if self._units else None
        key = unit_of(place.condition.cases, case.id, case.cluster)
        if last is None or last.key != key:
            self._close()
            last = EvidenceUnit(key)
            self._units.append(last)
        cell = last.cells.get(number)
        if cell is None:
            cell = last.cells[number] = UnitCell(number)
        cell.pending += 1
        return cell

    def _close(self) -> None:
        """The last unit is full."""
        if self._units:
            self._units[-1].full = True

    def close(self) -> None:
        """No further trials will be planned."""
        self._close()

    def count(self, cell: UnitCell, value: object, lost: bool) -> None:
        """Count a trial that ended.

        A value that is not a number or is out of range is a problem: the rule is not followed beyond its
        unit.
        """
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

    @property
    def due(self) -> bool:
        """Whether a complete unit has not been given to the rule yet."""
        return bool(self._units) and not (self.problem or self.decided) and self._ready(self._units[0])

    def drain(self, unlocked: Unlocked = NO_LOCK) -> None:
        """Give all complete units to the rule, in order, up to the first incomplete one."""
        while self.due:
            if spans := self._spans(self._units.popleft()):
                self._units_given += 1
                self._call_rule(partial(self._watch.take, spans), unlocked)
        if self.problem:
            self._units.clear()

    def _spans(self, unit: EvidenceUnit) -> dict[int, Span]:
        """A unit as the rule takes it; empty if it has no values, or a problem."""
        cells = {number: cell for number, cell in unit.cells.items() if number not in self.given_up}
        self.problem = next((cell.problem for cell in cells.values() if cell.problem), "")
        if self.problem:
            return {}
        return {n: cell.span(*self._range) for n, cell in cells.items() if cell.n + cell.lost}

    def _call_rule(self, call: Callable[[], Look | None], unlocked: Unlocked, last: bool = False) -> None:
        """Call the rule within `unlocked`, and note its look; an exception becomes the problem."""
        try:
            with unlocked:
                look = call()
            self._keep_look(look, last)
        except Exception as error:  # a user's rule failed: reported, and the run goes on
            with unlocked:
                score = message_of(error)
            self.problem = f"{type(error).__name__}: {score}"

    def _ready(self, unit: EvidenceUnit) -> bool:
        """Whether all trials of a unit that count have ended."""
        if not unit.full:
            return False
        waiting = [number for number, cell in unit.cells.items() if cell.pending]
        return not waiting or self.given_up.issuperset(waiting)

    def finish(self, unlocked: Unlocked = NO_LOCK) -> None:
        """Everything has ended: take a final look at all units, if the last look was at less."""
        self.close()
        self.drain(unlocked)
        if self._units_given and not (self.problem or self.decided):
            look = self.look
            if look is None or look.units < self._units_given:
                self._call_rule(self._watch.finish, unlocked, last=True)
            elif not self.looks and self._recorded < look.units:
                self.looks.append(look)

    @property
    def learnt(self) -> bool:
        """Whether there is something to record."""
        return bool(self.looks) or self.problem != self._reported_problem

    def news(self) -> list[AnyEvent]:
        """The events to record since the last call."""
        looks, self.looks = self.looks, []
        rule = self.asked.name
        events: list[AnyEvent] = [RunDecided(rule, one) if one.answer else RunLooked(one) for one in looks]
        if self.problem != self._reported_problem:
            self._reported_problem = self.problem
            events.append(RunNoted(f"the stopping rule ({rule}) is not followed: {self.problem}"))
        return events

    def _keep_look(self, look: Look | None, last: bool = False) -> None:
        """Keep a look; it is recorded if it decides something, is the last, or has grown enough."""
        if look is None:
            return
        self.look = look = msgspec.structs.replace(look, unit=self.asked.unit)
        news = bool(look.answer) or frozenset(look.given_up) != self.given_up
        self.given_up = frozenset(look.given_up)
        if news or last or look.units >= GROWTH * self._recorded:
            self._recorded = look.units
            self.looks.append(look)


CANCELLED = Ended(State.cancelled, Result())


class ScoreProgress(msgspec.Struct, gc=False):
    """A trial or job under way: how many of its tasks have not ended, and its value so far."""

    tasks: int = 1
    failed: bool = False
    value: Any = None


def read_score(
    progress: ScoreProgress, offer: Offer, ended: Ended, score: tuple[str, str], unit: str, store: Store
) -> None:
    """Read the value from an ended task; a failure on the way to it loses the value.

    `score` is the evaluator and the part of its score, or without an evaluator a metric that agents report;
    `unit` is the kind of the task that generates.
    """
    evaluator, part = score
    kind, succeeded = offer.spec.kind, ended.state is State.succeeded
    if isinstance(offer.work, EvaluateWork) and offer.work.evaluator.name != evaluator:
        return
    if succeeded and kind == EVALUATE:
        found = _value(ended, store)
        value = None if no_verdict(found) else found
        progress.value = part_of(value, part)
    elif succeeded and kind == unit and not evaluator:
        progress.value = ended.result.metrics.get(part)
    elif succeeded:
        return
    progress.failed = progress.value is None


def _value(ended: Ended, store: Store) -> Any:
    """The value of an ended task, from memory or from the store."""
    result = ended.result
    if ended.value is not None:
        return ended.value
    return decode(store.get(result.blob) if result.blob else bytes(result.output))


class TrialProgress(ScoreProgress, kw_only=True, gc=False):
    """A trial under way, and the cell it is counted in."""

    cell: UnitCell


class AdaptiveSource:
    """A study's source that stops offering trials when the stopping rule needs no more.

    `evidence` starts empty: recorded results are counted as they are reused, like new ones.
    """

    def __init__(self, source: StudySource, evidence: StoppingEvidence, store: Store) -> None:
        self._source, self._store = source, store
        self.unit, self.evidence = source.unit, evidence
        self._trials: dict[str, TrialProgress] = {}

    @property
    def size(self) -> int | None:
        """The number of planned trials."""
        return self._source.size

    @property
    def closed(self) -> bool:
        """Whether no further trials will be offered."""
        return self._source.closed or self.evidence.decided

    def performs(self, kind: str) -> bool:
        """Whether tasks of this kind are done in this run."""
        return self._source.performs(kind)

    @property
    def narrowed(self) -> bool:
        """Whether some of the planned trials are not needed."""
        return self.evidence.decided or bool(self.evidence.given_up)

    def unwanted(self, trial: str) -> bool:
        """Whether a trial is no longer needed."""
        progress = self._trials.get(trial)
        if progress is None:  # an anchor
            return self.evidence.decided
        return self.evidence.decided or progress.cell.number in self.evidence.given_up

    def more(self, n: int) -> Sequence[Offer]:
        """The next trials that are needed, from up to `n` planned ones."""
        if self.closed:
            return []
        offers = [offer for offer in self._source.more(n) if self._needed(offer)]
        if self._source.closed:
            self.evidence.close()
        return offers

    def _needed(self, offer: Offer) -> bool:
        """Whether a planned trial is needed; if so, it is tracked."""
        trial = offer.spec.id
        place = self._source.place(trial)
        if place.number >= self.evidence.asked.anchored or self.evidence.problem:
            return True
        cell = self.evidence.plan(place)
        if cell.number in self.evidence.given_up:
            self._source.follow(offer, CANCELLED)
            return False
        self._trials[trial] = TrialProgress(cell=cell)
        return True

    def follow(self, offer: Offer, ended: Ended) -> Sequence[Offer]:
        """The follow-up tasks of an ended task; its trial is counted once all its tasks ended."""
        offers = self._source.follow(offer, ended)
        trial = trial_of(offer)
        progress = self._trials.get(trial)
        if progress is not None:
            progress.tasks += len(offers) - 1
            read_score(progress, offer, ended, self.evidence.asked.score, self.unit, self._store)
            if not progress.tasks and ended.state is not State.cancelled:  # cancelled is not yet over
                del self._trials[trial]
                self.evidence.count(progress.cell, progress.value, progress.failed)
        return offers


class DecidedSource(AdaptiveSource):
    """The source of a study whose answer is recorded already; the answer stays.

    Only recorded trials that led to the answer are offered again, for missing scores or for retries of
    failures.
    """

    def __init__(self, source: StudySource, evidence: StoppingEvidence, store: Store, trials: int) -> None:
        """`trials` is the number of trials, in the order of the run, that led to the answer."""
        super().__init__(source, evidence, store)
        self._left = trials

    @property
    def closed(self) -> bool:
        """Whether all trials that led to the answer were offered."""
        return self._source.closed or not self._left

    def unwanted(self, trial: str) -> bool:
        """Always false: everything that is offered is wanted."""
        return False

    def more(self, n: int) -> Sequence[Offer]:
        """The next recorded trials among those that led to the answer."""
        while self._left:
            offers = self._source.more(min(n, self._left))
            self._left -= len(offers)
            known = self._store.find("task", [offer.spec.id for offer in offers])
            if found := [offer for offer in offers if offer.spec.id in known]:
                return found
        return []

    def follow(self, offer: Offer, ended: Ended) -> Sequence[Offer]:
        """The follow-up tasks of an ended task; the evidence is not changed."""
        return self._source.follow(offer, ended)
