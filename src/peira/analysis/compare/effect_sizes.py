"""Standardised effect sizes of a comparison, by name.

Without a name the data choose: the odds ratio for 0/1 values; otherwise dz for paired sides and Hedges' g for
unpaired ones. Effect sizes defined for independent groups can also be requested for paired sides: their
interval then comes from the bootstrap or the jackknife over whole units, which keeps the pairing.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from peira.analysis.compare.estimates import TwoSamples
from peira.core.registry import nearest
from peira.errors import Invalid, Unknown
from peira.stats import effect_sizes as effects
from peira.stats.inputs import Codes, Floats
from peira.stats.intervals.resampling import bootstrap, jackknife
from peira.stats.student import around
from peira.stats.tests import mcnemar as mcnemar_tests
from peira.stats.tests import two_proportions as proportion_tests
from peira.stats.values import Interval


def effect(data: TwoSamples, name: str, level: float) -> Interval:
    """The effect size with this name, or without a name the one that fits the data.

    Raises Unknown for a name that is not in `SIZES`, and Invalid if the data do not allow it.
    """
    if name and name not in SIZES:
        raise Unknown(f"no effect size {name!r}{nearest(name, SIZES)}")
    fitting = "odds ratio" if data.binary else "cohen dz" if data.paired else "hedges g"
    return SIZES[name or fitting](data, level)


def _odds_ratio(data: TwoSamples, level: float) -> Interval:
    """The odds ratio; for paired sides the ratio of cases won to cases lost."""
    _needs(data.binary, "odds ratio", "one yes/no answer for each case")
    if data.paired:
        return _named(mcnemar_tests.matched_odds_ratio(*data.wins, level), "odds ratio")
    return _named(proportion_tests.odds_ratio(*data.counts, level), "odds ratio")


def _dz(data: TwoSamples, level: float) -> Interval:
    """Cohen's dz; needs pairs."""
    _needs(data.paired, "cohen dz", "pairs")
    return effects.cohen_dz(*data.by_unit(), level)


def _d(data: TwoSamples, level: float) -> Interval:
    """Cohen's d on unit means."""
    return _resampled_d(data, level, "cohen d") if data.paired else effects.cohen_d(*data.by_unit(), level)


def _g(data: TwoSamples, level: float) -> Interval:
    """Hedges' g on unit means."""
    return _resampled_d(data, level, "hedges g") if data.paired else effects.hedges_g(*data.by_unit(), level)


def _h(data: TwoSamples, level: float) -> Interval:
    """Cohen's h of 0/1 values; for paired sides with a bootstrap interval."""
    _needs(data.binary, "cohen h", "one yes/no answer for each case")
    if not data.paired:
        return effects.cohen_h(*data.counts, level)
    table = np.stack([data.one, data.two], axis=1)
    return _named(bootstrap(table, lambda p: _angle(p[:, 0]) - _angle(p[:, 1]), level), "cohen h")


def _cliff(data: TwoSamples, level: float) -> Interval:
    """Cliff's delta; for paired sides with a jackknife interval."""
    first, second = data.by_unit()
    if not data.paired:
        return effects.cliffs_delta(first, second, level)

    def delta(kept: Codes) -> float | None:
        return effects.cliffs_delta(first[kept], second[kept], level).value

    n, value = first.size, effects.cliffs_delta(first, second, level).value
    found = jackknife(delta, n)
    if found is None or value is None:
        return Interval(value, None, None, n, "cliffs delta")
    low, high = around(value, found, level)
    return Interval(value, max(low, -1.0), min(high, 1.0), n, "cliffs delta")


SIZES: dict[str, Callable[[TwoSamples, float], Interval]] = {
    "cohen d": _d,
    "cohen dz": _dz,
    "cohen h": _h,
    "hedges g": _g,
    "cliffs delta": _cliff,
    "odds ratio": _odds_ratio,
}
"""The effect sizes by name."""


def _resampled_d(data: TwoSamples, level: float, name: str) -> Interval:
    """Cohen's d or Hedges' g of paired sides, with a bootstrap interval over whole units."""
    first, second = data.by_unit()
    n, centre = first.size, float(np.concatenate([first, second]).mean())
    scale = max(float(np.abs(first - centre).max()), float(np.abs(second - centre).max())) or 1.0
    df, one, two = 2 * n - 2, (first - centre) / scale, (second - centre) / scale
    bias = 1.0
    if name == "hedges g" and df > 1:
        bias = math.exp(math.lgamma(df / 2) - math.lgamma((df - 1) / 2)) / math.sqrt(df / 2)

    def standardised(means: Floats) -> Floats:
        variances = (means[:, 2:] - means[:, :2] ** 2).mean(axis=1) * n / max(1, n - 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = bias * (means[:, 0] - means[:, 1]) / np.sqrt(np.maximum(variances, 0))
        return found

    return _named(bootstrap(np.stack([one, two, one**2, two**2], axis=1), standardised, level), name)


def _angle(share: Floats) -> Floats:
    """The arcsine transformation of a proportion."""
    found: Floats = 2 * np.arcsin(np.sqrt(np.clip(share, 0, 1)))
    return found


def _named(found: Interval, name: str) -> Interval:
    """The same interval with this name as its method."""
    return Interval(found.value, found.low, found.high, found.n, name)


def _needs(fulfilled: bool, name: str, what: str) -> None:
    """Raise Invalid unless the data fulfil the requirement."""
    if not fulfilled:
        raise Invalid(f"effect: {name} needs {what}")
