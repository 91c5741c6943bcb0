"""Scores of several evaluators made into one: `weighted`, `gated`, `conditional`, `cascade`, and `pick`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from peira.core.ids import Json
from peira.core.reading.numbers import is_number
from peira.errors import Invalid
from peira.evaluators.combined import Combined, Facts, Undecided, made, number, score_of, worth
from peira.evaluators.comparison import Score
from peira.spec.evaluators import as_evaluator


def weighted(of: Sequence[Any], weights: Sequence[float] | None = None, label: str | None = None) -> Combined:
    """The weighted mean of several scores; without weights, all count alike.

    `label` is what this score is called in results, here and below.
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
    """The score of `then` where that of `gate` reaches `at_least`; elsewhere 0, and `then` is not asked."""
    parts = (("gate", as_evaluator(gate)), ("then", as_evaluator(then)))
    decide = partial(_gated, _bound("gated", at_least))
    return Combined("gated", parts, decide, (("at_least", at_least),), _label(label))


async def _gated(at_least: float, whole: Combined, facts: Facts) -> Score:
    passed = await worth(whole.one("gate"), facts) >= at_least
    return await worth(whole.one("then"), facts) if passed else 0.0


def conditional(
    on: Any, then: Any, otherwise: Any, at_least: float = 1.0, label: str | None = None
) -> Combined:
    """The score of `then` where that of `on` reaches `at_least`, and of `otherwise` elsewhere."""
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
    """The first score that decides: one of at least `accept`, or of at most `reject`. The last always does;
    one that comes to no verdict does not.

    The cheap check comes first, the dear one where it left the question open: `cascade([exact(), judge])`
    asks the judge where the answer is not exactly right. `value` is the score, `by` who decided.
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
