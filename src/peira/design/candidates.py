"""Where the runs of an optimal design can be: the places of each factor, and what the model is there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from peira.core.ids import Json
from peira.core.space import Dimension, Space
from peira.design.dimensions import generator, value_at, values_of, whole_numbers
from peira.design.filling import TRIES
from peira.design.grid import values
from peira.design.model import Term, code, encode, expand, width
from peira.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]
    Places = NDArray[np.intp]

FINENESS = 41
POOL = 300
REGION = 4096


def searched(dimension: Dimension) -> Sequence[Json]:
    """The values that a factor is tried at: all where they are few, else evenly spaced ones and the ends."""
    if not dimension.ranged:
        return dimension.levels
    if values_of(dimension) <= FINENESS:
        return whole_numbers(dimension)
    return list(dict.fromkeys(values(dimension, FINENESS)))


def tables(space: Space, terms: Sequence[Term]) -> list[Matrix]:
    """For each factor what it gives to every column of the model (1 where it has no part) at each value."""
    import numpy as np

    found = []
    for own in space.dimensions:
        tried = searched(own)
        widths = {d.name: width(Term(((d.name, 1),)), space) for d in space.dimensions}
        columns = {name: np.ones((len(tried), wide)) for name, wide in widths.items()}
        found.append(expand(columns | {own.name: code(own, tried)}, terms, len(tried)))
    return found


def allowed(space: Space) -> Callable[[Places], bool] | None:
    """Whether places are admissible, each asked once; None where all are."""
    if space.admits is None:
        return None
    tried = [searched(dimension) for dimension in space.dimensions]
    known: dict[bytes, bool] = {}

    def ask(places: Places) -> bool:
        key = places.tobytes()
        if key not in known:
            found = (own[place] for own, place in zip(tried, places.tolist(), strict=True))
            known[key] = space.allows(dict(zip(space.names, found, strict=True)))
        return known[key]

    return ask


def pool(space: Space, allows: Callable[[Places], bool] | None, rng: np.random.Generator) -> Places:
    """Some admissible places, at random; Invalid where there seem to be none."""
    import numpy as np

    counts = [len(searched(dimension)) for dimension in space.dimensions]
    if allows is None:
        return rng.integers(0, counts, size=(POOL, len(counts)))
    found = []
    for places in rng.integers(0, counts, size=(TRIES, len(counts))):
        if allows(places):
            found.append(places)
        if len(found) == POOL:
            break
    if not found:
        raise Invalid(f"the constraints allow none of {TRIES} points tried; relax them")
    return np.array(found)


def moments(space: Space, terms: Sequence[Term]) -> Matrix:
    """The mean over the admissible space of the products of every two columns of the model."""
    from scipy.stats import qmc

    engine = qmc.Sobol(len(space.dimensions), scramble=True, seed=generator(0, "region"))
    region = [
        {d.name: value_at(d, share) for d, share in zip(space.dimensions, row, strict=True)}
        for row in engine.random(REGION).tolist()
    ]
    inside = [point for point in region if space.allows(point)]
    if not inside:
        raise Invalid(f"the constraints allow none of {REGION} points tried; relax them, or take d_optimal")
    matrix, _ = encode(space, inside, terms)
    mean: Matrix = matrix.T @ matrix / len(inside)
    return mean


def inestimable(matrix: Matrix, labels: Sequence[str]) -> list[str]:
    """The labels of columns that are combinations of those before them, each once."""
    import numpy as np

    ranks = [0, *(int(np.linalg.matrix_rank(matrix[:, : n + 1])) for n in range(matrix.shape[1]))]
    grown = zip(labels, ranks, ranks[1:], strict=False)
    return list(dict.fromkeys(label for label, before, after in grown if before == after))
