"""A source that learns: it asks the study's stopping rule on the way, and offers only what is still needed.

It stands before the study's own source. Once the rule has decided, nothing more is offered; conditions that
the rule gave up are passed over. What is offered already and has not begun is `unwanted`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from peira.core.codec import decode
from peira.core.contracts import Ended, Offer, Store
from peira.core.events import Result, State
from peira.core.verdicts import no_verdict
from peira.engine.evidence import Cell, Evidence
from peira.engine.trials import EVALUATE, StudySource

CANCELLED = Ended(State.cancelled, Result())


class Followed(msgspec.Struct, gc=False):
    """A trial on its way: the tasks of it that are not over, and what is known of its value."""

    cell: Cell
    tasks: int = 1
    failed: bool = False
    value: Any = None


class Allocated:
    """`evidence` is empty at first; what is recorded comes through here like what is new."""

    def __init__(self, source: StudySource, evidence: Evidence, store: Store) -> None:
        self._source, self._store = source, store
        self.unit, self.evidence = source.unit, evidence
        self._trials: dict[str, Followed] = {}

    @property
    def size(self) -> int:
        return self._source.size

    @property
    def closed(self) -> bool:
        return self._source.closed or self.evidence.decided

    def performs(self, kind: str) -> bool:
        return self._source.performs(kind)

    @property
    def narrowed(self) -> bool:
        """Some of what was planned is not needed."""
        return self.evidence.decided or bool(self.evidence.given_up)

    def unwanted(self, trial: str) -> bool:
        followed = self._trials.get(trial)
        if followed is None:  # an anchor
            return self.evidence.decided
        return self.evidence.decided or followed.cell.number in self.evidence.given_up

    def more(self, n: int) -> Sequence[Offer]:
        if self.closed:
            return []
        offers = [offer for offer in self._source.more(n) if self._needed(offer)]
        if self._source.closed:
            self.evidence.close()
        return offers

    def _needed(self, offer: Offer) -> bool:
        trial = offer.spec.id
        place = self._source.place(trial)
        if place.number >= self.evidence.asked.anchored or self.evidence.problem:
            return True
        cell = self.evidence.plan(place)
        if cell.number in self.evidence.given_up:
            self._source.follow(offer, CANCELLED)
            return False
        self._trials[trial] = Followed(cell)
        return True

    def follow(self, offer: Offer, ended: Ended) -> Sequence[Offer]:
        offers = self._source.follow(offer, ended)
        trial = offer.spec.id if offer.spec.kind == self.unit else offer.work.trial
        followed = self._trials.get(trial)
        if followed is not None:
            followed.tasks += len(offers) - 1
            self._read(followed, offer, ended)
            if not followed.tasks and ended.state is not State.cancelled:  # cancelled is not yet over
                del self._trials[trial]
                self.evidence.count(followed.cell, followed.value, followed.failed)
                if not followed.cell.pending:
                    self.evidence.drain()
        return offers

    def _read(self, followed: Followed, offer: Offer, ended: Ended) -> None:
        """What this end says of the trial's value. One that failed on the way to it has lost it."""
        evaluator, part = self.evidence.asked.score
        kind, succeeded = offer.spec.kind, ended.state is State.succeeded
        if kind == EVALUATE and offer.work.evaluator.name != evaluator:
            return
        if succeeded and kind == EVALUATE:
            said = self._value(ended)
            value = None if no_verdict(said) else said
            followed.value = value.get(part) if part and isinstance(value, dict) else value
        elif succeeded and kind == self.unit and not evaluator:
            followed.value = ended.result.metrics.get(part)
        elif succeeded:
            return
        followed.failed = followed.value is None

    def _value(self, ended: Ended) -> Any:
        result = ended.result
        if ended.value is not None:
            return ended.value
        return decode(self._store.get(result.blob) if result.blob else bytes(result.output))


class Settled(Allocated):
    """Where what is recorded has the answer already: only trials that were recorded on the way there are
    offered, for scores that are missing or failures that are tried again. The answer stays."""

    def __init__(self, source: StudySource, evidence: Evidence, store: Store, trials: int) -> None:
        """`trials` is how many, in the order of the run, led to the answer."""
        super().__init__(source, evidence, store)
        self._left = trials

    @property
    def closed(self) -> bool:
        return self._source.closed or not self._left

    def unwanted(self, trial: str) -> bool:
        return False

    def more(self, n: int) -> Sequence[Offer]:
        while self._left:
            offers = self._source.more(min(n, self._left))
            self._left -= len(offers)
            known = self._store.find("task", [offer.spec.id for offer in offers])
            if found := [offer for offer in offers if offer.spec.id in known]:
                return found
        return []

    def follow(self, offer: Offer, ended: Ended) -> Sequence[Offer]:
        return self._source.follow(offer, ended)
