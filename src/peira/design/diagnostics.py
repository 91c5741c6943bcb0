"""What a design can and cannot tell, before anything is spent: all there is to say about it, in one value.

`diagnose` looks at the runs themselves, whatever design they come from. What people read first is in `plain`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from peira.core.space import Point, Space
from peira.design.alias import Confounding, confoundings, effects
from peira.design.balance import Balance, Pair, balance, pairs
from peira.design.clarity import Clarity, clarities
from peira.design.coverage import Coverage, coverage
from peira.design.effect_power import Assumed, EffectPower, powers
from peira.design.efficiency import Efficiency, efficiency
from peira.design.fit import fit
from peira.design.laid import Laid, laid
from peira.design.model import Term, parameters, parse
from peira.design.regular import Regular, regular
from peira.errors import Invalid

MOST_PARAMETERS = 1000
MOST_UNASKED = 200
MOST_LISTED = 1000


class Diagnosis(msgspec.Struct, frozen=True):
    """A design of `runs` runs, `different` of them different, looked at through the model of the `formula`.

    `unestimable` are terms of the model of which some parameter cannot be estimated. `clarity` says of each
    effect of up to two factors (and of the formula) what it is clear of; `confounded` are the pairs that are
    not clear of each other, the most confounded first, at most 1,000 of them. `correlation` is the largest of
    any two terms of the model. `interactions` is how many two-way interactions were looked at: all, or none
    where they are too many.
    """

    factors: tuple[str, ...]
    fixed: tuple[str, ...]
    nested: tuple[str, ...]
    runs: int
    different: int
    blocks: int
    block_factor: str
    plots: int
    whole: tuple[str, ...]
    formula: str
    parameters: int
    unestimable: tuple[str, ...]
    regular: Regular | None
    balance: tuple[Balance, ...]
    pairs: tuple[Pair, ...]
    interactions: int
    clarity: tuple[Clarity, ...]
    confounded: tuple[Confounding, ...]
    correlation: float
    efficiency: Efficiency | None
    coverage: Coverage
    powers: tuple[EffectPower, ...]
    assumed: Assumed

    @property
    def resolution(self) -> int | None:
        """Of a regular two-level fraction; None of a full factorial, and of what is no such fraction."""
        return self.regular.resolution if self.regular else None


def diagnose(
    space: Space, points: Iterable[Point], formula: str | None = None, assumed: Assumed | None = None
) -> Diagnosis:
    """All that can be said of the runs.

    Without a formula: main effects, interactions and squares; or if not all of these can be estimated,
    without squares; or else main effects alone.
    """
    seen, said = laid(space, points), assumed or Assumed()
    written = formula or _formula(seen)
    terms = terms_of(written, seen.space)
    made, found = fit(seen, terms), effects(seen, terms)
    alone = fit(seen, terms, blocks=False) if seen.block_columns.size else made
    pairwise = list(confoundings(found))
    return Diagnosis(
        factors=seen.space.names,
        fixed=seen.fixed,
        nested=seen.nested,
        runs=seen.runs,
        different=len(seen.rows),
        blocks=len(set(seen.blocks)),
        block_factor=seen.block_factor,
        plots=seen.plots,
        whole=seen.whole,
        formula=written,
        parameters=parameters(seen.space, terms),
        unestimable=tuple(term.label for term in terms if not made.estimable(term)),
        regular=regular(seen),
        balance=balance(seen),
        pairs=pairs(seen),
        interactions=sum(len(effect.parts) > 1 for effect in found),
        clarity=clarities(found, pairwise),
        confounded=_listed(pairwise),
        correlation=_largest(pairwise, terms),
        efficiency=efficiency(alone, seen.runs, seen.space),
        coverage=coverage(seen),
        powers=powers(seen, terms, said),
        assumed=said,
    )


def terms_of(formula: str, space: Space) -> tuple[Term, ...]:
    """The terms of a formula, if they are not too many."""
    terms = parse(formula, space)
    if (count := parameters(space, terms)) > MOST_PARAMETERS:
        raise Invalid(
            f"formula: the model has {count:,} parameters; say one with at most {MOST_PARAMETERS:,}"
        )
    return terms


def _formula(seen: Laid) -> str:
    """The largest of the usual models that can be estimated and is not too large to be taken unasked."""
    for word, terms in usual(seen.space):
        small = parameters(seen.space, terms) <= min(MOST_UNASKED, len(seen.rows))
        if small and fit(seen, terms).complete:
            return word
    return "main"


def usual(space: Space) -> Iterator[tuple[str, tuple[Term, ...]]]:
    """The models that are tried before main effects alone, the largest first."""
    quadratic, interactions = parse("quadratic", space), parse("interactions", space)
    if quadratic != interactions:
        yield "quadratic", quadratic
    yield "interactions", interactions


def _listed(pairwise: Iterable[Confounding]) -> tuple[Confounding, ...]:
    """Each pair once, from the side from which it is confounded most."""
    once: dict[frozenset[str], Confounding] = {}
    for pair in pairwise:
        both = frozenset((pair.effect, pair.other))
        if both not in once or (pair.full and not once[both].full):
            once[both] = pair
    ordered = sorted(once.values(), key=lambda pair: (not pair.full, -abs(pair.correlation)))
    return tuple(ordered[:MOST_LISTED])


def _largest(pairwise: Iterable[Confounding], terms: Iterable[Term]) -> float:
    own = {term.label for term in terms}
    return max((abs(p.correlation) for p in pairwise if p.effect in own and p.other in own), default=0.0)
