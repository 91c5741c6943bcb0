"""The diagnosis of a design: what it can and cannot estimate, before any trial is run.

`diagnose` works on the runs themselves, independent of the design that generated them. `sentences` turns the
diagnosis into plain text.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec

from peira.core.space import Point, Space
from peira.design.diagnose.aliasing import Clarity, Confounding, clarities, confoundings, effects
from peira.design.diagnose.balance import Balance, Coverage, PairBalance, balance, coverage, pairs
from peira.design.diagnose.design_matrix import DesignMatrix, design_matrix
from peira.design.diagnose.effect_power import Assumed, EffectPower, powers
from peira.design.diagnose.efficiency import Efficiency, efficiency, fit
from peira.design.diagnose.regular_fraction import Regular, regular
from peira.design.model import Term, parameters, parse
from peira.errors import Invalid

MOST_PARAMETERS = 1000
"""Maximum number of parameters of a model given by a formula."""
MOST_UNASKED = 200
"""Maximum number of parameters of a model chosen by default."""
MOST_LISTED = 1000
"""Maximum number of confounded pairs listed."""


class Diagnosis(msgspec.Struct, frozen=True):
    """What a design can and cannot estimate, for the model of a formula."""

    factors: tuple[str, ...]
    """The factors that vary."""
    fixed: tuple[str, ...]
    """The factors with a single level."""
    nested: tuple[str, ...]
    """Factors that are nested in others, and not effects of their own."""
    runs: int
    """The number of runs, replicates included."""
    different: int
    """The number of distinct runs."""
    blocks: int
    block_factor: str
    """The factor whose levels coincide with the blocks; "" if there is none."""
    plots: int
    """The number of whole plots."""
    whole: tuple[str, ...]
    """The whole-plot factors."""
    formula: str
    """The model, as given or chosen by default."""
    parameters: int
    """The number of parameters of the model."""
    unestimable: tuple[str, ...]
    """The terms of the model with an inestimable parameter."""
    regular: Regular | None
    """The regular two-level fraction that the runs form; None if they form none."""
    balance: tuple[Balance, ...]
    """The balance of each factor."""
    pairs: tuple[PairBalance, ...]
    """The balance of each pair of factors."""
    interactions: int
    """The number of two-way interactions examined: all, or none if there are too many."""
    clarity: tuple[Clarity, ...]
    """What each effect of up to two factors (and of the formula) is clear of."""
    confounded: tuple[Confounding, ...]
    """The confounded pairs, strongest first, at most 1,000."""
    correlation: float
    """The largest correlation of two terms of the model."""
    efficiency: Efficiency | None
    """The efficiencies; None if the model cannot be estimated."""
    coverage: Coverage
    powers: tuple[EffectPower, ...]
    """The power for each term of the model."""
    assumed: Assumed
    """The assumptions of the power analysis."""

    @property
    def resolution(self) -> int | None:
        """The resolution of a regular two-level fraction; None for any other design."""
        return self.regular.resolution if self.regular else None


def diagnose(
    space: Space, points: Iterable[Point], formula: str | None = None, assumed: Assumed | None = None
) -> Diagnosis:
    """The diagnosis of the runs; raises `Invalid` if nothing varies or there are too many runs.

    The default formula is the largest estimable model among main effects, interactions and squares; main
    effects and interactions; main effects.
    """
    design, assumptions = design_matrix(space, points), assumed or Assumed()
    text = formula or _formula(design)
    terms = terms_of(text, design.space)
    made, found = fit(design, terms), effects(design, terms)
    alone = fit(design, terms, blocks=False) if design.block_columns.size else made
    pairwise = list(confoundings(found))
    return Diagnosis(
        factors=design.space.names,
        fixed=design.fixed,
        nested=design.nested,
        runs=design.runs,
        different=len(design.rows),
        blocks=len(set(design.blocks)),
        block_factor=design.block_factor,
        plots=design.plots,
        whole=design.whole,
        formula=text,
        parameters=parameters(design.space, terms),
        unestimable=tuple(term.label for term in terms if not made.estimable(term)),
        regular=regular(design),
        balance=balance(design),
        pairs=pairs(design),
        interactions=sum(len(effect.parts) > 1 for effect in found),
        clarity=clarities(found, pairwise),
        confounded=_listed(pairwise),
        correlation=_largest(pairwise, terms),
        efficiency=efficiency(alone, design.runs, design.space),
        coverage=coverage(design),
        powers=powers(design, terms, assumptions),
        assumed=assumptions,
    )


def terms_of(formula: str, space: Space) -> tuple[Term, ...]:
    """The terms of a formula; raises `Invalid` if the model has too many parameters."""
    terms = parse(formula, space)
    if (count := parameters(space, terms)) > MOST_PARAMETERS:
        raise Invalid(
            f"formula: the model has {count:,} parameters; say one with at most {MOST_PARAMETERS:,}"
        )
    return terms


def _formula(design: DesignMatrix) -> str:
    """The largest standard model that is estimable and not too large to be a default."""
    for word, terms in usual(design.space):
        small = parameters(design.space, terms) <= min(MOST_UNASKED, len(design.rows))
        if small and fit(design, terms).complete:
            return word
    return "main"


def usual(space: Space) -> Iterator[tuple[str, tuple[Term, ...]]]:
    """The standard models tried before main effects alone, largest first."""
    quadratic, interactions = parse("quadratic", space), parse("interactions", space)
    if quadratic != interactions:
        yield "quadratic", quadratic
    yield "interactions", interactions


def _listed(pairwise: Iterable[Confounding]) -> tuple[Confounding, ...]:
    """Each pair once, in the direction with the stronger confounding."""
    once: dict[frozenset[str], Confounding] = {}
    for pair in pairwise:
        both = frozenset((pair.effect, pair.other))
        if both not in once or (pair.full and not once[both].full):
            once[both] = pair
    ordered = sorted(once.values(), key=lambda pair: (not pair.full, -abs(pair.correlation)))
    return tuple(ordered[:MOST_LISTED])


def _largest(pairwise: Iterable[Confounding], terms: Iterable[Term]) -> float:
    """The largest correlation between two terms of the model."""
    own = {term.label for term in terms}
    return max((abs(p.correlation) for p in pairwise if p.effect in own and p.other in own), default=0.0)
