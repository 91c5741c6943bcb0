"""The contest: every contender weighed against what is asked, and why it was taken or not, in plain lines."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from peira.core.space import Space
from peira.core.words import counted
from peira.design.contenders import Contender, contenders
from peira.design.model import INTERCEPT, Term, parameters, parse
from peira.design.plain import listed, spoken
from peira.design.weighing import Need, Weighed, unaffordable, weigh
from peira.errors import Invalid

MOST_OPTIMAL = 120
"""Parameters of a model for which an optimal design is searched."""
SEARCHES = 5
SAVED = 0.2


def weighed(need: Need) -> list[Weighed]:
    """Every contender, smaller ones first; what is larger than one that will do is not looked into."""
    every = [(_size(one, need.space), one) for one in contenders(need.space, need.wanted, clear=need.clear)]
    found: list[Weighed] = []
    for size, contender in sorted(every, key=lambda one: one[0]):
        best = _best(found)
        if best is not None and best < size < math.inf and need.space.admits is None:
            found.append(Weighed(contender, int(size), reason=f"{best:,} runs will do"))
        else:
            found.append(weigh(contender, need))
    return [*found, _optimal(need, _best(found))]


def _size(contender: Contender, space: Space) -> float:
    """How many different runs it has; infinitely many if it does not fit the space."""
    try:
        return contender.design.size(space)
    except Invalid:
        return math.inf


def _best(found: Sequence[Weighed]) -> int | None:
    return min((one.runs for one in found if not one.reason), default=None)


def _optimal(need: Need, best: int | None) -> Weighed:
    """The smallest D-optimal design that will do, of the few sizes that are tried."""
    least = runs = parameters(need.space, need.model)
    formula = written(need.model, need.space)
    for _ in range(SEARCHES):
        contender = Contender("d_optimal", {"runs": runs, "formula": formula})
        if best is not None and runs > (1 - SAVED) * best:
            return Weighed(contender, runs, reason=f"{best:,} runs of another design will do")
        if least > MOST_OPTIMAL:
            return Weighed(contender, runs, reason=f"{least:,} parameters are too many to search for")
        if need.over(runs):
            return Weighed(contender, runs, reason=unaffordable(need, runs))
        found = weigh(contender, need)
        if not found.reason or found.weakest is None or found.serves:
            return found
        smallest, effect = found.weakest.smallest, need.assumed.effect
        more = runs * (smallest / effect) ** 2 if smallest and effect else runs + 1
        runs = max(runs + 1, math.ceil(more))
    return found


def written(terms: Sequence[Term], space: Space) -> str:
    """The formula of the terms, as short as can be."""
    rest = [term for term in terms if term != INTERCEPT]
    for word in ("interactions", "main"):
        named = parse(word, space)
        if {*named} <= {*terms}:
            return " + ".join([word, *(term.label for term in rest if term not in named)])
    return " + ".join(term.label for term in rest)


def explained(taken: Weighed, others: Sequence[Weighed], need: Need) -> list[str]:
    """What was taken and why, and what was not."""
    a = need.assumed
    sizes = (taken.runs, "run"), (a.cases, "case"), (a.repeats, "repeat")
    amount = " x ".join(counted(n, what) for n, what in sizes)
    lines = [
        f"chosen: {taken.contender}: {amount} = {need.cost(taken.runs):,} trials",
        f"it estimates {listed(term.label for term in need.wanted)}{_proviso(need)}",
    ]
    if taken.weakest is not None and a.effect is not None:
        chance = f"{100 * (taken.weakest.power or 0.0):.3g}%"
        lines.append(
            f"a difference of {a.effect:g} is seen with a chance of at least {chance} "
            f"(noise {a.noise:g}, alpha {a.alpha:g}; {100 * a.power:g}% was asked for)"
        )
    return lines + [_rejected(other, taken) for other in others]


def _proviso(need: Need) -> str:
    """What the estimates are clear of, and what must not be there."""
    if len(need.space.dimensions) == 1:
        return ""
    if not need.clear:
        return ", if there are no other interactions"
    hidden = listed(term.label for term in need.hidden)
    return ", clear of two-way interactions" + (f", if {hidden} is nothing (it is hidden)" if hidden else "")


def _rejected(other: Weighed, taken: Weighed) -> str:
    runs = f" ({counted(other.runs, 'run')})" if other.runs else ""
    return f"not {other.contender}{runs}: {other.reason or _outdone(other, taken)}"


def _outdone(other: Weighed, taken: Weighed) -> str:
    if other.runs > taken.runs:
        return f"{taken.runs:,} runs will do"
    return (
        "as many runs, fewer of them different"
        if other.different < taken.different
        else "as good, not better"
    )


def nothing_will_do(weighed: Sequence[Weighed], need: Need) -> Iterator[str]:
    """What to change so that a design will do; and what each lacks."""
    asked = listed(spoken(term.label) for term in need.wanted)
    serving = min((one for one in weighed if one.serves), key=lambda one: one.runs, default=None)
    if serving is not None:
        yield (
            f"no design tells {asked} as asked within {need.trials:,} trials; the smallest is "
            f"{serving.contender} with {need.cost(serving.runs):,}: raise budget.trials to that"
            + (", or say clear = false" if need.clear else "")
        )
    else:
        yield f"no design tells {asked} as asked" + ("; say clear = false for less" if need.clear else "")
    yield from (f"not {one.contender}: {one.reason}" for one in weighed)
