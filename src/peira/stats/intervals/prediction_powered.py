"""Means of a judge's scores corrected by human labels: prediction-powered inference, Rogan-Gladen.

`prediction_powered` estimates the mean label and uses the judge's scores only to reduce its variance, so it
is unbiased however inaccurate the judge is. `rogan_gladen` corrects a yes/no judge's positive rate for its
sensitivity and specificity, and stays valid if the labelled cases were sampled by their label.
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
    """The mean label over all cases by prediction-powered inference (PPI, or PPI++ if `tuned`).

    `truth` and `judged` are the labels and the judge's scores of the labelled cases, `judged_only` the
    judge's scores of the unlabelled ones. Both must be random samples from the same population of cases.
    PPI++ estimates the weight of the judge's scores, so that the interval is asymptotically no wider than
    that of the labels alone; plain PPI uses weight 1.
    """
    gold, same = pairs(truth, judged)
    rest = flat(judged_only)
    n, more = gold.size, rest.size
    if n < 2 or more < 2:
        return Estimate(float(gold.mean()), None, None, n + more, "unknown")
    weight = _weight(gold, same, rest) if tuned else 1.0
    mean = float(gold.mean()) + weight * float(rest.mean() - same.mean())
    # Estimating the weight costs one degree of freedom.
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
    """The prevalence behind a yes/no judge's positive rate, with Lang and Reiczigel's interval.

    The judge said yes to `judged_yes` of `n` cases. Its sensitivity is estimated from `true_yes` of `of_yes`
    labelled positives and its specificity from `true_no` of `of_no` labelled negatives; the interval includes
    the uncertainty of both. If the judge is no better than chance, the bounds are the whole range and the
    mean is its uncorrected rate.
    """
    positive_rate, sensitivity, specificity = (
        share(judged_yes, n),
        share(true_yes, of_yes),
        share(true_no, of_no),
    )
    z = normal.quantile(upper(level))
    if sensitivity + specificity <= 1:
        return Estimate(positive_rate, 0.0, 1.0, n, "whole range")
    mean = min(1.0, max(0.0, (positive_rate + specificity - 1) / (sensitivity + specificity - 1)))
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
    """The PPI++ weight: the regression coefficient of label on score, shrunk by n/N."""
    pooled = float(np.concatenate([same, rest]).var(ddof=1))
    if pooled == 0:
        return 0.0
    together = float(np.cov(gold, same, ddof=1)[0, 1])
    return min(1.0, max(0.0, together / ((1 + gold.size / rest.size) * pooled)))
