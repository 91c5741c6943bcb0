"""The work of a study's tasks, one class per stage: generate, transform, evaluate.

Each class has `perform`, called by a runner with the attempt's channel; `scope`, part of the identity of its
calls; `copy`, for hooks; and `message`, for runners that work in other processes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, suppress
from copy import deepcopy
from pathlib import Path
from types import MappingProxyType
from typing import Any

import msgspec

import peira.engine as engine
from peira.core.chat.transcript import Transcript
from peira.core.codec import decode
from peira.core.context import Channel, SeenCase, Trial, enter, judge
from peira.core.contracts import Agent, Ended, Evaluator, QuestionContext, Store
from peira.core.ids import Json, canonical, compose, digest_bytes, own_copy
from peira.core.log.events import State
from peira.core.models import Output, Usage
from peira.core.registry import OutcomeCallback, registry
from peira.core.transforms import NoAnswer, Transform, from_json, to_json
from peira.engine import kinds
from peira.errors import Invalid
from peira.evaluators.scores import score_value
from peira.plan.score_ids import output_digest
from peira.plan.trials import Place
from peira.spec.agents import made_agent, read_kind
from peira.spec.modules import resolve_reference
from peira.spec.study import Study

GENERATE, TRANSFORM, EVALUATE = STAGES = kinds.STAGES
TOOL = "tool_calls."


def _surrounded(name: str, channel: Channel, epoch: int) -> AbstractContextManager[OutcomeCallback]:
    """What listeners put around an attempt; there are none in a child process."""
    run, task = getattr(channel, "run", ""), getattr(channel, "task", "")
    return registry.surrounded("attempt", name, run, task, epoch)


def _reported(outcome: Output, trial: Trial) -> Any:
    """The output of what an agent returned, with the rest reported."""
    if outcome.metrics:
        trial.report(**outcome.metrics)
    if outcome.about:
        trial.describe(**outcome.about)
    for event in outcome.events:
        name, data = _event(event)
        trial.log(name, **data)
    return outcome.output


def _event(given: Any) -> tuple[str, dict[str, Json]]:
    """An event of an `Output`: its name and its data; Invalid if it is none."""
    if isinstance(given, str):
        return given, {}
    if isinstance(given, Mapping) and isinstance(given.get("name"), str):
        return given["name"], {str(key): value for key, value in given.items() if key != "name"}
    if isinstance(given, tuple | list) and len(given) == 2 and isinstance(given[1], Mapping):
        return str(given[0]), {str(key): value for key, value in given[1].items()}
    raise Invalid(f"events: {given!r} is no event; write {{'name': ..., ...}} or (name, data)")


class GenerateWork:
    """Run the agent on the case; the result is the trial's output.

    `reader` names the class that rebuilds the work from its message in another process.
    """

    stage = GENERATE
    reader = f"{__name__}:TrialReader"

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
        """The scope of its calls: part of their keys in the store."""
        return self._scope() if self._scope else self.trial_id

    def question_context(self) -> QuestionContext:
        """What its questions are about: the same when the agent's code has changed."""
        return QuestionContext(self.scope(), self.trial_id, self.case.id)

    def trial(self, channel: Channel, epoch: int) -> Trial:
        """The trial as the agent sees it, with copies of case and condition."""
        return Trial(
            id=self.trial_id,
            case=self.case.own(),
            condition=own_copy(self.condition) if self.condition else {},
            repeat=self.repeat,
            attempt=epoch,
            agent=self.agent.label,
            channel=channel,
            resources=self.resources,
        )

    def perform(self, channel: Channel, epoch: int) -> Any:
        """The agent's output, or an awaitable of it if the agent is asynchronous."""
        trial = self.trial(channel, epoch)
        if self.asynchronous:
            return self._await(trial)
        enter(trial)
        try:
            if not registry.surrounding:
                outcome = self.agent.invoke(trial)
            else:
                with _surrounded(self.agent.label, channel, epoch):
                    outcome = self.agent.invoke(trial)
            return _reported(outcome, trial) if isinstance(outcome, Output) else outcome
        finally:
            enter(None)
            if "lasting" in trial.__dict__:
                trial.finish()

    async def _await(self, trial: Trial) -> Any:
        enter(trial)
        try:
            if not registry.surrounding:
                outcome = await self.agent.invoke(trial)
            else:
                with _surrounded(self.agent.label, trial.channel, trial.attempt):
                    outcome = await self.agent.invoke(trial)
            return _reported(outcome, trial) if isinstance(outcome, Output) else outcome
        finally:
            trial.finish()

    def copy(self) -> GenerateWork:
        """A copy for hooks, which shares nothing that can change."""
        case, condition, resources = self.case.own(), own_copy(dict(self.condition)), dict(self.resources)
        return GenerateWork(self.agent, self.trial_id, case, condition, self.repeat, resources, self._scope)

    def message(self) -> dict[str, Any]:
        """What another process needs to rebuild this work; Invalid if there are resources."""
        if self.resources:
            raise Invalid("resources: cannot be handed to other processes")
        case = self.case
        return {
            "agent": self.agent.label,
            "trial": self.trial_id,
            "case": [case.input, case.id, case.slice, case.cluster, dict(case.metadata)],
            "condition": dict(self.condition),
            "repeat": self.repeat,
        }


class TrialReader:
    """Rebuilds `GenerateWork` in another process from its message.

    `code` has, for each agent's label, a reference to a function or study, or the description of a kind.
    """

    def __init__(self, code: Mapping[str, str | dict[str, Any]]) -> None:
        self._code = code
        self._agents: dict[str, Agent] = {}

    def load(self) -> None:
        """Load all agents ahead of time; errors are left to the attempts that need them."""
        for label in self._code:
            with suppress(
                BaseException
            ):  # whatever a user's file raises; attempts that need it will report it
                self._agent(label)

    def read(self, message: Mapping[str, Any]) -> GenerateWork:
        """The work described by a message."""
        agent, case = self._agent(message["agent"]), SeenCase(*message["case"])
        return GenerateWork(agent, message["trial"], case, message["condition"], message["repeat"])

    def _agent(self, label: str) -> Agent:
        if label not in self._agents:
            self._agents[label] = made_agent(self._found(self._code[label], label), label)
        return self._agents[label]

    def _found(self, written: str | dict[str, Any], label: str) -> Any:
        """The function or agent kind that a reference or description stands for."""
        if isinstance(written, dict):
            return read_kind(written)
        found = resolve_reference(written, Path())
        return found.agents[label] if isinstance(found, Study) else found


class LocalWork:
    """Base of work that is done only in the run's own process."""

    reader = ""

    def message(self) -> dict[str, Any]:
        """Always raises Invalid."""
        raise Invalid(f"{type(self).__name__.lower()}: is done in the process of the run, not in another")


class StoredOutput:
    """The output of a task, read from the store only when it is needed."""

    def __init__(self, ended: Ended, store: Store) -> None:
        self.result, self._value, self._store = ended.result, ended.value, store

    def value(self) -> Json:
        """A fresh copy of the value."""
        if (value := self._value) is not None:
            return value if type(value) is str else own_copy(value)
        result = self.result
        return decode(self._store.get(result.blob) if result.blob else bytes(result.output))

    def transcript(self, trial: str) -> Transcript:
        """What happened in the trial that made it."""
        return engine.transcripts.read_transcript(self._store, trial, self.result)

    def copy(self) -> StoredOutput:
        """A copy for hooks."""
        return StoredOutput(Ended(State.succeeded, deepcopy(self.result), own_copy(self._value)), self._store)


class TransformWork(LocalWork):
    """Extract the answer from an output."""

    stage = TRANSFORM
    asynchronous = False

    def __init__(self, transform: Transform, place: Place, trial: str, output: StoredOutput) -> None:
        self.transform, self.place, self.trial, self.output = transform, place, trial, output

    def scope(self) -> str:
        """The scope of its calls: the trial."""
        return self.trial

    def perform(self, channel: Channel, epoch: int) -> Any:
        """The answer in its JSON form."""
        return to_json(self.transform.apply(self.output.value()))

    def copy(self) -> TransformWork:
        """A copy for hooks."""
        return TransformWork(self.transform, deepcopy(self.place), self.trial, self.output.copy())


class JudgedTrial(msgspec.Struct, frozen=True):
    """A finished trial as an evaluator sees it. Values that are not known are None."""

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
        """US dollars: of its calls when they were bought, or as its agent reported; None if unknown."""
        return self.metrics.get("cost", None if self.metrics.get("calls") else 0.0)

    @property
    def usage(self) -> Usage:
        """The tokens of all its calls."""
        if not self.metrics.get("calls"):
            return Usage()
        return Usage(int(self.metrics["input_tokens"]), int(self.metrics["output_tokens"]))

    @property
    def tools(self) -> dict[str, int] | None:
        """How often the models called each tool; None if no model was called."""
        if not self.metrics.get("calls"):
            return None
        called = {name.removeprefix(TOOL): n for name, n in self.metrics.items() if name.startswith(TOOL)}
        return {name: int(n) for name, n in called.items()}


def judged(evaluator: Evaluator, channel: Channel, facts: Mapping[str, Any]) -> Any:
    """The score of these facts, or an awaitable of it.

    Calls that the evaluator makes go through the channel.
    """
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


class EvaluateWork(LocalWork):
    """Score the answer in an output with one evaluator."""

    def __init__(
        self,
        evaluator: Evaluator,
        place: Place,
        trial: str,
        output: StoredOutput,
        answer: StoredOutput,
        scope: Callable[[], str],
    ) -> None:
        self.evaluator, self.place, self.trial = evaluator, place, trial
        self.output, self.answer = output, answer
        self.asynchronous = evaluator.asynchronous
        self._scope = scope

    def scope(self) -> str:
        """The scope of its calls."""
        return self._scope()

    def question_context(self) -> QuestionContext:
        """What its questions are about: what is judged, and by which evaluator, whatever its code."""
        case, trial = self.place.case, self.trial
        facts = {
            "output": output_digest(self.answer.result),
            "case": case.seen,
            "expected": digest_bytes(canonical(case.expected)),
            "trial": trial,
        }
        taken = (f"{name}={facts[name]}" for name in sorted(self.evaluator.takes))
        return QuestionContext(compose("judged", *taken), trial, case.id, self.evaluator.name)

    @property
    def stage(self) -> str:
        """The stage with the evaluator's name, part of the keys of its calls."""
        return f"{EVALUATE} {self.evaluator.name}"

    def perform(self, channel: Channel, epoch: int) -> Any:
        """The score, or an awaitable of it; the evaluator gets only the facts it takes."""
        facts = {name: self._fact(name) for name in self.evaluator.takes}
        if not registry.surrounding:
            return judged(self.evaluator, channel, facts)
        if self.evaluator.asynchronous:
            return self._await(channel, epoch, facts)
        with _surrounded(self.evaluator.name, channel, epoch) as tell:
            score = judged(self.evaluator, channel, facts)
            tell(score)
            return score

    async def _await(self, channel: Channel, epoch: int, facts: Mapping[str, Any]) -> Any:
        with _surrounded(self.evaluator.name, channel, epoch) as tell:
            score = await judged(self.evaluator, channel, facts)
            tell(score)
            return score

    def copy(self) -> EvaluateWork:
        """A copy for hooks."""
        output = self.output.copy()
        answer = output if self.answer is self.output else self.answer.copy()
        return EvaluateWork(self.evaluator, deepcopy(self.place), self.trial, output, answer, self._scope)

    def _fact(self, name: str) -> Any:
        """A fact about the trial, by the name of the evaluator's parameter."""
        place = self.place
        if name == "output":
            return self._answer()
        if name == "expected":
            expected = place.case.expected
            return expected if type(expected) is str else own_copy(expected)
        if name == "case":
            return place.case.as_seen().own()
        if name == "transcript":
            return self.output.transcript(self.trial)
        return self._judged()

    def _answer(self) -> Json | NoAnswer:
        """The answer to score: the output itself, or what the transform found in it."""
        value = self.answer.value()
        return value if self.answer is self.output else from_json(value)

    def _judged(self) -> JudgedTrial:
        """The finished trial, as the evaluator sees it."""
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
