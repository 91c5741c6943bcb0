"""Which arguments a user's function wants, by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Wants:
    """The names a function takes, those it cannot do without, and whether it takes any other."""

    names: frozenset[str]
    required: frozenset[str]
    anything: bool


def wants(fn: Callable[..., Any]) -> Wants:
    parameters = inspect.signature(fn).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY, p.POSITIONAL_ONLY)]
    return Wants(
        names=frozenset(p.name for p in named),
        required=frozenset(p.name for p in named if p.default is p.empty),
        anything=any(p.kind is p.VAR_KEYWORD for p in parameters),
    )
