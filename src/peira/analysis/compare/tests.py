"""The tests that a comparison can use, by the names in analysis plans and commands.

Without a name the data choose: McNemar's test for paired 0/1 values of unrelated cases; for scores within
limits the test without assumptions about their shape where Student's t cannot be trusted; for other measures
the exact sign-flip permutation test for few units of evidence, and Student's t on the units otherwise,
adjusted for skewness. Unpaired sides get the test of two proportions, the hybrid of bounds, or Welch's.
"""

from __future__ import annotations

from collections.abc import Callable

from peira.analysis.compare.estimates import TwoSamples
from peira.core.registry import nearest
from peira.errors import Invalid, Unknown
from peira.stats.tests import mcnemar as mcnemar_tests
from peira.stats.tests import paired as paired_tests
from peira.stats.tests import two_proportions as proportion_tests
from peira.stats.tests import unpaired as unpaired_tests
from peira.stats.values import FEW_UNITS, Alternative, TestResult

Test = Callable[[TwoSamples, Alternative], TestResult]
"""Maps data and an alternative to a test result."""


def evidence(data: TwoSamples, test: str = "", alternative: Alternative = "two-sided") -> TestResult:
    """The result of the named test, or without a name of the one that fits the data.

    Raises Unknown for an unknown name and Invalid if the data do not fulfil the test's requirements.
    """
    if test and test not in TESTS:
        raise Unknown(f"no test {test!r}{nearest(test, TESTS)}")
    return TESTS[test](data, alternative) if test else _fitting(data, alternative)


def _fitting(data: TwoSamples, alternative: Alternative) -> TestResult:
    """The test that fits the data, in agreement with the interval of `estimates.difference`."""
    if data.needs_bounds:
        return _bounded(data, alternative)
    if data.binary:
        return TESTS["mcnemar" if data.paired else "proportions"](data, alternative)
    skewed = data.limits is None
    if not data.paired:
        clusters = data.clusters, data.clusters_two
        return unpaired_tests.welch(data.one, data.two, *clusters, alternative, skewed)
    if data.units <= FEW_UNITS:
        return _permutation(data, alternative)
    return paired_tests.paired_t(data.one, data.two, data.clusters, alternative, skewed)


def _bounded(data: TwoSamples, alternative: Alternative) -> TestResult:
    """The test without assumptions about the shape, for scores within limits."""
    if data.limits is None:
        raise Invalid("test: bounded needs scores between 0 and 1, or grades from 1 to 5")
    if data.paired:
        return paired_tests.paired_bounded(data.one, data.two, data.limits, data.clusters, alternative)
    return unpaired_tests.unpaired_bounded(
        data.one, data.two, data.limits, data.clusters, data.clusters_two, alternative
    )


def _mcnemar(data: TwoSamples, alternative: Alternative) -> TestResult:
    """McNemar's exact unconditional test of paired 0/1 values."""
    _needs(data, "mcnemar", paired=True, binary=True)
    return mcnemar_tests.mcnemar(*data.wins, data.one.size, alternative)


def _conditional(data: TwoSamples, alternative: Alternative) -> TestResult:
    """McNemar's classical conditional test of paired 0/1 values."""
    _needs(data, "mcnemar conditional", paired=True, binary=True)
    return mcnemar_tests.mcnemar(*data.wins, data.one.size, alternative, "conditional")


def _paired_t(data: TwoSamples, alternative: Alternative) -> TestResult:
    """The paired t test, cluster-robust where cases are related."""
    _needs(data, "paired t", paired=True)
    return paired_tests.paired_t(data.one, data.two, data.clusters, alternative)


def _permutation(data: TwoSamples, alternative: Alternative) -> TestResult:
    """The sign-flip test of pairs, or the shuffle test of unit means."""
    if data.paired:
        return paired_tests.paired_permutation(data.one, data.two, data.clusters, alternative)
    return unpaired_tests.permutation(*data.by_unit(), alternative)


def _wilcoxon(data: TwoSamples, alternative: Alternative) -> TestResult:
    """Wilcoxon's signed-rank test on unit means."""
    _needs(data, "wilcoxon", paired=True)
    return paired_tests.wilcoxon(*data.by_unit(), alternative)


def _sign(data: TwoSamples, alternative: Alternative) -> TestResult:
    """The sign test on unit means."""
    _needs(data, "sign", paired=True)
    return paired_tests.sign_test(*data.by_unit(), alternative)


def _welch(data: TwoSamples, alternative: Alternative) -> TestResult:
    """Welch's t test, cluster-robust where values are related."""
    return unpaired_tests.welch(data.one, data.two, data.clusters, data.clusters_two, alternative)


def _mann_whitney(data: TwoSamples, alternative: Alternative) -> TestResult:
    """The Mann-Whitney test on unit means."""
    return unpaired_tests.mann_whitney(*data.by_unit(), alternative)


def _proportions(data: TwoSamples, alternative: Alternative) -> TestResult:
    """The test of two independent proportions."""
    _needs(data, "proportions", binary=True)
    return proportion_tests.two_proportions(*data.counts, alternative)


UNPAIRED = ("welch", "mann-whitney", "proportions")
"""Tests that ignore pairs."""
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
"""The tests by name; those in `UNPAIRED` ignore pairs."""


def _needs(data: TwoSamples, name: str, paired: bool = False, binary: bool = False) -> None:
    """Raise Invalid unless the data are paired or binary as required."""
    if paired and not data.paired:
        raise Invalid(f"test: {name} needs pairs, and the sides have no case in common")
    if binary and not data.binary:
        raise Invalid(f"test: {name} needs one yes/no answer for each case")
