"""Published examples, with the values of other software: the R code that made them stands beside them.

R 4.2.2, lme4 1.1-31; options(digits = 12).
"""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.stats import t as t_distribution

from peira.analysis.effects.mixed_models import mixed
from peira.core.log.events import State
from peira.results.trials import Score, TrialResult
from peira.stats.inputs import coded
from peira.stats.intervals.means import spread
from peira.stats.models.bradley_terry import bradley_terry
from peira.stats.models.random_effects import logistic
from peira.stats.models.variance_components import components
from peira.stats.tests.equivalence import paired_equivalence
from peira.stats.tests.mcnemar import mcnemar, tango
from peira.stats.tests.paired import difference, paired_t

FIRST = (0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0)
SECOND = (1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4)
"""Student's sleep data: data(sleep)."""


def test_mcnemar_of_approval_ratings():
    """Agresti, Categorical Data Analysis: 794, 150, 86, 570.
    R: mcnemar.test(matrix(c(794, 86, 150, 570), 2), correct = FALSE); binom.test(86, 236)$p.value"""
    found = mcnemar(86, 150, 1600, method="asymptotic")
    assert found.statistic**2 == pytest.approx(17.3559322, rel=1e-8)
    assert found.p == pytest.approx(3.09929344e-05, rel=1e-7)
    assert mcnemar(86, 150, 1600, method="conditional").p == pytest.approx(3.71593613957e-05, rel=1e-9)
    assert mcnemar(86, 150, 1600).p == pytest.approx(3.1e-05, rel=0.03)
    # Agresti's own interval of the difference is Wald's, -0.04 -+ 0.0187.
    assert tango(86, 150, 1600).low == pytest.approx(-0.0587, abs=3e-4)


def test_two_one_sided_tests_of_sleep():
    """R: d <- extra[group == 2] - extra[group == 1]; se <- sd(d)/sqrt(10);
    1 - pt((mean(d) + 3)/se, 9); pt((mean(d) - 3)/se, 9)"""
    found = paired_equivalence(SECOND, FIRST, -3.0, 3.0)
    assert found.p_low == pytest.approx(4.5226949652e-07, rel=1e-4)
    assert found.p_high == pytest.approx(0.00265557029266, rel=1e-6)
    assert (found.answer, found.p) == ("within", found.p_high)


def test_paired_t_of_sleep():
    """R: t.test(d)"""
    found = difference(SECOND, FIRST)
    assert (found.low, found.high) == pytest.approx((0.700114236723, 2.459885763277), rel=1e-11)
    assert paired_t(SECOND, FIRST).p == pytest.approx(0.0028328902, rel=1e-8)


def test_bradley_terry_of_citations():
    """Citations among Biometrika, Comm. Statist., JASA and JRSS-B (Stigler 1994).
    R: glm(cbind(W[i, j], W[j, i]) ~ X[, -1] - 1, binomial) with X[k, i] = 1, X[k, j] = -1"""
    wins = np.array([[0, 730, 498, 221], [33, 0, 68, 17], [320, 813, 0, 142], [284, 276, 325, 0]])
    judged = [
        (i, j, float(won))
        for i, j in combinations(range(4), 2)
        for won, times in ((1, wins[i, j]), (0, wins[j, i]))
        for _ in range(times)
    ]
    one, two, won = zip(*judged, strict=True)
    found = bradley_terry(one, two, won, 4)
    strength, covariance = np.array(found.strength), found.covariance
    assert strength[1:] - strength[0] == pytest.approx(
        [-2.949072496844, -0.479569769752, 0.268954055819], rel=1e-7
    )
    errors = [math.sqrt(covariance[k, k] + covariance[0, 0] - 2 * covariance[0, k]) for k in range(1, 4)]
    assert errors == pytest.approx([0.1025453353699, 0.0605887292396, 0.0708299651057], rel=1e-6)


DYESTUFF = """
1545 1440 1440 1520 1580 1540 1555 1490 1560 1495 1595 1550 1605 1510 1560 1445 1440 1595 1465 1545 1595
1630 1515 1635 1625 1520 1455 1450 1480 1445
"""


def test_variance_components_of_dyestuff():
    """Box and Tiao. R: lmer(Yield ~ 1 + (1 | Batch), Dyestuff): 1764.05 and 2451.25"""
    values = [float(text) for text in DYESTUFF.split()]
    found = components(values, [n // 5 for n in range(30)])
    assert (found.between, found.within) == pytest.approx((1764.05, 2451.25), rel=1e-10)
    codes, _ = coded([n // 5 for n in range(30)], 30)
    assert spread(np.array(values), codes).error == pytest.approx(19.3834121788, rel=1e-8)


HERDS = """
1/2/14/1 1/3/12/2 1/4/9/3 1/0/5/4 2/3/22/1 2/1/18/2 2/1/21/3 3/8/22/1 3/2/16/2 3/0/16/3 3/2/20/4 4/2/10/1
4/0/10/2 4/2/9/3 4/0/6/4 5/5/18/1 5/0/25/2 5/0/24/3 5/1/4/4 6/3/17/1 6/0/17/2 6/0/18/3 6/1/20/4 7/8/16/1
7/1/10/2 7/3/9/3 7/0/5/4 8/12/34/1 9/2/9/1 9/0/6/2 9/0/8/3 9/0/6/4 10/1/22/1 10/1/22/2 10/0/18/3 10/2/22/4
11/0/25/1 11/5/27/2 11/3/22/3 11/1/22/4 12/2/10/1 12/1/8/2 12/0/6/3 12/0/5/4 13/1/21/1 13/2/24/2 13/0/19/3
13/0/23/4 14/11/19/1 14/0/2/2 14/0/3/3 14/0/2/4 15/1/19/1 15/1/15/2 15/1/15/3 15/0/15/4
"""
"""Contagious bovine pleuropneumonia, lme4's cbpp: herd/sick/of/period."""


def herds():
    for text in HERDS.split():
        herd, sick, of, period = map(int, text.split("/"))
        yield from ((herd, float(n < sick), period) for n in range(of))


def trial(case, value, n, **factors):
    score = {"y": Score("y", State.succeeded, value)}
    return TrialResult(
        id=str(n), agent="a", case_id=str(case), state=State.succeeded, condition=factors, scores=score
    )


def test_logistic_mixed_model_of_cattle():
    """R: glmer(cbind(incidence, size - incidence) ~ period + (1 | herd), cbpp, binomial, nAGQ = 25)"""
    rows = list(herds())
    matrix = np.array([[1.0, *(float(period == p) for p in (2, 3, 4))] for _, _, period in rows])
    sick, herd = np.array([y for _, y, _ in rows]), np.array([h - 1 for h, _, _ in rows])
    found = logistic(sick, matrix, herd)
    expected = [-1.399223727829, -0.991408883813, -1.127809594158, -1.579480950705]
    assert found.beta == pytest.approx(expected, abs=3e-5)
    errors = [0.233511377979, 0.306768200755, 0.326767162552, 0.427595709793]
    assert np.sqrt(np.diag(found.covariance)) == pytest.approx(errors, rel=1e-4)
    assert found.deviation == pytest.approx(0.647519914522, rel=1e-4)


def test_logistic_mixed_model_through_results():
    """R: the same with contr.sum(4): period1 is 0.9246742081652, its error 0.185438819190."""
    trials = [trial(herd, sick, n, period=period) for n, (herd, sick, period) in enumerate(herds())]
    found = mixed(trials, kind="logistic")
    first = found.effect("period").estimate
    assert first.mean == pytest.approx(0.9246742081652, abs=3e-5)
    assert "cases deviate by 0.648" in str(found)
    # The error is robust against herds that differ in more than their level; 15 herds leave 14 degrees.
    herd, sick, period = (np.array(each) for each in zip(*herds(), strict=True))
    coding = np.vstack([np.eye(3), -np.ones(3)])[np.unique(period, return_inverse=True)[1]]
    fitted = logistic(sick.astype(float), np.hstack([np.ones((len(sick), 1)), coding]), herd_codes(herd))
    assert fitted.covariance[1, 1] ** 0.5 == pytest.approx(0.185438819190, rel=1e-4)
    half = (first.high - first.low) / 2
    assert half == pytest.approx(fitted.robust[1, 1] ** 0.5 * t_distribution.ppf(0.975, 14), rel=1e-4)


def herd_codes(herd):
    return np.unique(herd, return_inverse=True)[1]


PENICILLIN = """
27 23 26 23 23 21 27 23 26 23 23 21 25 21 25 24 24 20 26 23 25 23 23 20 25 22 26 22 23 20 24 22 25 23 22 19
24 20 23 21 22 19 26 22 26 24 24 21 24 21 24 22 22 20 24 21 24 23 22 19 26 23 26 24 24 21 25 22 26 24 24 20
26 24 26 24 25 22 26 23 26 23 23 20 26 23 25 24 24 22 25 22 25 23 23 20 25 21 24 23 23 20 25 22 24 23 23 19
24 21 23 21 21 19 26 23 26 24 24 21 25 21 24 22 22 18 25 22 25 22 22 20 24 21 24 22 24 19 24 21 24 22 21 18
"""


def test_crossed_random_effects_of_penicillin():
    """Davies and Goldsmith: 24 plates (here the cases) by six samples, each with its own level.
    R: P$f <- ifelse((as.integer(plate) + as.integer(sample)) %% 2 == 0, "u", "v");
    lmer(diameter ~ f + (1 | plate) + (1 | sample), P)"""
    trials = [
        trial(n // 6, float(text), n, sample="ABCDEF"[n % 6], f="uv"[(n // 6 + n % 6) % 2])
        for n, text in enumerate(PENICILLIN.split())
    ]
    found = mixed(trials, ["f"], random=["sample"])
    effect = found.effect("f").estimate
    assert effect.mean == pytest.approx(-0.0277777777778, rel=1e-6)
    assert "sample 3.731 (79%), residual 0.3048 (6%)" in str(found)
    # The error is clustered by plates and by samples, with the dense covariance of lmer's components.
    y, n = np.array(PENICILLIN.split(), dtype=float), np.arange(144)
    plate, sample = n // 6, n % 6
    x = np.stack([np.ones(144), 1.0 - 2 * ((plate + sample) % 2)], axis=1)
    components = 0.7169081 * (plate[:, None] == plate) + 3.7309053 * (sample[:, None] == sample)
    inverse = np.linalg.inv(0.3048002 * np.eye(144) + components)
    bread = np.linalg.inv(x.T @ inverse @ x)
    assert 2 * bread[1, 1] ** 0.5 == pytest.approx(0.0920182203621, rel=1e-4)
    own = -2 * (x * (inverse @ (y - x @ (bread @ x.T @ inverse @ y)))[:, None] @ bread)[:, 1]
    ways = [(plate, 24), (sample, 6), (n, 144)]
    by_plate, by_sample, alone = (g / (g - 1) * (np.bincount(c, own) ** 2).sum() for c, g in ways)
    error = max(by_plate + by_sample - alone, by_plate, by_sample) ** 0.5
    assert (effect.high - effect.low) / 2 == pytest.approx(error * t_distribution.ppf(0.975, 5), rel=1e-3)


def test_formulas_of_adding_error_bars_to_evals():
    """Miller (2024): the clustered error is the independent one plus the covariances within clusters (eq. 4),
    and the paired variance is that of both minus twice the covariance (eq. 7). Ours is the first times
    G/(G-1) for clusters of equal size, and the second with n - 1."""
    rng = np.random.default_rng(0)
    groups, size = 30, 4
    scores = np.repeat(rng.normal(size=groups), size) + rng.normal(size=groups * size)
    n, centred, labels = scores.size, scores - scores.mean(), np.repeat(np.arange(groups), size)
    plain = float(centred @ centred) / n**2
    together = sum(
        float(centred[i] * centred[j])
        for i in range(n)
        for j in range(n)
        if i != j and labels[i] == labels[j]
    )
    eq4 = math.sqrt(plain + together / n**2)
    assert spread(scores, labels).error == pytest.approx(eq4 * math.sqrt(groups / (groups - 1)), rel=1e-12)
    one, two = rng.normal(size=50), rng.normal(size=50)
    eq7 = math.sqrt((one.var(ddof=1) + two.var(ddof=1) - 2 * np.cov(one, two)[0, 1]) / 50)
    assert float((one - two).mean()) / paired_t(one, two).statistic == pytest.approx(eq7, rel=1e-12)
