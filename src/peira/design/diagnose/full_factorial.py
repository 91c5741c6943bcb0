"""The diagnosis of a full factorial of any size, without enumerating its runs.

Every effect is clear of every other, and the information matrix of a model is a product over its factors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from peira.core.ids import Json
from peira.core.space import Space
from peira.design.diagnose.aliasing import Clarity
from peira.design.diagnose.balance import Balance, Coverage, PairBalance
from peira.design.diagnose.design_matrix import columns, narrowed, two_way
from peira.design.diagnose.diagnosis import MOST_UNASKED, Diagnosis, terms_of, usual
from peira.design.diagnose.effect_power import Assumed, full_error_model, power_of, worth
from peira.design.diagnose.efficiency import ModelInformation, efficiency, spans
from peira.design.diagnose.regular_fraction import Regular
from peira.design.dimensions import label
from peira.design.model import INTERCEPT, Term, parameters
from peira.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

Levels = Mapping[str, Sequence[Json]]
"""The levels of every factor, by name."""


def diagnose_full_factorial(
    space: Space, levels: Levels, formula: str | None = None, assumed: Assumed | None = None
) -> Diagnosis:
    """The diagnosis of all combinations of the `levels`, each once, as from `diagnose`.

    Distances and discrepancy are not computed. Raises `Invalid` if nothing varies.
    """
    varying = narrowed(space, [d for d in space.dimensions if len(levels[d.name]) > 1])
    if not varying.dimensions:
        raise Invalid("nothing varies: there is no factor with two levels or more; give one")
    assumptions, size = assumed or Assumed(), math.prod(len(levels[name]) for name in varying.names)
    text = formula or _formula(varying, levels)
    terms = terms_of(text, varying)
    each = ModelInformation(size * _moments(varying, levels, terms), spans(varying, terms))
    whole = ModelInformation(float(worth([1], assumptions)[0]) * each.information, each.spans)
    error = full_error_model(varying, each.rank, size, assumptions)
    return Diagnosis(
        factors=varying.names,
        fixed=tuple(name for name in space.names if name not in varying.names),
        nested=(),
        runs=size,
        different=size,
        blocks=1,
        block_factor="",
        plots=0,
        whole=(),
        formula=text,
        parameters=parameters(varying, terms),
        unestimable=tuple(term.label for term in terms if not each.estimable(term)),
        regular=_regular(varying, levels),
        balance=tuple(_even(name, levels[name], size) for name in varying.names),
        pairs=tuple(_pair(a, b, levels, size) for a, b in combinations(varying.names, 2)),
        interactions=math.comb(len(varying.names), 2),
        clarity=tuple(_clear(term) for term in two_way(varying, terms) if term != INTERCEPT),
        confounded=(),
        correlation=0.0,
        efficiency=efficiency(each, size, varying),
        coverage=Coverage(None if any(d.ranged for d in varying.dimensions) else 1.0, None, None),
        powers=tuple(
            power_of(whole, term, varying, error, assumptions) for term in terms if term != INTERCEPT
        ),
        assumed=assumptions,
    )


def _formula(space: Space, levels: Levels) -> str:
    """The largest standard model that is estimable and not too large to be a default."""
    for word, terms in usual(space):
        small = parameters(space, terms) <= MOST_UNASKED
        if small and ModelInformation(_moments(space, levels, terms), spans(space, terms)).complete:
            return word
    return "main"


def _moments(space: Space, levels: Levels, terms: Sequence[Term]) -> Matrix:
    """The mean over all combinations of the products of every two columns."""
    import numpy as np

    own = {d.name: columns(d, levels[d.name]) for d in space.dimensions}
    return np.block([[_mean(own, space, one, other) for other in terms] for one in terms])


def _mean(own: Mapping[str, Matrix], space: Space, one: Term, other: Term) -> Matrix:
    """The moments of two terms: the Kronecker product, over the factors, of the factors' own moments."""
    import numpy as np

    rows, across = dict(one.powers), dict(other.powers)
    mean: Matrix = np.ones((1, 1))
    for name in space.names:
        if name in rows or name in across:
            left, right = (_power(own[name], powers.get(name, 0)) for powers in (rows, across))
            mean = np.array(np.kron(mean, left.T @ right / len(left)))
    return mean


def _power(matrix: Matrix, power: int) -> Matrix:
    import numpy as np

    return matrix**power if power else np.ones((len(matrix), 1))


def _even(name: str, levels: Sequence[Json], size: int) -> Balance:
    """The balance of a factor of a full factorial."""
    return Balance(name, tuple((label(level), size // len(levels)) for level in levels))


def _pair(a: str, b: str, levels: Levels, size: int) -> PairBalance:
    """The balance of two factors of a full factorial."""
    each = size // (len(levels[a]) * len(levels[b]))
    return PairBalance((a, b), each, each, 0, True)


def _clear(term: Term) -> Clarity:
    """The clarity of an effect of a full factorial."""
    return Clarity(term.label, sum(power for _, power in term.powers), 0, (), 0.0, 0.0, 0.0)


def _regular(space: Space, levels: Levels) -> Regular | None:
    """The regular fraction of a two-level full factorial, which has no words."""
    two = all(len(levels[name]) == 2 for name in space.names)
    return Regular(len(space.names), 0, None, (), ()) if two else None
