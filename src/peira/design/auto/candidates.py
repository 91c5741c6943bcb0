"""Candidate designs of `auto`, and whether each meets the requirements: effects, power, budget.

A candidate is a design name with parameters, as a study would give them. Whether it fits the factors is
determined by generating its runs.

The columns of a fraction are not equivalent: some pairs of them are clear of all other effects, others are
not. `arrange_columns` assigns factors to columns so that the wanted effects are clear; the fraction is then
expressed by its generators.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, combinations
from typing import Any, NamedTuple

from peira.core.contracts import DesignMethod
from peira.core.space import Point, Space
from peira.core.text.words import counted
from peira.design.algebra.finite_fields import kernel
from peira.design.diagnose.aliasing import against, effect, effects
from peira.design.diagnose.design_matrix import DesignMatrix, design_matrix, pairs_of
from peira.design.diagnose.effect_power import Assumed, EffectPower, error_model, power_of, worth
from peira.design.diagnose.efficiency import fit, region
from peira.design.diagnose.sentences import listed, spoken
from peira.design.dimensions import values_of
from peira.design.factorial.fractional import FractionalFactorial, by_runs
from peira.design.factorial.full import FullFactorial
from peira.design.model import Term, parse
from peira.design.optimal import DOptimal
from peira.design.orthogonal_array import OrthogonalArray
from peira.design.screening import DefinitiveScreening, PlackettBurman
from peira.errors import Invalid
from peira.stats.power import fewest

# Assignment of factors to the columns of a fraction


TRIES = 50_000
"""Maximum number of assignments tried when factors are assigned to columns."""
Wanted = Collection[frozenset[str]]
"""Effects, each as the set of its factors."""


def arrange_columns(
    names: Sequence[str], columns: Sequence[int], wanted: Wanted, *, clear: bool
) -> list[int] | None:
    """An assignment of columns to the factors, in their order; None if none was found.

    `wanted` are effects of one or two factors. With `clear` they are not aliased with any main effect or
    two-way interaction, else not with main effects and each other.
    """
    sums = Counter(columns) + Counter(a ^ b for a, b in combinations(columns, 2))
    apart = {vector for vector, times in sums.items() if times == 1} if clear else sums.keys() - {*columns}
    singles = [name for name in names if frozenset([name]) in wanted]
    pairs = [tuple(pair) for pair in wanted if len(pair) == 2]
    ordered = sorted(names, key=lambda name: -sum(name in pair for pair in wanted))
    search = _Search(ordered, columns, pairs, singles if clear else [], apart)
    found = next(search.extend({}), None)
    return [found[name] for name in names] if found else None


class _Search:
    """Backtracking search for an assignment of columns to factors."""

    def __init__(
        self,
        names: Sequence[str],
        columns: Sequence[int],
        pairs: Sequence[tuple[str, ...]],
        singles: Collection[str],
        apart: Collection[int],
    ) -> None:
        self.names, self.columns, self.pairs, self.singles = names, columns, pairs, singles
        self.apart, self.tries = frozenset(apart), 0

    def extend(self, taken: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
        """All assignments that extend `taken`, until `TRIES` is exhausted."""
        if len(taken) == len(self.names):
            yield taken
            return
        name = self.names[len(taken)]
        for column in self.columns:
            self.tries += 1
            if column not in taken.values() and self.tries < TRIES:
                more = {**taken, name: column}
                if self._fits(more, name):
                    yield from self.extend(more)

    def _fits(self, taken: Mapping[str, int], name: str) -> bool:
        """Whether the wanted effects among the factors assigned so far are clear."""
        if name in self.singles and taken[name] not in self.apart:
            return False
        sums = [taken[a] ^ taken[b] for a, b in self.pairs if a in taken and b in taken]
        return len(set(sums)) == len(sums) and all(one in self.apart for one in sums)


def generators(names: Sequence[str], columns: Sequence[int]) -> list[str]:
    """The generators of the fraction with these columns, such as `style = model*length`."""
    found = []
    for word in kernel(columns):
        *rest, made = (name for nth, name in enumerate(names) if word >> nth & 1)
        found.append(f"{made} = {'*'.join(rest)}")
    return found


# Candidates


MADE: Mapping[str, Any] = {
    kind.name: kind
    for kind in (
        FullFactorial,
        FractionalFactorial,
        OrthogonalArray,
        PlackettBurman,
        DefinitiveScreening,
        DOptimal,
    )
}
"""The classes of the candidate designs by name."""
MOST_BITS = 10
"""Largest fraction considered: 2^10 runs."""


class CandidateDesign(NamedTuple):
    """A design given by its name and parameters."""

    name: str
    parameters: Mapping[str, Any]

    @property
    def design(self) -> DesignMethod:
        """The design object; raises `Invalid` for invalid parameters."""
        made: DesignMethod = MADE[self.name](**self.parameters)
        return made

    def __str__(self) -> str:
        arguments = ", ".join(f"{name} = {_literal(value)}" for name, value in self.parameters.items())
        return f"{self.name}({arguments})" if arguments else self.name

    @property
    def repeatable(self) -> bool:
        """Whether it takes replicates; a D-optimal design takes more runs instead."""
        return self.name != DOptimal.name

    def repeated(self, times: int) -> CandidateDesign:
        """The same design with every run replicated `times` times."""
        return self if times == 1 else CandidateDesign(self.name, {**self.parameters, "replicates": times})


def candidate_designs(space: Space, wanted: Collection[Term], *, clear: bool) -> Iterator[CandidateDesign]:
    """All candidates except the D-optimal ones, whose number of runs is free."""
    squares = any(power > 1 for term in wanted for _, power in term.powers)
    ranged = [d.name for d in space.dimensions if d.ranged]
    levels = {"levels": 3 if squares else 2} if ranged else {}
    yield CandidateDesign(FullFactorial.name, levels)
    if not squares:
        yield from _fractions(space, wanted, clear=clear)
    yield CandidateDesign(OrthogonalArray.name, levels)
    yield CandidateDesign(OrthogonalArray.name, {"strength": 3, **levels})
    if not squares:
        yield CandidateDesign(PlackettBurman.name, {})
        yield CandidateDesign(PlackettBurman.name, {"foldover": True})
    yield CandidateDesign(DefinitiveScreening.name, {})


def _fractions(space: Space, wanted: Collection[Term], *, clear: bool) -> Iterator[CandidateDesign]:
    """The best fraction of each size, with columns arranged for the wanted effects where that helps."""
    names = space.names
    two_level = all(d.ranged or values_of(d) == 2 for d in space.dimensions)
    effects = {frozenset(term.factors) for term in wanted}
    for bits in range(len(names).bit_length(), min(len(names), MOST_BITS + 1)):
        parameters: dict[str, Any] = {"runs": 1 << bits}
        if two_level and bits > 1 and max(map(len, effects), default=0) == 2:
            columns = by_runs(1 << bits, len(names)).columns
            better = arrange_columns(names, columns, effects, clear=clear)
            if better is not None and tuple(better) != columns:
                parameters = {"generators": generators(names, better)}
        if bits > 1:
            yield CandidateDesign(FractionalFactorial.name, parameters)
        if not two_level:
            return


def _literal(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return repr(value) if isinstance(value, str) else str(value)


# Assessment


MOST_RUNS = 5000
"""Larger candidates are not evaluated."""
MOST_TIMES = 1 << 16
"""Maximum number of replicates considered."""


@dataclass(frozen=True)
class Requirement:
    """The requirements: estimate the `wanted` terms with the assumed power in at most `trials` trials.

    With `clear` the terms must be clear of all two-way interactions. Two-way interactions that the
    constraints make inestimable in every design are assumed to be zero: `hidden`.
    """

    space: Space
    """The varying factors and the constraints."""
    wanted: tuple[Term, ...]
    """The terms to estimate."""
    clear: bool
    """Whether they must be clear of all two-way interactions."""
    assumed: Assumed
    """The assumptions of the power analysis."""
    trials: int | None = None
    """The budget of trials; None for no limit."""

    @cached_property
    def model(self) -> tuple[Term, ...]:
        """The model to fit: all main effects and the wanted terms; with `clear`, all pairs too."""
        main = parse("main", self.space)
        pairs = [term for term in pairs_of(self.space) if term not in self.hidden] if self.clear else []
        return tuple(dict.fromkeys([*main, *pairs, *self.wanted]))

    @cached_property
    def hidden(self) -> tuple[Term, ...]:
        """Two-way interactions that no design can estimate under the constraints."""
        if self.space.admits is None or not self.clear:
            return ()
        every = design_matrix(self.space, map(Point, chain(*region(self.space))))
        shown = (effect(every, term) for term in pairs_of(self.space))
        inestimable = [
            term for term, one in zip(pairs_of(self.space), shown, strict=True) if one.seen < one.wide
        ]
        return tuple(term for term in inestimable if term not in self.wanted)

    def cost(self, runs: int) -> int:
        """The number of trials that `runs` runs take."""
        return runs * self.assumed.trials

    def over(self, runs: int) -> bool:
        """Whether `runs` runs exceed the budget of trials."""
        return self.trials is not None and self.cost(runs) > self.trials


@dataclass(frozen=True)
class Assessment:
    """The evaluation of a candidate design against the requirements."""

    contender: CandidateDesign
    runs: int = 0
    """The number of runs, replicates included."""
    different: int = 0
    """The number of distinct runs."""
    weakest: EffectPower | None = None
    """The wanted effect with the least power."""
    reason: str = ""
    """Why it is rejected; "" if it qualifies."""
    serves: bool = False
    """Whether it meets all requirements except perhaps the budget."""


def assess(contender: CandidateDesign, need: Requirement) -> Assessment:
    """Generate the runs of the candidate, unless there are too many, and check the requirements."""
    try:
        size = contender.design.size(need.space)
        if size > MOST_RUNS:
            return Assessment(contender, size, reason=unaffordable(need, size) or "too many runs to look at")
        points = contender.design.points(need.space, 0)
        found = design_matrix(need.space, (point for point in points if need.space.allows(point.factors)))
    except Invalid as problem:
        return Assessment(contender, reason=problem.problems[0])
    return _checked(contender, found, need)


def _checked(contender: CandidateDesign, found: DesignMatrix, need: Requirement) -> Assessment:
    """Check estimability, then find the smallest number of replicates with enough power."""
    base = Assessment(contender, found.runs, len(found.rows))
    made = fit(found, need.model)
    if inestimable := [term for term in need.wanted if not made.estimable(term)]:
        return replace(base, reason=_confounding_message(found, inestimable, need))
    most = MOST_TIMES if contender.repeatable else 1
    times = fewest(lambda n: _enough(_weakest(found, need, n), need), least=1, most=most)
    weakest = _weakest(found, need, times or 1)
    if times is None:
        return replace(base, weakest=weakest, reason=_power_message(weakest, contender, need))
    runs = found.runs * times
    return replace(
        base,
        contender=contender.repeated(times),
        runs=runs,
        weakest=weakest,
        serves=True,
        reason=unaffordable(need, runs),
    )


def _weakest(found: DesignMatrix, need: Requirement, times: int) -> EffectPower:
    """The wanted effect with the least power when every run is replicated `times` times."""
    each = [times * own for own in found.times]
    made = fit(found, need.model, worth(each, need.assumed))
    error = error_model(found, made.rank, each, need.assumed)
    powers = [power_of(made, term, need.space, error, need.assumed) for term in need.wanted]
    return max(powers, key=lambda one: math.inf if one.smallest is None else one.smallest)


def _enough(weakest: EffectPower, need: Requirement) -> bool:
    """Whether the power suffices; with no effect size stated, whether the effect can be tested at all.

    Where cases are too few for that, no number of runs would help: it need only be estimated.
    """
    if need.assumed.effect is None:
        return weakest.smallest is not None or need.assumed.cases > 1
    return (weakest.power or 0.0) >= need.assumed.power


def unaffordable(need: Requirement, runs: int) -> str:
    """Why `runs` runs exceed the budget; "" if they do not."""
    return f"{need.cost(runs):,} trials, and the budget allows {need.trials:,}" if need.over(runs) else ""


def _power_message(weakest: EffectPower, contender: CandidateDesign, need: Requirement) -> str:
    """Why the power of the weakest effect is too low."""
    if weakest.smallest is None or need.assumed.effect is None:
        few = need.assumed.cases > 1 and weakest.error is not None
        cases = counted(need.assumed.cases, "case")
        return f"{cases} are too few to test it" if few else "nothing is left to tell the noise by"
    chance = f"{100 * (weakest.power or 0.0):.3g}%"
    often = ", and not with enough however often it is replicated" if contender.repeatable else ""
    what = f"{need.assumed.effect:g} in {spoken(weakest.effect)}"
    return f"a difference of {what} is seen with a chance of {chance}{often}"


def _confounding_message(found: DesignMatrix, lost: Sequence[Term], need: Requirement) -> str:
    """The message that names what the first inestimable term is confounded with."""
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
