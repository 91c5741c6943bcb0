"""A study's tasks: one *generate* a trial, then one *evaluate* for each score.

The source is the layout itself: trials stay implicit until they are due, in the seeded order. A score
comes into being when its trial's output is known, because that output is part of what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any

import msgspec

from peira.core.codec import decode
from peira.core.context import Channel, SeenCase, Trial, enter, judge
from peira.core.contracts import Agent, Ended, Evaluator, Offer, Store
from peira.core.events import State, TaskSpec
from peira.core.ids import Json, own_copy
from peira.evaluators.scores import score_value
from peira.plan.baseline import Baselines
from peira.plan.expand import Plan
from peira.plan.judging import Judging, output_digest
from peira.plan.layout import Place

GENERATE, EVALUATE = "generate", "evaluate"


def class_of(kind: str, asynchronous: bool) -> str:
    """Work that awaits and work that blocks are different queues: they run in different places."""
    return f"{kind}.async" if asynchronous else kind


class Generate:
    """Let the agent answer the case."""

    def __init__(
        self,
        agent: Agent,
        trial_id: str,
        case: SeenCase,
        condition: Mapping[str, Json],
        repeat: int,
        resources: Mapping[str, Any] = MappingProxyType({}),
        scope: Callable[[], str] | None = None,
    ) -> None:
        self.agent, self.trial_id, self.case, self.condition = agent, trial_id, case, condition
        self.repeat, self.resources = repeat, resources
        self.asynchronous = agent.asynchronous
        self._scope = scope

    stage = GENERATE

    def scope(self) -> str:
        """What its calls are known by."""
        return self._scope() if self._scope else self.trial_id

    def trial(self, channel: Channel, epoch: int) -> Trial:
        return Trial(
            id=self.trial_id,
            case=self.case.own(),
            condition=own_copy(self.condition),
            repeat=self.repeat,
            attempt=epoch,
            agent=self.agent.label,
            channel=channel,
            resources=self.resources,
        )

    def perform(self, channel: Channel, epoch: int) -> Any:
        trial = self.trial(channel, epoch)
        if self.asynchronous:
            return self._await(trial)
        enter(trial)
        try:
            return self.agent.invoke(trial)
        finally:
            enter(None)

    async def _await(self, trial: Trial) -> Any:
        enter(trial)
        return await self.agent.invoke(trial)

    def portable(self) -> Mapping[str, Any]:
        case = self.case
        return {
            "agent": self.agent.label,
            "trial": self.trial_id,
            "case": [case.input, case.id, case.slice, case.cluster, dict(case.metadata)],
            "condition": dict(self.condition),
            "repeat": self.repeat,
        }


class JudgedTrial(msgspec.Struct, frozen=True):
    """A finished trial as an evaluator may see it."""

    id: str
    agent: str
    condition: dict[str, Json]
    case: SeenCase
    repeat: int


class Evaluate:
    """Let an evaluator judge an output."""

    def __init__(
        self, evaluator: Evaluator, place: Place, trial: str, output: Output, scope: Callable[[], str]
    ) -> None:
        self.evaluator, self.place, self.trial, self.output = evaluator, place, trial, output
        self.asynchronous = evaluator.asynchronous
        self.scope = scope

    @property
    def stage(self) -> str:
        return f"{EVALUATE} {self.evaluator.name}"

    def perform(self, channel: Channel, epoch: int) -> Any:
        facts = {name: self._fact(name) for name in self.evaluator.takes}
        if self.asynchronous:
            return self._await(channel, facts)
        judge(channel)
        try:
            return score_value(self.evaluator.judge(facts))
        finally:
            judge(None)

    async def _await(self, channel: Channel, facts: Mapping[str, Any]) -> Any:
        judge(channel)
        return score_value(await self.evaluator.judge(facts))

    def _fact(self, name: str) -> Any:
        place = self.place
        if name == "output":
            return self.output.value()
        if name == "expected":
            return own_copy(place.case.expected)
        if name == "case":
            return place.case.as_seen().own()
        condition = place.condition
        return JudgedTrial(
            self.trial, condition.agent, own_copy(condition.factors), place.case.as_seen().own(), place.repeat
        )


class StudySource:
    unit = GENERATE

    def __init__(
        self,
        plan: Plan,
        store: Store,
        stages: Sequence[str] = (GENERATE, EVALUATE),
        resources: Mapping[str, Any] = MappingProxyType({}),
        done: bool = False,
    ) -> None:
        """`done` says that all of it is recorded: there will be no tasks."""
        self._plan, self._store, self._stages, self._resources = plan, store, stages, resources
        self._order = iter(plan.layout.in_run_order())
        self._baselines = Baselines(plan.study.factors, plan.layout)
        self._at_hand: dict[str, Place] = {}
        self._judging = Judging(plan.common, {d: e.takes for d, e in plan.evaluators.items()})
        # One class for all agents: a mixture runs where blocking is allowed.
        self._cls = class_of(GENERATE, all(agent.asynchronous for agent in plan.agents.values()))
        self._classes = {d: class_of(EVALUATE, e.asynchronous) for d, e in plan.evaluators.items()}
        self.closed = done

    @property
    def size(self) -> int:
        return len(self._plan)

    def performs(self, kind: str) -> bool:
        return kind in self._stages

    def more(self, n: int) -> list[Offer]:
        indexes = list(islice(self._order, n))
        self.closed = len(indexes) < n
        return [self._generate(self._plan.layout.place(index)) for index in indexes]

    def place(self, trial: str) -> Place:
        """Where a trial stands that was offered, and has not ended."""
        return self._at_hand[trial]

    def _generate(self, place: Place) -> Offer:
        trial = self._plan.layout.trial_id(place)
        self._at_hand[trial] = place
        condition = place.condition
        agent = self._plan.agents[condition.agent]
        scope = partial(self._plan.layout.scope, place)
        seen = place.case.as_seen()
        work = Generate(agent, trial, seen, condition.factors, place.repeat, self._resources, scope)
        return Offer(TaskSpec(trial, GENERATE, self._cls), work, self._baselines.former(place))

    def follow(self, offer: Offer, ended: Ended) -> list[Offer]:
        trial = offer.spec.id
        place = self._at_hand.pop(trial, None)
        if place is None or ended.state is not State.succeeded or EVALUATE not in self._stages:
            return []
        output, scope = Output(ended, self._store), partial(self._plan.layout.scope, place)
        return [
            Offer(
                TaskSpec(score, EVALUATE, self._classes[evaluator]),
                Evaluate(self._plan.evaluators[evaluator], place, trial, output, scope),
            )
            for evaluator, score in self._judging.scores(place, trial, output_digest(ended.result))
        ]


class Output:
    """An output, read from the store only when somebody looks at it."""

    def __init__(self, ended: Ended, store: Store) -> None:
        self._ended, self._store = ended, store

    def value(self) -> Json:
        """A copy of the looker's own."""
        result, value = self._ended.result, self._ended.value
        if value is not None:
            return own_copy(value)
        return decode(self._store.get(result.blob) if result.blob else bytes(result.output))
