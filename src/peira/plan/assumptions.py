"""What is assumed where nothing is known: as given, or by default; every default is said where it is used."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from peira.core.registry import nearest
from peira.errors import Invalid
from peira.plan.amounts import Range, whole

CHARACTERS = Range(6.0, 4.0, 2.0)
"""Characters of a token, from long to short: English has 4, code and most other languages have fewer."""
OUTPUT = Range(64.0, 256.0, 1024.0)
"""Tokens of an answer."""
START, TOKENS_A_SECOND, SLOWER = 1.0, 50.0, 4.0
"""Seconds before a call answers, then tokens a second; it may be so many times faster or slower."""


class Assumptions(msgspec.Struct, frozen=True):
    """What is said of a trial: how many calls it makes and how long it takes, which model it asks, and how
    many tokens each call has. What is said goes before what was seen."""

    calls: float | None = None
    input_tokens: float | None = None
    output_tokens: float | None = None
    seconds: float | None = None
    model: str | None = None

    @property
    def of_calls(self) -> bool:
        return not (self.calls is None and self.input_tokens is None and self.output_tokens is None)

    def __str__(self) -> str:
        given = [(name, getattr(self, name)) for name in self.__struct_fields__]
        return ", ".join(f"{name} {value}" for name, value in given if value is not None)


def assumptions(given: Mapping[str, Any] | None) -> Assumptions:
    """Invalid names every problem."""
    given = given or {}
    known = Assumptions.__struct_fields__
    problems = [f"assume: no {name!r}{nearest(name, known)}" for name in given if name not in known]
    for name, value in given.items():
        if name == "model" and not (isinstance(value, str) and value):
            problems.append(f"assume: model must be the name of a model, not {value!r}")
        elif name != "model" and name in known and not _amount(value):
            problems.append(f"assume: {name} must be a number, 0 or above, not {value!r}")
    if problems:
        raise Invalid(problems)
    return Assumptions(**given)


def _amount(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")


def guessed_tokens(characters: float) -> Range:
    """The tokens of a text, without a tokenizer."""
    return Range(*(characters / each for each in msgspec.structs.astuple(CHARACTERS)))


def guessed_seconds(calls: Range, output: Range) -> Range:
    """How long calls take that say so much in all."""
    expected = calls.expected * START + output.expected / TOKENS_A_SECOND
    return Range(expected / SLOWER, expected, expected * SLOWER)


def assumed_of_calls(said: Assumptions) -> str:
    """What of the calls is assumed and not said."""
    defaults = {
        "calls": "one call to each model",
        "output_tokens": f"output {whole(OUTPUT.expected)} tokens",
        "input_tokens": f"input tokens guessed at {whole(CHARACTERS.expected)} characters each, no tokenizer",
    }
    return ", ".join(text for name, text in defaults.items() if getattr(said, name) is None)


ASSUMED_OF_TIME = f"assumed: a call takes {START:g} s and {TOKENS_A_SECOND:g} output tokens a second"
