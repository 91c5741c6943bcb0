from __future__ import annotations

import pickle
from functools import partial
from typing import Any

import pytest

from peira.core.ids import digest
from peira.core.transforms import NoAnswer, as_transform
from peira.errors import Invalid, NotJson
from peira.transforms import boxed, chain, first_of, from_function, last_line, last_number, normalise, regex


def shout(output: str, mark: str = "!") -> str:
    return output.upper() + mark


def unordered(output: Any) -> Any:
    return {1, 2}


def test_each_finds_in_what_the_one_before_it_found() -> None:
    assert chain([last_line(), last_number()]).apply("1\n2 and 3\n") == 3
    assert chain([last_line(), shout]).apply("a\nb") == "B!"


def test_no_answer_ends_a_chain() -> None:
    assert chain([boxed(), shout, last_number()]).apply("5") == NoAnswer(r"no \boxed{...}")


def test_the_first_answer_counts_even_if_it_is_empty_or_null() -> None:
    assert first_of([regex("(a*)"), shout]).apply("b") == ""
    assert first_of([{"json_field": {"path": "a"}}, shout]).apply('{"a": null}') is None


def test_the_identity_holds_the_steps_and_their_order() -> None:
    one, two = chain([last_line(), last_number()]), chain([last_number(), last_line()])
    assert digest(one.identity) != digest(two.identity)
    assert digest(one.identity) != digest(first_of([last_line(), last_number()]).identity)
    assert digest(chain([regex("a")]).identity) != digest(chain([regex("b")]).identity)
    assert one == chain(["last_line", "last_number"])


def test_a_chain_of_built_ins_can_be_written_and_read_again() -> None:
    made = chain([last_line(), first_of([boxed(), regex("(a)", 1)]), normalise(articles=False)])
    again = as_transform({"name": "chain", **made.identity["config"]})
    assert again == made
    assert digest(again.identity) == digest(made.identity)


def test_a_chain_with_a_function_has_its_code_and_no_config() -> None:
    assert "config" not in chain([shout]).identity
    assert digest(chain([shout]).identity) != digest(chain([partial(shout, mark="?")]).identity)


def test_functions_return_json_or_no_answer() -> None:
    assert from_function(lambda output: (1, 2.0)).apply("x") == [1, 2]
    assert from_function(shout).name == from_function(partial(shout, mark="?")).name == "shout"
    with pytest.raises(NotJson, match="what unordered returned"):
        from_function(unordered).apply("x")


def test_transforms_are_values_that_travel() -> None:
    made = chain([regex("(?i)a"), last_number(), normalise()])
    copy = pickle.loads(pickle.dumps(made))
    assert copy == made
    assert repr(copy).startswith("chain(regex(pattern='(?i)a', group=None), last_number(percent='keep')")
    assert len({last_line(), last_line(), last_number(), normalise()}) == 3


@pytest.mark.parametrize("steps", [[], "last_line", None, [5], ["nope"], [{"regex": 5}]])
def test_wrong_steps_are_refused(steps: Any) -> None:
    with pytest.raises(Invalid):
        chain(steps)
