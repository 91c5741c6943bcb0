"""What the tasks of a study do: let an agent answer a case, find the answer in its output, judge that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import msgspec

from peira.core.codec import decode
from peira.core.context import Channel, SeenCase, Trial, enter, judge
from peira.core.contracts import Agent, Ended, Evaluator, Store
from peira.core.ids import Json, own_copy
from peira.core.models import Usage
from peira.core.transforms import NoAnswer, Transform, from_json, to_json
from peira.engine import kinds
from peira.evaluators.scores import score_value
from peira.plan.layout import Place

GENERATE, TRANSFORM, EVALUATE = STAGES = kinds.STAGES
TOOL = "tool_calls."


class Generate:
    """Let the agent answer the case."""

    stage = GENERATE

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


class Output:
    """What a task gave, read from the store only when somebody looks at it."""

    def __init__(self, ended: Ended, store: Store) -> None:
        self.result, self._value, self._store = ended.result, ended.value, store

    def value(self) -> Json:
        """A copy of the looker's own."""
        if self._value is not None:
            return own_copy(self._value)
        result = self.result
        return decode(self._store.get(result.blob) if result.blob else bytes(result.output))


class Find:
    """Find the answer in an output."""

    stage = TRANSFORM
    asynchronous = False

    def __init__(self, transform: Transform, place: Place, trial: str, output: Output) -> None:
        self.transform, self.place, self.trial, self.output = transform, place, trial, output

    def perform(self, channel: Channel, epoch: int) -> Any:
        return to_json(self.transform.apply(self.output.value()))


class JudgedTrial(msgspec.Struct, frozen=True):
    """A finished trial as an evaluator may see it. What is not known of it is None."""

    id: str
    agent: str
    condition: dict[str, Json]
    case: SeenCase
    repeat: int
    output: Json = None
    took: float = 0.0
    metrics: dict[str, float] = {}

    @property
    def cost(self) -> float | None:
        """US dollars for its calls when they were bought."""
        return self.metrics.get("cost") if self.metrics.get("calls") else 0.0

    @property
    def usage(self) -> Usage:
        """Tokens of all its calls."""
        if not self.metrics.get("calls"):
            return Usage()
        return Usage(int(self.metrics["input_tokens"]), int(self.metrics["output_tokens"]))

    @property
    def tools(self) -> dict[str, int] | None:
        """How often the models that it asked called each tool."""
        if not self.metrics.get("calls"):
            return None
        called = {name.removeprefix(TOOL): n for name, n in self.metrics.items() if name.startswith(TOOL)}
        return {name: int(n) for name, n in called.items()}


def judged(evaluator: Evaluator, channel: Channel, facts: Mapping[str, Any]) -> Any:
    """The score of these facts, or an awaitable of it. What the evaluator asks goes through the channel."""
    if evaluator.asynchronous:
        return _judged_later(evaluator, channel, facts)
    judge(channel)
    try:
        return score_value(evaluator.judge(facts))
    finally:
        judge(None)


async def _judged_later(evaluator: Evaluator, channel: Channel, facts: Mapping[str, Any]) -> Any:
    judge(channel)
    return score_value(await evaluator.judge(facts))


class Evaluate:
    """Let an evaluator judge the answer in an output."""

    def __init__(
        self,
        evaluator: Evaluator,
        place: Place,
        trial: str,
        output: Output,
        answer: Output,
        scope: Callable[[], str],
    ) -> None:
        self.evaluator, self.place, self.trial = evaluator, place, trial
        self.output, self.answer = output, answer
        self.asynchronous = evaluator.asynchronous
        self.scope = scope

    @property
    def stage(self) -> str:
        return f"{EVALUATE} {self.evaluator.name}"

    def perform(self, channel: Channel, epoch: int) -> Any:
        return judged(self.evaluator, channel, {name: self._fact(name) for name in self.evaluator.takes})

    def _fact(self, name: str) -> Any:
        place = self.place
        if name == "output":
            return self._answer()
        if name == "expected":
            return own_copy(place.case.expected)
        if name == "case":
            return place.case.as_seen().own()
        return self._judged()

    def _answer(self) -> Json | NoAnswer:
        value = self.answer.value()
        return value if self.answer is self.output else from_json(value)

    def _judged(self) -> JudgedTrial:
        condition, case, result = self.place.condition, self.place.case, self.output.result
        return JudgedTrial(
            id=self.trial,
            agent=condition.agent,
            condition=own_copy(condition.factors),
            case=case.as_seen().own(),
            repeat=self.place.repeat,
            output=self.output.value(),
            took=result.took,
            metrics=dict(result.metrics),
        )
