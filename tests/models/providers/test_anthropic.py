"""What is sent to the messages API, and what is made of its answers."""

from __future__ import annotations

import asyncio

import pytest

from peira.core.models import Reply, Request, ToolCall, Usage
from peira.errors import CallFailed, Invalid
from peira.models import anthropic
from peira.testing.models import CALLED, CONVERSATION, PIXEL, TOOL

QUESTION = Request(messages=({"role": "user", "content": "Capital of France?"},))


def ask(endpoint, request: Request = QUESTION, **config) -> Reply:
    model = anthropic(endpoint.model, **config)

    async def whole() -> Reply:
        try:
            return model.read(await model.send(request))
        finally:
            await model.close()

    return asyncio.run(whole())


def body(endpoint, **parameters) -> dict:
    ask(endpoint, Request(messages=QUESTION.messages, parameters=parameters))
    return endpoint.seen()[-1]["body"]


def test_a_plain_question(endpoint) -> None:
    ask(endpoint)
    [seen] = endpoint.seen()
    assert seen["path"] == "/v1/messages"
    assert seen["headers"]["x-api-key"].startswith("canary-")
    assert seen["headers"]["anthropic-version"] == "2023-06-01"
    assert seen["body"] == {
        "model": endpoint.model,
        "messages": [{"role": "user", "content": "Capital of France?"}],
        "max_tokens": 4096,
    }


def test_a_whole_conversation(endpoint) -> None:
    ask(endpoint, CONVERSATION)
    seen = endpoint.seen()[-1]["body"]
    source = {"type": "base64", "media_type": "image/png", "data": PIXEL}
    assert seen["system"] == "Be brief."
    assert seen["messages"] == [
        {
            "role": "user",
            "content": [{"type": "text", "text": "What is this?"}, {"type": "image", "source": source}],
        },
        {
            "role": "assistant",
            "content": [{"type": "tool_use", "id": "call_1", "name": "look_up", "input": {"word": "Paris"}}],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "call_1", "content": "a city"},
                {"type": "text", "text": "And now?"},
            ],
        },
    ]
    assert seen["tools"] == [
        {"name": "look_up", "description": TOOL["description"], "input_schema": TOOL["parameters"]}
    ]
    closed = {**(CONVERSATION.schema or {}), "additionalProperties": False}
    assert seen["output_config"] == {"format": {"type": "json_schema", "schema": closed}}
    assert seen["max_tokens"] == 20


@pytest.mark.parametrize("stream", [False, True])
def test_a_full_answer(endpoint, stream: bool) -> None:
    endpoint.always(
        {
            "text": "Paris, of course",
            "reasoning": "France has a capital",
            "tool_calls": [CALLED, {"id": "call_2", "name": "now", "arguments": {}}],
            "finish": "tool_calls",
            "usage": {"input": 20, "output": 5, "cached": 8, "stored": 4},
        }
    )
    reply = ask(endpoint, stream=stream)
    assert reply == Reply(
        "Paris, of course",
        model=f"{endpoint.model}-served",
        finish="tool_calls",
        usage=Usage(input=20, output=5, cached=8, written=4),
        tool_calls=(ToolCall("call_1", "look_up", {"word": "Paris"}), ToolCall("call_2", "now", {})),
        reasoning="France has a capital",
        latency=reply.latency,
        first_token=reply.first_token,
        thinking=reply.thinking,
        id="msg_1",
    )
    assert [block["thinking"] for block in reply.thinking] == ["France has a capital"]


def test_parameters(endpoint) -> None:
    assert body(endpoint, stop="END")["stop_sequences"] == ["END"]
    assert body(endpoint, reasoning=2000)["thinking"] == {"type": "enabled", "budget_tokens": 2000}
    effort = body(endpoint, reasoning="low", top_k=5)
    assert (effort["thinking"], effort["output_config"], effort["top_k"]) == (
        {"type": "adaptive"},
        {"effort": "low"},
        5,
    )


@pytest.mark.parametrize("name", ["seed", "n", "logprobs"])
def test_what_it_cannot_do_is_refused_before_sending(endpoint, name: str) -> None:
    with pytest.raises(CallFailed, match=f"anthropic has no parameter '{name}'"):
        body(endpoint, **{name: 1})
    assert endpoint.sends() == 0


def test_a_message_without_a_role_is_refused_before_sending(endpoint) -> None:
    with pytest.raises(CallFailed, match="without 'role'"):
        ask(endpoint, Request(messages=({"content": "hello"},)))
    assert endpoint.sends() == 0


def test_a_missing_key_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    with pytest.raises(Invalid, match="anthropic:m: no key; set the environment variable ANTHROPIC_API_KEY"):
        anthropic("m").check()
