from __future__ import annotations

import asyncio
import json
from typing import Any

import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira import Reply, ask, ask_async
from peira.core.context import judge
from peira.errors import CallFailed, Invalid, NotInTrial
from peira.testing.fakes import MemoryChannel

NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.text("abc {}`\n\"'é"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=8,
)


def asked(*texts: str, **how: Any) -> tuple[Reply | CallFailed, MemoryChannel]:
    """What `ask` and `ask_async` come to, which is the same, with a model that says these texts."""
    outcomes = []
    for waits in (False, True):
        channel = MemoryChannel(replies=[Reply(text) for text in texts])
        judge(channel)
        try:
            if waits:
                outcome: Any = asyncio.run(ask_async("m", "the question", **how))
            else:
                outcome = ask("m", "the question", **how)
        except CallFailed as problem:
            outcome = problem
        finally:
            judge(None)
        outcomes.append((outcome, channel))
    (one, channel), (two, other) = outcomes
    assert str(one) == str(two)
    assert channel.asked == other.asked
    return one, channel


def test_a_text_is_a_message_and_the_rest_goes_by_name() -> None:
    reply, channel = asked("yes", system="be brief", temperature=0.5, tools=[{"name": "look"}], key="k")
    assert str(reply) == "yes"
    ((model, request, key),) = channel.asked
    assert (model, key) == ("m", "k")
    assert request.messages == ({"role": "user", "content": "the question"},)
    assert (request.system, request.tools) == ("be brief", ({"name": "look"},))
    assert request.parameters == {"temperature": 0.5}


@given(VALUES, st.sampled_from(["{}", "  {}\n", "```json\n{}\n```", "```\n{}```"]))
def test_json_that_fits_is_parsed_with_or_without_a_fence(value: Any, around: str) -> None:
    reply, channel = asked(around.replace("{}", json.dumps(value)), schema={"const": value})
    assert isinstance(reply, Reply)
    assert reply.parsed == value
    assert len(channel.asked) == 1


@given(
    st.lists(st.sampled_from(["nonsense", '{"n": "one"}', "{}", "NaN", '{"n": 1}']), min_size=5, max_size=5)
)
def test_it_is_asked_again_until_it_fits_and_no_more_often_than_said(texts: list[str]) -> None:
    for repairs in range(4):
        outcome, channel = asked(*texts, schema=NUMBER, repairs=repairs)
        tries = texts[: repairs + 1]
        if '{"n": 1}' in tries:
            assert isinstance(outcome, Reply)
            assert outcome.parsed == {"n": 1}
            assert len(channel.asked) == tries.index('{"n": 1}') + 1
        else:
            assert isinstance(outcome, CallFailed)
            assert not outcome.free
            assert not outcome.doubt
            assert "\n" not in str(outcome)
            assert f"after {repairs} repairs" in str(outcome)
            assert len(channel.asked) == repairs + 1


def test_a_repair_says_what_was_wrong_and_is_a_call_of_its_own() -> None:
    _, channel = asked('{"n": "x"}', '{"n": 1}', schema=NUMBER, key="count")
    (_, first, one), (_, second, two) = channel.asked
    assert (one, two) == ("count", "count repair 1")
    question, said, told = second.messages
    assert first.messages == (question,)
    assert said == {"role": "assistant", "content": '{"n": "x"}'}
    assert "$.n: 'x' is not of type 'integer'" in told["content"]
    assert second.schema == first.schema == NUMBER


def test_a_pydantic_model_is_a_schema() -> None:
    class Found(pydantic.BaseModel):
        n: int

    reply, channel = asked('{"n": 3}', schema=Found)
    assert isinstance(reply, Reply)
    assert reply.parsed == {"n": 3}
    assert channel.asked[0][1].schema == Found.model_json_schema()


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (3, "must be a JSON schema or a pydantic model"),
        ({"type": "objekt"}, "'objekt' is not valid"),
        ({"type": "string", "pattern": "("}, "is not a 'regex'"),
        ({"$ref": "#/$defs/nowhere"}, "does not exist"),
        ({"$ref": "http://127.0.0.1:9/schema"}, "Unresolvable"),
    ],
)
def test_a_schema_that_is_none_is_said_before_anything_is_asked(schema: Any, said: str) -> None:
    channel = MemoryChannel(replies=[Reply("1")])
    judge(channel)
    try:
        with pytest.raises(Invalid, match=said) as problem:
            ask("m", "the question", schema=schema)
    finally:
        judge(None)
    assert len(problem.value.problems) == 1
    assert channel.asked == []


def test_outside_a_trial_nobody_is_asked() -> None:
    with pytest.raises(NotInTrial, match="outside a trial"):
        ask("m", "the question")


def test_ask_in_a_loop_works_and_warns_that_it_stops_the_others() -> None:
    async def agent() -> str:
        with pytest.warns(RuntimeWarning, match="await ask_async"):
            return str(ask("m", "the question"))

    judge(MemoryChannel(replies=[Reply("yes")]))
    try:
        assert asyncio.run(agent()) == "yes"
    finally:
        judge(None)
