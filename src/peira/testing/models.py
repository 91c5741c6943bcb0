"""The conformance suite of models, with a scripted endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import msgspec
import pytest

from peira.core.ids import Json, canonical, normalise
from peira.core.models import Answer, Model, Reply, Request, ToolCall
from peira.errors import CallFailed

QUESTION = Request(messages=({"role": "user", "content": "Capital of France?"},))
TOOL: dict[str, Json] = {
    "name": "look_up",
    "description": "Looks a word up.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
}
CALLED: dict[str, Json] = {"id": "call_1", "name": "look_up", "arguments": {"word": "Paris"}}
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
CONVERSATION = Request(
    system="Be brief.",
    messages=(
        {
            "role": "user",
            "content": [
                {"type": "text", "text": "What is this?"},
                {"type": "image", "data": PIXEL, "media": "image/png"},
            ],
        },
        {"role": "assistant", "content": "", "tool_calls": [CALLED]},
        {"role": "tool", "id": "call_1", "content": "a city"},
        {"role": "user", "content": "And now?"},
    ),
    tools=(TOOL,),
    schema={"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    parameters={"temperature": 0.5, "max_tokens": 20},
)


class ScriptedEndpoint(Protocol):
    """The server that the model talks to, under the control of the test.

    A turn is what `scripted:` takes as an answer: {"text", "tool_calls", "finish", "usage", "delay"} or
    {"fail", "message", "retry_after"}.
    """

    def script(self, *turns: dict[str, Json]) -> None:
        """Set its responses to the next sends, in order."""
        ...

    def sends(self) -> int:
        """How many sends have reached it."""
        ...


class ModelSuite:
    """Override the fixtures `endpoint` and `model`, where the model is one that talks to the endpoint."""

    tools = True
    """Whether it can call tools."""

    @pytest.fixture
    def endpoint(self) -> ScriptedEndpoint:
        """The scripted endpoint."""
        raise NotImplementedError("override the fixture `endpoint`")

    @pytest.fixture
    def model(self, endpoint: ScriptedEndpoint) -> Model:
        """The model under test."""
        raise NotImplementedError("override the fixture `model`")

    def run(self, model: Model, act: Callable[[], Awaitable[Any]]) -> Any:
        """Run `act` on an event loop of its own, and close the model."""

        async def whole() -> Any:
            try:
                return await act()
            finally:
                await model.close()

        return asyncio.run(whole())

    def send(self, model: Model, request: Request = QUESTION) -> Answer:
        """Send a request and return the raw answer."""
        answer = self.run(model, lambda: model.send(request))
        assert isinstance(answer, Answer)
        return answer

    def ask(self, model: Model, request: Request = QUESTION) -> Reply:
        """Send a request and return the parsed reply."""
        return model.read(self.send(model, request))

    def test_it_is_named_by_its_provider(self, model: Model) -> None:
        provider, colon, _ = model.name.partition(":")
        assert provider
        assert colon

    def test_its_identity_is_json_and_stays_the_same(self, model: Model, endpoint: ScriptedEndpoint) -> None:
        endpoint.script({"text": "Paris"})
        before = canonical(normalise(model.identity))
        self.send(model)
        assert canonical(normalise(model.identity)) == before

    @pytest.mark.parametrize("text", ["Paris", "", "Zürich 東京 🗼\n\t\"'\\ </script>", "a" * 100_000])
    def test_it_says_what_was_said(self, model: Model, endpoint: ScriptedEndpoint, text: str) -> None:
        endpoint.script({"text": text, "usage": {"input": 7, "output": 2}})
        reply = self.ask(model)
        assert (reply.text, reply.finish, reply.tool_calls) == (text, "stop", ())
        assert (reply.usage.input, reply.usage.output) == (7, 2)
        assert str(reply) == text

    def test_it_says_why_it_ended(self, model: Model, endpoint: ScriptedEndpoint) -> None:
        endpoint.script({"text": "Par", "finish": "length"})
        assert self.ask(model).finish == "length"

    def test_it_calls_tools(self, model: Model, endpoint: ScriptedEndpoint) -> None:
        if not self.tools:
            pytest.skip("it cannot call tools")
        endpoint.script({"text": "", "tool_calls": [CALLED], "finish": "tool_calls"})
        reply = self.ask(model, msgspec.structs.replace(QUESTION, tools=(TOOL,)))
        assert reply.tool_calls == (ToolCall("call_1", "look_up", {"word": "Paris"}),)
        assert reply.finish == "tool_calls"

    def test_it_takes_a_whole_conversation(self, model: Model, endpoint: ScriptedEndpoint) -> None:
        endpoint.script({"text": '{"city": "Paris"}'})
        before = msgspec.json.encode(CONVERSATION)
        assert self.ask(model, CONVERSATION).text == '{"city": "Paris"}'
        assert msgspec.json.encode(CONVERSATION) == before

    def test_an_answer_can_be_kept_and_read_later(self, model: Model, endpoint: ScriptedEndpoint) -> None:
        endpoint.script({"text": "Paris", "tool_calls": [CALLED] if self.tools else []})
        answer = self.send(model)
        kept = msgspec.json.decode(msgspec.json.encode(answer), type=Answer)
        assert model.read(kept) == model.read(answer) == model.read(answer)
        assert 200 <= answer.status < 300
        assert model.read(answer).latency == answer.latency > 0

    @pytest.mark.parametrize("fail", ["free", "doubt", "permanent"])
    def test_a_failure_says_what_it_means(self, model: Model, endpoint: ScriptedEndpoint, fail: str) -> None:
        endpoint.script({"fail": fail, "message": "not\ntoday"}, {"text": "never asked for"})
        with pytest.raises(CallFailed) as failed:
            self.send(model)
        assert (failed.value.free, failed.value.doubt) == (fail == "free", fail == "doubt")
        assert "today" in str(failed.value)
        assert endpoint.sends() == 1

    def test_it_says_how_long_to_wait(self, model: Model, endpoint: ScriptedEndpoint) -> None:
        endpoint.script({"fail": "free", "message": "slow down", "retry_after": 7})
        with pytest.raises(CallFailed) as failed:
            self.send(model)
        assert failed.value.retry_after == 7
        assert "\n" not in str(failed.value)

    @pytest.mark.parametrize("body", [b"", b"oops", b"[]", b'"text"', b"17", b'{"choices": 3}', b"\xff\xfe"])
    def test_an_answer_without_sense_is_permanent(self, model: Model, body: bytes) -> None:
        with pytest.raises(CallFailed) as failed:
            model.read(Answer(200, body, 0.1))
        assert not failed.value.free
        assert not failed.value.doubt
        assert "\n" not in str(failed.value)

    def test_sends_at_the_same_time_are_apart(self, model: Model, endpoint: ScriptedEndpoint) -> None:
        endpoint.script(*({"text": f"answer {i}", "delay": 0.05} for i in range(30)))

        async def together() -> list[Answer]:
            return await asyncio.gather(*(model.send(QUESTION) for _ in range(30)))

        texts = {model.read(answer).text for answer in self.run(model, together)}
        assert texts == {f"answer {i}" for i in range(30)}
        assert endpoint.sends() == 30

    def test_a_send_can_be_given_up(self, model: Model, endpoint: ScriptedEndpoint) -> None:
        endpoint.script({"text": "late", "delay": 20.0}, {"text": "soon"})

        async def give_up() -> Answer:
            late = asyncio.ensure_future(model.send(QUESTION))
            while endpoint.sends() == 0:
                await asyncio.sleep(0.02)
            late.cancel()
            with pytest.raises(asyncio.CancelledError):
                await late
            return await model.send(QUESTION)

        assert model.read(self.run(model, give_up)).text == "soon"
        assert endpoint.sends() == 2

    def test_it_works_on_one_loop_after_another(self, model: Model, endpoint: ScriptedEndpoint) -> None:
        endpoint.script({"text": "one"}, {"text": "two"})
        assert [self.ask(model).text, self.ask(model).text] == ["one", "two"]
        self.run(model, model.close)
