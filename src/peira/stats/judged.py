"""A judge scored many cases, people only some: what the people would have said about all of them.

`prediction_powered` keeps the people's mean and uses the judge only to make it surer, so it is right however
wrong the judge is. `rogan_gladen` corrects a yes/no judge's share by how often it errs, known from cases
whose truth is known; it stays right when those cases were chosen by their truth.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from peira.stats import normal, student
from peira.stats.inputs import flat, is_rounding, pairs, share, upper
from peira.stats.student import Spread
from peira.stats.values import Estimate


def prediction_powered(
    truth: ArrayLike,
    judged: ArrayLike,
    judged_only: ArrayLike,
    tuned: bool = True,
    level: float = 0.95,
) -> Estimate:
    """The mean truth over all cases: `truth` and `judged` of those with both, `judged_only` of the others.

    Both groups must be random samples of the same cases. Tuned (PPI++), the judge counts for as much as it
    has earned and never makes the estimate less sure than the truths alone; untuned (PPI) it counts in full.
    """
    gold, same = pairs(truth, judged)
    rest = flat(judged_only)
    n, more = gold.size, rest.size
    if n < 2 or more < 2:
        return Estimate(float(gold.mean()), None, None, n + more, "unknown")
    weight = _weight(gold, same, rest) if tuned else 1.0
    mean = float(gold.mean()) + weight * float(rest.mean() - same.mean())
    # A weight that was estimated has cost a degree of freedom.
    lost = 2 if tuned and n > 2 else 1
    parts = [
        Spread(math.sqrt(float(data.var(ddof=used)) / data.size), float(data.size - used))
        for data, used in ((gold - weight * same, lost), (weight * rest, 1))
    ]
    if is_rounding(math.hypot(*(part.error for part in parts)), np.concatenate([gold, same, rest])):
        return Estimate(mean, None, None, n + more, "unknown")
    method = "prediction-powered, tuned" if tuned else "prediction-powered"
    return Estimate(mean, *student.around(mean, student.independent(*parts), level), n + more, method)


def rogan_gladen(
    judged_yes: int,
    n: int,
    true_yes: int,
    of_yes: int,
    true_no: int,
    of_no: int,
    level: float = 0.95,
) -> Estimate:
    """The true share of yes, from a judge that said yes to `judged_yes` of `n` cases.

    Of `of_yes` cases whose truth is yes it found `true_yes`; of `of_no` cases whose truth is no, `true_no`.
    The interval is Lang and Reiczigel's, which includes that those two rates are themselves estimates. A
    judge no better than chance tells nothing: the mean is then its own share, the bounds the whole range.
    """
    said, found, refused = share(judged_yes, n), share(true_yes, of_yes), share(true_no, of_no)
    z = normal.quantile(upper(level))
    if found + refused <= 1:
        return Estimate(said, 0.0, 1.0, n, "whole range")
    mean = min(1.0, max(0.0, (said + refused - 1) / (found + refused - 1)))
    p, p_n = (judged_yes + z * z / 2) / (n + z * z), n + z * z
    se, se_n = (true_yes + 1) / (of_yes + 2), of_yes + 2
    sp, sp_n = (true_no + 1) / (of_no + 2), of_no + 2
    youden = se + sp - 1
    if youden <= 0:
        return Estimate(mean, 0.0, 1.0, n, "whole range")
    centre = (p + sp - 1) / youden
    var_se, var_sp = se * (1 - se) / se_n, sp * (1 - sp) / sp_n
    shift = 2 * z * z * (centre * var_se - (1 - centre) * var_sp)
    error = math.sqrt(p * (1 - p) / p_n + centre**2 * var_se + (1 - centre) ** 2 * var_sp) / youden
    low, high = (min(1.0, max(0.0, centre + shift + side * z * error)) for side in (-1, 1))
    return Estimate(mean, min(low, mean), max(high, mean), n, "rogan-gladen")


def _weight(gold: np.ndarray, same: np.ndarray, rest: np.ndarray) -> float:
    """What the judge has earned: the regression of truth on judgement, less for few cases without truth."""
    pooled = float(np.concatenate([same, rest]).var(ddof=1))
    if pooled == 0:
        return 0.0
    together = float(np.cov(gold, same, ddof=1)[0, 1])
    return min(1.0, max(0.0, together / ((1 + gold.size / rest.size) * pooled)))
