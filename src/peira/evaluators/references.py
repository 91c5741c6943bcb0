"""Texts to be compared: what was said, and one or more references that would all be right."""

from __future__ import annotations

from typing import NamedTuple

from peira.core.ids import Json
from peira.errors import Invalid
from peira.evaluators.comparison import text_of

LONGEST = 100_000
"""Characters. Some comparisons take time in proportion to both lengths multiplied, and cannot be stopped."""


class Texts(NamedTuple):
    said: str
    references: list[str]


def texts(evaluator: str, output: Json, expected: Json) -> Texts:
    """Output and references as texts; a list that is expected holds several references."""
    references = [text_of(one) for one in (expected if isinstance(expected, list | tuple) else [expected])]
    if not references:
        raise Invalid(f"{evaluator} needs an expected text; this case expects none")
    said = text_of(output)
    if max(len(said), *map(len, references)) > LONGEST:
        raise Invalid(f"{evaluator} does not compare texts of more than {LONGEST:,} characters")
    return Texts(said, references)
