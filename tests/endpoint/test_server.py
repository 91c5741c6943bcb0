"""The recording endpoint with the vendors' own clients: what they ask, and what they read."""

from __future__ import annotations

import asyncio
import json
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest

from peira.core.models import Reply, Request, ToolCall, Usage
from peira.endpoint.server import EndpointServer
from peira.endpoint.session import EndpointSession, ModelRoutes
from peira.endpoint.tools import AttemptTools
from peira.errors import Abandoned, CallFailed, Exhausted, InDoubt
from peira.testing import MemoryChannel

USAGE = Usage(input=7, output=3, cached=2, reasoning=1)
SAID = Reply("Paris, of course. " * 500, usage=USAGE, finish="stop", call="c" * 64)
CALLS = Reply(
    "",
    finish="tool_calls",
    usage=USAGE,
    call="d" * 64,
    tool_calls=(ToolCall("t1", "weather", {"city": "Paris", "days": [1, 2]}), ToolCall("t2", "time", {})),
)
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CHAT_TOOL: Any = {
    "type": "function",
    "function": {"name": "weather", "description": "It", "parameters": SCHEMA},
}
RESPONSE_TOOL: Any = {"type": "function", "name": "weather", "parameters": SCHEMA, "strict": False}
MESSAGE_TOOL: Any = {"name": "weather", "description": "It", "input_schema": SCHEMA}
ASKED: Any = [{"role": "user", "content": "Capital of France?"}]


class Place:
    """A server with one session."""

    def __init__(self) -> None:
        self.server = EndpointServer()
        self.port = self.server.listen_loopback()
        self.replies: Any = SAID
        self.channel = MemoryChannel(replies=self._reply)
        self.session = self.open("token")

    def _reply(self, request: Request) -> Any:
        reply = self.replies(request) if callable(self.replies) else self.replies
        if isinstance(reply, BaseException):
            failed: Future[Reply] = Future()
            failed.set_exception(reply)
            return failed
        return reply

    def open(self, token: str, **options: Any) -> EndpointSession:
        routes = options.pop(
            "routes", ModelRoutes({"small": "openai:mini", "claude-*": "anthropic:c"}, "trial:m")
        )
        session = EndpointSession(token, self.channel, routes, **options)
        self.server.open(session)
        return session

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self.port}/token"

    @property
    def openai(self) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.base}/v1", api_key="token")

    @property
    def anthropic(self) -> anthropic.Anthropic:
        return anthropic.Anthropic(base_url=self.base, api_key="token")

    def post(self, path: str, body: Any, token: str = "token") -> tuple[int, Any]:
        url = f"http://127.0.0.1:{self.port}/{token}{path}"
        request = urllib.request.Request(url, json.dumps(body).encode(), {"content-type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=20) as response:
                read = response.read()
                return response.status, json.loads(read) if read else None
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.loads(error.read())


@pytest.fixture
def place() -> Iterator[Place]:
    made = Place()
    yield made
    made.server.stop()


class TestChat:
    def test_an_answer(self, place: Place) -> None:
        with place.openai as client:
            said = client.chat.completions.create(model="small", messages=ASKED, user="u", temperature=0.5)
        assert said.choices[0].message.content == SAID.text
        assert said.usage
        assert (said.usage.prompt_tokens, said.usage.completion_tokens, said.model) == (7, 3, "small")
        [(model, request, _)] = place.channel.asked
        assert model == "openai:mini"
        assert (request.form, request.parameters, request.beside) == (
            "chat",
            {"temperature": 0.5},
            {"user": "u"},
        )

    def test_a_stream(self, place: Place) -> None:
        with place.openai as client:
            options: Any = {"include_usage": True}
            chunks = list(
                client.chat.completions.create(
                    model="small", messages=ASKED, stream=True, stream_options=options
                )
            )
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == SAID.text
        assert chunks[-2].choices[0].finish_reason == "stop"
        assert chunks[-1].usage
        assert chunks[-1].usage.total_tokens == 10
        assert place.channel.asked[0][1].beside == {}

    @pytest.mark.parametrize("stream", [False, True])
    def test_tools(self, place: Place, stream: bool) -> None:
        place.replies = CALLS
        with place.openai as client:
            if stream:
                with client.chat.completions.stream(
                    model="small", messages=ASKED, tools=[CHAT_TOOL]
                ) as events:
                    message: Any = events.get_final_completion().choices[0].message
            else:
                message = (
                    client.chat.completions.create(model="small", messages=ASKED, tools=[CHAT_TOOL])
                    .choices[0]
                    .message
                )
        called = [(c.id, c.function.name, json.loads(c.function.arguments)) for c in message.tool_calls]
        assert called == [("t1", "weather", {"city": "Paris", "days": [1, 2]}), ("t2", "time", {})]
        assert place.channel.asked[0][1].tools == (CHAT_TOOL,)


class TestResponses:
    def test_an_answer(self, place: Place) -> None:
        with place.openai as client:
            said = client.responses.create(model="small", input="Capital?", instructions="Be short.")
        assert said.output_text == SAID.text
        assert said.usage
        assert said.usage.input_tokens == 7
        request = place.channel.asked[0][1]
        assert request.messages == ({"role": "user", "content": "Capital?"},)
        assert request.parameters == {"instructions": "Be short."}

    @pytest.mark.parametrize("tools", [False, True])
    def test_a_stream(self, place: Place, tools: bool) -> None:
        place.replies = CALLS if tools else SAID
        with (
            place.openai as client,
            client.responses.stream(model="small", input="Capital?", tools=[RESPONSE_TOOL]) as events,
        ):
            texts = [event.delta for event in events if event.type == "response.output_text.delta"]
            final = events.get_final_response()
        assert "".join(texts) == final.output_text == ("" if tools else SAID.text)
        called = [
            (i.call_id, i.name, json.loads(i.arguments)) for i in final.output if i.type == "function_call"
        ]
        expected = [("t1", "weather", {"city": "Paris", "days": [1, 2]}), ("t2", "time", {})]
        assert called == (expected if tools else [])


class TestMessages:
    def test_an_answer_with_tools_and_thinking(self, place: Place) -> None:
        thought: Any = {"type": "thinking", "thinking": "hm", "signature": "s"}
        place.replies = Reply(
            "Look:", finish="tool_calls", usage=USAGE, tool_calls=CALLS.tool_calls, thinking=(thought,)
        )
        with place.anthropic as client:
            said = client.messages.create(
                model="claude-x",
                max_tokens=50,
                system="short",
                messages=ASKED,
                tools=[MESSAGE_TOOL],
                metadata={"user_id": "me"},
                extra_headers={"anthropic-beta": "b1"},
            )
        assert [block.type for block in said.content] == ["thinking", "text", "tool_use", "tool_use"]
        assert said.content[2].input == {"city": "Paris", "days": [1, 2]}
        assert (said.stop_reason, said.usage.input_tokens, said.usage.cache_read_input_tokens) == (
            "tool_use",
            5,
            2,
        )
        [(model, request, _)] = place.channel.asked
        assert model == "anthropic:c"
        assert request.parameters == {"max_tokens": 50, "system": "short"}
        assert set(request.headers) == {"anthropic-version", "anthropic-beta"}
        assert request.headers["anthropic-beta"] == "b1"
        assert request.beside == {"metadata": {"user_id": "me"}}

    @pytest.mark.parametrize("tools", [False, True])
    def test_a_stream(self, place: Place, tools: bool) -> None:
        place.replies = CALLS if tools else SAID
        with (
            place.anthropic as client,
            client.messages.stream(model="claude-x", max_tokens=5, messages=ASKED) as events,
        ):
            text = "".join(events.text_stream)
            final = events.get_final_message()
        assert text == ("" if tools else SAID.text)
        called = [(b.id, b.name, b.input) for b in final.content if b.type == "tool_use"]
        expected = [("t1", "weather", {"city": "Paris", "days": [1, 2]}), ("t2", "time", {})]
        assert called == (expected if tools else [])
        assert final.usage.output_tokens == 3

    def test_tokens_are_estimated_and_nothing_is_asked(self, place: Place) -> None:
        with place.anthropic as client:
            few = client.messages.count_tokens(model="claude-x", messages=ASKED).input_tokens
            more: Any = [{"role": "user", "content": "word " * 1000}]
            many = client.messages.count_tokens(model="claude-x", messages=more).input_tokens
        assert 0 < few < 50 < 1000 < many < 5000
        assert place.channel.asked == []


class TestModels:
    def test_both_clients_can_list_them(self, place: Place) -> None:
        with place.openai as one, place.anthropic as two:
            assert [m.id for m in one.models.list()] == ["small", "openai:mini", "anthropic:c", "trial:m"]
            assert [m.id for m in two.models.list()] == ["small", "openai:mini", "anthropic:c", "trial:m"]
            assert one.models.retrieve("small").id == "small"

    def test_another_name_gets_the_trials_model(self, place: Place) -> None:
        place.post("/v1/chat/completions", {"model": "gpt-9", "messages": ASKED})
        assert place.channel.asked[0][0] == "trial:m"

    def test_or_is_refused_with_those_that_are_allowed(self, place: Place) -> None:
        place.open("token", routes=ModelRoutes({"small": "openai:mini"}))
        with place.openai as client, pytest.raises(openai.NotFoundError, match="allowed: small, openai:mini"):
            client.chat.completions.create(model="gpt-9", messages=ASKED)
        assert place.channel.asked == []

    @pytest.mark.parametrize(
        ("name", "model"),
        [("a", "x:1"), ("abc", "x:2"), ("abd", "x:3"), ("zzz", "x:4"), ("x:1", "x:4")],
    )
    def test_the_longest_pattern_that_fits(self, name: str, model: str) -> None:
        assert ModelRoutes({"*": "x:4", "ab*": "x:3", "a": "x:1", "abc*": "x:2"}).route(name) == model


class TestFailures:
    def test_a_token_is_void_when_its_attempt_has_ended(self, place: Place) -> None:
        ended = []
        session = place.open("other", leftover=lambda: ended.append(1))
        asked = {"model": "small", "messages": ASKED}
        assert place.post("/v1/chat/completions", asked, "other")[0] == 200
        place.server.close(session)
        status, said = place.post("/v1/chat/completions", asked, "other")
        assert (status, said["error"]["message"]) == (410, "this attempt has ended: its token is void")
        assert ended == [1]
        assert place.post("/v1/chat/completions", asked, "never")[0] == 404

    @pytest.mark.parametrize(
        ("signal", "status"),
        [(Exhausted("no money"), 429), (InDoubt("may be billed"), 409), (Abandoned("x"), 410)],
    )
    def test_what_ends_the_attempt_ends_the_session(
        self, place: Place, signal: BaseException, status: int
    ) -> None:
        place.replies = signal
        asked = {"model": "small", "messages": ASKED}
        assert place.post("/v1/chat/completions", asked)[0] == status
        assert place.session.signal is signal
        assert place.post("/v1/chat/completions", asked)[0] == status
        assert len(place.channel.asked) == 1

    @pytest.mark.parametrize("stream", [False, True])
    def test_a_failed_call_is_an_error_that_clients_do_not_repeat(self, place: Place, stream: bool) -> None:
        place.replies = CallFailed("the provider says no", status=400)
        with place.openai as client, pytest.raises(openai.BadRequestError, match="the provider says no"):
            client.chat.completions.create(model="small", messages=ASKED, stream=stream)
        place.replies = CallFailed("it is down")
        with place.anthropic as client, pytest.raises(anthropic.APIStatusError, match="it is down"):
            client.messages.create(model="small", max_tokens=5, messages=ASKED, stream=stream)
        assert len(place.channel.asked) == 2
        assert place.session.signal is None

    @pytest.mark.parametrize(
        ("path", "body"),
        [
            ("/v1/chat/completions", {"model": "small"}),
            ("/v1/chat/completions", {"model": "small", "messages": "hi"}),
            ("/v1/responses", {"model": "small", "input": [1]}),
            ("/v1/messages", {"model": "small", "messages": ASKED, "tools": {}}),
            ("/v1/messages", [1]),
        ],
    )
    def test_nonsense_is_refused(self, place: Place, path: str, body: Any) -> None:
        assert place.post(path, body)[0] == 400
        assert place.channel.asked == []

    def test_a_client_that_hung_up_and_asks_again_gets_the_same_answer(self, place: Place) -> None:
        pending: Future[Reply] = Future()
        begun = threading.Event()

        def reply(request: Request) -> Any:
            begun.set()
            return pending

        place.replies = reply
        impatient = openai.OpenAI(base_url=f"{place.base}/v1", api_key="t", timeout=0.5, max_retries=0)
        with impatient as client, pytest.raises(openai.APITimeoutError):
            client.chat.completions.create(model="small", messages=ASKED)
        begun.wait(10)
        timer = threading.Timer(0.3, lambda: pending.set_result(SAID))
        timer.start()
        status, said = place.post("/v1/chat/completions", {"model": "small", "messages": ASKED})
        timer.join()
        assert (status, said["choices"][0]["message"]["content"]) == (200, SAID.text)
        assert len(place.channel.asked) == 1
        assert place.post("/v1/chat/completions", {"model": "small", "messages": ASKED})[0] == 200
        assert len(place.channel.asked) == 2


def test_a_unix_socket_may_have_a_long_path(tmp_path: Path) -> None:
    server = EndpointServer()
    deep = tmp_path / ("d" * 100) / ("e" * 100)
    deep.mkdir(parents=True)
    stop = server.listen_unix(deep / "s.sock")
    assert (deep / "s.sock").is_socket()
    stop()
    server.stop()


class TestTools:
    def call(self, place: Place, method: str, **params: Any) -> Any:
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return place.post("/mcp", message)[1]

    def tool(self, place: Place, name: str, /, **arguments: Any) -> Any:
        return self.call(place, "tools/call", name=name, arguments=arguments)

    def test_only_those_that_were_given(self, place: Place) -> None:
        place.open("token", tools=AttemptTools(["attach", "report"], place.channel))
        listed = self.call(place, "tools/list")["result"]["tools"]
        assert [tool["name"] for tool in listed] == ["attach", "report"]
        assert self.tool(place, "log", name="x")["error"]["message"] == "no tool 'log'"
        assert place.channel.observed == []

    def test_what_they_record_is_the_attempts(self, place: Place) -> None:
        tools = AttemptTools(["attach", "report", "log", "result"], place.channel)
        place.open("token", tools=tools)
        assert self.call(place, "initialize", protocolVersion="2025-06-18")["result"]["protocolVersion"]
        assert place.post("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"})[0] == 202
        self.tool(place, "attach", name="a.md", text="hello", media="text/markdown")
        self.tool(place, "attach", name="b", data="AAE=")
        self.tool(place, "report", metrics={"depth": 3})
        self.tool(place, "log", name="seen", data={"x": [1]})
        self.tool(place, "result", value={"answer": 42})
        assert place.channel.attached == {"a.md": b"hello", "b": b"\x00\x01"}
        assert place.channel.metrics == {"depth": 3.0}
        assert place.channel.observed == [("seen", {"x": [1]})]
        assert (tools.has_result, tools.result) == (True, {"answer": 42})

    @pytest.mark.parametrize(
        ("name", "arguments", "said"),
        [
            ("report", {"metrics": {"cost": 0}}, "cost: is counted by peira"),
            ("report", {"metrics": {"x": "much"}}, "x: is not a finite number"),
            ("attach", {"name": "x"}, "text: must be text"),
            ("result", {}, "value: is missing"),
        ],
    )
    def test_what_is_wrong_goes_to_the_program(
        self, place: Place, name: str, arguments: Any, said: str
    ) -> None:
        place.open("token", tools=AttemptTools(["attach", "report", "result"], place.channel))
        result = self.tool(place, name, **arguments)["result"]
        assert result["isError"]
        assert said in result["content"][0]["text"]

    def test_nothing_is_recorded_for_an_attempt_that_was_abandoned(self, place: Place) -> None:
        place.open("token", tools=AttemptTools(["attach"], place.channel))
        place.channel.close()
        status, _ = place.post(
            "/mcp",
            {
                "jsonrpc": "2.0",
                "id": 1,
                "method": "tools/call",
                "params": {"name": "attach", "arguments": {"name": "x", "text": "y"}},
            },
        )
        assert status == 410
        assert place.channel.attached == {}

    def test_the_official_client_understands_it(self, place: Place) -> None:
        client = pytest.importorskip("mcp", reason="the package mcp is not installed")
        http = pytest.importorskip("mcp.client.streamable_http")
        connect = getattr(http, "streamable_http_client", None) or http.streamablehttp_client
        tools = AttemptTools(["attach", "result"], place.channel)
        place.open("token", tools=tools)

        async def use() -> list[str]:
            async with (
                connect(f"{place.base}/mcp") as (read, write, *_),
                client.ClientSession(read, write) as session,
            ):
                await session.initialize()
                await session.call_tool("attach", {"name": "a.md", "text": "hello"})
                await session.call_tool("result", {"value": [1, 2]})
                return [tool.name for tool in (await session.list_tools()).tools]

        assert asyncio.run(use()) == ["attach", "result"]
        assert (place.channel.attached, tools.result) == ({"a.md": b"hello"}, [1, 2])
