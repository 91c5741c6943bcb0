"""The conformance suite of agents."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, ClassVar

import pytest

from peira.core.context import SeenCase, Trial, enter
from peira.core.contracts import Agent
from peira.core.ids import Json, canonical, digest, normalise
from peira.errors import Abandoned
from peira.testing.fakes import MemoryChannel

TRIALS = 8


class AgentSuite:
    """Override the fixtures `agent` and `twin`, and set `case` and `condition` to what the agent works on."""

    case: Json = "What is the answer?"
    condition: ClassVar[Mapping[str, Json]] = {}
    deterministic = True
    """The same trial gives the same output."""

    @pytest.fixture
    def agent(self) -> Agent:
        """The agent under test."""
        raise NotImplementedError("override the fixture `agent`")

    @pytest.fixture
    def twin(self) -> Agent:
        """A second agent, made in the same way."""
        raise NotImplementedError("override the fixture `twin`")

    def trial(self, name: str = "trial", channel: MemoryChannel | None = None) -> Trial:
        """A trial of this name, on the suite's case and condition."""
        return Trial(
            id=digest(name),
            case=SeenCase(self.case, "case"),
            condition=dict(self.condition),
            repeat=0,
            attempt=1,
            agent="agent",
            channel=channel or MemoryChannel(),
        )

    def output(self, agent: Agent, trial: Trial) -> Any:
        """The agent's output for the trial, as a runner would get it."""
        enter(trial)
        try:
            outcome = agent.invoke(trial)
            return asyncio.run(_complete(outcome)) if agent.asynchronous else outcome
        finally:
            enter(None)
            trial.finish()
            _close(trial)

    def test_it_is_an_agent(self, agent: Agent) -> None:
        assert isinstance(agent, Agent)
        assert agent.label
        assert agent.takes is None or isinstance(agent.takes, frozenset)

    def test_it_takes_the_factors_of_its_condition(self, agent: Agent) -> None:
        assert agent.takes is None or set(self.condition) <= agent.takes

    def test_its_identity_is_json_and_stays_the_same(self, agent: Agent) -> None:
        before = canonical(normalise(agent.identity))
        self.output(agent, self.trial())
        assert canonical(normalise(agent.identity)) == before

    def test_two_made_alike_are_the_same_agent(self, agent: Agent, twin: Agent) -> None:
        assert digest(agent.identity) == digest(twin.identity)
        assert (agent.label, agent.takes, agent.asynchronous) == (twin.label, twin.takes, twin.asynchronous)

    def test_it_is_awaited_if_it_says_so_and_only_then(self, agent: Agent) -> None:
        trial = self.trial()
        enter(trial)
        try:
            outcome = agent.invoke(trial)
        finally:
            enter(None)
            trial.finish()
        assert inspect.isawaitable(outcome) == agent.asynchronous
        if agent.asynchronous:
            asyncio.run(_complete(outcome))
        _close(trial)

    def test_its_output_is_json(self, agent: Agent) -> None:
        output = self.output(agent, self.trial())
        assert canonical(normalise(output)) == canonical(normalise(output))

    def test_it_does_not_change_what_it_is_given(self, agent: Agent) -> None:
        trial = self.trial()
        before = canonical(normalise([trial.case.input, dict(trial.condition)]))
        self.output(agent, trial)
        assert canonical(normalise([trial.case.input, dict(trial.condition)])) == before

    def test_trials_at_the_same_time_are_as_trials_one_by_one(self, agent: Agent) -> None:
        if not self.deterministic:
            pytest.skip("its outputs vary")
        names = [f"trial {i}" for i in range(TRIALS)]
        alone = [normalise(self.output(agent, self.trial(name))) for name in names]
        with ThreadPoolExecutor(TRIALS) as pool:
            together = list(pool.map(lambda name: normalise(self.output(agent, self.trial(name))), names))
        assert together == alone

    def test_an_abandoned_attempt_reports_nothing(self, agent: Agent) -> None:
        channel = MemoryChannel()
        channel.close()
        with suppress(Abandoned):
            self.output(agent, self.trial(channel=channel))
        reported = [channel.steps, channel.observed, channel.metrics, channel.about, channel.attached]
        assert not any(reported)


def _close(trial: Trial) -> None:
    """End the attempt, as a runner does: its folder goes."""
    if isinstance(trial.channel, MemoryChannel):
        trial.channel.close()


async def _complete(pending: Any) -> Any:
    return await pending
