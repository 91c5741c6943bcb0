"""Intervals of a mean, by the names that people ask for them.

Each takes values with their units of evidence. Those for yes/no values of unrelated cases refuse all others:
an interval that takes repeats for cases is too narrow by a factor that nobody sees.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace

from peira.core.registry import nearest
from peira.errors import Invalid, Unknown
from peira.stats.inputs import Floats, coded, flat, is_binary
from peira.stats.intervals import proportions
from peira.stats.intervals.bounded import bounded_mean, scale_of
from peira.stats.intervals.means import Limits, estimate, graded
from peira.stats.intervals.resampling import studentised_mean
from peira.stats.values import Estimate, Interval, remark_of

IntervalMethod = Callable[[Sequence[float], Sequence[Hashable], float], Estimate]


def mean_by(
    way: str,
    values: Sequence[float],
    units: Sequence[Hashable],
    level: float,
    limits: Limits | None = None,
) -> Estimate:
    """The mean with the interval method of this name; without a name, with the one that fits.

    `limits` are the least and greatest possible score, None if it has none; no interval extends beyond them.
    """
    check_interval_method(way)
    if not way:
        return estimate(values, units, level, limits)
    found = INTERVAL_METHODS[way](values, units, level)
    if limits is None or found.low is None or found.high is None:
        return found
    return replace(found, low=max(found.low, limits[0]), high=min(found.high, limits[1]))


def check_interval_method(way: str) -> None:
    if way and way not in INTERVAL_METHODS:
        raise Unknown(f"no interval {way!r}{nearest(way, INTERVAL_METHODS)}")


def _bootstrap(values: Sequence[float], units: Sequence[Hashable], level: float) -> Estimate:
    data = flat(values)
    return with_interval(studentised_mean(data, units, level), data, units, level)


def _t(values: Sequence[float], units: Sequence[Hashable], level: float) -> Estimate:
    data = flat(values)
    codes, groups = coded(units, data.size)
    return graded(data, codes, groups, level)


def _bounded(values: Sequence[float], units: Sequence[Hashable], level: float) -> Estimate:
    """The interval without assumptions, for scores of a known scale."""
    limits = scale_of(values)
    if limits is None:
        raise Invalid("interval: bounded needs scores between 0 and 1, or grades from 1 to 5; leave it out")
    return bounded_mean(values, units, limits, level)


def _counted(name: str, interval: Callable[[int, int, float], Estimate]) -> IntervalMethod:
    def way(values: Sequence[float], units: Sequence[Hashable], level: float) -> Estimate:
        data = flat(values)
        if not is_binary(data) or len(set(units)) < data.size:
            raise Invalid(f"interval: {name} needs one yes/no answer for each case; leave it out")
        return interval(int(data.sum()), data.size, level)

    return way


INTERVAL_METHODS: dict[str, IntervalMethod] = {
    "bootstrap": _bootstrap,
    "t": _t,
    "bounded": _bounded,
    "exact": _counted("exact", proportions.exact),
    "wilson": _counted("wilson", proportions.wilson),
    "clopper-pearson": _counted("clopper-pearson", proportions.clopper_pearson),
}
"""The bootstrap (studentised) draws whole units; t is Student's, cluster-robust where units have several
values; bounded makes no assumption about the shape."""


def with_interval(found: Interval, data: Floats, units: Sequence[Hashable], level: float) -> Estimate:
    """The mean with a bootstrap interval, which is never inside Student's.

    What a t interval would warn of (few values, or skewed ones) narrows the bootstrap's as well.
    """
    plain = _t(data.tolist(), units, level)
    if found.low is None or found.high is None:
        return Estimate(float(data.mean()), None, None, data.size, found.method)
    ends = [
        (found.low, found.high),
        *([] if plain.low is None or plain.high is None else [(plain.low, plain.high)]),
    ]
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return Estimate(
        float(data.mean()), low, high, data.size, f"{found.method} on units{remark_of(plain.method)}"
    )
