"""Every adapter against an endpoint that answers as none should."""

from __future__ import annotations

import json
from typing import Any

import pytest

from peira.core.models import Model
from peira.core.registry import Registry
from peira.models import Timeouts, anthropic, make, openai
from peira.models.names import register
from peira.testing.hostile import HostileEndpoint, HostileEndpointSuite

from .server import chat, chat_events, messages, messages_events, responses, responses_events

SHORT = Timeouts(connect=2.0, first_byte=0.4, total=3.0)
TURN: dict[str, Any] = {
    "text": "Paris it is",
    "reasoning": "They asked for France.",
    "usage": {"input": 12, "output": 3, "cached": 4, "stored": 2, "reasoning": 1},
    "tool_calls": [{"id": "call_1", "name": "look_up", "arguments": {"word": "Paris"}}],
}
ASKED = {"model": "m", "logprobs": True}


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY"):
        monkeypatch.setenv(name, "a-key-of-nobody-0b5d")


class TestChat(HostileEndpointSuite):
    body = chat(ASKED, TURN)

    @pytest.fixture
    def model(self, hostile: HostileEndpoint) -> Model:
        return openai("m", base_url=f"{hostile.base}/v1", timeouts=SHORT)


class TestChatStreaming(TestChat):
    events = chat_events(chat(ASKED, TURN))

    @pytest.fixture
    def model(self, hostile: HostileEndpoint) -> Model:
        return openai("m", base_url=f"{hostile.base}/v1", timeouts=SHORT, stream=True)


class TestServed(TestChat):
    @pytest.fixture
    def model(self, hostile: HostileEndpoint) -> Model:
        registry = Registry()
        register(registry)
        return make("gemini:m", registry, base_url=f"{hostile.base}/v1beta/openai", timeouts=SHORT)


class TestResponses(HostileEndpointSuite):
    body = responses(ASKED, TURN)

    @pytest.fixture
    def model(self, hostile: HostileEndpoint) -> Model:
        return openai("m", base_url=f"{hostile.base}/v1", timeouts=SHORT, form="responses")


class TestResponsesStreaming(TestResponses):
    events = responses_events(responses(ASKED, TURN))

    @pytest.fixture
    def model(self, hostile: HostileEndpoint) -> Model:
        return openai("m", base_url=f"{hostile.base}/v1", timeouts=SHORT, form="responses", stream=True)


class TestAnthropic(HostileEndpointSuite):
    body = messages(ASKED, TURN)

    @pytest.fixture
    def model(self, hostile: HostileEndpoint) -> Model:
        return anthropic("m", base_url=hostile.base, timeouts=SHORT)


class TestAnthropicStreaming(TestAnthropic):
    events = messages_events(messages(ASKED, TURN))

    @pytest.fixture
    def model(self, hostile: HostileEndpoint) -> Model:
        return anthropic("m", base_url=hostile.base, timeouts=SHORT, stream=True)


def test_the_answers_have_everything_in_them() -> None:
    """Or fields would be left out of the attack."""
    said = json.dumps([chat(ASKED, TURN), responses(ASKED, TURN), messages(ASKED, TURN)])
    for field in ("reasoning_tokens", "cached_tokens", "tool_use", "function_call", "thinking", "logprobs"):
        assert field in said
