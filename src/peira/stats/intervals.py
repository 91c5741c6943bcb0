"""Means with honest intervals.

No interval here is narrower than the data can support: where the spread cannot be estimated, the interval is
the whole range (a proportion) or unknown (bounds of None), and never a point. The unit of evidence is the
cluster: repeats of one case tell more about that case and little about the next.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

Method = Literal["wilson", "t", "clustered", "wilson on clusters", "t on clusters", "whole range", "unknown"]

# Beyond this, squares overflow; any NaN or infinity fails the same comparison.
_LARGEST = 1e150
# Spread this small, relative to the values, is rounding and not evidence.
_ROUNDING = 2.0**-48


@dataclass(frozen=True)
class Estimate:
    """A mean of `n` values and the interval around it; bounds are None where nothing is known of them."""

    mean: float
    low: float | None
    high: float | None
    n: int
    method: Method


def wilson(successes: int, n: int, level: float = 0.95) -> Estimate:
    """Wilson's score interval of a proportion: within [0, 1], and of positive width even at 0 or n."""
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"need 0 <= successes <= n and n >= 1, not {successes} of {n}")
    mean = successes / n
    return Estimate(mean, *_wilson_bounds(mean, n, _upper(level)), n, "wilson")


def mean_t(values: ArrayLike, level: float = 0.95) -> Estimate:
    """Student's t interval of a mean of independent values.

    Bounds are unknown for a single value, and for values that are all the same: a sample without spread says
    nothing about the spread of what was not sampled.
    """
    data = _checked(values)
    return _from_spread(data, data.size, _upper(level), "t")


def clustered(values: ArrayLike, clusters: Iterable[Hashable], level: float = 0.95) -> Estimate:
    """The mean with a cluster-robust standard error: factor G/(G-1), t quantile with G-1 degrees of freedom.

    With one cluster: the whole range for 0/1 values, else unknown. The robust variance is zero when all
    clusters lean alike (all values the same, or balanced clusters of equal means); that is luck or too few
    clusters, not certainty. Each cluster then counts as one value (effective n = G, the cautious reading):
    Wilson for 0/1 values, else a t interval from the spread of single values; unknown if there is no spread
    either. Intervals of 0/1 values are clipped to [0, 1]; close to either end, with few clusters, they hold
    the truth less often than their level says (simulated: 0.88 for 0.95 at proportion 0.97, 25 clusters).
    """
    data = _checked(values)
    codes, groups = _codes(clusters, data.size)
    return _clustered(data, codes, groups, level)


def estimate(values: ArrayLike, clusters: Iterable[Hashable], level: float = 0.95) -> Estimate:
    """The mean with the interval that fits the data.

    - one cluster (so also one value): the whole range [0, 1] for 0/1 values, else unknown;
    - one value per cluster: Wilson for 0/1 values, else Student's t;
    - several values in some cluster: cluster-robust, with the fallbacks that `clustered` states.

    Values count as a proportion when all are 0 or 1. Known bounds satisfy `low <= mean <= high` and
    `low < high`. Raises ValueError for no values, values that are not finite, and unequal lengths.
    """
    data = _checked(values)
    codes, groups = _codes(clusters, data.size)
    if groups == 1 or groups < data.size:
        return _clustered(data, codes, groups, level)
    if _is_binary(data):
        return wilson(int(data.sum()), data.size, level)
    return mean_t(data, level)


def _clustered(data: NDArray[np.float64], codes: NDArray[np.intp], groups: int, level: float) -> Estimate:
    import numpy as np

    upper, binary, mean = _upper(level), _is_binary(data), float(data.mean())
    if groups == 1:
        return Estimate(mean, 0.0, 1.0, data.size, "whole range") if binary else _unknown(data)
    sums = np.bincount(codes, weights=data - mean)
    error = math.sqrt(groups / (groups - 1) * float(sums @ sums)) / data.size
    if not _is_rounding(error, data):
        low, high = _t_bounds(mean, error, groups, upper)
        low, high = (max(0.0, low), min(1.0, high)) if binary else (low, high)
        return Estimate(mean, low, high, data.size, "clustered")
    if binary:
        return Estimate(mean, *_wilson_bounds(mean, groups, upper), data.size, "wilson on clusters")
    return _from_spread(data, groups, upper, "t on clusters")


def _from_spread(data: NDArray[np.float64], units: int, upper: float, method: Method) -> Estimate:
    """A t interval from the spread of single values, as if the mean rested on `units` of them."""
    spread = float(data.std(ddof=1)) if units > 1 else 0.0
    if _is_rounding(spread, data):
        return _unknown(data)
    mean = float(data.mean())
    return Estimate(mean, *_t_bounds(mean, spread / math.sqrt(units), units, upper), data.size, method)


def _unknown(data: NDArray[np.float64]) -> Estimate:
    return Estimate(float(data.mean()), None, None, data.size, "unknown")


def _t_bounds(mean: float, error: float, units: int, upper: float) -> tuple[float, float]:
    from scipy.special import stdtrit

    half = float(stdtrit(units - 1, upper)) * error
    return mean - half, mean + half


def _wilson_bounds(mean: float, n: int, upper: float) -> tuple[float, float]:
    from scipy.special import ndtri

    z = float(ndtri(upper))
    centre, scale = mean + z * z / (2 * n), 1 + z * z / n
    half = z * math.sqrt(mean * (1 - mean) / n + (z / (2 * n)) ** 2)
    low, high = (centre - half) / scale, (centre + half) / scale
    # At 0 or n successes one bound is the mean itself: rounding must not put it on the wrong side.
    return 0.0 if mean == 0 else low, 1.0 if mean == 1 else high


def _checked(values: ArrayLike) -> NDArray[np.float64]:
    import numpy as np

    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or data.size == 0:
        raise ValueError("need a flat list of at least one value")
    if not bool((np.abs(data) < _LARGEST).all()):
        raise ValueError("every value must be a finite number")
    return data


def _codes(clusters: Iterable[Hashable], n: int) -> tuple[NDArray[np.intp], int]:
    """Labels as numbers from 0 in order of first sight, and how many there are."""
    import numpy as np

    seen: dict[Hashable, int] = {}
    codes = np.array([seen.setdefault(label, len(seen)) for label in clusters], dtype=np.intp)
    if codes.size != n:
        raise ValueError(f"{n} values, but {codes.size} cluster labels")
    return codes, len(seen)


def _is_binary(data: NDArray[np.float64]) -> bool:
    return bool(((data == 0) | (data == 1)).all())


def _is_rounding(spread: float, data: NDArray[np.float64]) -> bool:
    return spread <= _ROUNDING * max(float(data.max()), -float(data.min()))


def _upper(level: float) -> float:
    if not 0 < level < 1:
        raise ValueError(f"the level of confidence must lie between 0 and 1, not {level}")
    return 0.5 + level / 2
