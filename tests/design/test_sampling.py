"""Sampling designs: strata, counts, constraints, distances."""

from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, permutations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.distance import pdist
from scipy.stats import qmc

from peira.core.space import Dimension, Point, Space
from peira.design.dimensions import coded
from peira.design.sampling import (
    Halton,
    LatinHypercube,
    Sobol,
    SpaceFilling,
    UniformRandom,
    gower,
    spread_latin,
)
from peira.errors import Invalid

HEAT = Dimension("heat", low=0, high=2, scale="continuous")
RATE = Dimension("rate", low=0.001, high=10, scale="continuous", log=True)
SHOTS = Dimension("shots", low=0, high=6, scale="integer")
TOKENS = Dimension("tokens", low=1, high=4000, scale="integer", log=True)
MODEL = Dimension("model", ("a", "b", "c"))
SIZE = Dimension("size", (1, 2, 8), scale="integer")
GRADE = Dimension("grade", ("low", "middle", "high", "top"), scale="ordinal")
MIXED = Space((HEAT, RATE, SHOTS, TOKENS, MODEL, SIZE, GRADE))
CUBE = Space(tuple(Dimension(f"x{n}", low=0, high=1, scale="continuous") for n in range(3)))

spaces = st.lists(st.sampled_from(MIXED.dimensions), min_size=1, unique=True).map(lambda d: Space(tuple(d)))


def column(points: list[Point], name: str) -> list[object]:
    return [point.factors[name] for point in points]


def numbers(points: list[Point]) -> np.ndarray:
    return np.array([list(point.factors.values()) for point in points], dtype=float)


@settings(max_examples=60)
@given(spaces, st.integers(1, 40), st.sampled_from(["maximin", "discrepancy", "random"]), st.integers(-9, 9))
def test_each_stratum_once_and_counts_within_one(space: Space, runs: int, criterion: str, seed: int) -> None:
    design = LatinHypercube(runs=runs, criterion=criterion)
    points = list(design.points(space, seed))
    assert len(points) == runs == design.size(space)
    for d in space.dimensions:
        values = column(points, d.name)
        if d in (HEAT, RATE):
            places = sorted(math.floor((coded(d, v) + 1) / 2 * runs + 1e-9) for v in values)
            assert places == list(range(runs))
        elif d is not TOKENS:
            every = d.levels or range(7)
            counts = [Counter(values)[value] for value in every]
            assert max(counts) - min(counts) <= 1
            assert sum(counts) == runs


@given(
    st.sampled_from([LatinHypercube, Sobol, Halton, UniformRandom, SpaceFilling]),
    st.integers(-(2**53), 2**53),
)
@settings(max_examples=10)
def test_same_seed_same_design_and_values_in_their_range(make: type[Sobol], seed: int) -> None:
    first, again = (list(make(runs=9).points(MIXED, seed)) for _ in range(2))
    assert first == again
    assert first != list(make(runs=9).points(MIXED, seed + 1))
    for point in first:
        assert list(point.factors) == list(MIXED.names)
        for d in MIXED.dimensions:
            value = point.factors[d.name]
            assert value in d.levels if d.levels else d.low <= value <= d.high
            assert d.scale != "integer" or isinstance(value, int)


@pytest.mark.parametrize("runs", [8, 64])
def test_sobol_fills_every_dyadic_part_of_each_range(runs: int) -> None:
    points = numbers(list(Sobol(runs=runs).points(CUBE, 3)))
    for values in points.T:
        assert sorted((values * runs).astype(int)) == list(range(runs))


def test_sobol_and_halton_are_more_even_than_chance() -> None:
    discrepancies = [
        qmc.discrepancy(numbers(list(make(runs=64).points(CUBE, 5))))
        for make in (Sobol, Halton, UniformRandom)
    ]
    assert max(discrepancies[:2]) < discrepancies[2] / 3


def test_long_streams_are_lazy_and_do_not_repeat() -> None:
    stream = Sobol(runs=10**8).points(CUBE, 0)
    first = [tuple(next(stream).factors.values()) for _ in range(10_000)]
    assert len(set(first)) == 10_000


def test_latin_hypercubes_come_near_the_best_there_is() -> None:
    """The best of all, for two factors and seven runs, by trying every one."""
    runs = 7
    best = max(
        min((i - j) ** 2 + (p[i] - p[j]) ** 2 for i, j in combinations(range(runs), 2))
        for p in permutations(range(runs))
    )
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        start = np.stack([rng.permutation(runs), rng.permutation(runs)], axis=1)
        found.append(pdist(spread_latin(start, rng), "sqeuclidean").min())
    assert best == 8
    assert max(found) == best
    assert min(found) >= best / 2


def test_a_maximin_hypercube_keeps_the_distance_that_was_found() -> None:
    """Runs lie in the middle of their strata: a random place there would undo the optimum."""
    space = Space(CUBE.dimensions[:2])
    runs = 7
    for seed in range(5):
        points = numbers(list(LatinHypercube(runs=runs).points(space, seed)))
        strata = np.floor(points * runs)
        assert points == pytest.approx((strata + 0.5) / runs)
        assert pdist(points).min() * runs == pytest.approx(pdist(strata).min())


def test_each_criterion_betters_what_it_is_for() -> None:
    made = {
        criterion: numbers(list(LatinHypercube(runs=30, criterion=criterion).points(CUBE, 1)))
        for criterion in ("maximin", "discrepancy", "random")
    }
    assert pdist(made["maximin"]).min() > 1.5 * pdist(made["random"]).min()
    assert qmc.discrepancy(made["discrepancy"]) < 0.7 * qmc.discrepancy(made["random"])


def admits(point: dict[str, float]) -> bool:
    return point["heat"] + point["shots"] / 3 < 1.5 and (point["model"] != "a" or point["size"] == 8)


@given(st.sampled_from([Sobol, Halton, UniformRandom, SpaceFilling]), st.integers(0, 99))
@settings(max_examples=15)
def test_constraints_are_honoured_and_the_number_kept(make: type[Sobol], seed: int) -> None:
    space = Space(MIXED.dimensions, admits)
    points = list(make(runs=17).points(space, seed))
    assert len(points) == 17
    assert all(admits(point.factors) for point in points)


def test_space_filling_spreads_over_mixed_factors() -> None:
    space = Space((HEAT, MODEL, GRADE, SHOTS))
    nearest = {}
    for make in (SpaceFilling, UniformRandom):
        points = [point.factors for point in make(runs=20).points(space, 2)]
        nearest[make] = pdist(gower(space, points), "cityblock").min()
    assert nearest[SpaceFilling] > 2 * nearest[UniformRandom]
    counts = Counter(p.factors["model"] for p in SpaceFilling(runs=20).points(space, 2))
    assert set(counts) == set(MODEL.levels)


def test_the_distance_is_gowers() -> None:
    space = Space((HEAT, MODEL, GRADE))
    points = [
        {"heat": 0, "model": "a", "grade": "low"},
        {"heat": 1, "model": "a", "grade": "low"},
        {"heat": 0, "model": "b", "grade": "high"},
    ]
    distances = pdist(gower(space, points), "cityblock")
    assert distances == pytest.approx([0.5 / 3, (1 + 2 / 3) / 3, (0.5 + 1 + 2 / 3) / 3])


def test_space_filling_takes_no_point_twice() -> None:
    space = Space((MODEL, GRADE))
    points = [tuple(p.factors.values()) for p in SpaceFilling(runs=12).points(space, 0)]
    assert len(set(points)) == 12
    with pytest.raises(Invalid, match="runs: 12 are different and admissible; say 12 at most"):
        SpaceFilling(runs=13).points(space, 0)


@pytest.mark.parametrize("make", [Sobol, Halton, UniformRandom, SpaceFilling])
def test_contradictory_constraints_are_told(make: type[Sobol]) -> None:
    with pytest.raises(Invalid, match="constraints allow no"):
        next(make(runs=3).points(Space((HEAT, MODEL), lambda point: False), 0))


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(Invalid) as told:
        LatinHypercube(runs=0, criterion="minimax")
    assert len(told.value.problems) == 2
    with pytest.raises(Invalid, match=r'runs: 501 is more than the 500 .* say criterion = "random"'):
        LatinHypercube(runs=501)
    with pytest.raises(Invalid, match="take the design sobol"):
        SpaceFilling(runs=10**6)
    for make in (LatinHypercube, Sobol, SpaceFilling):
        with pytest.raises(Invalid, match="there are no factors"):
            make(runs=4).points(Space(()), 0)
        with pytest.raises(Invalid, match="model: has one level, 'a'; give another"):
            make(runs=4).size(Space((Dimension("model", ("a",)),)))
