from __future__ import annotations

from typing import Any, ClassVar

import pytest

from peira.agents import FunctionAgent
from peira.core.context import SeenCase, Trial, current_trial
from peira.core.ids import Json
from peira.core.steps import step
from peira.testing import AgentSuite


def shout(text: str) -> str:
    return text.upper()


def answer(case: SeenCase, style: str) -> Json:
    trial = current_trial()
    trial.report(length=len(case.input))
    loud = step("shout", shout, case.input)
    return {"style": style, "text": loud, "draw": trial.rng.random()}


async def answer_async(case: SeenCase, trial: Trial, **factors: Any) -> Json:
    return [case.input, sorted(factors), trial.rng.randrange(1000)]


class TestFunctionAgent(AgentSuite):
    condition: ClassVar = {"style": "plain"}

    @pytest.fixture
    def agent(self) -> FunctionAgent:
        return FunctionAgent(answer, label="answer")

    twin = agent


class TestAsyncFunctionAgent(AgentSuite):
    condition: ClassVar = {"style": "plain", "depth": 3}

    @pytest.fixture
    def agent(self) -> FunctionAgent:
        return FunctionAgent(answer_async, label="answer")

    twin = agent
