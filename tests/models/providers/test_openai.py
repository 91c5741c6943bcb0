"""What is sent to endpoints that speak OpenAI's language, and what is made of their answers."""

from __future__ import annotations

import asyncio
import json

import pytest

from peira.core.models import Reply, Request, ToolCall, Usage
from peira.core.registry import Registry
from peira.errors import CallFailed, Invalid
from peira.models import ServedModel, make, openai, register
from peira.testing.models import CALLED, CONVERSATION, PIXEL, TOOL

QUESTION = Request(messages=({"role": "user", "content": "Capital of France?"},))


def ask(model: ServedModel, request: Request = QUESTION) -> Reply:
    async def whole() -> Reply:
        try:
            return model.read(await model.send(request))
        finally:
            await model.close()

    return asyncio.run(whole())


def sent(endpoint, request: Request = QUESTION, **config) -> dict:
    ask(openai(endpoint.model, **config), request)
    return endpoint.seen()[-1]


def with_(**parameters) -> Request:
    return Request(messages=QUESTION.messages, parameters=parameters)


def test_a_plain_question(endpoint) -> None:
    seen = sent(endpoint)
    assert seen["path"] == "/v1/chat/completions"
    assert seen["body"] == {
        "model": endpoint.model,
        "messages": [{"role": "user", "content": "Capital of France?"}],
    }
    assert seen["headers"]["authorization"].startswith("Bearer canary-")
    assert "openai-organization" not in seen["headers"]


def test_a_whole_conversation(endpoint) -> None:
    body = sent(endpoint, CONVERSATION)["body"]
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    function = {"name": "look_up", "arguments": '{"word":"Paris"}'}
    assert body["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "call_1", "type": "function", "function": function}],
        },
        {"role": "tool", "tool_call_id": "call_1", "content": "a city"},
        {"role": "user", "content": "And now?"},
    ]
    assert body["tools"] == [{"type": "function", "function": TOOL}]
    assert body["response_format"] == {
        "type": "json_schema",
        "json_schema": {
            "name": "answer",
            "schema": {**CONVERSATION.schema, "additionalProperties": False},
            "strict": True,
        },
    }
    assert (body["temperature"], body["max_tokens"]) == (0.5, 20)


def test_a_schema_that_can_be_enforced_is(endpoint) -> None:
    schema = {**CONVERSATION.schema, "additionalProperties": False, "title": "place"}
    body = sent(endpoint, Request(messages=QUESTION.messages, schema=schema))["body"]
    assert body["response_format"]["json_schema"] == {"name": "place", "schema": schema, "strict": True}


def test_parameters(endpoint) -> None:
    given = {
        "seed": 7,
        "stop": ["END"],
        "n": 2,
        "logprobs": 3,
        "reasoning": "low",
        "top_p": 0.9,
        "min_p": 0.1,
    }
    body = sent(endpoint, with_(**given))["body"]
    assert {k: v for k, v in body.items() if k not in ("model", "messages")} == {
        "seed": 7,
        "stop": ["END"],
        "n": 2,
        "logprobs": True,
        "top_logprobs": 3,
        "reasoning_effort": "low",
        "top_p": 0.9,
        "min_p": 0.1,
    }


def test_defaults_lie_under_what_is_asked_and_count_in_the_identity(endpoint) -> None:
    model = openai(endpoint.model, parameters={"temperature": 0.1, "top_p": 0.5})
    ask(model, with_(temperature=0.9))
    body = endpoint.seen()[-1]["body"]
    assert (body["temperature"], body["top_p"]) == (0.9, 0.5)
    assert model.identity != openai(endpoint.model).identity


def test_how_the_answer_comes_does_not_count_in_the_identity(endpoint) -> None:
    assert openai("m", stream=True).identity == openai("m").identity
    elsewhere = openai("m", base_url="http://localhost:1/v1").identity
    assert elsewhere == openai("m").identity, "a local server on another port is the same place"
    assert openai("m", base_url="https://host.example/v1").identity != elsewhere


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("form", ["chat", "responses"])
def test_a_full_answer(endpoint, form: str, stream: bool) -> None:
    endpoint.always(
        {
            "text": "Paris, of course",
            "reasoning": "France has a capital",
            "tool_calls": [CALLED, {**CALLED, "id": "call_2", "arguments": {"word": "été"}}],
            "finish": "tool_calls",
            "usage": {"input": 12, "output": 5, "cached": 8, "reasoning": 2},
        }
    )
    reply = ask(openai(endpoint.model, form=form, stream=stream))
    assert reply == Reply(
        "Paris, of course",
        model=f"{endpoint.model}-served",
        finish="tool_calls",
        usage=Usage(12, 5, 8, 2),
        tool_calls=(
            ToolCall("call_1", "look_up", {"word": "Paris"}),
            ToolCall("call_2", "look_up", {"word": "été"}),
        ),
        reasoning="France has a capital",
        latency=reply.latency,
        first_token=reply.first_token,
        id="chatcmpl-1" if form == "chat" else "resp_1",
    )


@pytest.mark.parametrize("stream", [False, True])
def test_several_texts_and_logprobs(endpoint, stream: bool) -> None:
    endpoint.always({"text": "Paris it is"})
    reply = ask(openai(endpoint.model, stream=stream), with_(n=3, logprobs=True))
    assert reply.texts == ("Paris it is",) * 3
    assert [token["token"] for token in reply.logprobs] == ["Paris", "it", "is"]


def test_arguments_that_are_no_json_stay_text(endpoint) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{oops"}}
    choice = {"message": {"content": None, "tool_calls": [call]}, "finish_reason": "tool_calls"}
    endpoint.always({"raw": json.dumps({"choices": [choice]})})
    assert ask(openai(endpoint.model)).tool_calls == (ToolCall("c", "f", "{oops"),)


def test_the_responses_form(endpoint) -> None:
    seen = sent(endpoint, CONVERSATION, form="responses")
    assert seen["path"] == "/v1/responses"
    body = seen["body"]
    assert body["instructions"] == "Be brief."
    assert body["input"] == [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "What is this?"},
                {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}", "detail": "auto"},
            ],
        },
        {"type": "function_call", "call_id": "call_1", "name": "look_up", "arguments": '{"word":"Paris"}'},
        {"type": "function_call_output", "call_id": "call_1", "output": "a city"},
        {"role": "user", "content": [{"type": "input_text", "text": "And now?"}]},
    ]
    assert body["tools"] == [{"type": "function", "strict": False, **TOOL}]
    assert body["text"]["format"]["type"] == "json_schema"
    assert (body["max_output_tokens"], body["store"]) == (20, False)


@pytest.mark.parametrize("name", ["n", "seed", "stop"])
def test_what_the_responses_form_cannot_say_is_refused_before_sending(endpoint, name: str) -> None:
    with pytest.raises(CallFailed, match=f"no parameter '{name}'") as failed:
        ask(openai(endpoint.model, form="responses"), with_(**{name: 1}))
    assert not failed.value.free
    assert not failed.value.doubt
    assert endpoint.sends() == 0


def test_azure_style(endpoint) -> None:
    model = openai(endpoint.model, base_url=endpoint.base, api_version="2025-04-01")
    ask(model, with_(max_tokens=9))
    seen = endpoint.seen()[-1]
    where = f"/openai/deployments/{endpoint.model}/chat/completions?api-version=2025-04-01"
    assert seen["path"] == where
    assert seen["headers"]["api-key"].startswith("canary-")
    assert "authorization" not in seen["headers"]
    assert seen["body"]["max_completion_tokens"] == 9


def test_organisation_project_and_other_headers(endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-1")
    monkeypatch.setenv("GATEWAY_KEY", "gate-secret-1")
    headers = sent(endpoint, headers={"x-gate": "$GATEWAY_KEY", "x-team": "blue", "x-none": "$NOT_SET"})[
        "headers"
    ]
    assert (headers["openai-organization"], headers["x-gate"], headers["x-team"]) == (
        "org-1",
        "gate-secret-1",
        "blue",
    )
    assert "x-none" not in headers


def test_a_missing_key_is_named_before_anything_is_sent(endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("GEMINI_API_KEY")
    registry = Registry()
    register(registry)
    openai(endpoint.model).check()  # elsewhere than at OpenAI itself none is needed
    with pytest.raises(Invalid, match="openai:m: no key; set the environment variable OPENAI_API_KEY"):
        openai("m", base_url="https://api.openai.com/v1").check()
    with pytest.raises(Invalid, match="MY_KEY"):
        openai("m", key="MY_KEY").check()
    with pytest.raises(Invalid, match="GEMINI_API_KEY"):
        make("gemini:gemini-3-pro", registry).check()
    make("ollama:llama4", registry).check()


def test_a_key_where_its_name_belongs_is_refused_and_not_repeated() -> None:
    with pytest.raises(Invalid, match="environment variable") as refused:
        openai("m", key="sk-proj-abcdef0123456789")
    assert "abcdef" not in str(refused.value)


@pytest.mark.parametrize("base", ["api.openai.com/v1", "ftp://x/v1", "https://", "user:hush@x"])
def test_a_base_url_that_is_none(base: str) -> None:
    with pytest.raises(Invalid, match="base URL") as refused:
        openai("m", base_url=base)
    assert "hush" not in str(refused.value)


def test_an_unknown_form() -> None:
    with pytest.raises(Invalid, match="did you mean 'responses'"):
        openai("m", form="response")
