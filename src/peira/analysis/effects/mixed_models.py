"""Mixed models with cases as a random effect, for a score or for the log odds of an answer.

- linear: random intercepts for cases and for the levels of the factors in `random` (prompts, judges, models),
  by restricted maximum likelihood (statsmodels).
- logistic: random intercepts for cases, by maximum likelihood; effects are conditional on the case.
- marginal: generalised estimating equations with exchangeable correlation within cases and robust errors
  (statsmodels); effects are population averages.

If a model cannot be fitted, the result says why and shows no effects.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, get_args

import numpy as np

from peira.analysis.effects.factor_effects import Effect, Effects
from peira.analysis.effects.regression import (
    CodedFactor,
    EstimableTerms,
    factors_of,
    keep,
    names_of,
    terms_of,
)
from peira.analysis.table.groups import check_names
from peira.analysis.table.measures import measure
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.stats import normal
from peira.stats.inputs import Codes, Floats, coded, is_binary, upper
from peira.stats.models import random_effects as random_intercept
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

    Factors in `random` are random effects, as cases are, and have no fixed effects. Raises Invalid for an
    unknown kind, or for random factors in a model other than linear.
    """
    if kind not in KINDS:
        raise Invalid(f"kind: must be one of {', '.join(KINDS)}, not {kind!r}")
    if random and kind != "linear":
        raise Invalid(f"random: a {kind} model has cases as its only random effect; take a linear one")
    measured = measure(trials, score)
    known = [one for one in measured.observations if one.value is not None]
    every = names_of([one.trial for one in known])
    check_names([*names, *random], every, ())
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
        found = _crossed(
            values, kept.matrix, [CodedFactor("case", tuple(map(str, range(groups))), units), *also]
        )
    else:
        found = FITTERS[kind](values, kept.matrix, units)
    if isinstance(found, str):
        return Effects(title, level, notes=(f"No {kind} mixed model: {found}.", *notes))
    rows = tuple(_rows(kept, found, len(known), level))
    return Effects(title, level, rows, units=groups, notes=(found.random, *kept.aliased, *notes))


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


@dataclass(frozen=True, eq=False)
class MixedFit:
    """Coefficients, their covariance, the method, and a description of the random effects."""

    beta: Floats
    covariance: Floats
    method: str
    random: str


def _linear(values: Floats, matrix: Floats, units: Codes) -> MixedFit | str:
    """The linear mixed model with random intercepts for cases."""

    def fitted() -> MixedFit:
        model = _statsmodels("regression.mixed_linear_model").MixedLM(values, matrix, groups=units)
        found, k = model.fit(reml=True), matrix.shape[1]
        spread = {"case": float(found.cov_re[0, 0]), "residual": float(found.scale)}
        return MixedFit(found.fe_params, found.cov_params()[:k, :k], "mixed model, reml", _variances(spread))

    return _fitted_or_reason(fitted)


def _crossed(values: Floats, matrix: Floats, random: Sequence[CodedFactor]) -> MixedFit | str:
    """The linear mixed model with crossed random effects, as variance components of a single group."""
    if len(values) * sum(len(one.levels) for one in random) > MOST_CELLS:
        return "too many values for crossed random effects; compare with --across, or take fewer cases"

    def fitted() -> MixedFit:
        module = _statsmodels("regression.mixed_linear_model")
        names = [one.name for one in random]
        columns = [[list(one.levels)] for one in random]
        components = module.VCSpec(names, columns, [[np.eye(len(one.levels))[one.codes]] for one in random])
        model = module.MixedLM(values, matrix, groups=np.ones(len(values)), exog_vc=components)
        found, k = model.fit(reml=True), matrix.shape[1]
        spread = {**dict(zip(names, map(float, found.vcomp), strict=True)), "residual": float(found.scale)}
        method = f"mixed model, reml, {' and '.join(names)} random"
        return MixedFit(found.fe_params, found.cov_params()[:k, :k], method, _variances(spread))

    return _fitted_or_reason(fitted)


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
    return MixedFit(found.beta, found.covariance, "mixed model, adaptive quadrature", said)


def _marginal(values: Floats, matrix: Floats, units: Codes) -> MixedFit | str:
    """The marginal model by generalised estimating equations."""

    def fitted() -> MixedFit:
        gee = _statsmodels("genmod.generalized_estimating_equations").GEE
        structure = _statsmodels("genmod.cov_struct").Exchangeable()
        family = _statsmodels("genmod.families").Binomial()
        found = gee(values, matrix, groups=units, family=family, cov_struct=structure).fit()
        said = f"answers of one case correlate by {float(np.ravel(structure.dep_params)[0]):.2g}"
        return MixedFit(found.params, found.cov_params(), "estimating equations", said)

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
    if trouble or not np.isfinite(found.covariance).all():
        return f"the fit did not converge ({trouble[0] if trouble else 'its errors are not finite'})"
    return found


def _rows(kept: EstimableTerms, found: MixedFit, n: int, level: float) -> Iterable[Effect]:
    """The effects of all terms with Wald intervals."""
    for term, place in zip(kept.terms, kept.places, strict=True):
        for label, weights in term.contrasts:
            mean = float(weights @ found.beta[place])
            error = float(weights @ found.covariance[place, place] @ weights) ** 0.5
            half = normal.quantile(upper(level)) * error
            shown = Estimate(mean, mean - half, mean + half, n, found.method)
            yield Effect(term.name, label, shown, normal.p_value(mean / error, "two-sided"))
