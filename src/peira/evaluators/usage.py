"""Resource usage of a trial as scores: `latency`, `cost`, `tokens`, `tool_calls` and `reported`.

Each is the number itself or, with `at_most`, whether it is within that limit. An unknown number is no score:
it is never taken to be 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol

from peira.core.ids import Json
from peira.core.models import Usage
from peira.core.registry import nearest
from peira.core.text.numbers import is_number
from peira.errors import Invalid
from peira.evaluators.comparison import VERSION

TOKENS = ("total", "input", "output")


class TrialUsage(Protocol):
    """The attributes of a trial that these evaluators read; None or a missing one is unknown."""

    took: float
    cost: float | None
    usage: Usage
    tools: Mapping[str, int]
    metrics: Mapping[str, float]


@dataclass(frozen=True, repr=False)
class Measure:
    """A number of the trial, or whether it is at most a limit."""

    name: str
    read: Callable[[Any], float | None] = field(compare=False)
    options: tuple[tuple[str, Json], ...]
    asynchronous: ClassVar[bool] = False
    takes: ClassVar[frozenset[str]] = frozenset({"trial"})

    @property
    def identity(self) -> Json:
        """Name, options and version."""
        return {"evaluator": self.name, "config": dict(self.options), "version": VERSION}

    def judge(self, facts: Mapping[str, Any]) -> float | bool:
        """The number, or whether it is within the limit; raises `Invalid` if it is unknown."""
        found = self.read(facts["trial"])
        if found is None:
            raise Invalid(f"{self!r}: this trial does not say")
        most = dict(self.options)["at_most"]
        return found if most is None else found <= most

    def __repr__(self) -> str:
        given = ((key, value) for key, value in self.options if value is not None)
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in given)})"


def latency(at_most: float | None = None) -> Measure:
    """Seconds from the start of the trial to its end, without the time in the queue."""
    return _measure("latency", partial(_read, "took"), at_most)


def cost(at_most: float | None = None) -> Measure:
    """The cost of the trial's calls in US dollars, at the prices when they were made."""
    return _measure("cost", partial(_read, "cost"), at_most)


def tokens(kind: str = "total", at_most: float | None = None) -> Measure:
    """The tokens of all calls, as counted by the providers; the total is input plus output."""
    if kind not in TOKENS:
        raise Invalid(f"tokens: kind={kind!r}{nearest(str(kind), TOKENS)}")
    return _measure("tokens", partial(_tokens, kind), at_most, kind=kind)


def tool_calls(tool: str | None = None, at_most: float | None = None) -> Measure:
    """How often a tool was called; without a name, any tool."""
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


def _read(what: str, trial: TrialUsage) -> float | None:
    found: float | None = getattr(trial, what, None)
    return found


def _tokens(kind: str, trial: TrialUsage) -> float | None:
    usage = getattr(trial, "usage", None) or Usage()
    if kind != "total":
        return _read(kind, usage)  # type: ignore[arg-type]
    return None if usage.input is None or usage.output is None else usage.input + usage.output


def _tools(tool: str | None, trial: TrialUsage) -> float | None:
    calls: Mapping[str, int] | None = getattr(trial, "tools", None)
    if calls is None:
        return None
    return sum(calls.values()) if tool is None else calls.get(tool, 0)


def _reported(metric: str, trial: TrialUsage) -> float | None:
    return (getattr(trial, "metrics", None) or {}).get(metric)
