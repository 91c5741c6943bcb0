"""Which parameters a user's function has, so that it is passed only those."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Wants:
    """The parameter names of a function, those without defaults, and whether it takes `**kwargs`."""

    names: frozenset[str]
    required: frozenset[str]
    anything: bool


def wants(fn: Callable[..., Any]) -> Wants:
    """Inspect the signature of a function; raises ValueError or TypeError if it has none."""
    parameters = inspect.signature(fn).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY, p.POSITIONAL_ONLY)]
    return Wants(
        names=frozenset(p.name for p in named),
        required=frozenset(p.name for p in named if p.default is p.empty),
        anything=any(p.kind is p.VAR_KEYWORD for p in parameters),
    )
