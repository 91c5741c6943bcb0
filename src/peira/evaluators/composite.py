"""Evaluators composed of others: `weighted`, `gated`, `conditional`, `cascade` and `pick`.

The whole is asynchronous if any part is. If a part fails, the whole fails; if a part has no verdict, so has
the whole; a part that is not needed is not called.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from peira.core.contracts import Evaluator
from peira.core.ids import Json, normalise
from peira.core.text.numbers import is_number
from peira.core.verdicts import NoVerdict, no_verdict
from peira.errors import Invalid, Undecided
from peira.evaluators.comparison import VERSION, Score
from peira.evaluators.scores import score_value
from peira.spec.plugins import as_evaluator

Facts = Mapping[str, Any]
Decide = Callable[["Combined", Facts], Coroutine[Any, Any, Score]]
Role = Evaluator | tuple[Evaluator, ...]


@dataclass(frozen=True, repr=False)
class Combined:
    """An evaluator that calls its parts, by their roles, and combines their scores."""

    kind: str
    """The registry name."""
    parts: tuple[tuple[str, Role], ...]
    """The parts by role."""
    decide: Decide = field(compare=False)
    """The coroutine function that combines the scores."""
    options: tuple[tuple[str, Json], ...] = ()
    label: str | None = None
    """The name of the score in results, if not the kind."""

    @property
    def name(self) -> str:
        """The label, or the kind."""
        return self.label or self.kind

    @property
    def every(self) -> tuple[Evaluator, ...]:
        """All parts, in order."""
        return tuple(
            part for _, role in self.parts for part in (role if isinstance(role, tuple) else (role,))
        )

    @property
    def asynchronous(self) -> bool:
        """Whether any part is."""
        return any(part.asynchronous for part in self.every)

    @property
    def models(self) -> tuple[str, ...]:
        """The models that its parts are known to call, one entry for each call."""
        return tuple(name for part in self.every for name in getattr(part, "models", ()))

    @property
    def takes(self) -> frozenset[str]:
        """The arguments that any part takes."""
        return frozenset().union(*(part.takes for part in self.every))

    @property
    def identity(self) -> Json:
        """Its options and the identities of its parts; with a `config` for files if all parts have one."""
        own = {**normalise(dict(self.options)), **({"label": self.label} if self.label else {})}
        parts = [part.identity for part in self.every]
        whole = {"evaluator": self.kind, "options": own, "parts": parts, "version": VERSION}
        if any(_written(part) is None for part in self.every):
            return whole
        return {**whole, "config": {**{name: _written_role(role) for name, role in self.parts}, **own}}

    def judge(self, facts: Facts) -> Any:
        """The combined score, or a coroutine of it if any part is asynchronous."""
        verdict = self._decided(facts)
        return verdict if self.asynchronous else _finished(verdict)

    async def _decided(self, facts: Facts) -> Score | NoVerdict:
        try:
            return await self.decide(self, facts)
        except Undecided as undecided:
            return NoVerdict(undecided.reason)

    def one(self, role: str) -> Evaluator:
        """The part of a role that has exactly one."""
        part = dict(self.parts)[role]
        assert not isinstance(part, tuple)
        return part

    def __repr__(self) -> str:
        shown = [*self.parts, *self.options]
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in shown)})"


def made(evaluators: Any, who: str, role: str) -> tuple[Evaluator, ...]:
    """The parts of a role that takes a list; raises `Invalid` for anything else."""
    if not isinstance(evaluators, list | tuple) or not evaluators:
        raise Invalid(f"{who}: {role}={evaluators!r} is not a list of evaluators")
    return tuple(map(as_evaluator, evaluators))


async def score_of(part: Evaluator, facts: Facts) -> Json:
    """The normalised score of a part; raises `Undecided` if it has no verdict."""
    verdict = part.judge(facts)
    score = score_value(await verdict if inspect.isawaitable(verdict) else verdict, part.name)
    if none := no_verdict(score):
        raise Undecided(f"{part.name}: {none.reason}")
    return score


async def worth(part: Evaluator, facts: Facts) -> float:
    """The score of a part as one number; of several values, the one named "value"."""
    return number(await score_of(part, facts), part.name)


def number(score: Json, name: str) -> float:
    """A score as one number; raises `Invalid` if it is not one."""
    if isinstance(score, Mapping) and "value" in score:
        score = score["value"]
    if isinstance(score, bool | int | float):
        return float(score)
    if isinstance(score, Mapping):
        raise Invalid(f"{name} gives {', '.join(score)}: pick one, as in pick({name}, {next(iter(score))!r})")
    raise Invalid(f"{name} gives the text {score!r}, which is no number")


def _finished(verdict: Coroutine[Any, Any, Score | NoVerdict]) -> Score | NoVerdict:
    """The result of a coroutine that never suspends."""
    try:
        verdict.send(None)
    except StopIteration as done:
        result: Score | NoVerdict = done.value
        return result
    finally:
        verdict.close()
    raise AssertionError("an evaluator that is not asynchronous gave something to await")


def _written(part: Evaluator) -> Json:
    """The part in the form of a study file; None if it has no such form."""
    config = part.identity.get("config") if isinstance(part.identity, Mapping) else None
    if not isinstance(config, Mapping):
        return None
    return {"name": str(part.identity["evaluator"]), **config}


def _written_role(role: Role) -> Json:
    return [_written(part) for part in role] if isinstance(role, tuple) else _written(role)


def weighted(of: Sequence[Any], weights: Sequence[float] | None = None, label: str | None = None) -> Combined:
    """The weighted mean of several scores; without weights, all count equally.

    `label` is the name of this score in results, here and below.
    """
    parts = made(of, "weighted", "of")
    shares = [1.0] * len(parts) if weights is None else weights
    if not isinstance(shares, list | tuple) or len(shares) != len(parts) or not all(map(_positive, shares)):
        raise Invalid(f"weighted: weights={weights!r} are not {len(parts)} numbers above 0")
    options = (("weights", None if weights is None else tuple(weights)),)
    return Combined("weighted", (("of", parts),), partial(_mean, tuple(shares)), options, _label(label))


async def _mean(weights: tuple[float, ...], whole: Combined, facts: Facts) -> float:
    scores = [await worth(part, facts) for part in whole.every]
    return sum(w * s for w, s in zip(weights, scores, strict=True)) / sum(weights)


def gated(gate: Any, then: Any, at_least: float = 1.0, label: str | None = None) -> Combined:
    """The score of `then` if that of `gate` is at least `at_least`; else 0, without calling `then`."""
    parts = (("gate", as_evaluator(gate)), ("then", as_evaluator(then)))
    decide = partial(_gated, _bound("gated", at_least))
    return Combined("gated", parts, decide, (("at_least", at_least),), _label(label))


async def _gated(at_least: float, whole: Combined, facts: Facts) -> Score:
    passed = await worth(whole.one("gate"), facts) >= at_least
    return await worth(whole.one("then"), facts) if passed else 0.0


def conditional(
    on: Any, then: Any, otherwise: Any, at_least: float = 1.0, label: str | None = None
) -> Combined:
    """The score of `then` if that of `on` is at least `at_least`, else that of `otherwise`."""
    given = {"on": on, "then": then, "otherwise": otherwise}
    parts = tuple((role, as_evaluator(part)) for role, part in given.items())
    decide = partial(_conditional, _bound("conditional", at_least))
    return Combined("conditional", parts, decide, (("at_least", at_least),), _label(label))


async def _conditional(at_least: float, whole: Combined, facts: Facts) -> Json:
    reached = await worth(whole.one("on"), facts) >= at_least
    return await score_of(whole.one("then" if reached else "otherwise"), facts)


def cascade(
    of: Sequence[Any], accept: float = 1.0, reject: float | None = None, label: str | None = None
) -> Combined:
    """The first decisive score: at least `accept` or at most `reject`; the last one always decides.

    An evaluator without a verdict is skipped. Put cheap checks first and expensive ones last:
    `cascade([exact(), judge])` calls the judge only if the answer is not exactly right. `value` is the score,
    `by` the evaluator that decided.
    """
    parts = made(of, "cascade", "of")
    high = _bound("cascade", accept, "accept")
    low = None if reject is None else _bound("cascade", reject, "reject")
    if low is not None and low >= high:
        raise Invalid(f"cascade: reject={reject!r} is not below accept={accept!r}")
    options = (("accept", accept), ("reject", reject))
    return Combined("cascade", (("of", parts),), partial(_first_decided, high, low), options, _label(label))


async def _first_decided(accept: float, reject: float | None, whole: Combined, facts: Facts) -> Score:
    *early, last = whole.every
    for part in early:
        try:
            score = await worth(part, facts)
        except Undecided:
            continue
        if score >= accept or (reject is not None and score <= reject):
            return {"value": score, "by": part.name}
    return {"value": await worth(last, facts), "by": last.name}


def pick(of: Any, key: str, label: str | None = None) -> Combined:
    """One value of a score that has several: `pick("multi_label", "f1")`."""
    if not isinstance(key, str):
        raise Invalid(f"pick: key={key!r} is not the name of a value")
    return Combined(
        "pick", (("of", as_evaluator(of)),), partial(_picked, key), (("key", key),), _label(label)
    )


async def _picked(key: str, whole: Combined, facts: Facts) -> Score:
    part = whole.one("of")
    score = await score_of(part, facts)
    if not isinstance(score, dict) or key not in score:
        raise Invalid(f"{part.name} gives no {key!r}; it gives {score!r}")
    return number(score[key], f"{part.name}.{key}")


def _positive(given: object) -> bool:
    return is_number(given) and 0 < given < math.inf


def _bound(who: str, given: object, name: str = "at_least") -> float:
    if not is_number(given) or not abs(given) < math.inf:
        raise Invalid(f"{who}: {name}={given!r} is not a number")
    return float(given)


def _label(given: object) -> str | None:
    if given is None or (isinstance(given, str) and given.strip()):
        return given
    raise Invalid(f"label={given!r} is not a name")
