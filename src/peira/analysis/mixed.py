"""Mixed models: cases as a random effect on a score, or on the log odds of an answer.

Linear: a random intercept for each case, and for each level of whatever else is a sample (`random`: prompts,
judges, models), by restricted maximum likelihood (statsmodels). Logistic: a random intercept for each case,
by maximum likelihood; effects are those on a given case. Marginal: estimating equations with exchangeable
answers within a case and robust errors (statsmodels), whose effects are those on the average case. Where a
model cannot be fitted, that is said and nothing is shown in its place.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, get_args

import numpy as np

from peira.analysis.effect_values import Effect, Effects
from peira.analysis.fitting import names_of
from peira.analysis.groups import check_names
from peira.analysis.measures import measure
from peira.analysis.terms import Factor, Kept, factors_of, keep, terms_of
from peira.analysis.trials import TrialResult
from peira.errors import Invalid
from peira.stats import normal, random_intercept
from peira.stats.inputs import Codes, Floats, coded, is_binary, upper
from peira.stats.values import Estimate

Kind = Literal["linear", "logistic", "marginal"]
KINDS: tuple[str, ...] = get_args(Kind)
MOST_CELLS = 20_000_000
"""Values by levels of random effects that a crossed model may have: beyond, it takes too long."""


def mixed(
    trials: Iterable[TrialResult],
    names: Sequence[str] = (),
    score: str | None = None,
    kind: Kind = "linear",
    level: float = 0.95,
    notes: Sequence[str] = (),
    random: Sequence[str] = (),
) -> Effects:
    """Main effects and two-factor interactions by a mixed model of every single trial. Factors in `random`
    are a sample, as cases are; their levels have no effects of their own."""
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
        found = _crossed(values, kept.matrix, [Factor("case", tuple(map(str, range(groups))), units), *also])
    else:
        found = FITTERS[kind](values, kept.matrix, units)
    if isinstance(found, str):
        return Effects(title, level, notes=(f"No {kind} mixed model: {found}.", *notes))
    rows = tuple(_rows(kept, found, len(known), level))
    return Effects(title, level, rows, units=groups, notes=(found.random, *kept.aliased, *notes))


def _impossible(values: Floats, factors: Sequence[Factor], groups: int, kind: Kind) -> str:
    if not len(values):
        return "no trial has a score"
    if not factors:
        return "no factor varies"
    if groups < 2:
        return "one case says nothing about others"
    if np.ptp(values) == 0:
        return "all scores are equal"
    return _separated(values, factors) if kind != "linear" else ""


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


@dataclass(frozen=True, eq=False)
class Fitted:
    """Coefficients, their covariance, by what method, and what is said of the random effects."""

    beta: Floats
    covariance: Floats
    method: str
    random: str


def _linear(values: Floats, matrix: Floats, units: Codes) -> Fitted | str:
    def fitted() -> Fitted:
        model = _statsmodels("regression.mixed_linear_model").MixedLM(values, matrix, groups=units)
        found, k = model.fit(reml=True), matrix.shape[1]
        spread = {"case": float(found.cov_re[0, 0]), "residual": float(found.scale)}
        return Fitted(found.fe_params, found.cov_params()[:k, :k], "mixed model, reml", _variances(spread))

    return _tried(fitted)


def _crossed(values: Floats, matrix: Floats, random: Sequence[Factor]) -> Fitted | str:
    """Several random effects that cross each other, as variance components of one group."""
    if len(values) * sum(len(one.levels) for one in random) > MOST_CELLS:
        return "too many values for crossed random effects; compare with --across, or take fewer cases"

    def fitted() -> Fitted:
        room = _statsmodels("regression.mixed_linear_model")
        names = [one.name for one in random]
        columns = [[list(one.levels)] for one in random]
        made = room.VCSpec(names, columns, [[np.eye(len(one.levels))[one.codes]] for one in random])
        model = room.MixedLM(values, matrix, groups=np.ones(len(values)), exog_vc=made)
        found, k = model.fit(reml=True), matrix.shape[1]
        spread = {**dict(zip(names, map(float, found.vcomp), strict=True)), "residual": float(found.scale)}
        method = f"mixed model, reml, {' and '.join(names)} random"
        return Fitted(found.fe_params, found.cov_params()[:k, :k], method, _variances(spread))

    return _tried(fitted)


def _variances(spread: dict[str, float]) -> str:
    whole = sum(spread.values())
    parts = [f"{name} {value:.4g} ({value / whole:.0%})" for name, value in spread.items()] if whole else []
    return f"variances: {', '.join(parts)}"


def _logistic(values: Floats, matrix: Floats, units: Codes) -> Fitted | str:
    found = random_intercept.logistic(values, matrix, units)
    if found is None:
        return "the fit did not converge"
    said = f"cases deviate by {found.deviation:.3g} on the scale of log odds"
    return Fitted(found.beta, found.covariance, "mixed model, adaptive quadrature", said)


def _marginal(values: Floats, matrix: Floats, units: Codes) -> Fitted | str:
    def fitted() -> Fitted:
        gee = _statsmodels("genmod.generalized_estimating_equations").GEE
        structure = _statsmodels("genmod.cov_struct").Exchangeable()
        family = _statsmodels("genmod.families").Binomial()
        found = gee(values, matrix, groups=units, family=family, cov_struct=structure).fit()
        said = f"answers of one case correlate by {float(np.ravel(structure.dep_params)[0]):.2g}"
        return Fitted(found.params, found.cov_params(), "estimating equations", said)

    return _tried(fitted)


FITTERS: dict[str, Callable[[Floats, Floats, Codes], Fitted | str]] = {
    "linear": _linear,
    "logistic": _logistic,
    "marginal": _marginal,
}


def _statsmodels(room: str) -> Any:
    try:
        return import_module(f"statsmodels.{room}")
    except ImportError:
        raise Invalid(
            "mixed models need statsmodels, which is not installed: pip install statsmodels"
        ) from None


def _tried(fit: Callable[[], Fitted]) -> Fitted | str:
    """What was fitted; or why nothing was: every warning of the fit is a reason."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            found = fit()
        except (np.linalg.LinAlgError, ValueError) as error:
            return f"the fit failed ({error})"
    trouble = [
        str(one.message) for one in said if "onverge" in str(one.message) or "ingular" in str(one.message)
    ]
    if trouble or not np.isfinite(found.covariance).all():
        return f"the fit did not converge ({trouble[0] if trouble else 'its errors are not finite'})"
    return found


def _rows(kept: Kept, found: Fitted, n: int, level: float) -> Iterable[Effect]:
    for term, place in zip(kept.terms, kept.places, strict=True):
        for label, weights in term.contrasts:
            mean = float(weights @ found.beta[place])
            error = float(weights @ found.covariance[place, place] @ weights) ** 0.5
            half = normal.quantile(upper(level)) * error
            told = Estimate(mean, mean - half, mean + half, n, found.method)
            yield Effect(term.name, label, told, normal.p_value(mean / error, "two-sided"))
