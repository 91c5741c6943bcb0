"""Runs far from each other: two searches for designs in which the closest pair is as far apart as can be.

Both lower Morris and Mitchell's sum of distances to a high negative power, which grows with the closeness of
the closest pairs and, unlike the smallest distance alone, says which way is better at every step.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]
    Indices = NDArray[np.intp]

POWER = 15.0
PASSES = 30


def spread_latin(strata: Indices, rng: np.random.Generator) -> Indices:
    """The Latin hypercube after exchanges of strata between two runs in one factor: still a Latin hypercube.

    One of the two runs is always of the closest pair.
    """
    import numpy as np

    runs, factors = strata.shape
    if runs < 3 or factors < 2:
        return strata
    at = strata / runs
    squares = ((at[:, None, :] - at[None, :, :]) ** 2).sum(axis=2)
    np.fill_diagonal(squares, np.inf)
    for _ in range(1000 + 50 * runs):
        a = int(squares.argmin()) // runs
        b, factor = int(rng.integers(runs)), int(rng.integers(factors))
        pair = _after_swap(squares, at[:, factor], a, b)
        if a != b and _closeness(pair) < _closeness(squares[[a, b]]):
            at[[a, b], factor] = at[[b, a], factor]
            squares[[a, b]] = pair
            squares[:, [a, b]] = pair.T
    swapped: Indices = np.rint(at * runs).astype(np.intp)
    return swapped


def _after_swap(squares: Matrix, column: Matrix, a: int, b: int) -> Matrix:
    """The squared distances of two runs from all others, had they exchanged their places in one factor."""
    change = (column - column[b]) ** 2 - (column - column[a]) ** 2
    pair: Matrix = squares[[a, b]].copy()
    pair[0] += change
    pair[1] -= change
    pair[:, [a, b]] = squares[[a, b]][:, [a, b]]  # how far they are from each other does not change
    return pair


def _closeness(squares: Matrix) -> float:
    import numpy as np

    return float((np.maximum(squares, 1e-12) ** (-POWER / 2)).sum())


def spread_subset(places: Matrix, runs: int, rng: np.random.Generator) -> Indices:
    """Which `runs` of the places (rows, compared by the sum of absolute differences) are far apart.

    Exchanges one of the chosen at a time for the best of all, until none is better: no two of those chosen
    are the same place, as long as there are enough different ones.
    """
    import numpy as np

    taken = rng.choice(len(places), runs, replace=False)
    near = np.stack([_nearness(places, places[one]) for one in taken], axis=1)
    for _ in range(PASSES):
        before = taken.copy()
        for nth in range(runs):
            near[:, nth] = 0.0
            best = int(near.sum(axis=1).argmin())
            if near[best].sum() < near[taken[nth]].sum():
                taken[nth] = best
            near[:, nth] = _nearness(places, places[taken[nth]])
        if (taken == before).all():
            break
    return taken


def _nearness(places: Matrix, one: Matrix) -> Matrix:
    import numpy as np

    nearness: Matrix = np.maximum(np.abs(places - one).sum(axis=1), 1e-9) ** -POWER
    return nearness
