"""Every adapter passes the same suite, the HTTP ones against the endpoint process."""

from __future__ import annotations

import pytest

from peira.core.models import Model
from peira.core.registry import Registry
from peira.models import ScriptedModel, anthropic, make, openai
from peira.models.names import register
from peira.testing.models import ModelSuite


class TestOpenAI(ModelSuite):
    @pytest.fixture
    def endpoint(self, endpoint):
        return endpoint

    @pytest.fixture
    def model(self, endpoint) -> Model:
        return openai(endpoint.model)


class TestOpenAIStreaming(TestOpenAI):
    @pytest.fixture
    def model(self, endpoint) -> Model:
        return openai(endpoint.model, stream=True)


class TestGemini(TestOpenAI):
    @pytest.fixture
    def model(self, endpoint) -> Model:
        registry = Registry()
        register(registry)
        return make(f"gemini:{endpoint.model}", registry, base_url=f"{endpoint.base}/v1beta/openai")


class TestResponses(TestOpenAI):
    @pytest.fixture
    def model(self, endpoint) -> Model:
        return openai(endpoint.model, form="responses")


class TestAnthropic(TestOpenAI):
    @pytest.fixture
    def model(self, endpoint) -> Model:
        return anthropic(endpoint.model)


class TestAnthropicStreaming(TestOpenAI):
    @pytest.fixture
    def model(self, endpoint) -> Model:
        return anthropic(endpoint.model, stream=True)


class Script:
    """The other side of a scripted model: a list that grows."""

    def __init__(self) -> None:
        self.turns: list = []
        self.model = ScriptedModel("told", answers=self.turns)

    def script(self, *turns) -> None:
        self.turns.extend(turns)

    def sends(self) -> int:
        return len(self.model.sent)


class TestScripted(ModelSuite):
    @pytest.fixture
    def endpoint(self) -> Script:
        return Script()

    @pytest.fixture
    def model(self, endpoint: Script) -> Model:
        return endpoint.model
