"""The error of any statistic of independent cases, by leaving some out at a time."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from peira.stats.inputs import Codes
from peira.stats.student import Spread

_GROUPS = 200


def jackknife(statistic: Callable[[Codes], float | None], n: int) -> Spread | None:
    """The statistic is asked for the cases that are kept, by position.

    Each case is left out in turn, or with more than 200 of them each of 200 interleaved groups. None where
    fewer than three cases, no spread, or a part that the statistic cannot answer for leave the error unknown.
    """
    groups = min(n, _GROUPS)
    if groups < 3:
        return None
    group, found = np.arange(n) % groups, []
    for left_out in range(groups):
        value = statistic(np.flatnonzero(group != left_out))
        if value is None:
            return None
        found.append(value)
    values = np.array(found)
    error = math.sqrt((groups - 1) / groups * float(((values - values.mean()) ** 2).sum()))
    return Spread(error, groups - 1) if error > 1e-12 * max(1.0, float(np.abs(values).max())) else None
