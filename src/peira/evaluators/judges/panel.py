"""`panel`: the aggregate score of several judges, and their disagreement."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean, median
from typing import Any

from peira.core.contracts import Evaluator
from peira.core.registry import nearest
from peira.core.verdicts import VALUE, NoVerdict
from peira.errors import Invalid, Undecided
from peira.evaluators.comparison import Score
from peira.evaluators.composite import Combined, Facts, made, worth
from peira.evaluators.judges.prompts import label_of


def _majority(values: Sequence[float]) -> float:
    """The value of more than half of them; raises `Undecided` if there is none."""
    often = max(values, key=values.count)
    if 2 * values.count(often) <= len(values):
        said = ", ".join(f"{value:g}" for value in values)
        raise Undecided(f"no majority among {said}")
    return often


AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "median": median,
    "majority": _majority,
    "all": min,
}


def panel(of: Sequence[Any], aggregate: str = "mean", label: str | None = None) -> Combined:
    """One score of several judges: `panel([judge("a:x"), judge("b:y")], "median")`.

    `aggregate` is mean, median, majority (the value of more than half, else no verdict) or all (the lowest).
    The score is {"value", "disagreement": the largest difference between two judges, "abstained": the number
    without a verdict, and the value of each judge by name}. If all abstain there is no verdict.
    """
    parts = made(of, "panel", "of")
    if aggregate not in AGGREGATES:
        raise Invalid(f"panel: aggregate={aggregate!r} is not known{nearest(str(aggregate), AGGREGATES)}")
    if len(parts) < 2:
        raise Invalid(f"panel: of has {len(parts)} judge; a panel has two or more")
    names = _names([part.name for part in parts])
    decide = partial(_decided, names, AGGREGATES[aggregate])
    return Combined("panel", (("of", parts),), decide, (("aggregate", aggregate),), label_of("panel", label))


def _names(names: Sequence[str]) -> tuple[str, ...]:
    """The names of the judges; equal names are numbered."""
    return tuple(
        f"{name} {names[: at + 1].count(name)}" if names.count(name) > 1 else name
        for at, name in enumerate(names)
    )


async def _decided(
    names: Sequence[str], aggregate: Callable[[Sequence[float]], float], whole: Combined, facts: Facts
) -> Score:
    """Call all judges, concurrently if possible, and aggregate their values."""
    if whole.asynchronous:  # asked together, so that what they wait for is waited for once
        votes = await asyncio.gather(*(_vote(part, facts) for part in whole.every))
    else:
        votes = [await _vote(part, facts) for part in whole.every]
    values = {name: vote for name, vote in zip(names, votes, strict=True) if isinstance(vote, float)}
    if not values:
        raise Undecided(next(vote.reason for vote in votes if isinstance(vote, NoVerdict)))
    said = list(values.values())
    return {
        VALUE: aggregate(said),
        "disagreement": max(said) - min(said),
        "abstained": float(len(votes) - len(said)),
        **values,
    }


async def _vote(part: Evaluator, facts: Facts) -> float | NoVerdict:
    """The value of one judge, or `NoVerdict`."""
    try:
        return await worth(part, facts)
    except Undecided as undecided:
        return NoVerdict(undecided.reason)
