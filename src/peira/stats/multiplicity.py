"""Several tests at once: p-values adjusted so that the whole family keeps its promise.

Each function takes the p-values of one family and returns them adjusted, in the same order: compare an
adjusted value with alpha as if it were the only one. A None (a test that could not be made) stays None; it
still counts as a member of the family unless it is left out beforehand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from peira.stats.inputs import Floats, upper

P = Sequence[float | None]


def bonferroni(p: P) -> list[float | None]:
    """Family-wise, by multiplying; for any dependence."""
    return _adjusted(p, lambda ordered, m: np.minimum(1, m * ordered))


def holm(p: P) -> list[float | None]:
    """Family-wise, step-down; for any dependence, and never larger than Bonferroni's."""
    return _adjusted(
        p,
        lambda ordered, m: np.maximum.accumulate(np.minimum(1, (m - np.arange(ordered.size)) * ordered)),
    )


def benjamini_hochberg(p: P) -> list[float | None]:
    """The expected share of false discoveries, step-up; for independent or positively dependent tests."""
    return _adjusted(p, _step_up)


def family_level(level: float, members: int) -> float:
    """The level of each of so many intervals that makes all of them hold at once with chance `level`."""
    upper(level)
    if members < 1:
        raise ValueError(f"need a family of at least one, not {members}")
    return 1 - (1 - level) / members


def _step_up(ordered: Floats, m: int) -> Floats:
    ranked = ordered * m / np.arange(1, ordered.size + 1)
    found: Floats = np.minimum.accumulate(np.minimum(1, ranked)[::-1])[::-1]
    return found


def _adjusted(p: P, adjust: Callable[[Floats, int], Floats]) -> list[float | None]:
    known = [index for index, value in enumerate(p) if value is not None]
    values = np.array([p[index] for index in known], dtype=np.float64)
    if not bool(((values >= 0) & (values <= 1)).all()):
        raise ValueError("every p-value must lie between 0 and 1")
    found: list[float | None] = [None] * len(p)
    if known:
        order = np.argsort(values, kind="stable")
        for place, value in zip(order, adjust(values[order], len(p)), strict=True):
            found[known[place]] = float(value)
    return found
