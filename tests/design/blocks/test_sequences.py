"""Split plots, crossover and repeated measures: against Williams' squares, and by counting."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.core.space import Dimension, Point, Space
from peira.design.blocks.sequences import Crossover, RepeatedMeasures, SplitPlot, cyclic, williams
from peira.errors import Invalid


def levelled(**counts: int) -> Space:
    return Space(tuple(Dimension(name, tuple(f"{name}{i}" for i in range(n))) for name, n in counts.items()))


def sequences(points: list[Point]) -> dict[str, list[tuple[object, ...]]]:
    """What each subject gets, in the order of periods, having checked that there is one run in each."""
    found: dict[str, dict[int, tuple[object, ...]]] = defaultdict(dict)
    for point in points:
        assert point.period not in found[point.block]
        found[point.block][point.period] = tuple(point.factors.values())
    for own in found.values():
        assert sorted(own) == list(range(1, len(own) + 1))
    return {subject: [own[period] for period in sorted(own)] for subject, own in found.items()}


def test_williams_squares_as_published() -> None:
    """Four treatments: Williams 1949; three: the six orders of Bradley's double square."""
    assert ["".join("ABCD"[i] for i in order) for order in williams(4)] == ["ABDC", "BCAD", "CDBA", "DACB"]
    assert sorted("".join("ABC"[i] for i in order) for order in williams(3)) == [
        *("ABC", "ACB", "BAC", "BCA", "CAB", "CBA")
    ]


@pytest.mark.parametrize("t", range(2, 16))
def test_each_treatment_in_each_period_and_after_each_other_equally_often(t: int) -> None:
    orders = williams(t)
    assert len(orders) == (2 * t if t % 2 else t)
    for place in range(t):
        assert set(Counter(order[place] for order in orders).values()) == {len(orders) // t}
    follows = Counter(pair for order in orders for pair in pairwise(order))
    assert len(follows) == t * (t - 1)
    assert set(follows.values()) == {len(orders) // t}


@given(st.integers(2, 9))
def test_cyclic_orders_are_a_latin_square(t: int) -> None:
    orders = cyclic(t)
    assert all(sorted(order) == list(range(t)) for order in [*orders, *zip(*orders, strict=True)])


@settings(max_examples=40)
@given(st.integers(2, 3), st.integers(2, 3), st.integers(1, 2), st.integers(-9, 9))
def test_crossover_is_balanced_for_what_carries_over(a: int, b: int, squares: int, seed: int) -> None:
    space, t = levelled(a=a, b=b), a * b
    subjects = squares * t * (1 + t % 2)
    design = Crossover(subjects=subjects)
    points = list(design.points(space, seed))
    assert points == list(design.points(space, seed))
    assert len(points) == design.size(space) == subjects * t
    found = sequences(points)
    assert len(found) == subjects
    follows = Counter(pair for order in found.values() for pair in pairwise(order))
    assert len(follows) == t * (t - 1)
    assert len(set(follows.values())) == 1
    places = Counter((place, one) for order in found.values() for place, one in enumerate(order))
    assert set(places.values()) == {subjects // t}


def test_seeds_deal_the_treatments_anew() -> None:
    dealt = {
        frozenset(map(tuple, sequences(list(Crossover().points(levelled(a=4), seed))).values()))
        for seed in range(9)
    }
    assert len(dealt) > 1


def test_factors_between_subjects_have_subjects_of_their_own() -> None:
    space = levelled(model=2, style=3)
    points = list(Crossover(within=["style"]).points(space, 1))
    found = sequences(points)
    assert len(found) == 2 * 6
    for order in found.values():
        assert len({model for model, _ in order}) == 1
        assert len({style for _, style in order}) == 3


@pytest.mark.parametrize(("kind", "subjects"), [("latin_square", 4), ("all_orders", 24), ("williams", 4)])
def test_the_number_of_subjects_that_is_needed(kind: str, subjects: int) -> None:
    space = levelled(a=4)
    points = list(RepeatedMeasures(counterbalance=kind).points(space, 0))
    found = sequences(points)
    assert len(found) == subjects
    assert len({tuple(order) for order in found.values()}) == subjects


def test_random_orders_for_any_number() -> None:
    found = sequences(list(RepeatedMeasures(counterbalance="random", subjects=7).points(levelled(a=5), 3)))
    assert len(found) == 7
    assert len({tuple(order) for order in found.values()}) > 1
    assert all(len(set(order)) == 5 for order in found.values())


def test_many_subjects_are_lazy() -> None:
    design = RepeatedMeasures(subjects=4 * 10**8)
    assert design.size(levelled(a=4)) == 16 * 10**8
    assert next(design.points(levelled(a=4), 0)).period == 1


@given(st.integers(1, 3), st.integers(2, 3), st.integers(2, 3), st.integers(2, 3))
def test_a_whole_plot_has_one_setting_of_its_factors_and_all_of_the_others(
    plots: int, a: int, b: int, c: int
) -> None:
    space = levelled(a=a, b=b, c=c)
    design = SplitPlot(whole=["b"], plots=plots)
    points = list(design.points(space, 0))
    assert len(points) == design.size(space) == a * b * c * plots
    found: dict[str, list[dict[str, str]]] = defaultdict(list)
    for point in points:
        found[point.plot].append(point.factors)
    assert len(found) == b * plots
    for runs in found.values():
        assert len({run["b"] for run in runs}) == 1
        assert len({(run["a"], run["c"]) for run in runs}) == len(runs) == a * c
    assert set(Counter(runs[0]["b"] for runs in found.values()).values()) == {plots}


def test_huge_split_plots_are_lazy() -> None:
    space = Space(tuple(Dimension(f"f{n}", tuple(range(10))) for n in range(18)))
    design = SplitPlot(whole=[f"f{n}" for n in range(9)], plots=2)
    assert design.size(space) == 2 * 10**18
    assert next(design.points(space, 0)).plot == "1"


def test_dear_factors_are_set_for_whole_plots() -> None:
    space = Space((Dimension("style", (1, 2)), Dimension("model", (1, 2), dear=True)))
    plots = defaultdict(set)
    for point in SplitPlot().points(space, 0):
        plots[point.plot].add(point.factors["model"])
    assert [len(models) for models in plots.values()] == [1, 1]


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: SplitPlot(whole="a"), "whole: must be a list of names"),
        (lambda: SplitPlot(whole=["c"]).size(levelled(a=2, b=2)), "whole: no factor 'c'; known: a, b"),
        (lambda: SplitPlot().size(levelled(a=2, b=2)), "no factor is dear to change; say which in whole"),
        (lambda: SplitPlot(whole=["a"]).size(levelled(a=2)), "every factor is set for whole plots"),
        (lambda: Crossover(subjects=7).size(levelled(a=3)), "need a multiple of 6, not 7; say 6"),
        (lambda: Crossover(subjects=10).size(levelled(a=4)), "need a multiple of 4, not 10; say 8"),
        (lambda: Crossover(within=["x"]).size(levelled(a=3)), "within: no factor 'x'"),
        (lambda: RepeatedMeasures(counterbalance="all_orders").size(levelled(a=9)), 'say "williams"'),
        (lambda: RepeatedMeasures(counterbalance="random"), "subjects: say how many"),
        (lambda: RepeatedMeasures(counterbalance="wiliams"), "did you mean 'williams'"),
        (lambda: Crossover().size(levelled(a=30, b=30)), "900 treatments are too many for one subject"),
        (lambda: Crossover().size(levelled(a=1)), "a: has one level"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(make: object, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        make()  # type: ignore[operator]
