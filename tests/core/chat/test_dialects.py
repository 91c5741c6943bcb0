"""Requests in the providers' own JSON: kept as they are for their own API, translated for another."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.chat.dialects import DIALECTS, native_body, native_request, readable, spoken
from peira.core.ids import canonical
from peira.core.models import Reply, Request, ToolCall, Usage
from peira.errors import CallFailed, UntranslatableRequest
from peira.models.providers.anthropic import Messages
from peira.models.providers.chat import Chat
from peira.models.providers.openai import Responses
from peira.models.providers.scripted import ScriptedModel

FORMS: dict[str, Any] = {"chat": Chat(), "responses": Responses(), "messages": Messages()}
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=40)
NAME = st.text("abcdefg_", min_size=1, max_size=8)
ARGUMENTS = st.dictionaries(NAME, TEXT | st.integers(-9, 9) | st.lists(TEXT, max_size=2), max_size=3)
CALLS = st.lists(st.tuples(NAME, ARGUMENTS), max_size=3)
REPLIES = st.builds(
    lambda text, calls, used: Reply(
        text or ("" if calls else "x"),
        finish="tool_calls" if calls else "stop",
        usage=Usage(input=used[0] + used[2], output=used[1], cached=used[2]),
        tool_calls=tuple(ToolCall(f"id{n}", *call) for n, call in enumerate(calls)),
        call="c" * 64,
    ),
    TEXT,
    CALLS,
    st.tuples(*[st.integers(0, 10**6)] * 3),
)


@given(REPLIES, st.sampled_from(sorted(FORMS)))
def test_an_answer_says_what_the_reply_says(reply: Reply, name: str) -> None:
    body = DIALECTS[name].written(reply, "m")
    read = FORMS[name].read(msgspec.json.decode(msgspec.json.encode(body)))
    assert (read.text, read.tool_calls) == (reply.text, reply.tool_calls)
    assert (read.usage.input, read.usage.output, read.usage.cached or 0) == (
        reply.usage.input,
        reply.usage.output,
        reply.usage.cached,
    )


@given(REPLIES, st.sampled_from(sorted(FORMS)))
def test_a_stream_gives_the_same_answer(reply: Reply, name: str) -> None:
    body = DIALECTS[name].written(reply, "m")
    gather = FORMS[name].gather()
    for _, event in DIALECTS[name].events(body, {"stream_options": {"include_usage": True}}):
        if isinstance(event, dict):
            gather.add(msgspec.json.decode(msgspec.json.encode(event)))
    read = FORMS[name].read(gather.body())
    assert (read.text, read.tool_calls) == (reply.text, reply.tool_calls)
    assert (read.usage.input, read.usage.output) == (reply.usage.input, reply.usage.output)


SAID = Request(
    (
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "see"},
                {"type": "image", "data": "AA==", "media": "image/png"},
            ],
        },
        {
            "role": "assistant",
            "content": "ok",
            "tool_calls": [{"id": "t", "name": "f", "arguments": {"a": 1}}],
        },
        {"role": "tool", "id": "t", "content": "done"},
        {"role": "user", "content": "and?"},
    ),
    system="be short",
    tools=({"name": "f", "description": "does", "parameters": {"type": "object", "properties": {}}},),
    parameters={"max_tokens": 9, "temperature": 0.5},
)


@pytest.mark.parametrize("name", sorted(FORMS))
def test_what_a_provider_is_sent_can_be_read_back(name: str) -> None:
    """The request that our own model writes, as if a program had written it."""
    body = FORMS[name].write("m", SAID, stream=False)
    native = native_request(DIALECTS[name], body, {"Anthropic-Beta": "x", "user-agent": "y"})
    assert native.headers == {"anthropic-beta": "x"}
    found = readable(native)
    assert (found.messages, found.system, found.tools) == (SAID.messages, SAID.system, SAID.tools)
    assert found.parameters == SAID.parameters


@pytest.mark.parametrize("name", sorted(FORMS))
def test_its_own_api_gets_it_as_it_was_said(name: str) -> None:
    body = {
        **FORMS[name].write("m", SAID, stream=False),
        "vendor_only": {"x": [1]},
        "metadata": {"a": "b"},
        "stream": True,
    }
    native = native_request(DIALECTS[name], body, {})
    assert native_body(native) == {
        key: value for key, value in body.items() if key not in ("model", "stream")
    }


def test_what_is_said_beside_a_request_is_no_part_of_it() -> None:
    chat = DIALECTS["chat"]
    asked = {"model": "m", "messages": [{"role": "user", "content": "x"}]}

    def identity(**more: Any) -> bytes:
        request = native_request(chat, {**asked, **more}, {})
        return canonical(msgspec.to_builtins(msgspec.structs.replace(request, beside={})))

    assert identity() == identity(stream=True, user="u", metadata={"a": "b"}, prompt_cache_key="k")
    assert identity() != identity(temperature=0)


CHOICES = {
    "chat": ["auto", "none", "required", {"type": "function", "function": {"name": "f"}}],
    "responses": ["auto", "none", "required", {"type": "function", "name": "f"}],
    "messages": [{"type": "auto"}, {"type": "none"}, {"type": "any"}, {"type": "tool", "name": "f"}],
}


@pytest.mark.parametrize("source", sorted(CHOICES))
@pytest.mark.parametrize("target", sorted(CHOICES))
def test_the_choice_of_a_tool_is_said_in_the_words_of_the_other(source: str, target: str) -> None:
    for mine, theirs in zip(CHOICES[source], CHOICES[target], strict=True):
        turns = DIALECTS[source].TURNS
        body = {turns: [{"role": "user", "content": "x"}], "tool_choice": mine}
        found = DIALECTS[source].translated(native_request(DIALECTS[source], body, {}), target)
        assert found.parameters["tool_choice"] == theirs


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("chat", {"messages": [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]}),
        ("messages", {"messages": [{"role": "user", "content": [{"type": "container_upload"}]}]}),
        ("responses", {"input": [{"type": "computer_call"}]}),
        ("responses", {"input": "x", "previous_response_id": "r"}),
        ("chat", {"messages": [{"content": "no role"}]}),
    ],
)
def test_what_another_model_cannot_be_given_is_a_failure_that_costs_nothing(name: str, body: Any) -> None:
    request = native_request(DIALECTS[name], body, {})
    with pytest.raises(CallFailed, match="not sent") as found:
        spoken(request, ScriptedModel("m"))
    assert (found.value.free, found.value.doubt) == (False, False)
    assert readable(request) == request


def test_a_request_without_messages_is_refused() -> None:
    for name, dialect in DIALECTS.items():
        for wrong in ({}, {dialect.TURNS: []}, {dialect.TURNS: [1]}, {dialect.TURNS: {"a": 1}}):
            with pytest.raises(UntranslatableRequest):
                native_request(dialect, wrong, {})
        assert name == dialect.NAME


@pytest.mark.parametrize(("form", "provider"), [("chat", "openai"), ("messages", "anthropic")])
def test_a_model_sends_what_was_said_with_its_headers_and_gives_back_what_came(
    endpoint: Any, form: str, provider: str
) -> None:
    from peira.app.models import named
    from peira.core.chat.dialects import with_native
    from peira.spec.project import Project

    model = named(Project(), f"{provider}:{endpoint.model}").model
    body = {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 7, "vendor_only": 1, "user": "u"}
    request = native_request(DIALECTS[form], body, {"anthropic-beta": "b1", "openai-beta": "b2"})

    async def ask() -> Any:
        try:
            return await model.send(spoken(request, model))
        finally:
            await model.close()

    answer = asyncio.run(ask())
    reply = with_native(model.read(answer), request, model, answer.body)
    assert reply.native == msgspec.json.decode(answer.body)
    [seen] = endpoint.seen()
    sent = seen.get("body", seen)
    assert sent["vendor_only"] == 1
