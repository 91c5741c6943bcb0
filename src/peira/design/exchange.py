"""Coordinate exchange: from a random start, move a run at a time to the best place beside it, while it helps.

A run is a row of places, one for each factor, and a place picks a row from the factor's table; the row of the
model is the product of the rows picked. What a move does to the criterion follows from the inverse of the
information matrix by an update of rank two, so that all moves of a run are weighed at once:

- D, the determinant of the information: the volume of the joint confidence region of all parameters;
- I, given `moments` (the mean over the region of products of model columns): the mean variance of prediction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]
    Places = NDArray[np.intp]

PASSES = 100
RIDGE = 1e-7  # so that a start that cannot estimate everything can be improved too
BETTER, SINGULAR = 1e-6, 1e-9


@dataclass(frozen=True)
class Problem:
    """What can be chosen, and what for.

    The `tables` of the factors; rows of the model that are `fixed`; a `pool` of places known to be admissible
    and which others are `allowed` (None: all); `moments` for the criterion I, None for D.
    """

    tables: list[Matrix]
    fixed: Matrix
    pool: Places
    allowed: Callable[[Places], bool] | None = None
    moments: Matrix | None = None

    def rows(self, places: Places) -> Matrix:
        """The rows of the model at these places."""
        found: Matrix = self.tables[0][places[:, 0]]
        for nth, table in enumerate(self.tables[1:], start=1):
            found = found * table[places[:, nth]]
        return found

    def moves(self, place: Places) -> Places:
        """All places that differ from this one in one factor.

        Under constraints the pool too, because a factor may not be free to move alone.
        """
        import numpy as np

        factors, values = self._single
        moved = np.repeat(place[None, :], len(factors), axis=0)
        moved[np.arange(len(factors)), factors] = values
        return moved if self.allowed is None else np.vstack([moved, self.pool])

    @cached_property
    def _single(self) -> tuple[Places, Places]:
        import numpy as np

        counts = [len(table) for table in self.tables]
        return np.repeat(np.arange(len(counts)), counts), np.concatenate([np.arange(n) for n in counts])


def best(problem: Problem, runs: int, starts: int, rng: np.random.Generator) -> Places | None:
    """The best design of so many runs found from so many starts; None if none can estimate the model."""
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
    """A design on its way, with the inverse of its information matrix."""

    def __init__(self, problem: Problem, places: Places) -> None:
        self.problem, self.places = problem, places.copy()
        self.matrix = problem.rows(places)
        self._invert()

    def _invert(self) -> None:
        import numpy as np

        information = self.matrix.T @ self.matrix + self.problem.fixed.T @ self.problem.fixed
        self.inverse: Matrix = np.array(np.linalg.inv(information + RIDGE * np.eye(len(information))))

    def improve(self) -> None:
        for _ in range(PASSES):
            moved = [self._move(run) for run in range(len(self.places))]
            self._invert()  # what rounding has added up
            if not any(moved):
                break

    def score(self) -> float:
        """The criterion, higher is better; minus infinity for a design that cannot estimate the model."""
        import numpy as np

        whole = np.vstack([self.matrix, self.problem.fixed])
        if np.linalg.matrix_rank(whole) < whole.shape[1]:
            return -np.inf
        if self.problem.moments is not None:
            return -float((self.inverse * self.problem.moments).sum())
        return float(np.linalg.slogdet(whole.T @ whole)[1])

    def _move(self, run: int) -> bool:
        """Make the best move of one run; whether there was one."""
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
        """How much better the design is, in proportion, with each of the rows instead of the old one."""
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
        import numpy as np

        pair = np.stack([row, self.matrix[run]])
        reach = pair @ self.inverse
        core = reach @ pair.T + np.diag([1.0, -1.0])
        self.inverse = self.inverse - reach.T @ np.linalg.solve(core, reach)
        self.places[run], self.matrix[run] = place, row
