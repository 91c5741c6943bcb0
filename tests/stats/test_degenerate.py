"""What happens at the edges: unknown is said, never NaN, never a traceback, never a point for an interval."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.stats import effect_sizes as effects
from peira.stats.intervals import means as intervals
from peira.stats.intervals import means as robust
from peira.stats.intervals import quantiles, ratios
from peira.stats.intervals import resampling as bootstrap
from peira.stats.models import variance_components as components
from peira.stats.tests import bayes, equivalence, paired, unpaired
from peira.stats.tests import multiplicity as simultaneous

ONE = {
    "estimate": lambda x, labels: intervals.estimate(x, labels),
    "clustered": lambda x, labels: intervals.clustered(x, labels),
    "mean_t": lambda x, labels: intervals.mean_t(x),
    "two_way": lambda x, labels: robust.two_way(x, labels, range(len(x))),
    "median": lambda x, labels: quantiles.quantile(x, 0.5),
    "bootstrap": lambda x, labels: bootstrap.bootstrap_mean(x, labels, resamples=50),
    "components": lambda x, labels: components.components(x, labels),
}
TWO = {
    "difference": lambda x, y, labels: paired.difference(x, y, labels),
    "paired t": lambda x, y, labels: paired.paired_t(x, y, labels),
    "flips": lambda x, y, labels: paired.paired_permutation(x, y, labels, rounds=50),
    "wilcoxon": lambda x, y, labels: paired.wilcoxon(x, y),
    "sign test": lambda x, y, labels: paired.sign_test(x, y),
    "unpaired": lambda x, y, labels: unpaired.unpaired_difference(x, y, labels),
    "welch": lambda x, y, labels: unpaired.welch(x, y, labels),
    "shuffle": lambda x, y, labels: unpaired.permutation(x, y, rounds=50),
    "mann-whitney": lambda x, y, labels: unpaired.mann_whitney(x, y),
    "d": lambda x, y, labels: effects.cohen_d(x, y),
    "g": lambda x, y, labels: effects.hedges_g(x, y),
    "dz": lambda x, y, labels: effects.cohen_dz(x, y),
    "delta": lambda x, y, labels: effects.cliffs_delta(x, y),
    "equivalence": lambda x, y, labels: equivalence.paired_equivalence(x, y, -0.5, 0.5, labels),
    "unpaired equivalence": lambda x, y, labels: equivalence.unpaired_equivalence(x, y, -0.5, 0.5, labels),
    "bayes": lambda x, y, labels: bayes.paired_means(x, y, labels),
    "unpaired bayes": lambda x, y, labels: bayes.unpaired_means(x, y),
    "fieller": lambda x, y, labels: ratios.fieller(x, y, labels),
    "ratio by delta": lambda x, y, labels: ratios.delta(x, y, labels),
    "largest t": lambda x, y, labels: simultaneous.largest_t(
        np.column_stack([x, y]), [(0, 1)], labels
    ).adjusted(0.04),
    "tukey": lambda x, y, labels: simultaneous.tukey([x, y]),
}
few = st.sampled_from([0.0, 1.0, 0.5, 0.1, -3.0, 1e9, 5e-156, -1e140])
rows = st.lists(st.tuples(few, few, st.integers(0, 3)), min_size=1, max_size=7)


def numbers(found: Any) -> Iterator[float]:
    """Every number in an answer, however deep."""
    if isinstance(found, float):
        yield found
    elif dataclasses.is_dataclass(found):
        for field in dataclasses.fields(found):
            yield from numbers(getattr(found, field.name))
    elif isinstance(found, list | tuple):
        for part in found:
            yield from numbers(part)


def honest(found: Any) -> None:
    assert all(math.isfinite(number) for number in numbers(found))
    low, high = getattr(found, "low", None), getattr(found, "high", None)
    if low is not None and high is not None:
        assert low <= high
    if getattr(found, "method", "") == "unknown":
        assert (low, high) == (None, None)
    if getattr(found, "p", None) is not None:
        assert 0 <= found.p <= 1


@pytest.mark.parametrize("name", ONE)
@settings(max_examples=40)
@given(rows=rows)
def test_one_sample(name: str, rows: list[tuple[float, float, int]]) -> None:
    values, _, labels = zip(*rows, strict=True)
    honest(ONE[name](list(values), list(labels)))


@pytest.mark.parametrize("name", TWO)
@settings(max_examples=40)
@given(rows=rows)
def test_two_samples(name: str, rows: list[tuple[float, float, int]]) -> None:
    one, two, labels = zip(*rows, strict=True)
    found = TWO[name](list(one), list(two), list(labels))
    for part in found if isinstance(found, list) else [found]:
        honest(part)


@pytest.mark.parametrize("name", [*ONE, *TWO])
def test_nothing_at_all_is_refused(name: str) -> None:
    asked: Callable[..., Any] = ONE.get(name) or TWO[name]
    with pytest.raises(ValueError, match="need"):
        asked(*([[]] * (2 if name in ONE else 3)))
