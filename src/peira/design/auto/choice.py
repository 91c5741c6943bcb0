"""`auto`: chooses the smallest design that meets the requirements, and explains the choice.

The wanted effects are those that the hypotheses name (`aims`: a factor, or factors joined by ":"), or all
terms of a `formula`; without either, the main effect of every factor. With `clear` they must not be aliased
with two-way interactions. With `clear = false` smaller designs qualify, valid if there are no other
interactions.

If an `effect` size is stated, every wanted effect of that size must be detected with at least the given
`power`. Each run is made on every one of the `cases`, `repeats` times; the total must not exceed `trials`.
`why` explains which design was chosen and why the others were not. A D-optimal design is chosen only if it
saves a fifth of the runs, because orthogonality and balance are worth that much.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.space import Point, Space
from peira.core.text.words import counted
from peira.design.auto.candidates import (
    Assessment,
    CandidateDesign,
    Requirement,
    assess,
    candidate_designs,
    unaffordable,
)
from peira.design.coded_runs import true_or_false
from peira.design.diagnose.design_matrix import constants, narrowed
from peira.design.diagnose.effect_power import Assumed
from peira.design.diagnose.sentences import listed, spoken
from peira.design.dimensions import count_problems, in_order, require
from peira.design.model import INTERCEPT, Term, parameters, parse
from peira.errors import Invalid

if TYPE_CHECKING:
    from peira.spec.study import Study


# Search for the smallest qualifying candidate


MOST_OPTIMAL = 120
"""Maximum number of model parameters for which a D-optimal design is searched."""
SEARCHES = 5
"""Number of sizes tried for a D-optimal design."""
SAVED = 0.2
"""Share of runs that a D-optimal design must save to be preferred."""


def assessments(need: Requirement) -> list[Assessment]:
    """Assess every candidate, smallest first; candidates larger than a qualifying one are skipped."""
    every = [
        (_size(one, need.space), one) for one in candidate_designs(need.space, need.wanted, clear=need.clear)
    ]
    found: list[Assessment] = []
    for size, contender in sorted(every, key=lambda one: one[0]):
        best = _best(found)
        if best is not None and best < size < math.inf and need.space.admits is None:
            found.append(Assessment(contender, int(size), reason=f"{best:,} runs will do"))
        else:
            found.append(assess(contender, need))
    return [*found, _optimal(need, _best(found))]


def _size(contender: CandidateDesign, space: Space) -> float:
    """The number of distinct runs; infinity if the design does not fit the space."""
    try:
        return contender.design.size(space)
    except Invalid:
        return math.inf


def _best(found: Sequence[Assessment]) -> int | None:
    """The number of runs of the smallest qualifying candidate so far."""
    return min((one.runs for one in found if not one.reason), default=None)


def _optimal(need: Requirement, best: int | None) -> Assessment:
    """The smallest qualifying D-optimal design among the sizes tried."""
    least = runs = parameters(need.space, need.model)
    formula = formula_of(need.model, need.space)
    for _ in range(SEARCHES):
        contender = CandidateDesign("d_optimal", {"runs": runs, "formula": formula})
        if best is not None and runs > (1 - SAVED) * best:
            return Assessment(contender, runs, reason=f"{best:,} runs of another design will do")
        if least > MOST_OPTIMAL:
            return Assessment(contender, runs, reason=f"{least:,} parameters are too many to search for")
        if need.over(runs):
            return Assessment(contender, runs, reason=unaffordable(need, runs))
        found = assess(contender, need)
        if not found.reason or found.weakest is None or found.serves:
            return found
        smallest, effect = found.weakest.smallest, need.assumed.effect
        more = runs * (smallest / effect) ** 2 if smallest and effect else runs + 1
        runs = max(runs + 1, math.ceil(more))
    return found


def formula_of(terms: Sequence[Term], space: Space) -> str:
    """The shortest formula for the terms."""
    rest = [term for term in terms if term != INTERCEPT]
    for word in ("interactions", "main"):
        named = parse(word, space)
        if {*named} <= {*terms}:
            return " + ".join([word, *(term.label for term in rest if term not in named)])
    return " + ".join(term.label for term in rest)


# Explanation


def explanation(taken: Assessment, others: Sequence[Assessment], need: Requirement) -> list[str]:
    """The lines that say what was chosen and why, and why each other candidate was not."""
    a = need.assumed
    sizes = (taken.runs, "run"), (a.cases, "case"), (a.repeats, "repeat")
    amount = " x ".join(counted(n, what) for n, what in sizes)
    lines = [
        f"chosen: {taken.contender}: {amount} = {need.cost(taken.runs):,} trials",
        f"it estimates {listed(term.label for term in need.wanted)}{_assumption_text(need)}",
    ]
    if taken.weakest is not None and taken.weakest.smallest is None:
        lines.append(f"{a.cases} cases are too few to test anything at alpha {a.alpha:g}: add cases")
    elif taken.weakest is not None and a.effect is not None:
        chance = f"{100 * (taken.weakest.power or 0.0):.3g}%"
        lines.append(
            f"a difference of {a.effect:g} is seen with a chance of at least {chance} "
            f"(noise {a.noise:g}, alpha {a.alpha:g}; {100 * a.power:g}% was asked for)"
        )
    return lines + [_rejection_message(other, taken) for other in others]


def _assumption_text(need: Requirement) -> str:
    """What the estimates are clear of, and which effects are assumed to be zero."""
    if len(need.space.dimensions) == 1:
        return ""
    if not need.clear:
        return ", if there are no other interactions"
    hidden = listed(term.label for term in need.hidden)
    return ", clear of two-way interactions" + (f", if {hidden} is nothing (it is hidden)" if hidden else "")


def _rejection_message(other: Assessment, taken: Assessment) -> str:
    runs = f" ({counted(other.runs, 'run')})" if other.runs else ""
    return f"not {other.contender}{runs}: {other.reason or _preference_message(other, taken)}"


def _preference_message(other: Assessment, taken: Assessment) -> str:
    """Why a candidate that qualifies was not chosen."""
    if other.runs > taken.runs:
        return f"{taken.runs:,} runs will do"
    return (
        "as many runs, fewer of them different"
        if other.different < taken.different
        else "as good, not better"
    )


def no_design_message(assessed: Sequence[Assessment], need: Requirement) -> Iterator[str]:
    """What to change so that a design qualifies, and why each candidate does not."""
    asked = listed(spoken(term.label) for term in need.wanted)
    serving = min((one for one in assessed if one.serves), key=lambda one: one.runs, default=None)
    if serving is not None:
        yield (
            f"no design tells {asked} as asked within {need.trials:,} trials; the smallest is "
            f"{serving.contender} with {need.cost(serving.runs):,}: raise budget.trials to that"
            + (", or say clear = false" if need.clear else "")
        )
    else:
        yield f"no design tells {asked} as asked" + ("; say clear = false for less" if need.clear else "")
    yield from (f"not {one.contender}: {one.reason}" for one in assessed)


# The design


@dataclass(frozen=True)
class DesignChoice:
    """The result of the choice."""

    taken: Assessment | None
    """The chosen candidate; None if nothing varies."""
    others: tuple[Assessment, ...]
    """The rejected candidates, with reasons."""
    need: Requirement | None
    """The requirement; None if nothing varies."""


class Auto:
    """Chooses a design for the space it is given; the choice does not depend on the seed.

    - `formula`, `aims`: the wanted effects (see the module); `aims` usually come from the hypotheses.
    - `clear`: whether they must be clear of two-way interactions.
    - `effect`, `noise`, `case_noise`, `alpha`, `power`: assumptions of the power analysis (see `Assumed`).
    - `cases`, `repeats`: the number of trials of each run is their product.
    - `trials`: the budget; None for no limit.
    """

    name = "auto"

    def __init__(
        self,
        *,
        formula: str | None = None,
        aims: Sequence[str] = (),
        clear: bool = True,
        effect: float | None = None,
        noise: float = 1.0,
        case_noise: float = 0.0,
        alpha: float = 0.05,
        power: float = 0.8,
        cases: int = 1,
        repeats: int = 1,
        trials: int | None = None,
    ) -> None:
        require(
            _texts("aims", aims),
            true_or_false("clear", clear),
            count_problems("trials", trials, 1) if trials is not None else (),
            _text("formula", formula),
        )
        self.formula, self.aims, self.clear, self.trials = formula, tuple(aims), clear, trials
        self.assumed = Assumed(effect, noise, case_noise, alpha, power, cases, repeats)
        self._last: tuple[Space, DesignChoice] | None = None

    @staticmethod
    def asked_of(study: Study) -> dict[str, Any]:
        """The parameters that a study implies for `auto`; see the function of the same name."""
        return asked_of(study)

    def size(self, space: Space) -> int:
        """The number of distinct runs of the chosen design; raises `Invalid` if no design qualifies."""
        taken = self.choice(space).taken
        return taken.contender.design.size(_varying(space)) if taken else 1

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """The runs of the chosen design, with the constant factors added."""
        taken = self.choice(space).taken
        constant = constants(space)
        found = taken.contender.design.points(_varying(space), 0) if taken else iter([Point({})])
        return (_with(point, constant, space) for point in found)

    def why(self, space: Space) -> list[str]:
        """The explanation of the choice, one line per statement."""
        found = self.choice(space)
        if found.taken is None or found.need is None:
            return ["nothing varies, so there is one run"]
        return explanation(found.taken, found.others, found.need)

    def choice(self, space: Space) -> DesignChoice:
        """The choice for this space, cached for the last space.

        Raises `Invalid` if no design qualifies; the message names the closest one.
        """
        if self._last is None or self._last[0] is not space:
            self._last = space, self._choose(_varying(space))
        return self._last[1]

    def _choose(self, space: Space) -> DesignChoice:
        """Assess all candidates and take the smallest; of equals, the one with more distinct runs."""
        if not space.dimensions:
            return DesignChoice(None, (), None)
        require(
            f"{d.name}: is nested; auto does not take it, nested does" for d in space.dimensions if d.parent
        )
        need = Requirement(space, self._wanted(space), self.clear, self.assumed, self.trials)
        found = assessments(need)
        fit = [one for one in found if not one.reason]
        if not fit:
            raise Invalid(no_design_message(found, need))
        taken = min(fit, key=lambda one: (one.runs, -one.different))
        return DesignChoice(taken, tuple(one for one in found if one is not taken), need)

    def _wanted(self, space: Space) -> tuple[Term, ...]:
        """The wanted terms; aims that name factors outside the space are ignored."""
        named = [aim for aim in self.aims if {*aim.split(":")} <= {*space.names}]
        text = self.formula or " + ".join(named) or "main"
        wanted = tuple(term for term in parse(text, space) if term != INTERCEPT)
        require([] if wanted else [f"formula: {text!r} names no effect; name a factor"])
        return wanted


def asked_of(study: Study) -> dict[str, Any]:
    """The parameters of `auto` that follow from the hypotheses, cases, repeats and budget of a study."""
    blocks = [*study.blocks, *(factor for factor in study.factors if factor.kind == "blocked")]
    copies = max(1, len(study.agents)) * math.prod(len(block.values) for block in blocks)
    return {
        "aims": [h.factor for h in study.hypotheses if h.factor],
        "alpha": min((h.alpha for h in study.hypotheses), default=0.05),
        "cases": max(1, sum(map(len, study.case_sets.values()))),
        "repeats": study.repeats,
        "trials": max(1, study.budget.trials // copies) if study.budget.trials else None,
    }


def _varying(space: Space) -> Space:
    """The space without its constant factors."""
    constant = constants(space)
    return narrowed(space, [d for d in space.dimensions if d.name not in constant])


def _with(point: Point, constant: Mapping[str, Json], space: Space) -> Point:
    """The point with the constant factors added, in the order of the space."""
    factors = in_order(space, {**constant, **point.factors})
    return Point(factors, point.block, point.plot, point.period, point.replicates)


def _texts(name: str, value: object) -> Iterator[str]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        yield f'{name}: must be a list of factors, as "model" or "model:style", not {value!r}'


def _text(name: str, value: object) -> Iterator[str]:
    if value is not None and not isinstance(value, str):
        yield f"{name}: must be a text, not {value!r}"


def register(registry: Registry) -> None:
    """Register the design `auto`."""
    registry.add("design", Auto.name, Auto)
