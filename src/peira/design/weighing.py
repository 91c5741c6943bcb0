"""Whether a design will do: it estimates what is wanted, shows it with the power asked for, can be paid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain

from peira.core.space import Point, Space
from peira.design.alias import against, effect, effects
from peira.design.contenders import Contender
from peira.design.effect_power import Assumed, EffectPower, error_df, power_of, worth
from peira.design.efficiency import region
from peira.design.fit import fit
from peira.design.laid import Laid, laid, pairs_of
from peira.design.model import Term, parse
from peira.design.plain import listed, spoken
from peira.errors import Invalid
from peira.stats.power import fewest

MOST_RUNS = 5000
MOST_TIMES = 1 << 16


@dataclass(frozen=True)
class Need:
    """What is asked: the `wanted` terms, `clear` of all two-way interactions, in at most so many `trials`.

    Interactions that the constraints hide from every design are taken to be nothing: `hidden`.
    """

    space: Space
    wanted: tuple[Term, ...]
    clear: bool
    assumed: Assumed
    trials: int | None = None

    @cached_property
    def model(self) -> tuple[Term, ...]:
        """What is wanted and all main effects; to be clear of them, all two-way interactions too."""
        main = parse("main", self.space)
        pairs = [term for term in pairs_of(self.space) if term not in self.hidden] if self.clear else []
        return tuple(dict.fromkeys([*main, *pairs, *self.wanted]))

    @cached_property
    def hidden(self) -> tuple[Term, ...]:
        if self.space.admits is None or not self.clear:
            return ()
        every = laid(self.space, map(Point, chain(*region(self.space))))
        shown = (effect(every, term) for term in pairs_of(self.space))
        lost = [term for term, one in zip(pairs_of(self.space), shown, strict=True) if one.seen < one.wide]
        return tuple(term for term in lost if term not in self.wanted)

    def cost(self, runs: int) -> int:
        """In trials."""
        return runs * self.assumed.trials

    def over(self, runs: int) -> bool:
        return self.trials is not None and self.cost(runs) > self.trials


@dataclass(frozen=True)
class Weighed:
    """What became of a contender. `reason` says why it will not do; "" if it does.

    `runs` is what it takes, `different` how many of them differ; `weakest` is what can least be seen of what
    is wanted. It `serves` if only the money is lacking.
    """

    contender: Contender
    runs: int = 0
    different: int = 0
    weakest: EffectPower | None = None
    reason: str = ""
    serves: bool = False


def weigh(contender: Contender, need: Need) -> Weighed:
    """Lay the contender out, if it is not too large for that, and see whether it will do."""
    try:
        size = contender.design.size(need.space)
        if size > MOST_RUNS:
            return Weighed(contender, size, reason=unaffordable(need, size) or "too many runs to look at")
        points = contender.design.points(need.space, 0)
        found = laid(need.space, (point for point in points if need.space.allows(point.factors)))
    except Invalid as problem:
        return Weighed(contender, reason=problem.problems[0])
    return _weighed(contender, found, need)


def _weighed(contender: Contender, found: Laid, need: Need) -> Weighed:
    whole = Weighed(contender, found.runs, len(found.rows))
    made = fit(found, need.model)
    if lost := [term for term in need.wanted if not made.estimable(term)]:
        return replace(whole, reason=_in_the_way(found, lost, need))
    most = MOST_TIMES if contender.repeatable else 1
    times = fewest(lambda n: _enough(_weakest(found, need, n), need), least=1, most=most)
    weakest = _weakest(found, need, times or 1)
    if times is None:
        return replace(whole, weakest=weakest, reason=_too_weak(weakest, contender, need))
    runs = found.runs * times
    return replace(
        whole,
        contender=contender.repeated(times),
        runs=runs,
        weakest=weakest,
        serves=True,
        reason=unaffordable(need, runs),
    )


def _weakest(found: Laid, need: Need, times: int) -> EffectPower:
    """Of what is wanted, with every run so many times: that of which least can be seen."""
    each = [times * own for own in found.times]
    made = fit(found, need.model, worth(each, need.assumed))
    left = error_df(made.rank, sum(each), len(each), need.assumed)
    powers = [power_of(made, term, need.space, left, need.assumed) for term in need.wanted]
    return max(powers, key=lambda one: math.inf if one.smallest is None else one.smallest)


def _enough(weakest: EffectPower, need: Need) -> bool:
    """Whether it is seen with the power asked for; with no effect stated, whether it can be tested at all."""
    if need.assumed.effect is None:
        return weakest.smallest is not None
    return (weakest.power or 0.0) >= need.assumed.power


def unaffordable(need: Need, runs: int) -> str:
    """Why so many runs cannot be paid; "" if they can."""
    return f"{need.cost(runs):,} trials, and the budget allows {need.trials:,}" if need.over(runs) else ""


def _too_weak(weakest: EffectPower, contender: Contender, need: Need) -> str:
    if weakest.smallest is None or need.assumed.effect is None:
        return "nothing is left to tell the noise by"
    chance = f"{100 * (weakest.power or 0.0):.3g}%"
    often = ", and not with enough however often it is replicated" if contender.repeatable else ""
    what = f"{need.assumed.effect:g} in {spoken(weakest.effect)}"
    return f"a difference of {what} is seen with a chance of {chance}{often}"


def _in_the_way(found: Laid, lost: Sequence[Term], need: Need) -> str:
    """What keeps the first of the terms that cannot be estimated from it."""
    every = [one for one in effects(found, need.wanted) if one.label != lost[0].label]
    hidden = {term.label for term in need.hidden}
    unseen = [one.label for one in every if one.seen < one.wide and lost[0].label in one.parts]
    pairs = against(effect(found, lost[0]), every)
    if (not pairs or not pairs[0].full) and (unseen := [label for label in unseen if label not in hidden]):
        return f"{spoken(lost[0].label)} cannot be told from {listed(unseen, 4)}: combinations are missing"
    if not pairs:
        return f"{listed(term.label for term in lost)} cannot be estimated"
    how = "confounded" if pairs[0].full else "partly confounded"
    least = abs(pairs[0].correlation) - 1e-6
    most = [pair.other for pair in pairs if abs(pair.correlation) > least]
    return f"{spoken(lost[0].label)} is {how} with {listed(most, 4)}"
