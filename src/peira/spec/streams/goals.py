"""Goals of a stream: what the mean of a score should be, looked at for ever.

A goal is written as a sentence, "mean(helpful) >= 0.8 over 7d", or as a table with that sentence.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from peira.core.clock import seconds
from peira.errors import Invalid
from peira.spec.values import Name, Value, read_value

OnMissed = Literal["note", "pause"]
"""What happens when a goal is missed: it is recorded and told, or the stream is paused as well."""
SENTENCE = re.compile(
    r"\s*mean\(\s*(?P<score>[\w.-]+)\s*\)\s*(?P<relation>>=|<=)\s*(?P<limit>-?[\d.]+(?:e-?\d+)?)"
    r"(?:\s+over\s+(?P<over>[\d.]+\s*[a-z]+))?\s*"
)
FAILED, TOOK, COST = OF_JOBS = "failed", "took", "cost"
"""What every job has beside its scores: whether it failed (0 or 1), its seconds, its cost."""
UNBOUNDED = (TOOK, COST)
REPORTED = "outcome."
"""What stands before the name of an outcome that is reported later."""
SHORTEST = 60.0
"""Seconds: the shortest window of a goal."""


def _sentence(text: str) -> str:
    found = SENTENCE.fullmatch(text)
    if found is None:
        raise Invalid(f': {text!r} is no goal; write "mean(SCORE) >= 0.8 over 7d" (or <=, or without over)')
    try:
        float(found["limit"])
        over = seconds(found["over"].replace(" ", "")) if found["over"] else None
    except (ValueError, Invalid) as error:
        raise Invalid(f": {text!r} is no goal: {error}") from None
    if over is not None and over < SHORTEST:
        raise Invalid(f": {text!r}: the window must be {SHORTEST:g} s or longer")
    return " ".join(text.split())


class Goal(Value):
    """The mean of a score should be at least, or at most, a number, over a window of time that moves on.

    The score is one of the stream's, "failed", "took" (seconds) or "cost" of its jobs, or an outcome that is
    reported later ("outcome.bought"), which counts from its first report on. `limits` are the
    least and the greatest possible value: 0 and 1 where nothing else is said, none for "took" and "cost".
    Looking at it does no harm: the chance that it ever says something wrong is at most `alpha`. With
    `streams` the jobs of all these streams count towards it; otherwise those of its own.
    """

    goal: Annotated[str, AfterValidator(_sentence)]
    on_missed: OnMissed = "note"
    limits: tuple[float, float] | None = None
    alpha: float = Field(default=0.05, gt=0, lt=0.5)
    streams: tuple[Name, ...] = ()

    def _part(self, name: str) -> str | None:
        found = SENTENCE.fullmatch(self.goal)
        assert found is not None
        return found[name]

    @property
    def score(self) -> str:
        """The score that it is about."""
        return str(self._part("score"))

    @property
    def outcome(self) -> str:
        """The name of the outcome that it is about; "" if it is about a score."""
        return self.score.removeprefix(REPORTED) if self.score.startswith(REPORTED) else ""

    @property
    def relation(self) -> Literal[">=", "<="]:
        """Whether the mean should be at least or at most the limit."""
        return ">=" if self._part("relation") == ">=" else "<="

    @property
    def limit(self) -> float:
        """The number."""
        return float(str(self._part("limit")))

    @property
    def over(self) -> float | None:
        """The seconds of the window; None: all times."""
        over = self._part("over")
        return seconds(over.replace(" ", "")) if over else None

    @property
    def range(self) -> tuple[float, float] | None:
        """The least and the greatest possible value; None if there are none."""
        if self.limits is not None:
            return self.limits
        return None if self.score in UNBOUNDED else (0.0, 1.0)


def read_goal(raw: object) -> Goal:
    """A goal, or one made from a sentence or a table; the problems of Invalid are continuations."""
    if isinstance(raw, Goal):
        return raw
    table: Any = {"goal": raw} if isinstance(raw, str) else raw
    if not isinstance(table, Mapping):
        raise Invalid(f': must be a goal as "mean(SCORE) >= 0.8 over 7d", or a table with it, not {raw!r}')
    tuples = {key: tuple(value) if isinstance(value, list) else value for key, value in table.items()}
    found: Goal = read_value(Goal, tuples)
    return found


def goal(
    sentence: str,
    *,
    on_missed: OnMissed = "note",
    limits: tuple[float, float] | None = None,
    alpha: float = 0.05,
    streams: Sequence[str] = (),
) -> Goal:
    """A goal of a stream: "mean(helpful) >= 0.8 over 7d"; `on_missed` may pause the stream."""
    return Goal(goal=sentence, on_missed=on_missed, limits=limits, alpha=alpha, streams=tuple(streams))
