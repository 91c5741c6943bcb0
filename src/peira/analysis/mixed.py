"""Mixed models: cases as a random effect on a score, or correlated answers on the scale of log odds.

Fitted by statsmodels. Linear: a random intercept for each case, by restricted maximum likelihood. Logistic:
generalised estimating equations with exchangeable answers within a case and robust errors, whose effects are
those on the average case. Where a model cannot be fitted, that is said and nothing is shown in its place.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Any, Literal

import numpy as np

from peira.analysis.effect_values import Effect, Effects
from peira.analysis.fitting import names_of
from peira.analysis.groups import check_names
from peira.analysis.measures import measure
from peira.analysis.terms import Factor, Kept, factors_of, keep, terms_of
from peira.analysis.trials import TrialResult
from peira.errors import Invalid
from peira.stats import normal
from peira.stats.inputs import Floats, coded, is_binary, upper
from peira.stats.values import Estimate

Kind = Literal["linear", "logistic"]


def mixed(
    trials: Iterable[TrialResult],
    names: Sequence[str] = (),
    score: str | None = None,
    kind: Kind = "linear",
    level: float = 0.95,
    notes: Sequence[str] = (),
) -> Effects:
    """Main effects and two-factor interactions by a mixed model of every single trial."""
    if kind not in ("linear", "logistic"):
        raise Invalid(f"kind: must be linear or logistic, not {kind!r}")
    measured = measure(trials, score)
    known = [one for one in measured.observations if one.value is not None]
    every = names_of([one.trial for one in known])
    check_names(names, every, ())
    factors = factors_of([one.trial for one in known], names or every)
    values = np.array([one.value for one in known], dtype=np.float64)
    units, groups = coded([one.trial.unit for one in known], len(known))
    title = measured.name if kind == "linear" else f"log odds of {measured.name}"
    if reason := _impossible(values, factors, groups, kind):
        return Effects(title, level, notes=(f"No {kind} mixed model: {reason}.", *notes))
    kept = keep(terms_of(factors, min(2, len(factors))), np.ones((len(known), 1)), lambda columns: columns)
    found = FITTERS[kind](values, kept.matrix, units)
    if isinstance(found, str):
        return Effects(title, level, notes=(f"No {kind} mixed model: {found}.", *notes))
    rows = tuple(_rows(kept, *found, len(known), level, kind))
    return Effects(title, level, rows, units=groups, notes=(*kept.aliased, *notes))


def _impossible(values: Floats, factors: Sequence[Factor], groups: int, kind: Kind) -> str:
    if not len(values):
        return "no trial has a score"
    if not factors:
        return "no factor varies"
    if groups < 2:
        return "one case says nothing about others"
    if np.ptp(values) == 0:
        return "all scores are equal"
    return _separated(values, factors) if kind == "logistic" else ""


def _separated(values: Floats, factors: Sequence[Factor]) -> str:
    """Odds that are 0 or infinite somewhere have no finite effect."""
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


Fitted = tuple[Floats, Floats] | str


def _linear(values: Floats, matrix: Floats, units: Any) -> Fitted:
    def fitted() -> Any:
        model = _statsmodels("regression.mixed_linear_model").MixedLM(values, matrix, groups=units)
        found = model.fit(reml=True)
        return found.fe_params, found.cov_params()[: matrix.shape[1], : matrix.shape[1]]

    return _tried(fitted)


def _logistic(values: Floats, matrix: Floats, units: Any) -> Fitted:
    def fitted() -> Any:
        gee = _statsmodels("genmod.generalized_estimating_equations").GEE
        structure = _statsmodels("genmod.cov_struct").Exchangeable()
        family = _statsmodels("genmod.families").Binomial()
        found = gee(values, matrix, groups=units, family=family, cov_struct=structure).fit()
        return found.params, found.cov_params()

    return _tried(fitted)


FITTERS: dict[str, Callable[[Floats, Floats, Any], Fitted]] = {"linear": _linear, "logistic": _logistic}


def _statsmodels(room: str) -> Any:
    try:
        return import_module(f"statsmodels.{room}")
    except ImportError:
        raise Invalid(
            "mixed models need statsmodels, which is not installed: pip install statsmodels"
        ) from None


def _tried(fitted: Callable[[], Any]) -> Fitted:
    """Coefficients and covariance; or why there are none: every warning of the fit is a reason."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            beta, covariance = (np.asarray(part, dtype=np.float64) for part in fitted())
        except (np.linalg.LinAlgError, ValueError) as error:
            return f"the fit failed ({error})"
    trouble = [
        str(one.message) for one in said if "onverge" in str(one.message) or "ingular" in str(one.message)
    ]
    if trouble or not np.isfinite(covariance).all():
        return f"the fit did not converge ({trouble[0] if trouble else 'its errors are not finite'})"
    return beta, covariance


def _rows(kept: Kept, beta: Floats, covariance: Floats, n: int, level: float, kind: Kind) -> Iterable[Effect]:
    for term, place in zip(kept.terms, kept.places, strict=True):
        for label, weights in term.contrasts:
            mean = float(weights @ beta[place])
            error = float(weights @ covariance[place, place] @ weights) ** 0.5
            half = normal.quantile(upper(level)) * error
            method = "mixed model, reml" if kind == "linear" else "estimating equations"
            found = Estimate(mean, mean - half, mean + half, n, method)
            yield Effect(term.name, label, found, normal.p_value(mean / error, "two-sided"))
