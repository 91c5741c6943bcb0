"""Which parameters a user's function, object or class has, so that it is passed only those."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

CONDITION = "condition"
"""The parameter by which an agent takes the levels of all factors, as one table."""


class TakenArguments(NamedTuple):
    """The parameter names of a function, those without defaults, and whether it takes `**kwargs`."""

    names: frozenset[str]
    required: frozenset[str]
    anything: bool

    @property
    def every_factor(self) -> bool:
        """Whether an agent gets the level of every factor: as `**kwargs`, or as its `condition`."""
        return self.anything or CONDITION in self.names


def wants(fn: Callable[..., Any]) -> TakenArguments:
    """Inspect the signature of a function; raises ValueError or TypeError if it has none."""
    parameters = inspect.signature(fn).parameters.values()
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY, p.POSITIONAL_ONLY)]
    return TakenArguments(
        names=frozenset(p.name for p in named),
        required=frozenset(p.name for p in named if p.default is p.empty),
        anything=any(p.kind is p.VAR_KEYWORD for p in parameters),
    )


# Agents that are objects with `run`, or classes of such


def has_run(value: object) -> bool:
    """Whether a value is an object (no class, nothing that can be called) with a method `run`."""
    return not callable(value) and callable(getattr(type(value), "run", None))


class AgentCode(NamedTuple):
    """The code of an agent: what is called first (the function or class, or the `run` of an object), what
    does the work as far as that is known, and the parameters of both."""

    called: Callable[..., Any]
    works: Callable[..., Any]
    wants: TakenArguments


def agent_code(fn: Any) -> AgentCode:
    """How an agent is called that is a function, an object with `run`, or a class of such objects."""
    called = fn.run if has_run(fn) else fn
    found = wants(called)
    run: Any = getattr(fn, "run", None)
    if not isinstance(fn, type) or not callable(run):
        return AgentCode(called, called, found)
    more = wants(run)
    names, required = found.names | more.names, found.required | more.required
    both = TakenArguments(names - {"self"}, required - {"self"}, found.anything or more.anything)
    return AgentCode(called, run, both)
