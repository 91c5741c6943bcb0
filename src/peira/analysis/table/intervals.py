"""Intervals of a mean, by the names that people ask for them.

Each takes values with their units of evidence. Those for yes/no values of unrelated cases refuse all others:
an interval that takes repeats for cases is too narrow by a factor that nobody sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from peira.analysis.table.groups import Unit
from peira.core.registry import nearest
from peira.errors import Invalid, Unknown
from peira.stats.inputs import Floats, coded, flat, is_binary
from peira.stats.intervals import proportions
from peira.stats.intervals.means import estimate, graded
from peira.stats.intervals.resampling import bootstrap_mean
from peira.stats.values import Estimate, Interval

IntervalMethod = Callable[[Sequence[float], Sequence[Unit], float], Estimate]


def mean_by(way: str, values: Sequence[float], units: Sequence[Unit], level: float) -> Estimate:
    """The mean with its interval made in this way; without a name, in the way that fits."""
    check_interval_method(way)
    return INTERVAL_METHODS[way](values, units, level) if way else estimate(values, units, level)


def check_interval_method(way: str) -> None:
    if way and way not in INTERVAL_METHODS:
        raise Unknown(f"no interval {way!r}{nearest(way, INTERVAL_METHODS)}")


def _bootstrap(values: Sequence[float], units: Sequence[Unit], level: float) -> Estimate:
    data = flat(values)
    return with_interval(bootstrap_mean(data, units, level), data, units, level)


def _t(values: Sequence[float], units: Sequence[Unit], level: float) -> Estimate:
    data = flat(values)
    codes, groups = coded(units, data.size)
    return graded(data, codes, groups, level)


def _counted(name: str, interval: Callable[[int, int, float], Estimate]) -> IntervalMethod:
    def way(values: Sequence[float], units: Sequence[Unit], level: float) -> Estimate:
        data = flat(values)
        if not is_binary(data) or len(set(units)) < data.size:
            raise Invalid(f"interval: {name} needs one yes/no answer for each case; leave it out")
        return interval(int(data.sum()), data.size, level)

    return way


INTERVAL_METHODS: dict[str, IntervalMethod] = {
    "bootstrap": _bootstrap,
    "t": _t,
    "exact": _counted("exact", proportions.exact),
    "wilson": _counted("wilson", proportions.wilson),
    "clopper-pearson": _counted("clopper-pearson", proportions.clopper_pearson),
}
"""The bootstrap (BCa) draws whole units; t is Student's, cluster-robust where units have several values."""


def with_interval(found: Interval, data: Floats, units: Sequence[Unit], level: float) -> Estimate:
    """The mean with a bootstrap interval. What a t interval would warn of (few values, or skewed ones)
    narrows the bootstrap's as well."""
    plain = _t(data.tolist(), units, level).method
    mark = next((f" ({what})" for what in ("few", "skewed") if plain.endswith(f"({what})")), "")
    method = found.method if found.low is None else f"bootstrap BCa on units{mark}"
    return Estimate(float(data.mean()), found.low, found.high, data.size, method)
