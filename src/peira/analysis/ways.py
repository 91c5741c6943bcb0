"""Ways to make an interval, by name, for those who ask for another than the one that fits.

Each takes values with their units of evidence. Those for yes/no values of unrelated cases refuse all others:
an interval that takes repeats for cases is too narrow by a factor that nobody sees.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from peira.analysis.estimates import Data, difference
from peira.analysis.groups import Unit
from peira.core.registry import nearest
from peira.errors import Invalid, Unknown
from peira.stats import proportions
from peira.stats.bootstrap import bootstrap, bootstrap_mean
from peira.stats.inputs import Floats, coded, flat, is_binary, sizes, totals
from peira.stats.intervals import estimate, graded
from peira.stats.values import Estimate, Interval

Way = Callable[[Sequence[float], Sequence[Unit], float], Estimate]


def mean_by(way: str, values: Sequence[float], units: Sequence[Unit], level: float) -> Estimate:
    """The mean with its interval made in this way; without a name, in the way that fits."""
    check_way(way)
    return WAYS[way](values, units, level) if way else estimate(values, units, level)


def check_way(way: str) -> None:
    if way and way not in WAYS:
        raise Unknown(f"no interval {way!r}{nearest(way, WAYS)}")


def difference_by(way: str, data: Data, level: float) -> Estimate:
    """The difference of two sides; only the bootstrap is another way than the one that fits."""
    if not way:
        return difference(data, level)
    if way != "bootstrap":
        raise Invalid(f"interval: of a difference it can be bootstrap, or as fits; not {way!r}")
    if data.paired:
        found = bootstrap_mean(data.one - data.two, data.units_one, level)
        return _estimate(found, data.one - data.two, data.units_one, level)
    sides = [(data.one, data.units_one), (data.two, data.units_two)]
    table = np.vstack([_sums(values, units, place) for place, (values, units) in enumerate(sides)])
    return Estimate(float(data.one.mean() - data.two.mean()), *_ends(table, level))


def _sums(values: Floats, units: Sequence[Unit], side: int) -> Floats:
    """A row for each unit: sum and number of the first side, sum and number of the second."""
    codes, _ = coded(units, values.size)
    own, none = np.stack([totals(codes, values), sizes(codes)], axis=1), np.zeros((int(codes.max()) + 1, 2))
    return np.hstack([none, own] if side else [own, none])


def _ends(table: Floats, level: float) -> tuple[float | None, float | None, int, str]:
    def gap(means: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = means[:, 0] / means[:, 1] - means[:, 2] / means[:, 3]
        return found

    found = bootstrap(table, gap, level)
    return found.low, found.high, int(table[:, [1, 3]].sum()), found.method


def _bootstrap(values: Sequence[float], units: Sequence[Unit], level: float) -> Estimate:
    data = flat(values)
    return _estimate(bootstrap_mean(data, units, level), data, units, level)


def _t(values: Sequence[float], units: Sequence[Unit], level: float) -> Estimate:
    data = flat(values)
    codes, groups = coded(units, data.size)
    return graded(data, codes, groups, level)


def _counted(name: str, interval: Callable[[int, int, float], Estimate]) -> Way:
    def way(values: Sequence[float], units: Sequence[Unit], level: float) -> Estimate:
        data = flat(values)
        if not is_binary(data) or len(set(units)) < data.size:
            raise Invalid(f"interval: {name} needs one yes/no answer for each case; leave it out")
        return interval(int(data.sum()), data.size, level)

    return way


WAYS: dict[str, Way] = {
    "bootstrap": _bootstrap,
    "t": _t,
    "exact": _counted("exact", proportions.exact),
    "wilson": _counted("wilson", proportions.wilson),
    "clopper-pearson": _counted("clopper-pearson", proportions.clopper_pearson),
}
"""The bootstrap (BCa) draws whole units; t is Student's, cluster-robust where units have several values."""


def _estimate(found: Interval, data: Floats, units: Sequence[Unit], level: float) -> Estimate:
    """What a t interval would warn of (few values, or skewed ones) narrows the bootstrap's as well."""
    plain = _t(data.tolist(), units, level).method
    mark = next((f" ({what})" for what in ("few", "skewed") if plain.endswith(f"({what})")), "")
    method = found.method if found.low is None else f"bootstrap BCa on units{mark}"
    return Estimate(float(data.mean()), found.low, found.high, data.size, method)
