"""Coordinate exchange: the search for D- and I-optimal designs, and its candidate points.

A run is a row of indices, one per factor, into that factor's list of candidate values. Each factor has a
table with its contribution to every model column at every candidate value; the model row of a run is the
elementwise product of the selected table rows. The effect of an exchange on the criterion follows from the
inverse of the information matrix by a rank-two update, so all exchanges of one run are evaluated at once:

- D: the determinant of the information matrix, which determines the volume of the joint confidence region of
  all parameters;
- I, given `moments` (the mean over the design region of the products of model columns): the average
  prediction variance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from peira.core.ids import Json
from peira.core.space import Dimension, Space
from peira.design.dimensions import generator, value_at, values, values_of, whole_numbers
from peira.design.model import Term, code, encode, expand, width
from peira.design.sampling import TRIES
from peira.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]
    Places = NDArray[np.intp]


# Candidate values and points


FINENESS = 41
"""Number of candidate values of a range."""
POOL = 300
"""Number of random admissible points to start from."""
REGION = 4096
"""Number of points over which the average prediction variance is computed."""


def searched(dimension: Dimension) -> Sequence[Json]:
    """The candidate values of a factor: all if there are at most `FINENESS`, else evenly spaced."""
    if not dimension.ranged:
        return dimension.levels
    if values_of(dimension) <= FINENESS:
        return whole_numbers(dimension)
    return list(dict.fromkeys(values(dimension, FINENESS)))


def tables(space: Space, terms: Sequence[Term]) -> list[Matrix]:
    """For each factor, its contribution to every model column (1 if none) at each candidate value."""
    import numpy as np

    found = []
    for own in space.dimensions:
        tried = searched(own)
        widths = {d.name: width(Term(((d.name, 1),)), space) for d in space.dimensions}
        columns = {name: np.ones((len(tried), wide)) for name, wide in widths.items()}
        found.append(expand(columns | {own.name: code(own, tried)}, terms, len(tried)))
    return found


def allowed(space: Space) -> Callable[[Places], bool] | None:
    """A memoised check of whether a run satisfies the constraints; None if there are no constraints."""
    if space.admits is None:
        return None
    tried = [searched(dimension) for dimension in space.dimensions]
    known: dict[bytes, bool] = {}

    def check(places: Places) -> bool:
        key = places.tobytes()
        if key not in known:
            found = (own[place] for own, place in zip(tried, places.tolist(), strict=True))
            known[key] = space.allows(dict(zip(space.names, found, strict=True)))
        return known[key]

    return check


def pool(space: Space, allows: Callable[[Places], bool] | None, rng: np.random.Generator) -> Places:
    """Random admissible runs, as index rows; raises `Invalid` if none of the points tried is admissible."""
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
    """The mean over the admissible space of the products of every two model columns."""
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
    """Labels of the columns that are linear combinations of earlier columns, without repeats."""
    import numpy as np

    ranks = [0, *(int(np.linalg.matrix_rank(matrix[:, : n + 1])) for n in range(matrix.shape[1]))]
    grown = zip(labels, ranks, ranks[1:], strict=False)
    return list(dict.fromkeys(label for label, before, after in grown if before == after))


# The search


PASSES = 100
"""Maximum number of passes over all runs from one start."""
RIDGE = 1e-7  # added to the information matrix, so that a singular starting design can be improved
BETTER, SINGULAR = 1e-6, 1e-9


@dataclass(frozen=True)
class Problem:
    """The optimisation problem: candidate values, fixed runs, constraints and criterion."""

    tables: list[Matrix]
    """For each factor, its contribution to every model column at each candidate value."""
    fixed: Matrix
    """The model rows of the given runs."""
    pool: Places
    """Index rows of admissible runs, from which the search starts."""
    allowed: Callable[[Places], bool] | None = None
    """Whether a run is admissible; None if there are no constraints."""
    moments: Matrix | None = None
    """The moment matrix, which selects the I criterion; None selects D."""

    def rows(self, places: Places) -> Matrix:
        """The model rows of these runs."""
        found: Matrix = self.tables[0][places[:, 0]]
        for nth, table in enumerate(self.tables[1:], start=1):
            found = found * table[places[:, nth]]
        return found

    def moves(self, place: Places) -> Places:
        """All runs that differ from this one in one factor.

        Under constraints the pool is added, because a single-factor exchange may not be admissible.
        """
        import numpy as np

        factors, values = self._single
        moved = np.repeat(place[None, :], len(factors), axis=0)
        moved[np.arange(len(factors)), factors] = values
        return moved if self.allowed is None else np.vstack([moved, self.pool])

    @cached_property
    def _single(self) -> tuple[Places, Places]:
        """For every single-factor exchange, the factor and the index of its new value."""

        import numpy as np

        counts = [len(table) for table in self.tables]
        return np.repeat(np.arange(len(counts)), counts), np.concatenate([np.arange(n) for n in counts])


def best(problem: Problem, runs: int, starts: int, rng: np.random.Generator) -> Places | None:
    """The best design of `runs` runs over `starts` random starts; None if all are singular for the model."""
    import numpy as np

    found: list[tuple[float, Places]] = []
    for _ in range(starts):
        start = problem.pool[rng.integers(len(problem.pool), size=runs)]
        design = _Design(problem, start)
        design.improve()
        score = design.score()
        if np.isfinite(score):
            found.append((score, design.places))
    return max(found, key=lambda one: one[0])[1] if found else None


class _Design:
    """A design during the search, with the inverse of its information matrix."""

    def __init__(self, problem: Problem, places: Places) -> None:
        self.problem, self.places = problem, places.copy()
        self.matrix = problem.rows(places)
        self._invert()

    def _invert(self) -> None:
        """Recompute the inverse of the information matrix from scratch."""

        import numpy as np

        information = self.matrix.T @ self.matrix + self.problem.fixed.T @ self.problem.fixed
        self.inverse: Matrix = np.array(np.linalg.inv(information + RIDGE * np.eye(len(information))))

    def improve(self) -> None:
        """Exchange runs until a full pass brings no improvement, or for `PASSES` passes."""
        for _ in range(PASSES):
            moved = [self._move(run) for run in range(len(self.places))]
            self._invert()  # removes accumulated rounding error
            if not any(moved):
                break

    def score(self) -> float:
        """The criterion, higher is better; minus infinity if the model cannot be estimated."""
        import numpy as np

        whole = np.vstack([self.matrix, self.problem.fixed])
        if np.linalg.matrix_rank(whole) < whole.shape[1]:
            return -np.inf
        if self.problem.moments is not None:
            return -float((self.inverse * self.problem.moments).sum())
        return float(np.linalg.slogdet(whole.T @ whole)[1])

    def _move(self, run: int) -> bool:
        """Apply the best admissible exchange of one run; return whether there was one."""
        moves = self.problem.moves(self.places[run])
        rows = self.problem.rows(moves)
        gains = self._gains(self.matrix[run], rows)
        for nth in (-gains).argsort():
            if gains[nth] <= BETTER:
                return False
            if self.problem.allowed is None or self.problem.allowed(moves[nth]):
                self._replace(run, moves[nth], rows[nth])
                return True
        return False

    def _gains(self, old: Matrix, rows: Matrix) -> Matrix:
        """The relative improvement of the criterion for each row as a replacement of the old one."""
        import numpy as np

        spread = rows @ self.inverse
        own, cross, lost = (spread * rows).sum(axis=1), spread @ old, float(old @ self.inverse @ old)
        ratio: Matrix = (1 + own) * (1 - lost) + cross**2  # of the determinants
        if self.problem.moments is None:
            return ratio - 1
        weighted = self.inverse @ self.problem.moments @ self.inverse
        reach = rows @ weighted
        less = (1 - lost) * (reach * rows).sum(axis=1) + 2 * cross * (reach @ old)
        less -= (1 + own) * float(old @ weighted @ old)
        total = float((self.inverse * self.problem.moments).sum())
        return np.where(ratio > SINGULAR, less / np.maximum(ratio, SINGULAR) / total, -np.inf)

    def _replace(self, run: int, place: Places, row: Matrix) -> None:
        """Replace one run and update the inverse (Sherman-Morrison-Woodbury, rank two)."""

        import numpy as np

        pair = np.stack([row, self.matrix[run]])
        reach = pair @ self.inverse
        core = reach @ pair.T + np.diag([1.0, -1.0])
        self.inverse = self.inverse - reach.T @ np.linalg.solve(core, reach)
        self.places[run], self.matrix[run] = place, row
