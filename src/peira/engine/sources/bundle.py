"""The items of a bundle as tasks; there is no plan on this side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import deepcopy
from itertools import islice
from typing import Any

import msgspec

from peira.core.chat.transcript import Transcript
from peira.core.context import Channel, SeenCase
from peira.core.contracts import Agent, Ended, Evaluator, Offer
from peira.core.ids import Json, own_copy
from peira.core.log.events import TaskSpec
from peira.core.transforms import from_json
from peira.engine.sources.study import class_of
from peira.engine.stages import EVALUATE, GENERATE, GenerateWork, JudgedTrial, LocalWork, judged


class TrialItem(msgspec.Struct, frozen=True):
    """A trial to generate, as a bundle describes it."""

    n: int
    id: str
    agent: str
    condition: dict[str, Json]
    case: SeenCase
    repeat: int
    seed: int


class ScoreItem(msgspec.Struct, frozen=True):
    """An output to score, as a bundle describes it."""

    n: int
    id: str
    evaluator: str
    name: str
    facts: dict[str, Json]


_trial = msgspec.json.Decoder(TrialItem).decode
_score = msgspec.json.Decoder(ScoreItem).decode


class JudgeItem(LocalWork):
    """Score the facts of an item with an evaluator."""

    def __init__(self, evaluator: Evaluator, item: ScoreItem, transformed: bool) -> None:
        self.evaluator, self._item, self._transformed = evaluator, item, transformed
        self.asynchronous = evaluator.asynchronous
        self.stage = f"{EVALUATE} {evaluator.name}"

    def scope(self) -> str:
        """The scope of its calls: the item."""
        return self._item.id

    def perform(self, channel: Channel, epoch: int) -> Any:
        """The score, or an awaitable of it."""
        facts = {name: self._fact(name, value) for name, value in self._item.facts.items()}
        return judged(self.evaluator, channel, facts)

    def copy(self) -> JudgeItem:
        """A copy for hooks."""
        return JudgeItem(self.evaluator, deepcopy(self._item), self._transformed)

    def _fact(self, name: str, value: Json) -> Any:
        """A fact of the item as the evaluator takes it."""
        own = own_copy(value)
        if name == "output" and self._transformed:
            return from_json(own)
        kind = {"case": SeenCase, "trial": JudgedTrial, "transcript": Transcript}.get(name)
        return own if kind is None else msgspec.convert(own, kind)


class BundleSource:
    """The items of a bundle as they are read, for agents (by label) or evaluators (by digest)."""

    def __init__(
        self,
        stage: str,
        size: int,
        documents: Iterator[bytes],
        agents: Mapping[str, Agent],
        evaluators: Mapping[str, Evaluator],
        transformed: bool = False,
    ) -> None:
        """`size` is the number of items, `documents` yields them as JSON.

        `transformed`: outputs are answers that a transform found, and may be "no answer".
        """
        self.unit, self.size, self._transformed = stage, size, transformed
        self._documents, self._agents, self._evaluators = documents, agents, evaluators
        self._cls = class_of(GENERATE, all(agent.asynchronous for agent in agents.values()))
        self.closed = False

    @property
    def classes(self) -> list[tuple[str, bool]]:
        """The classes of its tasks, and whether they are asynchronous."""
        if self.unit == GENERATE:
            return [(self._cls, self._cls != GENERATE)]
        kinds = sorted({evaluator.asynchronous for evaluator in self._evaluators.values()})
        return [(class_of(EVALUATE, awaits), awaits) for awaits in kinds]

    def performs(self, kind: str) -> bool:
        """Always true: a bundle has one stage."""
        return True

    def more(self, n: int) -> list[Offer]:
        """The next `n` items as offers."""
        documents = list(islice(self._documents, n))
        self.closed = len(documents) < n
        return list(map(self._generate if self.unit == GENERATE else self._evaluate, documents))

    def _generate(self, document: bytes) -> Offer:
        """The offer of a trial."""
        item = _trial(document)
        work = GenerateWork(self._agents[item.agent], item.id, item.case, item.condition, item.repeat)
        return Offer(TaskSpec(item.id, GENERATE, self._cls), work)

    def _evaluate(self, document: bytes) -> Offer:
        """The offer of a score."""
        item = _score(document)
        evaluator = self._evaluators[item.evaluator]
        cls = class_of(EVALUATE, evaluator.asynchronous)
        return Offer(TaskSpec(item.id, EVALUATE, cls), JudgeItem(evaluator, item, self._transformed))

    def follow(self, offer: Offer, ended: Ended) -> Sequence[Offer]:
        """No task of a bundle has follow-up tasks."""
        return ()
