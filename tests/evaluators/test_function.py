from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

import pytest

from peira.core.contracts import Evaluator
from peira.errors import Invalid
from peira.evaluators import match, numeric
from peira.spec.plugins import as_evaluator as evaluator

FACTS = {"output": "out", "expected": "exp", "case": "a case", "trial": "a trial"}


def short(output: str) -> bool:
    return len(output) < 5


def close(output: str, expected: str, slack: int = 2) -> float:
    return len(output) - len(expected) + slack


async def slow(output: str, *, case: object) -> str:
    return f"{output} of {case}"


def everything(**facts: Any) -> int:
    return len(facts)


class Grader:
    def __call__(self, trial: object) -> str:
        return f"graded {trial}"


def test_a_function_is_handed_what_it_names() -> None:
    assert evaluator(short).judge(FACTS) is True
    assert evaluator(close).judge(FACTS) == 2
    assert evaluator(partial(close, slack=7)).judge(FACTS) == 7
    assert evaluator(everything).judge(FACTS) == 4
    assert evaluator(Grader()).judge(FACTS) == "graded a trial"
    assert asyncio.run(evaluator(slow).judge(FACTS)) == "out of a case"


@pytest.mark.parametrize(
    ("given", "name", "takes", "asynchronous"),
    [
        (short, "short", {"output"}, False),
        (close, "close", {"output", "expected"}, False),
        (slow, "slow", {"output", "case"}, True),
        (partial(slow, case=1), "slow", {"output", "case"}, True),
        (everything, "everything", set(FACTS), False),
        (Grader(), "Grader", {"trial"}, False),
        (Grader().__call__, "__call__", {"trial"}, False),
        (lambda output: True, "lambda", {"output"}, False),
    ],
)
def test_a_function_becomes_an_evaluator(
    given: object, name: str, takes: set[str], asynchronous: bool
) -> None:
    made = evaluator(given)
    assert isinstance(made, Evaluator)
    assert (made.name, made.takes, made.asynchronous) == (name, takes, asynchronous)


def test_its_code_is_its_identity() -> None:
    def longer(output: str) -> bool:
        return len(output) > 5

    assert evaluator(short).identity == evaluator(short).identity
    assert evaluator(short).identity != evaluator(longer).identity
    assert repr(evaluator(close)) == "close(output, expected)"


def wrong_name(output: str, answer: str) -> bool:
    return output == answer


def nothing() -> bool:
    return True


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (wrong_name, "wrong_name takes answer; an evaluator takes any of output, expected, case, trial"),
        (nothing, "nothing takes none of"),
        (match, r"if it makes one, write match\(\)"),
        (len, "len takes obj"),
        (5, "5 is not an evaluator"),
        ({"numeric": 0.1}, "is not an evaluator; write"),
        ({"numeric": {}, "match": {}}, "is not an evaluator; write"),
    ],
)
def test_what_cannot_be_an_evaluator_is_refused_in_one_line(given: object, said: str) -> None:
    with pytest.raises(Invalid, match=said) as caught:
        evaluator(given)
    assert len(caught.value.problems) == 1


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("match", match()),
        ({"numeric": {"tolerance": 0.1}}, numeric(0.1)),
        ({"name": "numeric", "tolerance": 0.1}, numeric(0.1)),
        ({"name": "match"}, match()),
        (match("end"), match("end")),
    ],
)
def test_names_and_options_mean_the_evaluator_they_make(given: object, meant: object) -> None:
    assert evaluator(given) == meant


def test_unknown_names_and_options_are_refused() -> None:
    with pytest.raises(Invalid, match="did you mean 'match'"):
        evaluator("mtch")
    with pytest.raises(Invalid, match=r"numeric.*tolerence"):
        evaluator({"name": "numeric", "tolerence": 1})


def test_any_object_that_keeps_the_contract_is_taken_as_it_is() -> None:
    class Own:
        name, asynchronous, takes, identity = "own", False, frozenset({"output"}), "own 1"

        def judge(self, facts: Mapping[str, Any]) -> bool:
            return bool(facts["output"])

    own = Own()
    assert evaluator(own) is own
