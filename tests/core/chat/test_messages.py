"""Messages in the forms of OpenAI and Anthropic become the same request."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import Message as AnthropicMessage
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage

from peira.core.chat.messages import anthropic_messages, openai_messages, read_messages
from peira.core.models import Reply, ToolCall

CALL = {"id": "c1", "name": "look", "arguments": {"word": "Paris"}}
OWN = [
    {"role": "user", "content": "Where?"},
    {"role": "assistant", "content": "Let me see.", "tool_calls": [CALL]},
    {"role": "tool", "id": "c1", "content": "a city"},
    {"role": "assistant", "content": "In France."},
]
FUNCTION = {"name": "look", "arguments": json.dumps(CALL["arguments"])}
OPENAI = [
    {"role": "user", "content": "Where?"},
    {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [{"id": "c1", "type": "function", "function": FUNCTION}],
    },
    {"role": "tool", "tool_call_id": "c1", "content": "a city"},
    {"role": "assistant", "content": "In France."},
]
USE = {"type": "tool_use", "id": "c1", "name": "look", "input": {"word": "Paris"}}
ANTHROPIC = [
    {"role": "user", "content": "Where?"},
    {"role": "assistant", "content": [{"type": "text", "text": "Let me see."}, USE]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "a city"}]},
    {"role": "assistant", "content": "In France."},
]


@pytest.mark.parametrize("given", [OWN, OPENAI, ANTHROPIC])
def test_every_form_is_the_same_messages(given: list[Any]) -> None:
    assert read_messages(given) == OWN


def test_each_vendor_gets_its_own_form() -> None:
    assert openai_messages(OWN) == [
        {
            **m,
            "tool_calls": [{**m["tool_calls"][0], "function": {**FUNCTION, "arguments": '{"word":"Paris"}'}}],
        }
        if m.get("tool_calls")
        else m
        for m in OPENAI
    ]
    assert anthropic_messages(OWN) == ANTHROPIC


def test_messages_of_the_vendors_packages_are_taken_as_they_are() -> None:
    openai = ChatCompletionMessage.model_validate(OPENAI[1])
    assert read_messages([openai]) == [OWN[1]]
    usage = {"input_tokens": 1, "output_tokens": 1}
    body = {"id": "m", "type": "message", "role": "assistant", "model": "c", "usage": usage}
    anthropic = AnthropicMessage.model_validate({**body, "content": ANTHROPIC[1]["content"]})
    assert read_messages([anthropic]) == [OWN[1]]
    assert read_messages([{"role": "assistant", "content": anthropic.content}]) == [OWN[1]]


def test_a_reply_goes_back_as_it_is() -> None:
    reply = Reply("Let me see.", tool_calls=(ToolCall("c1", "look", {"word": "Paris"}),))
    assert read_messages([reply]) == read_messages([reply.message]) == [OWN[1]]
    assert read_messages([reply.to_openai()]) == read_messages([reply.to_anthropic()]) == [OWN[1]]
    assert reply.to_anthropic() == ANTHROPIC[1]


def test_items_of_the_responses_api() -> None:
    items = [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Where?"}]},
        {"type": "function_call", "call_id": "c1", **FUNCTION},
        {"type": "function_call_output", "call_id": "c1", "output": "a city"},
    ]
    assert read_messages(items) == [OWN[0], {**OWN[1], "content": ""}, OWN[2]]


def test_images_thoughts_and_errors_survive() -> None:
    data = {"type": "image", "data": "AAAA", "media": "image/jpeg"}
    sent = {"type": "base64", "media_type": "image/jpeg", "data": "AAAA"}
    openai = {"type": "image_url", "image_url": {"url": "data:image/jpeg;base64,AAAA", "detail": "low"}}
    (one,) = read_messages([{"role": "user", "content": [{"type": "image", "source": sent}]}])
    (two,) = read_messages([{"role": "user", "content": [openai]}])
    assert one["content"] == [data]
    assert two["content"] == [{**data, "detail": "low"}]
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    (three,) = read_messages([{"role": "assistant", "content": [thought, {"type": "text", "text": "Yes."}]}])
    assert three == {"role": "assistant", "content": "Yes.", "thinking": [thought]}
    failed = {"type": "tool_result", "tool_use_id": "c", "content": "no", "is_error": True}
    (four,) = read_messages([{"role": "user", "content": [failed]}])
    assert four == {"role": "tool", "id": "c", "content": "no", "error": True}
    assert anthropic_messages([four])[0]["content"] == [failed]


TEXT = st.text(max_size=5)
JSON = st.dictionaries(TEXT, TEXT | st.integers(-9, 9) | st.none(), max_size=3)
CALLS = st.builds(lambda name, args: {"name": name, "arguments": args}, TEXT.filter(bool), JSON)


@given(st.lists(st.tuples(TEXT, st.lists(CALLS, max_size=3)), max_size=4))
def test_what_is_written_for_a_vendor_reads_back_the_same(turns: list[Any]) -> None:
    messages: list[Any] = []
    for n, (text, calls) in enumerate(turns):
        numbered = [{"id": f"c{n}.{i}", **call} for i, call in enumerate(calls)]
        messages += [{"role": "user", "content": text or "go on"}]
        messages += [{"role": "assistant", "content": text, **({"tool_calls": numbered} if numbered else {})}]
        messages += [{"role": "tool", "id": call["id"], "content": "done"} for call in numbered]
    assert read_messages(openai_messages(messages)) == messages
    assert read_messages(anthropic_messages(messages)) == messages
