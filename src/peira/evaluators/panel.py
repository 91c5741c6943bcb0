"""`panel`: several judges, one verdict, and how far they disagree."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from statistics import fmean, median
from typing import Any

from peira.core.contracts import Evaluator
from peira.core.registry import nearest
from peira.core.verdicts import VALUE, NoVerdict
from peira.errors import Invalid
from peira.evaluators.asking import label_of
from peira.evaluators.combined import Combined, Facts, Undecided, made, worth
from peira.evaluators.comparison import Score


def _majority(values: Sequence[float]) -> float:
    """What more than half of them say."""
    often = max(values, key=values.count)
    if 2 * values.count(often) <= len(values):
        said = ", ".join(f"{value:g}" for value in values)
        raise Undecided(NoVerdict(f"no majority among {said}"))
    return often


AGGREGATES: dict[str, Callable[[Sequence[float]], float]] = {
    "mean": fmean,
    "median": median,
    "majority": _majority,
    "all": min,
}


def panel(of: Sequence[Any], aggregate: str = "mean", label: str | None = None) -> Combined:
    """One score of several judges: `panel([judge("a:x"), judge("b:y")], "median")`.

    `aggregate` is mean, median, majority (what more than half say, or else no verdict) or all (the lowest:
    it is good only if all find it so). The score is {"value", "disagreement": the largest difference between
    two judges, "abstained": how many came to no verdict, and the value of each judge by name}. If all abstain
    there is no verdict.
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
    """The judges by name; those of one name are numbered."""
    return tuple(
        f"{name} {names[: at + 1].count(name)}" if names.count(name) > 1 else name
        for at, name in enumerate(names)
    )


async def _decided(
    names: Sequence[str], aggregate: Callable[[Sequence[float]], float], whole: Combined, facts: Facts
) -> Score:
    if whole.asynchronous:  # asked together, so that what they wait for is waited for once
        votes = await asyncio.gather(*(_vote(part, facts) for part in whole.every))
    else:
        votes = [await _vote(part, facts) for part in whole.every]
    values = {name: vote for name, vote in zip(names, votes, strict=True) if isinstance(vote, float)}
    if not values:
        raise Undecided(next(vote for vote in votes if isinstance(vote, NoVerdict)))
    said = list(values.values())
    return {
        VALUE: aggregate(said),
        "disagreement": max(said) - min(said),
        "abstained": float(len(votes) - len(said)),
        **values,
    }


async def _vote(part: Evaluator, facts: Facts) -> float | NoVerdict:
    try:
        return await worth(part, facts)
    except Undecided as undecided:
        return undecided.verdict
