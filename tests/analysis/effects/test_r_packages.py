"""Designs analysed by R's packages: clubSandwich, car, lmerTest, pbkrtest and multcomp.

R 4.2.2 with clubSandwich 0.5.8, car 3.1-1, lmerTest 3.1-3, pbkrtest 0.5.2, multcomp 1.4-22, lme4 1.1-31. The
code below made every number here; R is not needed to run the tests.
"""

from __future__ import annotations

from itertools import product

import pytest
from scipy.stats import t as student

from peira.analysis.compare.difference import Differences
from peira.analysis.compare.sides import levels_of
from peira.analysis.effects.factor_effects import _test
from peira.analysis.effects.regression import CaseModel, table_of
from peira.analysis.table.measures import measure

from .test_marginal_means import incomplete

R_CODE = """
d <- expand.grid(case = 0:7, m = 0:2, s = 0:1)                   # 38 of 48 trials
d$y <- with(d, (7*case + 5*m*m + 3*s + 11*case*m*s + 2*case*s + case*case*m) %% 17)
d <- d[with(d, (3*case + 2*m + s) %% 5) != 0, ]
for (n in names(d)[1:3]) d[[n]] <- factor(d[[n]])
contrasts(d$m) <- contr.sum(3); contrasts(d$s) <- contr.sum(2)
fit <- lm(y ~ 0 + case + m * s, d); V <- vcovCR(fit, cluster = d$case, type = "CR2")
k <- function(i) diag(13)[i, , drop = FALSE]
for (t in list(9:10, 12:13)) Wald_test(fit, constraints = k(t), vcov = V, test = "HTZ")
L <- rbind(m1_m0 = -k(9) + k(10), m2_m0 = -2*k(9) - k(10), s1_s0 = -2*k(11))
linear_contrast(fit, vcov = V, contrasts = L, test = "Satterthwaite")

f <- expand.grid(case = 0:9, m = 0:2)                            # a full table
f$y <- with(f, 20*(case %% 4) + 6*m + (7*case + 5*m*m + case*case*m + 3*case*m) %% 13)
for (n in c("case", "m")) f[[n]] <- factor(f[[n]])
a <- car::Anova(lm(matrix(f$y, 10) ~ 1), idata = data.frame(m = factor(0:2)), idesign = ~m, type = 3)
print(a, digits = 12); summary(a, univariate = TRUE)
m <- lmer(y ~ m + (1 | case), f); VarCorr(m); fixef(m); anova(m)
KRmodcomp(m, lmer(y ~ 1 + (1 | case), f))
g <- lm(y ~ 0 + case + m, f); U <- as.matrix(vcovCR(g, cluster = f$case, type = "CR2"))[11:12, 11:12]
p <- parm(coef(g)[11:12], U, df = 9)
glht(p, linfct = diag(2)); glht(p, linfct = rbind(c(1, 0), c(0, 1), c(-1, 1)))  # Dunnett, Tukey: single-step
"""


def full(trial):
    return [
        trial(c, float(20 * (c % 4) + 6 * m + (7 * c + 5 * m * m + c * c * m + 3 * c * m) % 13), m=f"m{m}")
        for m, c in product(range(3), range(10))
    ]


def test_whole_terms_are_tested_as_by_clubsandwich(trial):
    """Its HTZ: cluster-robust Hotelling's T-squared with Pustejovsky and Tipton's degrees of freedom."""
    fit = CaseModel(table_of(measure(incomplete(trial))), ["m", "s"], 2).fit()
    tests = {term.name: _test(fit, term, fit.kept.places[at]) for at, term in enumerate(fit.kept.terms)}
    for term, f, df, p in (
        ("m", 0.0864722531501, 5.69551818607, 0.918342032517),
        ("m x s", 1.45216260439, 5.44760726495, 0.312257801009),
    ):
        assert (tests[term].f, tests[term].df_error) == (
            pytest.approx(f, rel=1e-9),
            pytest.approx(df, rel=1e-9),
        )
        assert tests[term].p == pytest.approx(p, rel=1e-9)


def test_differences_of_levels_have_the_errors_of_clubsandwich(trial):
    """Its CR2 errors and Satterthwaite degrees of freedom; the skewness of few units is our own addition."""
    differences = Differences(measure(incomplete(trial)))
    expected = {
        ("m1", "m0"): (-0.609796616488, 2.31109837482, 6.65763511435),
        ("m2", "m0"): (0.483738639341, 1.86488619734, 6.42013326302),
        (1, 0): (0.689048760991, 1.8584037244, 6.92073322413),
    }
    for (one, two), (mean, error, df) in expected.items():
        factor = "s" if isinstance(one, int) else "m"
        sides = {side.label: side for side in levels_of(differences.measured, factor).sides.values()}
        found = differences.between(sides[str(one)], sides[str(two)], factor)
        assert found.model == "design"
        assert found.estimate(0.95).mean == pytest.approx(mean, rel=1e-9)
        assert found.spread.error == pytest.approx(error, rel=1e-9)
        assert found.spread.df == pytest.approx(df, rel=1e-9)


def test_a_full_table_is_tested_as_by_car(trial, results):
    """Multivariate repeated measures, which presumes nothing of how cases react."""
    (found,) = results(full(trial)).effects().tests
    assert (found.df, found.df_error) == (2, 8)
    assert found.f == pytest.approx(17.7750043957, rel=1e-9)


def test_analysis_of_variance_is_that_of_kenward_and_roger_where_reactions_are_equal(trial, results):
    """A full table with random intercepts: pbkrtest, lmerTest and car's univariate test all agree."""
    found = results(full(trial)).anova()
    (row,) = found.sources
    assert (row.df, found.error_df) == (2, 18)
    assert row.f == pytest.approx(18.684008631, rel=1e-8)
    assert row.p == pytest.approx(4.05622279395e-05, rel=1e-6)


def test_linear_mixed_models_have_the_estimates_of_lme4(trial, results):
    """Estimates are its; errors are robust (CR2) and not its, because cases may react differently."""
    found = results(full(trial)).mixed()
    means = {one.label: one.estimate.mean for one in found.effects}
    assert sum(means.values()) == pytest.approx(0, abs=1e-8)
    assert means["m1"] - means["m0"] == pytest.approx(6.2, rel=1e-6)
    assert means["m2"] - means["m0"] == pytest.approx(10.7, rel=1e-6)


@pytest.mark.parametrize(
    ("correction", "expected"),
    [
        ("dunnett", {("m1", "m0"): 0.00704396744551, ("m2", "m0"): 0.000359301648428}),
        (
            "tukey",
            {
                ("m1", "m0"): 0.00930622585622,
                ("m2", "m0"): 0.000486861002575,
                ("m2", "m1"): 0.0956574871439,
            },
        ),
    ],
)
def test_families_are_a_little_more_cautious_than_multcomp(trial, results, correction, expected):
    """multcomp presumes one common error variance. Differences of pairs have one each, which is allowed for:
    adjusted p-values of plain t tests lie between its and Bonferroni's. Without a test by name each contrast
    is adjusted for skewness first."""
    query = {"baseline": "m0"} if correction == "dunnett" else {}
    found = results(full(trial)).compare("m", test="paired t", correction=correction, **query)
    fitting = results(full(trial)).marginal_means("m", correction=correction, **query)
    for (one, two), p in expected.items():
        default = next(each for each in fitting.contrasts if each.label == f"{one} - {two}")
        contrast = next(each for each in found.contrasts if {each.first, each.second} == {one, two})
        assert p * 0.98 < contrast.adjusted < 1.25 * p + 1e-4
        assert default.adjusted >= max(default.p, 0.98 * contrast.adjusted)
        t = {("m1", "m0"): 3.88174500075, ("m2", "m0"): 6.0652468087, ("m2", "m1"): 2.36988033869}[one, two]
        assert contrast.adjusted <= len(expected) * 2 * student.sf(t, 9) + 1e-3
