"""Evaluators made of others: what they have in common.

Parts may be awaited or not: the whole is awaited if any part is. A part that fails fails the whole, one that
comes to no verdict leaves the whole without one, and one that is not needed is not asked.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from typing import Any

from peira.core.contracts import Evaluator
from peira.core.ids import Json, normalise
from peira.core.verdicts import NoVerdict, no_verdict
from peira.errors import Invalid
from peira.evaluators.comparison import VERSION, Score
from peira.evaluators.scores import score_value
from peira.spec.evaluators import as_evaluator

Facts = Mapping[str, Any]
Decide = Callable[["Combined", Facts], Coroutine[Any, Any, Score]]
Role = Evaluator | tuple[Evaluator, ...]


class Undecided(Exception):
    """A part came to no verdict."""

    def __init__(self, verdict: NoVerdict) -> None:
        super().__init__(str(verdict))
        self.verdict = verdict


@dataclass(frozen=True, repr=False)
class Combined:
    """An evaluator that asks its parts, by their roles, and decides."""

    kind: str
    parts: tuple[tuple[str, Role], ...]
    decide: Decide = field(compare=False)
    options: tuple[tuple[str, Json], ...] = ()
    label: str | None = None

    @property
    def name(self) -> str:
        return self.label or self.kind

    @property
    def every(self) -> tuple[Evaluator, ...]:
        return tuple(
            part for _, role in self.parts for part in (role if isinstance(role, tuple) else (role,))
        )

    @property
    def asynchronous(self) -> bool:
        return any(part.asynchronous for part in self.every)

    @property
    def models(self) -> tuple[str, ...]:
        """The models that its parts are known to ask, one for each question."""
        return tuple(name for part in self.every for name in getattr(part, "models", ()))

    @property
    def takes(self) -> frozenset[str]:
        return frozenset().union(*(part.takes for part in self.every))

    @property
    def identity(self) -> Json:
        """With a config that a file can hold, if all parts have one."""
        own = {**normalise(dict(self.options)), **({"label": self.label} if self.label else {})}
        parts = [part.identity for part in self.every]
        whole = {"evaluator": self.kind, "options": own, "parts": parts, "version": VERSION}
        if any(_written(part) is None for part in self.every):
            return whole
        return {**whole, "config": {**{name: _written_role(role) for name, role in self.parts}, **own}}

    def judge(self, facts: Facts) -> Any:
        verdict = self._decided(facts)
        return verdict if self.asynchronous else _finished(verdict)

    async def _decided(self, facts: Facts) -> Score | NoVerdict:
        try:
            return await self.decide(self, facts)
        except Undecided as undecided:
            return undecided.verdict

    def one(self, role: str) -> Evaluator:
        part = dict(self.parts)[role]
        assert not isinstance(part, tuple)
        return part

    def __repr__(self) -> str:
        shown = [*self.parts, *self.options]
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in shown)})"


def made(evaluators: Any, who: str, role: str) -> tuple[Evaluator, ...]:
    """The parts of a role that takes a list."""
    if not isinstance(evaluators, list | tuple) or not evaluators:
        raise Invalid(f"{who}: {role}={evaluators!r} is not a list of evaluators")
    return tuple(map(as_evaluator, evaluators))


async def score_of(part: Evaluator, facts: Facts) -> Json:
    """What a part says, as it would be kept; Undecided if that is nothing."""
    verdict = part.judge(facts)
    score = score_value(await verdict if inspect.isawaitable(verdict) else verdict, part.name)
    if none := no_verdict(score):
        raise Undecided(NoVerdict(f"{part.name}: {none.reason}"))
    return score


async def worth(part: Evaluator, facts: Facts) -> float:
    """What a part says, as one number: of several values the one named "value"."""
    return number(await score_of(part, facts), part.name)


def number(score: Json, name: str) -> float:
    if isinstance(score, Mapping) and "value" in score:
        score = score["value"]
    if isinstance(score, bool | int | float):
        return float(score)
    if isinstance(score, Mapping):
        raise Invalid(f"{name} gives {', '.join(score)}: pick one, as in pick({name}, {next(iter(score))!r})")
    raise Invalid(f"{name} gives the text {score!r}, which is no number")


def _finished(verdict: Coroutine[Any, Any, Score | NoVerdict]) -> Score | NoVerdict:
    """What a coroutine returns that awaits nothing but others of its kind."""
    try:
        verdict.send(None)
    except StopIteration as done:
        result: Score | NoVerdict = done.value
        return result
    finally:
        verdict.close()
    raise AssertionError("an evaluator that is not asynchronous gave something to await")


def _written(part: Evaluator) -> Json:
    config = part.identity.get("config") if isinstance(part.identity, Mapping) else None
    if not isinstance(config, Mapping):
        return None
    return {"name": str(part.identity["evaluator"]), **config}


def _written_role(role: Role) -> Json:
    return [_written(part) for part in role] if isinstance(role, tuple) else _written(role)
