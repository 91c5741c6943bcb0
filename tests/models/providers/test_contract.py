"""What is sent, and what is read, by the types of the vendors' own SDKs."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, TypeAdapter

from peira.core.ids import Json
from peira.core.models import Answer, Reply, Request, Usage
from peira.errors import CallFailed
from peira.models.content_filter import filtered_reply
from peira.models.http.model import WireFormat, read_body
from peira.models.prices import price_of
from peira.models.providers.anthropic import Messages
from peira.models.providers.chat import Chat
from peira.models.providers.openai import Responses, openai
from peira.testing.models import PIXEL

anthropic_types = pytest.importorskip("anthropic.types")
openai_types = pytest.importorskip("openai.types.chat")
responses_types = pytest.importorskip("openai.types.responses")


class Place(BaseModel):
    """As a user writes a schema."""

    city: str
    country: str


class Loose(BaseModel):
    city: str
    country: str = "France"


FORMS: dict[str, tuple[WireFormat, Any]] = {
    "chat": (
        Chat("max_completion_tokens"),
        openai_types.completion_create_params.CompletionCreateParamsNonStreaming,
    ),
    "responses": (
        Responses(),
        responses_types.response_create_params.ResponseCreateParamsNonStreaming,
    ),
    "messages": (
        Messages(),
        anthropic_types.message_create_params.MessageCreateParamsNonStreaming,
    ),
}
IMAGE = {"type": "image", "data": PIXEL, "media": "image/png"}
TOOL: dict[str, Json] = {
    "name": "look_up",
    "description": "Looks a word up.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}},
}
CALL = {"id": "call_1", "name": "look_up", "arguments": {"word": "Paris"}}
REQUESTS = {
    "plain": Request(({"role": "user", "content": "Hello"},), system="Be brief."),
    "image": Request(({"role": "user", "content": [{"type": "text", "text": "What?"}, IMAGE]},)),
    "tools": Request(
        (
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "id": "call_1", "content": "a city"},
            {"role": "user", "content": "And?"},
        ),
        tools=(TOOL,),
    ),
    "tool results with parts": Request(
        (
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "id": "call_1", "content": [{"type": "text", "text": "a city"}, IMAGE]},
        ),
        tools=(TOOL,),
    ),
    "tool results that are values": Request(
        (
            {"role": "user", "content": "Look."},
            {"role": "assistant", "content": "", "tool_calls": [CALL]},
            {"role": "tool", "id": "call_1", "content": {"found": [1, 2]}},
        ),
        tools=(TOOL,),
    ),
    "schema": Request(({"role": "user", "content": "Where?"},), schema=Place.model_json_schema()),
    "limits": Request(({"role": "user", "content": "Hi"},), parameters={"max_tokens": 5}),
    "reasoning": Request(({"role": "user", "content": "Hi"},), parameters={"reasoning": "low"}),
}


def listed(value: Any) -> Any:
    """Iterators of validated values as lists."""
    if isinstance(value, dict):
        return {key: listed(item) for key, item in value.items()}
    if isinstance(value, str | bytes | int | float | bool | type(None)):
        return value
    return [listed(item) for item in value]


@pytest.mark.parametrize("what", REQUESTS)
@pytest.mark.parametrize("form", FORMS)
def test_requests_are_what_the_sdk_would_send(form: str, what: str) -> None:
    """Validated by the SDK's types, nothing is missing, and nothing is left over."""
    writer, kind = FORMS[form]
    body = writer.write("m", REQUESTS[what], stream=False)
    adapter = TypeAdapter(kind)  # must outlive the iterators that it makes
    assert listed(adapter.validate_python(body)) == body


def test_a_pydantic_schema_is_closed_and_strict_where_that_changes_nothing() -> None:
    loose = Request(({"role": "user", "content": "Where?"},), schema=Loose.model_json_schema())
    for name, strict in (("chat", True), ("responses", True)):
        form = FORMS[name][0]
        body = form.write("m", REQUESTS["schema"], stream=False)
        said = body["response_format"]["json_schema"] if name == "chat" else body["text"]["format"]
        assert (said["strict"], said["schema"]["additionalProperties"]) == (strict, False)
        body = form.write("m", loose, stream=False)
        said = body["response_format"]["json_schema"] if name == "chat" else body["text"]["format"]
        assert (said["strict"], said["schema"]) == (False, Loose.model_json_schema())
    for request in (REQUESTS["schema"], loose):
        told = Messages().write("m", request, stream=False)["output_config"]["format"]
        assert told["schema"]["additionalProperties"] is False


def message(**changes: Any) -> dict[str, Any]:
    whole = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "claude",
        "content": [{"type": "text", "text": "Paris"}],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 10, "output_tokens": 5},
        **changes,
    }
    built: dict[str, Any] = anthropic_types.Message.model_validate(whole).model_dump(mode="json")
    return built


def test_thinking_travels_back_in_a_tool_loop() -> None:
    thought = {"type": "thinking", "thinking": "hm", "signature": "sig=="}
    hidden = {"type": "redacted_thinking", "data": "xyz"}
    call = {"type": "tool_use", "id": "t1", "name": "look_up", "input": {"word": "x"}}
    reply = Messages().read(message(content=[thought, hidden, call], stop_reason="tool_use"))
    assert (reply.finish, reply.reasoning) == ("tool_calls", "hm")
    result = {"role": "tool", "id": "t1", "content": "found"}
    again = Request(({"role": "user", "content": "Look."}, reply.message, result), tools=(TOOL,))
    body = Messages().write("m", again, stream=False)
    adapter = TypeAdapter(FORMS["messages"][1])
    assert listed(adapter.validate_python(body)) == body
    sent = body["messages"][1]["content"]
    assert [block["type"] for block in sent] == ["thinking", "redacted_thinking", "tool_use"]
    assert (sent[0]["signature"], sent[1]["data"]) == ("sig==", "xyz")
    for form in ("chat", "responses"):  # others have no place for it
        assert "sig==" not in str(FORMS[form][0].write("m", again, stream=False))


def test_the_limit_is_above_the_thinking_budget() -> None:
    asked = REQUESTS["plain"].messages
    body = Messages().write("m", Request(asked, parameters={"reasoning": 5000}), stream=False)
    assert body["max_tokens"] > body["thinking"]["budget_tokens"] == 5000
    with pytest.raises(CallFailed, match="max_tokens=100 leaves no answer after reasoning=5000"):
        Messages().write("m", Request(asked, parameters={"reasoning": 5000, "max_tokens": 100}), stream=False)


def test_usage_of_anthropic() -> None:
    usage = {
        "input_tokens": 10,
        "output_tokens": 50,
        "cache_read_input_tokens": 100,
        "cache_creation_input_tokens": 1000,
        "cache_creation": {"ephemeral_5m_input_tokens": 400, "ephemeral_1h_input_tokens": 600},
        "output_tokens_details": {"thinking_tokens": 30},
    }
    read = Messages().read(message(usage=usage)).usage
    assert read == Usage(1110, 50, 100, 30, 1000, 600)
    price = price_of("anthropic", "claude-sonnet-4-5")
    assert price is not None
    plain = Usage(1110, 50, 100, 30, 1000)
    per_token = 3e-6  # of this model
    assert price.cost(read) - price.cost(plain) == pytest.approx(600 * (2 - 1.25) * per_token)  # type: ignore[operator]
    given = price_of("anthropic", "x", {"input": 3, "output": 15, "written": 3.75})
    assert given is not None
    assert given.cost(read) - given.cost(plain) == pytest.approx(600 * 0.75 * per_token)  # type: ignore[operator]


def completion(**changes: Any) -> dict[str, Any]:
    told = changes.pop("message", {"content": "Paris"})
    whole = {
        "id": "c1",
        "object": "chat.completion",
        "created": 0,
        "model": "gpt",
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": None, "refusal": None, **told},
            }
        ],
        **changes,
    }
    built: dict[str, Any] = openai_types.ChatCompletion.model_validate(whole).model_dump(mode="json")
    return built


def response(parts: list[dict[str, Any]], usage: dict[str, Any] | None = None) -> dict[str, Any]:
    item = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": parts}
    whole = {
        "id": "r1",
        "object": "response",
        "created_at": 0,
        "model": "gpt",
        "output": [item],
        "status": "completed",
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "usage": usage,
    }
    built: dict[str, Any] = responses_types.Response.model_validate(whole).model_dump(mode="json")
    return built


def test_reasoning_outside_the_completion_is_priced_by_the_total() -> None:
    usage = {
        "prompt_tokens": 10,
        "completion_tokens": 5,
        "total_tokens": 115,
        "completion_tokens_details": {"reasoning_tokens": 100},
        "prompt_tokens_details": {"cached_tokens": 3, "cache_write_tokens": 2},
    }
    assert Chat().read(completion(usage=usage)).usage == Usage(10, 105, 3, 100, 2)
    inside = {**usage, "completion_tokens": 105}
    assert Chat().read(completion(usage=inside)).usage == Usage(10, 105, 3, 100, 2)
    details = {"cached_tokens": 3, "cache_write_tokens": 2}
    counted = {
        "input_tokens": 10,
        "output_tokens": 5,
        "total_tokens": 115,
        "input_tokens_details": details,
        "output_tokens_details": {"reasoning_tokens": 100},
    }
    text = {"type": "output_text", "text": "Paris", "annotations": []}
    assert Responses().read(response([text], counted)).usage == Usage(10, 105, 3, 100, 2)


def test_a_refusal_is_one_thing() -> None:
    no = "I will not."
    replies = [
        Chat().read(completion(message={"refusal": no})),
        Responses().read(response([{"type": "refusal", "refusal": no}])),
        Messages().read(message(content=[{"type": "text", "text": no}], stop_reason="refusal")),
    ]
    assert {(reply.refusal, reply.finish, reply.text) for reply in replies} == {(no, "refusal", no)}
    assert Messages().read(message(content=[], stop_reason="refusal")).refusal == "refused"
    for reply in (Chat().read(completion()), Messages().read(message())):
        assert (reply.refusal, reply.finish, reply.text) == ("", "stop", "Paris")


def test_answers_have_the_ids_of_the_provider() -> None:
    text = {"type": "output_text", "text": "Paris", "annotations": []}
    replies = [Chat().read(completion()), Responses().read(response([text])), Messages().read(message())]
    assert [reply.id for reply in replies] == ["c1", "r1", "msg_1"]


def test_a_reply_as_a_message() -> None:
    assert Reply("hello").message == {"role": "assistant", "content": "hello"}


def test_azure_is_azure() -> None:
    own = openai("gpt-4o")
    azure = openai("gpt-4o", base_url="https://x.openai.azure.com", api_version="2024-10-21")
    newer = openai("gpt-4o", base_url="https://x.openai.azure.com/openai/v1")
    assert [one.vendor for one in (own, azure, newer)] == ["openai", "azure", "azure"]
    assert azure.address == "x.openai.azure.com:443"
    assert price_of("openai", "gpt-4o", None, "azure") is not None


def test_what_a_content_filter_ends_is_a_refusal_too() -> None:
    cut = completion(message={"content": "Well,"})
    cut["choices"][0]["finish_reason"] = "content_filter"
    silent = completion(message={"content": None})
    silent["choices"][0]["finish_reason"] = "content_filter"
    stopped = response([{"type": "output_text", "text": "Well,", "annotations": []}])
    stopped |= {"status": "incomplete", "incomplete_details": {"reason": "content_filter"}}
    for reply in (Chat().read(cut), Responses().read(stopped)):
        assert (reply.refusal, reply.finish, reply.text) == ("Well,", "refusal", "Well,")
    reply = Chat().read(silent)
    assert reply.finish == "refusal"
    assert reply.text == reply.refusal == "refused by the provider's content filter (content_filter)"


AZURE = {
    "error": {
        "message": "The response was filtered due to the prompt triggering the content management policy.",
        "code": "content_filter",
        "status": 400,
        "innererror": {"code": "ResponsibleAIPolicyViolation", "content_filter_result": {}},
    }
}


@pytest.mark.parametrize(
    ("status", "error", "filtered"),
    [
        (400, AZURE, True),
        (400, {"error": {"code": "content_policy_violation", "message": "no"}}, True),
        (400, {"error": {"code": None, "innererror": {"code": "ResponsibleAIPolicyViolation"}}}, True),
        (400, {"error": {"code": "invalid_request_error", "message": "content_filter"}}, False),
        (403, AZURE, False),
        (400, ["content_filter"], False),
        (400, {"error": "content_filter"}, False),
    ],
)
def test_a_request_that_a_filter_refuses(status: int, error: Any, filtered: bool) -> None:
    body = json.dumps(error).encode()
    reply = filtered_reply(status, body)
    assert (reply is not None) == filtered
    if reply is not None:
        assert (reply.finish, reply.text, reply.usage) == ("refusal", reply.refusal, Usage(0, 0))
        assert read_body(Chat(), "azure", Answer(status, body, 0.5)).refusal == reply.refusal
