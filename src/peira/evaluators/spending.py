"""What a trial took, as scores: `latency`, `cost`, `tokens`, `tool_calls` and `reported`.

Each is the number itself, or, with `at_most`, whether it keeps to that. A number that is not known is no
score: it is never taken to be 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol

from peira.core.ids import Json
from peira.core.models import Usage
from peira.core.reading.numbers import is_number
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.evaluators.comparison import VERSION

TOKENS = ("total", "input", "output")


class Spender(Protocol):
    """What these evaluators read of the trial they are handed. None, and a missing name, is not known."""

    took: float
    cost: float | None
    usage: Usage
    tools: Mapping[str, int]
    metrics: Mapping[str, float]


@dataclass(frozen=True, repr=False)
class Measure:
    """A number of the trial's, or whether it is at most so much."""

    name: str
    read: Callable[[Any], float | None] = field(compare=False)
    options: tuple[tuple[str, Json], ...]
    asynchronous: ClassVar[bool] = False
    takes: ClassVar[frozenset[str]] = frozenset({"trial"})

    @property
    def identity(self) -> Json:
        return {"evaluator": self.name, "config": dict(self.options), "version": VERSION}

    def judge(self, facts: Mapping[str, Any]) -> float | bool:
        found = self.read(facts["trial"])
        if found is None:
            raise Invalid(f"{self!r}: this trial does not say")
        most = dict(self.options)["at_most"]
        return found if most is None else found <= most

    def __repr__(self) -> str:
        given = ((key, value) for key, value in self.options if value is not None)
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in given)})"


def latency(at_most: float | None = None) -> Measure:
    """Seconds from the trial's beginning to its end, waiting for its turn not included."""
    return _measure("latency", partial(_read, "took"), at_most)


def cost(at_most: float | None = None) -> Measure:
    """What the trial's calls cost when they were bought, in US dollars."""
    return _measure("cost", partial(_read, "cost"), at_most)


def tokens(kind: str = "total", at_most: float | None = None) -> Measure:
    """Tokens of all calls, as the providers counted them; the total is input and output."""
    if kind not in TOKENS:
        raise Invalid(f"tokens: kind={kind!r}{nearest(str(kind), TOKENS)}")
    return _measure("tokens", partial(_tokens, kind), at_most, kind=kind)


def tool_calls(tool: str | None = None, at_most: float | None = None) -> Measure:
    """How often a tool was called; without its name, any."""
    return _measure("tool_calls", partial(_tools, tool), at_most, tool=tool)


def reported(metric: str, at_most: float | None = None) -> Measure:
    """A number that the agent itself reported (`current_trial().report(...)`)."""
    return _measure("reported", partial(_reported, metric), at_most, metric=metric)


def _measure(
    name: str, read: Callable[[Any], float | None], at_most: float | None, **options: Json
) -> Measure:
    if at_most is not None and not (is_number(at_most) and 0 <= at_most < math.inf):
        raise Invalid(f"{name}: at_most={at_most!r} is not a number of 0 or more")
    return Measure(name, read, (*options.items(), ("at_most", at_most)))


def _read(what: str, trial: Spender) -> float | None:
    found: float | None = getattr(trial, what, None)
    return found


def _tokens(kind: str, trial: Spender) -> float | None:
    usage = getattr(trial, "usage", None) or Usage()
    if kind != "total":
        return _read(kind, usage)  # type: ignore[arg-type]
    return None if usage.input is None or usage.output is None else usage.input + usage.output


def _tools(tool: str | None, trial: Spender) -> float | None:
    calls: Mapping[str, int] | None = getattr(trial, "tools", None)
    if calls is None:
        return None
    return sum(calls.values()) if tool is None else calls.get(tool, 0)


def _reported(metric: str, trial: Spender) -> float | None:
    return (getattr(trial, "metrics", None) or {}).get(metric)
