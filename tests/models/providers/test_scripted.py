from __future__ import annotations

import asyncio

import pytest

from peira.core.models import Reply, Request
from peira.errors import CallFailed, Invalid
from peira.models import ScriptedModel


def question(text: str) -> Request:
    return Request(messages=({"role": "user", "content": text},))


def ask(model: ScriptedModel, text: str) -> Reply:
    return model.read(asyncio.run(model.send(question(text))))


def test_without_a_script_it_says_the_question_back() -> None:
    reply = ask(ScriptedModel("echo"), "two words")
    assert (reply.text, reply.model, reply.usage.input, reply.usage.output) == ("two words", "echo", 2, 2)


def test_answers_in_order_and_then_a_clear_failure() -> None:
    model = ScriptedModel(answers=["one", {"text": "two"}])
    assert [ask(model, "?").text, ask(model, "?").text] == ["one", "two"]
    with pytest.raises(CallFailed, match="ended after 2 answers"):
        ask(model, "?")


def test_answers_by_question() -> None:
    model = ScriptedModel(answers={"Capital of France?": "Paris", "*": "no idea"})
    assert [ask(model, q).text for q in ("Capital of France?", "Why?")] == ["Paris", "no idea"]
    with pytest.raises(CallFailed, match="no answer to 'Why"):
        ask(ScriptedModel(answers={"a": "b"}), "Why?")


def test_answers_by_a_function_of_the_request() -> None:
    def shout(request: Request) -> str:
        return str(request.messages[-1]["content"]).upper()

    model = ScriptedModel(answers=shout)
    assert ask(model, "loud").text == "LOUD"
    assert model.sent == [question("loud")]
    assert model.identity != ScriptedModel(answers=lambda request: "x").identity


def test_its_answers_are_its_identity() -> None:
    one = ScriptedModel("m", answers={"a": {"text": "1", "usage": {"output": 5}}})
    assert one.identity == ScriptedModel("m", answers={"a": {"text": "1", "usage": {"output": 5}}}).identity
    assert one.identity != ScriptedModel("m", answers={"a": "2"}).identity


def test_an_unknown_kind_of_failure_is_refused() -> None:
    with pytest.raises(Invalid, match="expected one of free, doubt, permanent"):
        ask(ScriptedModel(answers=[{"fail": "badly"}]), "?")


def test_a_turn_with_an_unknown_part_is_refused() -> None:
    with pytest.raises(Invalid, match="did you mean 'text'"):
        ask(ScriptedModel(answers=[{"txt": "x"}]), "?")


def test_a_refusal() -> None:
    reply = ask(ScriptedModel("no", answers={"*": {"refusal": "I will not."}}), "?")
    assert (reply.refusal, reply.finish, reply.text) == ("I will not.", "refusal", "I will not.")
