"""Mixed models with cases as a random effect, for a score or for the log odds of an answer.

- linear: random intercepts for cases and for all that `random` names (prompts, judges, models; documents that
  cases are about), by restricted maximum likelihood (statsmodels).
- logistic: random intercepts for cases, by maximum likelihood; effects are conditional on the case.
- marginal: generalised estimating equations with exchangeable correlation within cases (statsmodels); effects
  are population averages.

Cases react differently to a factor, and random intercepts do not know that: errors are therefore robust,
clustered by cases (and by every factor in `random`), with few degrees of freedom where few cases carry an
effect. For linear models these are CR2 and Satterthwaite's. The other two offer no test with few cases.

If a model cannot be fitted, the result says why and shows no effects.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import combinations
from typing import Any, Literal, get_args

import numpy as np

from peira.analysis.effects.factor_effects import Effect, Effects
from peira.analysis.effects.regression import (
    CodedFactor,
    EstimableTerms,
    factors_of,
    keep,
    leverage_of,
    names_of,
    terms_of,
)
from peira.analysis.table.groups import check_names, groupable
from peira.analysis.table.measures import measure
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.stats import student
from peira.stats.inputs import Codes, Floats, coded, is_binary, sizes, totals
from peira.stats.models import random_effects as random_intercept
from peira.stats.student import Spread
from peira.stats.values import Estimate

Kind = Literal["linear", "logistic", "marginal"]
"""The kind of mixed model."""
KINDS: tuple[str, ...] = get_args(Kind)
MOST_CELLS = 20_000_000
"""The largest size (values times levels of random effects) of a model with crossed random effects."""


def mixed(
    trials: Iterable[TrialResult],
    names: Sequence[str] = (),
    score: str | None = None,
    kind: Kind = "linear",
    level: float = 0.95,
    notes: Sequence[str] = (),
    random: Sequence[str] = (),
) -> Effects:
    """Main effects and two-factor interactions by a mixed model of single trials.

    Names in `random` are random effects, crossed with cases or around them, and have no fixed effects:
    factors (judges, prompts), the cluster or slice of cases, or a field of their metadata (documents). Raises
    Invalid for an unknown kind, or for random factors in a model other than linear.
    """
    if kind not in KINDS:
        raise Invalid(f"kind: must be one of {', '.join(KINDS)}, not {kind!r}")
    if random and kind != "linear":
        raise Invalid(f"random: a {kind} model has cases as its only random effect; take a linear one")
    measured = measure(trials, score)
    notes = (*measured.remarks("effects", tested=False), *notes)
    known = measured.known
    every = names_of([one.trial for one in known])
    check_names(names, every, ())
    check_names(random, groupable([one.trial for one in known]), ())
    fixed = [name for name in names or every if name not in random]
    factors = factors_of([one.trial for one in known], fixed)
    values = np.array([one.value for one in known], dtype=np.float64)
    units, groups = coded([one.trial.unit for one in known], len(known))
    title = measured.name if kind == "linear" else f"log odds of {measured.name}"
    if reason := _impossible(values, factors, groups, kind):
        return Effects(title, level, notes=(f"No {kind} mixed model: {reason}.", *notes))
    kept = keep(terms_of(factors, min(2, len(factors))), np.ones((len(known), 1)), lambda columns: columns)
    if random:
        also = factors_of([one.trial for one in known], random)
        cases, several = coded([one.trial.case_id for one in known], len(known))
        own = CodedFactor("case", tuple(map(str, range(several))), cases)
        around = [factor for factor in also if not _is_same(factor.codes, cases)]
        if groups < several and not any(_is_same(factor.codes, units) for factor in around):
            around.append(CodedFactor("cluster", tuple(map(str, range(groups))), units))
        found = _crossed(values, kept.matrix, [own, *around])
        alone = [name for name in random if name not in {factor.name for factor in also}]
        notes = (*(f"{name} does not vary: it is no sample" for name in alone), *notes)
    else:
        found = FITTERS[kind](values, kept.matrix, units)
    if isinstance(found, str):
        return Effects(title, level, notes=(f"No {kind} mixed model: {found}.", *notes))
    rows = tuple(_rows(kept, found, len(known), level))
    few = found.few(groups)
    return Effects(title, level, rows, units=groups, notes=(found.random, *few, *kept.aliased, *notes))


def _is_same(one: Codes, two: Codes) -> bool:
    """Whether two codings are of the same groups."""
    pairs = len(np.unique(np.stack([one, two]), axis=1).T)
    return pairs == len(np.unique(one)) == len(np.unique(two))


def _impossible(values: Floats, factors: Sequence[CodedFactor], groups: int, kind: Kind) -> str:
    """Why no model can be fitted; empty if it can."""
    if not len(values):
        return "no trial has a score"
    if not factors:
        return "no factor varies"
    if groups < 2:
        return "one case says nothing about others"
    if np.ptp(values) == 0:
        return "all scores are equal"
    return _separated(values, factors) if kind != "linear" else ""


def _separated(values: Floats, factors: Sequence[CodedFactor]) -> str:
    """Whether some combination has only right or only wrong answers (perfect separation), as text."""
    if not is_binary(values):
        return "the score is not yes or no"
    cells = np.zeros(len(values), dtype=np.intp)
    for factor in factors:
        cells = cells * len(factor.levels) + factor.codes
    for cell in np.unique(cells):
        first = int(np.flatnonzero(cells == cell)[0])
        if np.ptp(values[cells == cell]) == 0:
            where = ", ".join(f"{factor.name}={factor.levels[factor.codes[first]]}" for factor in factors)
            return f"every answer with {where} is {'right' if values[first] else 'wrong'}: perfect separation"
    return ""


LEAST_UNITS = 10
"""With fewer units, the robust errors of logistic and marginal models are too small to test by."""


@dataclass(frozen=True, eq=False)
class MixedFit:
    """Coefficients, the method, a description of the random effects, and how to find errors.

    `spread` gives the standard error and degrees of freedom of a weighted sum of all coefficients; None if
    there is none.
    """

    beta: Floats
    method: str
    random: str
    spread: Callable[[Floats], Spread | None]
    tested: bool = True
    """Whether there are enough units for intervals and tests."""

    def few(self, groups: int) -> list[str]:
        """The note that there are too few units for intervals and tests, if there are."""
        if self.tested:
            return []
        return [f"{groups} cases are too few for intervals and tests of this model; use `effects`"]


def _linear(values: Floats, matrix: Floats, units: Codes) -> MixedFit | str:
    """The linear mixed model with random intercepts for cases; robust errors (CR2)."""

    def fitted() -> MixedFit:
        model = _statsmodels("regression.mixed_linear_model").MixedLM(values, matrix, groups=units)
        found = model.fit(reml=True)
        spread = {"case": float(found.cov_re[0, 0]), "residual": float(found.scale)}
        if not spread["residual"] > 0:
            raise ValueError("nothing varies beside the conditions and cases")
        rows, response = _whitened(values, matrix, units, spread["case"] / spread["residual"])
        leverage = leverage_of(units, rows)
        beta = leverage.solve(rows, response)
        influence = leverage.influence(units, rows, response - rows @ beta)

        def error(weights: Floats) -> Spread | None:
            size = float(np.linalg.norm(influence @ weights))
            return Spread(size, leverage.degrees(weights[:, None])) if size > 0 else None

        return MixedFit(beta, "mixed model, reml, robust", _variances(spread), error)

    return _fitted_or_reason(fitted)


def _whitened(values: Floats, matrix: Floats, units: Codes, ratio: float) -> tuple[Floats, Floats]:
    """The model matrix and the values, transformed to independent errors.

    `ratio` is the variance of the intercepts divided by that of the errors.

    From each value a part of the mean of its unit is subtracted.
    """
    each = sizes(units)
    part = (1 - 1 / np.sqrt(1 + each * ratio)) / each
    means = np.stack([totals(units, column) * part for column in matrix.T], axis=1)
    return matrix - means[units], values - (totals(units, values) * part)[units]


def _crossed(values: Floats, matrix: Floats, random: Sequence[CodedFactor]) -> MixedFit | str:
    """The linear mixed model with crossed random effects.

    Errors are clustered in every way at once (Cameron, Gelbach and Miller), never less than in any one way.
    """
    if len(values) * sum(len(one.levels) for one in random) > MOST_CELLS:
        return "too many values for crossed random effects; compare with --across, or take fewer cases"

    def fitted() -> MixedFit:
        names = [one.name for one in random]
        components, scale = _restricted_likelihood(values, matrix, random)
        if not scale > 0:
            raise ValueError("nothing varies beside the conditions and cases")
        spread = {**dict(zip(names, components.tolist(), strict=True)), "residual": scale}
        method = f"mixed model, reml, {' and '.join(names)} random, robust"
        solved = partial(_solved, random, components, scale)
        bread = np.linalg.inv(matrix.T @ solved(matrix))
        beta = np.asarray(bread @ (matrix.T @ solved(values[:, None]))[:, 0], dtype=np.float64)
        scores = matrix * solved((values - matrix @ beta)[:, None])
        error = partial(_crossed_error, scores @ bread, random, min(len(one.levels) for one in random) - 1.0)
        return MixedFit(beta, method, _variances(spread), error)

    return _fitted_or_reason(fitted)


def _restricted_likelihood(
    values: Floats, matrix: Floats, random: Sequence[CodedFactor]
) -> tuple[Floats, float]:
    """The variances of the random effects, and that of the residuals, by restricted maximum likelihood.

    The likelihood is maximised over the ratios of standard deviations to that of the residuals, which may be
    0, where a sample does not vary: a bound, and no failure.
    """
    from scipy.optimize import minimize

    n, p = matrix.shape
    places = np.hstack([np.eye(len(one.levels))[one.codes] for one in random])
    owner = np.concatenate([np.full(len(one.levels), at) for at, one in enumerate(random)])
    cross, response = places.T @ places, values - values.mean()
    every = np.column_stack([matrix, response])
    inner, outer = places.T @ every, every.T @ every

    def profile(ratios: Floats) -> tuple[float, float]:
        """Minus twice the log likelihood up to a constant, and the variance of the residuals."""
        scales = ratios[owner]
        root = np.linalg.cholesky(np.eye(len(owner)) + scales[:, None] * cross * scales)
        half = np.linalg.solve(root, scales[:, None] * inner)
        found = outer - half.T @ half
        information = found[:p, :p]
        rest = float(found[p, p] - found[:p, p] @ np.linalg.solve(information, found[:p, p]))
        logs = 2 * float(np.log(np.diag(root)).sum()) + float(np.linalg.slogdet(information)[1])
        return logs + (n - p) * np.log(max(rest, 1e-300)), rest / (n - p)

    starts = [np.full(len(random), start) for start in (0.5, 0.05, 2.0)]
    bounds = [(0.0, None)] * len(random)
    tried = [minimize(lambda at: profile(at)[0], start, bounds=bounds, method="L-BFGS-B") for start in starts]
    best = min(tried, key=lambda one: float(one.fun))
    if not np.isfinite(best.fun):
        raise ValueError("the likelihood has no maximum")
    ratios = np.asarray(best.x, dtype=np.float64)
    scale = profile(ratios)[1]
    return ratios**2 * scale, scale


def _solved(random: Sequence[CodedFactor], components: Floats, scale: float, matrix: Floats) -> Floats:
    """The inverse of the covariance of the values, times a matrix (by Woodbury's identity)."""
    kept = [(one, float(part)) for one, part in zip(random, components, strict=True) if part > 0]
    if not kept:
        return matrix / scale
    places = np.hstack([np.eye(len(one.levels))[one.codes] for one, _ in kept])
    parts = np.concatenate([np.full(len(one.levels), scale / part) for one, part in kept])
    inner = np.linalg.solve(np.diag(parts) + places.T @ places, places.T @ matrix)
    found: Floats = (matrix - places @ inner) / scale
    return found


def _crossed_error(
    influence: Floats, random: Sequence[CodedFactor], df: float, weights: Floats
) -> Spread | None:
    """The error of a weighted sum, given each value's influence, clustered by all random factors at once."""
    own, alone, variance = influence @ weights, list[float](), 0.0
    for count in range(1, len(random) + 1):
        for some in combinations(random, count):
            codes = np.zeros(len(own), dtype=np.intp)
            for one in some:
                _, codes = np.unique(codes * len(one.levels) + one.codes, return_inverse=True)
            groups = int(codes.max()) + 1
            found = float((totals(codes, own) ** 2).sum()) * groups / max(1, groups - 1)
            variance += found if count % 2 else -found
            alone += [found] if count == 1 else []
    error = max(variance, *alone) ** 0.5
    return Spread(error, df) if error > 0 and df > 0 else None


def _variances(spread: dict[str, float]) -> str:
    """The variance components, as text."""
    whole = sum(spread.values())
    parts = [f"{name} {value:.4g} ({value / whole:.0%})" for name, value in spread.items()] if whole else []
    return f"variances: {', '.join(parts)}"


def _logistic(values: Floats, matrix: Floats, units: Codes) -> MixedFit | str:
    """The logistic model with random intercepts for cases."""
    found = random_intercept.logistic(values, matrix, units)
    if found is None:
        return "the fit did not converge"
    said = f"cases deviate by {found.deviation:.3g} on the scale of log odds"
    return _by_covariance(found.beta, found.robust, "mixed model, adaptive quadrature, robust", said, units)


def _by_covariance(beta: Floats, covariance: Floats, method: str, random: str, units: Codes) -> MixedFit:
    """A fit with this covariance, and the units less one as degrees of freedom."""
    groups = int(units.max()) + 1

    def error(weights: Floats) -> Spread | None:
        return Spread(float(weights @ covariance @ weights) ** 0.5, groups - 1.0)

    return MixedFit(beta, method, random, error, groups >= LEAST_UNITS)


def _marginal(values: Floats, matrix: Floats, units: Codes) -> MixedFit | str:
    """The marginal model by generalised estimating equations."""

    def fitted() -> MixedFit:
        gee = _statsmodels("genmod.generalized_estimating_equations").GEE
        structure = _statsmodels("genmod.cov_struct").Exchangeable()
        family = _statsmodels("genmod.families").Binomial()
        model = gee(values, matrix, groups=units, family=family, cov_struct=structure)
        found = model.fit(cov_type="bias_reduced")
        said = f"answers of one case correlate by {float(np.ravel(structure.dep_params)[0]):.2g}"
        covariance = np.asarray(found.cov_params(), dtype=np.float64)
        return _by_covariance(np.asarray(found.params), covariance, "estimating equations", said, units)

    return _fitted_or_reason(fitted)


FITTERS: dict[str, Callable[[Floats, Floats, Codes], MixedFit | str]] = {
    "linear": _linear,
    "logistic": _logistic,
    "marginal": _marginal,
}
"""The fitting functions by kind."""


def _statsmodels(module: str) -> Any:
    """Import a statsmodels module lazily; raises Invalid if statsmodels is not installed."""
    try:
        return import_module(f"statsmodels.{module}")
    except ImportError:
        raise Invalid(
            "mixed models need statsmodels, which is not installed: pip install 'peira[stats]'"
        ) from None


def _fitted_or_reason(fit: Callable[[], MixedFit]) -> MixedFit | str:
    """The fit, or the reason why it failed; warnings about convergence count as failures."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            found = fit()
        except Invalid:  # statsmodels is missing: no property of the data
            raise
        except (np.linalg.LinAlgError, ValueError) as error:
            return f"the fit failed ({error})"
    trouble = [
        str(one.message) for one in caught if "onverge" in str(one.message) or "ingular" in str(one.message)
    ]
    if trouble or not np.isfinite(found.beta).all():
        return f"the fit did not converge ({trouble[0] if trouble else 'its errors are not finite'})"
    return found


def _rows(kept: EstimableTerms, found: MixedFit, n: int, level: float) -> Iterable[Effect]:
    """The effects of all terms with t intervals."""
    for term, place in zip(kept.terms, kept.places, strict=True):
        for label, own in term.contrasts:
            weights = np.zeros(len(found.beta))
            weights[place] = own
            mean, spread = float(weights @ found.beta), found.spread(weights) if found.tested else None
            if spread is None or not np.isfinite(spread.error):
                yield Effect(term.name, label, Estimate(mean, None, None, n, "unknown"), None)
                continue
            shown = Estimate(mean, *student.around(mean, spread, level), n, found.method)
            p = student.p_value(mean / spread.error, spread.df, "two-sided")
            yield Effect(term.name, label, shown, p)
