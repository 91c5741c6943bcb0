"""The tests that a comparison can be decided by, under the names that plans and commands give them.

Without a name the data choose: yes/no answers to unrelated cases get McNemar's test, few units of evidence
the exact sign-flip permutation, everything else Student's t on the units.
"""

from __future__ import annotations

from collections.abc import Callable

from peira.analysis.estimates import Data
from peira.core.registry import nearest
from peira.errors import Invalid, Unknown
from peira.stats import matched, twobytwo
from peira.stats import paired as pairwise
from peira.stats import unpaired as apart
from peira.stats.values import Alternative, Evidence

FEW = 9
"""Up to so many units every assignment of signs is tried; beyond, Student's t keeps its level as well, and
does not lose its power to ties."""

Test = Callable[[Data, Alternative], Evidence]


def evidence(data: Data, test: str = "", alternative: Alternative = "two-sided") -> Evidence:
    """What the named test says; without a name, the one that fits the data."""
    if test and test not in TESTS:
        raise Unknown(f"no test {test!r}{nearest(test, TESTS)}")
    return TESTS[test](data, alternative) if test else _fitting(data, alternative)


def _fitting(data: Data, alternative: Alternative) -> Evidence:
    if data.paired:
        name = "mcnemar" if data.binary else "permutation" if data.units <= FEW else "paired t"
        return TESTS[name](data, alternative)
    return TESTS["proportions" if data.binary else "welch"](data, alternative)


def _mcnemar(data: Data, alternative: Alternative) -> Evidence:
    _needs(data, "mcnemar", paired=True, binary=True)
    return matched.mcnemar(*data.wins, data.one.size, alternative)


def _conditional(data: Data, alternative: Alternative) -> Evidence:
    _needs(data, "mcnemar conditional", paired=True, binary=True)
    return matched.mcnemar(*data.wins, data.one.size, alternative, "conditional")


def _paired_t(data: Data, alternative: Alternative) -> Evidence:
    _needs(data, "paired t", paired=True)
    return pairwise.paired_t(data.one, data.two, data.clusters, alternative)


def _permutation(data: Data, alternative: Alternative) -> Evidence:
    if data.paired:
        return pairwise.paired_permutation(data.one, data.two, data.clusters, alternative)
    return apart.permutation(*data.by_unit(), alternative)


def _wilcoxon(data: Data, alternative: Alternative) -> Evidence:
    _needs(data, "wilcoxon", paired=True)
    return pairwise.wilcoxon(*data.by_unit(), alternative)


def _sign(data: Data, alternative: Alternative) -> Evidence:
    _needs(data, "sign", paired=True)
    return pairwise.sign_test(*data.by_unit(), alternative)


def _welch(data: Data, alternative: Alternative) -> Evidence:
    return apart.welch(data.one, data.two, data.clusters, data.clusters_two, alternative)


def _mann_whitney(data: Data, alternative: Alternative) -> Evidence:
    return apart.mann_whitney(*data.by_unit(), alternative)


def _proportions(data: Data, alternative: Alternative) -> Evidence:
    _needs(data, "proportions", binary=True)
    return twobytwo.two_proportions(*data.counts, alternative)


UNPAIRED = ("welch", "mann-whitney", "proportions")
TESTS: dict[str, Test] = {
    "mcnemar": _mcnemar,
    "mcnemar conditional": _conditional,
    "paired t": _paired_t,
    "permutation": _permutation,
    "wilcoxon": _wilcoxon,
    "sign": _sign,
    "welch": _welch,
    "mann-whitney": _mann_whitney,
    "proportions": _proportions,
}
"""The tests that can be named. Those in `UNPAIRED` take no notice of pairs."""


def _needs(data: Data, name: str, paired: bool = False, binary: bool = False) -> None:
    if paired and not data.paired:
        raise Invalid(f"test: {name} needs pairs, and the sides have no case in common")
    if binary and not data.binary:
        raise Invalid(f"test: {name} needs one yes/no answer for each case")
