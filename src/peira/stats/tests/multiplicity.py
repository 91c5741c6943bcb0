"""Multiple comparisons: adjusted p-values, simultaneous intervals, rank intervals, letter displays.

The corrections take the p-values of one family and return adjusted ones in the same order, to be compared
with alpha. A None (a test that could not be computed) stays None; it counts as a member of the family unless
it is left out beforehand.

Dunnett (every group against a control) and Tukey (every pair) take independent groups of roughly normal
values with a common variance. `largest_t` takes columns measured on the same cases and any list of contrasts
among them; the correlation of the contrasts is estimated from the data.

`rank_intervals` and `letters` take the pairs that a simultaneous comparison found to differ, as (better,
worse), with entries numbered from 0; the coverage of the comparison carries over to all ranks jointly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass
from itertools import combinations
from string import ascii_lowercase

import numpy as np
from numpy.typing import ArrayLike

from peira.stats.inputs import Floats, coded, finite, flat, totals, upper
from peira.stats.intervals.means import spread
from peira.stats.student import quantile

# Adjusted p-values

P = Sequence[float | None]
"""The p-values of one family."""


def bonferroni(p: P) -> list[float | None]:
    """Bonferroni's correction: family-wise error rate under any dependence."""
    return _adjusted(p, lambda ordered, m: np.minimum(1, m * ordered))


def holm(p: P) -> list[float | None]:
    """Holm's step-down correction: family-wise error rate under any dependence.

    Never larger than Bonferroni's.
    """
    return _adjusted(
        p,
        lambda ordered, m: np.maximum.accumulate(np.minimum(1, (m - np.arange(ordered.size)) * ordered)),
    )


def benjamini_hochberg(p: P) -> list[float | None]:
    """Benjamini and Hochberg's step-up correction: false discovery rate.

    For independent or positively dependent tests.
    """
    return _adjusted(p, _step_up)


def family_level(level: float, members: int) -> float:
    """The level of each of `members` intervals for simultaneous coverage (Bonferroni)."""
    upper(level)
    if members < 1:
        raise ValueError(f"need a family of at least one, not {members}")
    return 1 - (1 - level) / members


def _step_up(ordered: Floats, m: int) -> Floats:
    """Benjamini and Hochberg's adjustment of ordered p-values."""
    ranked = ordered * m / np.arange(1, ordered.size + 1)
    found: Floats = np.minimum.accumulate(np.minimum(1, ranked)[::-1])[::-1]
    return found


def _adjusted(p: P, adjust: Callable[[Floats, int], Floats]) -> list[float | None]:
    """Apply an adjustment of ordered p-values to those that are not None."""
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


# Simultaneous intervals

_DRAWS = 50_000
_FEW = 60


@dataclass(frozen=True)
class FamilyDifference:
    """First minus second, by position; `p` and the bounds are adjusted for the whole family."""

    first: int
    second: int
    difference: float
    low: float | None
    high: float | None
    p: float | None


def dunnett(control: ArrayLike, groups: Sequence[ArrayLike], level: float = 0.95) -> list[FamilyDifference]:
    """Dunnett's test: every group (positions from 1) minus the control (position 0).

    Groups are independent samples. Interval and p-value are None if there is no variation, or a group has
    fewer than two values.
    """
    from scipy.stats import dunnett as scipy_dunnett

    samples, _ = [flat(group) for group in (control, *groups)], upper(level)
    pairs = [(index, 0) for index in range(1, len(samples))]
    if not _comparable(samples):
        return [_unknown(samples, pair) for pair in pairs]
    found = scipy_dunnett(*samples[1:], control=samples[0], rng=np.random.default_rng(0))
    bounds = found.confidence_interval(level)
    return [
        FamilyDifference(i, 0, _mean_difference(samples, (i, 0)), float(low), float(high), float(p))
        for (i, _), low, high, p in zip(pairs, bounds.low, bounds.high, found.pvalue, strict=True)
    ]


def tukey(groups: Sequence[ArrayLike], level: float = 0.95) -> list[FamilyDifference]:
    """Tukey's HSD: every pair of groups, the earlier minus the later.

    Groups are independent samples. Interval and p-value are None if there is no variation, or a group has
    fewer than two values.
    """
    from scipy.stats import tukey_hsd

    samples, _ = [flat(group) for group in groups], upper(level)
    pairs = list(combinations(range(len(samples)), 2))
    if not _comparable(samples):
        return [_unknown(samples, pair) for pair in pairs]
    found = tukey_hsd(*samples)
    bounds = found.confidence_interval(level)
    return [
        FamilyDifference(
            i,
            j,
            _mean_difference(samples, (i, j)),
            *(float(t[i, j]) for t in (bounds.low, bounds.high, found.pvalue)),
        )
        for i, j in pairs
    ]


@dataclass(frozen=True, eq=False)
class LargestT:
    """The joint distribution of the t statistics of a family of contrasts.

    Each contrast keeps its own test: its p-value is adjusted to the chance that the smallest of the family is
    as small, where p-values depend on each other as t statistics of this correlation do. `draws` are sorted
    ones of the largest absolute t with `df` degrees of freedom; `others` counts contrasts that are not among
    them, because they do not vary, and are allowed for by Bonferroni's inequality.
    """

    draws: Floats
    df: float
    others: int = 0

    def adjusted(self, p: float) -> float:
        """The p-value adjusted for the family; never below that of the contrast itself."""
        beyond = 0.0
        if self.draws.size:
            least = quantile(self.df, 1 - p / 2) if p > 0 else math.inf
            exceeding = self.draws.size - int(np.searchsorted(self.draws, least, side="left"))
            beyond = (exceeding + 1) / (self.draws.size + 1)
        return min(1.0, max(p, beyond + self.others * p))

    def own_level(self, level: float) -> float:
        """The level of each contrast's own interval, so that all hold together at `level`."""
        alpha = 2 * (1 - upper(level))
        low, high = 0.0, alpha
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self.adjusted(middle) <= alpha else (low, middle)
        return 1 - low if low > 0 else 1 - alpha / 2**20


def largest_t(
    table: ArrayLike,
    contrasts: Sequence[tuple[int, int]],
    clusters: Iterable[Hashable] | None = None,
    seed: int = 0,
) -> LargestT:
    """The joint distribution of differences between columns that are measured on the same cases (rows).

    Simulated with a seeded generator, from normal differences with the observed correlation and the smallest
    degrees of freedom among the contrasts.
    """
    data = finite(np.asarray(table, dtype=np.float64))
    if data.ndim != 2 or data.size == 0:
        raise ValueError("need a table of cases by sides")
    codes, groups = coded(clusters, len(data))
    gaps = np.stack([data[:, i] - data[:, j] for i, j in contrasts], axis=1)
    spreads = [spread(column, codes) for column in gaps.T] if groups > 1 else []
    scale = float(np.abs(data).max()) * 2.0**-48
    known = [k for k, found in enumerate(spreads) if found.error > scale]
    sums = [totals(codes, gaps[:, k] - gaps[:, k].mean()) for k in known]
    return _largest_t(sums, [spreads[k].df for k in known], len(contrasts) - len(known), seed)


def joint_t(influence: Floats, df: Sequence[float], others: int = 0, seed: int = 0) -> LargestT:
    """The joint distribution of estimates with a common robust covariance, the cross product of `influence`.

    `influence` has a row for each unit and a column for each estimate, `df` their degrees of freedom.
    """
    return _largest_t(list(influence.T), df, others, seed)


def _largest_t(contributions: Sequence[Floats], df: Sequence[float], others: int, seed: int) -> LargestT:
    least = min(df, default=1.0)
    return LargestT(np.sort(_max_t_draws(contributions, least, seed)), least, others)


def _max_t_draws(contributions: Sequence[Floats], df: float, seed: int) -> Floats:
    """Draws of the maximum absolute t among correlated contrasts, given the units' contributions to each."""
    if not contributions:
        return np.zeros(0)
    sums = np.stack(contributions)
    sums /= np.sqrt((sums**2).sum(axis=1, keepdims=True))
    rng = np.random.default_rng(seed)
    # Transforming by a matrix root gives normals with exactly this correlation, of any rank.
    values, vectors = np.linalg.eigh(sums @ sums.T)
    root: Floats = vectors * np.sqrt(np.maximum(values, 0))

    def normals() -> Floats:
        drawn: Floats = rng.standard_normal((_DRAWS, len(root))) @ root.T
        return drawn

    # Every contrast has its own variance estimate; with many cases a common one is close enough.
    few = round(df)
    squares = (
        sum(normals() ** 2 for _ in range(few)) / few if few <= _FEW else rng.chisquare(df, (_DRAWS, 1)) / df
    )
    found: Floats = (np.abs(normals()) / np.sqrt(squares)).max(axis=1)
    return found


def _comparable(samples: Sequence[Floats]) -> bool:
    """Whether there are at least two groups, each with at least two values, and any variation."""
    spread = max(float(np.ptp(sample)) for sample in samples)
    return len(samples) > 1 and min(sample.size for sample in samples) > 1 and spread > 0


def _mean_difference(samples: Sequence[Floats], pair: tuple[int, int]) -> float:
    """The difference of the means of two groups."""
    return float(samples[pair[0]].mean() - samples[pair[1]].mean())


def _unknown(samples: Sequence[Floats], pair: tuple[int, int]) -> FamilyDifference:
    """The difference of two groups without interval and p-value."""
    return FamilyDifference(*pair, _mean_difference(samples, pair), None, None, None)


# Ranks and letter displays


def rank_intervals(entries: int, different: Collection[tuple[int, int]]) -> list[tuple[int, int]]:
    """The best and the worst rank (from 1) of each entry that are compatible with the differences."""
    _check(entries, different)
    best, worst = [1] * entries, [entries] * entries
    for better, worse in set(different):
        best[worse] += 1
        worst[better] -= 1
    return list(zip(best, worst, strict=True))


def letters(order: Sequence[int], different: Collection[tuple[int, int]]) -> list[str]:
    """The compact letter display by Piepho's insert-and-absorb; letters are assigned along `order`.

    Entries that share a letter do not differ significantly; entries that share none do.
    """
    _check(len(order), different)
    if sorted(order) != list(range(len(order))):
        raise ValueError("the order names every entry once")
    apart = {frozenset(pair) for pair in different}
    columns = [set(order)]
    for i, j in combinations(order, 2):
        if frozenset((i, j)) in apart:
            columns = _absorb([part for column in columns for part in _split(column, i, j)])
    place = {entry: index for index, entry in enumerate(order)}
    columns.sort(key=lambda column: sorted(place[entry] for entry in column))
    marks = [_letter(index) for index in range(len(columns))]
    return [
        "".join(mark for mark, column in zip(marks, columns, strict=True) if entry in column)
        for entry in range(len(order))
    ]


def _split(column: set[int], i: int, j: int) -> list[set[int]]:
    """Split a column into two, each without one of two entries that differ."""
    return [column - {i}, column - {j}] if i in column and j in column else [column]


def _absorb(columns: list[set[int]]) -> list[set[int]]:
    """The columns that are not contained in another; of equal ones the first."""
    return [
        column
        for index, column in enumerate(columns)
        if not any(
            column < other or (column == other and place < index) for place, other in enumerate(columns)
        )
    ]


def _letter(index: int) -> str:
    """a ... z, then a1 ... z1, and so on."""
    turn, place = divmod(index, len(ascii_lowercase))
    return ascii_lowercase[place] + (str(turn) if turn else "")


def _check(entries: int, different: Collection[tuple[int, int]]) -> None:
    """Raise ValueError unless all pairs are of two entries, in one direction."""
    pairs = set(different)
    if any(i == j or not (0 <= i < entries and 0 <= j < entries) or (j, i) in pairs for i, j in pairs):
        raise ValueError(f"pairs name two of the entries 0 to {entries - 1}, the better one first")
