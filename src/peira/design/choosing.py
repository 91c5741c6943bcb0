"""`auto`: the smallest design that tells what is asked, at the power asked for, within the budget.

What is asked are the effects that the hypotheses name (`aims`: a factor, or factors joined by ":"), or all
terms of a `formula`; without either, the main effect of every factor. They are to be `clear` of two-way
interactions: not to be mistaken for one, nor to mistake one for them. With `clear = false` smaller designs
will do, if there are no interactions.

If an `effect` is stated, all of what is asked must be seen with the chance `power` if it is that large. Each
run is made on every one of the `cases`, `repeats` times; all of it takes at most so many `trials`. `why` says
what was chosen and what was not, and the reason. A D-optimal design is taken only if it saves a fifth of the
runs: one that is orthogonal and balanced is worth that much.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.space import Point, Space
from peira.design.contest import explained, nothing_will_do, weighed
from peira.design.dimensions import counted, in_order, require
from peira.design.effect_power import Assumed
from peira.design.laid import constants, narrowed
from peira.design.model import INTERCEPT, Term, parse
from peira.design.runs import true_or_false
from peira.design.weighing import Need, Weighed
from peira.errors import Invalid

if TYPE_CHECKING:
    from peira.spec.study import Study


@dataclass(frozen=True)
class Choice:
    """The contender that was taken (None where nothing varies), and the others, with what they lack."""

    taken: Weighed | None
    others: tuple[Weighed, ...]
    need: Need | None


class Auto:
    """Chooses a design for the space it is given; the same one for every seed."""

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
            counted("trials", trials, 1) if trials is not None else (),
            _text("formula", formula),
        )
        self.formula, self.aims, self.clear, self.trials = formula, tuple(aims), clear, trials
        self.assumed = Assumed(effect, noise, case_noise, alpha, power, cases, repeats)
        self._last: tuple[Space, Choice] | None = None

    @staticmethod
    def asked_of(study: Study) -> dict[str, Any]:
        return asked_of(study)

    def size(self, space: Space) -> int:
        taken = self.choice(space).taken
        return taken.contender.design.size(_varying(space)) if taken else 1

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        taken = self.choice(space).taken
        constant = constants(space)
        found = taken.contender.design.points(_varying(space), 0) if taken else iter([Point({})])
        return (_with(point, constant, space) for point in found)

    def why(self, space: Space) -> list[str]:
        """What was chosen and why, and why nothing else was, a line each."""
        found = self.choice(space)
        if found.taken is None or found.need is None:
            return ["nothing varies, so there is one run"]
        return explained(found.taken, found.others, found.need)

    def choice(self, space: Space) -> Choice:
        """Invalid if no design will do; it names the one that comes nearest."""
        if self._last is None or self._last[0] is not space:
            self._last = space, self._choose(_varying(space))
        return self._last[1]

    def _choose(self, space: Space) -> Choice:
        if not space.dimensions:
            return Choice(None, (), None)
        require(
            f"{d.name}: is nested; auto does not take it, nested does" for d in space.dimensions if d.parent
        )
        need = Need(space, self._wanted(space), self.clear, self.assumed, self.trials)
        found = weighed(need)
        fit = [one for one in found if not one.reason]
        if not fit:
            raise Invalid(nothing_will_do(found, need))
        taken = min(fit, key=lambda one: (one.runs, -one.different))
        return Choice(taken, tuple(one for one in found if one is not taken), need)

    def _wanted(self, space: Space) -> tuple[Term, ...]:
        """The terms that are asked for; of factors that are not in the space, none."""
        named = [aim for aim in self.aims if {*aim.split(":")} <= {*space.names}]
        text = self.formula or " + ".join(named) or "main"
        wanted = tuple(term for term in parse(text, space) if term != INTERCEPT)
        require([] if wanted else [f"formula: {text!r} names no effect; name a factor"])
        return wanted


def asked_of(study: Study) -> dict[str, Any]:
    """The parameters that a study sets for `auto` by what it asks and what it may spend."""
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
    constant = constants(space)
    return narrowed(space, [d for d in space.dimensions if d.name not in constant])


def _with(point: Point, constant: Mapping[str, Json], space: Space) -> Point:
    factors = in_order(space, {**constant, **point.factors})
    return Point(factors, point.block, point.plot, point.period, point.replicates)


def _texts(name: str, value: object) -> Iterator[str]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(one, str) for one in value):
        yield f'{name}: must be a list of factors, as "model" or "model:style", not {value!r}'


def _text(name: str, value: object) -> Iterator[str]:
    if value is not None and not isinstance(value, str):
        yield f"{name}: must be a text, not {value!r}"


def register(registry: Registry) -> None:
    registry.add("design", Auto.name, Auto)
