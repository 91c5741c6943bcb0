"""`--where` as people type it: NAME=VALUE, or an expression; several hold together."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from peira.core.expressions import Expression, ExpressionError
from peira.errors import Invalid

SHORTHAND = re.compile(r"\s*([^\W\d][\w.]*)\s*=(?!=)\s*(\S.*)", re.DOTALL)


def joined(conditions: Iterable[str]) -> str:
    """One expression that holds where all of them do; Invalid names each that is not one."""
    texts = [_expanded(condition) for condition in conditions]
    problems = [problem for text in texts for problem in _problems(text)]
    if problems:
        raise Invalid(problems)
    return texts[0] if len(texts) == 1 else " and ".join(f"({text})" for text in texts)


def _expanded(condition: str) -> str:
    """The shell takes quotes away, so model=7 must mean the text "7" as well as the number."""
    short = SHORTHAND.fullmatch(condition)
    if short is None:
        return condition
    name, value = short[1], short[2].strip()
    return f"{name} in [{value!r}, {value}]" if _plain(value) else f"{name} == {value!r}"


def _plain(value: str) -> bool:
    """Whether it is a number, true, false or null, as JSON writes them (which knows no NaN)."""
    try:
        return not isinstance(json.loads(value, parse_constant=lambda name: name), (str, list, dict))
    except ValueError:
        return False


def _problems(text: str) -> list[str]:
    try:
        Expression(text)
    except ExpressionError as error:
        return [f"where: {error.reason}, in {text!r}"]
    return []
