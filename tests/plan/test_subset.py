"""A smaller plan is still an experiment: balanced, paired, and a part of every larger one."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from itertools import combinations, product
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from peira.core.ids import digest
from peira.plan.conditions import Crossed, Grid
from peira.plan.subset import BalancedOrder, limited, where
from peira.plan.trials import Condition, Layout, PlannedCase


def planned(n: int, prefix: str = "c") -> list[PlannedCase]:
    return [
        PlannedCase(f"{prefix}{i}", digest([prefix, i]), i, slice="odd" if i % 2 else "even")
        for i in range(n)
    ]


def layout(levels: tuple[int, ...], cases: int, repeats: int = 1, seed: int = 0) -> Layout:
    names = [f"f{i}" for i in range(len(levels))]
    conditions = [
        Condition("a", "agent", factors, digest(factors), shown=factors)
        for combination in product(*map(range, levels))
        for factors in [dict(zip(names, combination, strict=True))]
    ]
    return Layout(conditions, {"": planned(cases)}, repeats, seed, 0)


def spread(things: Iterable[Hashable], all_of_them: int) -> int:
    """By how much the most frequent exceeds the least frequent."""
    counts = Counter(things)
    return max(counts.values()) - (min(counts.values()) if len(counts) == all_of_them else 0)


shapes = st.tuples(
    st.lists(st.integers(1, 3), min_size=1, max_size=3).map(tuple),
    st.integers(1, 6),
    st.integers(1, 3),
    st.integers(0, 99),
)
drawn = st.data()


@given(shapes, drawn)
def test_it_has_as_many_trials_as_asked_for_each_once(shape: Any, data: st.DataObject) -> None:
    whole = layout(*shape)
    most = data.draw(st.integers(1, whole.size + 3))
    part = limited(whole, most)
    assert len(part) == min(most, whole.size)
    assert len(set(part.indexes())) == len(part)
    assert set(part.indexes()) <= set(whole.indexes())
    assert list(part.indexes()) == sorted(part.indexes())
    assert sorted(part.in_run_order()) == list(part.indexes())


@given(shapes, drawn)
def test_a_smaller_subset_is_part_of_a_larger_one(shape: Any, data: st.DataObject) -> None:
    """So raising a limit adds trials and throws none away; and limiting twice is limiting once."""
    whole = layout(*shape)
    more = data.draw(st.integers(1, whole.size))
    fewer = data.draw(st.integers(1, more))
    assert set(limited(whole, fewer).indexes()) <= set(limited(whole, more).indexes())
    assert list(limited(limited(whole, more), fewer).indexes()) == list(limited(whole, fewer).indexes())


@given(shapes, drawn)
def test_conditions_stay_paired_and_even(shape: Any, data: st.DataObject) -> None:
    """Every case and repeat is under every condition, but for those of one last round."""
    whole = layout(*shape)
    part = limited(whole, data.draw(st.integers(1, whole.size)))
    conditions = len(whole.conditions)
    rounds = Counter((place.case.id, place.repeat) for place in part.places())
    assert sum(n != conditions for n in rounds.values()) <= 1
    assert spread((place.condition.digest for place in part.places()), conditions) <= 1


@given(shapes, drawn)
def test_all_cases_come_before_any_is_repeated(shape: Any, data: st.DataObject) -> None:
    whole = layout(*shape)
    conditions, cases = len(whole.conditions), shape[1]
    rounds = data.draw(st.integers(1, cases * shape[2]))
    part = limited(whole, rounds * conditions)
    assert spread((place.case.id for place in part.places()), cases) <= conditions
    per_case = {id: n // conditions for id, n in Counter(p.case.id for p in part.places()).items()}
    assert max(per_case.values()) - min([*per_case.values(), *([0] if len(per_case) < cases else [])]) <= 1
    assert max(place.repeat for place in part.places()) == (rounds - 1) // cases


@settings(max_examples=60)
@given(st.lists(st.integers(2, 3), min_size=1, max_size=3).map(tuple), st.integers(0, 9), drawn)
def test_levels_are_nearly_even(levels: tuple[int, ...], seed: int, data: st.DataObject) -> None:
    """Also in a last round that does not fit: its trials are spread over the levels of every factor."""
    whole = layout(levels, 3, 1, seed)
    most = data.draw(st.integers(1, whole.size))
    part = limited(whole, most)
    for factor, n in enumerate(levels):
        assert spread((p.condition.factors[f"f{factor}"] for p in part.places()), n) <= 1


def unevenness(chosen: Iterable[Condition], levels: tuple[int, ...]) -> int:
    """The worst spread of any factor."""
    chosen = list(chosen)
    return max(spread((c.factors[f"f{i}"] for c in chosen), n) for i, n in enumerate(levels))


@settings(max_examples=150)
@given(st.sets(st.integers(0, 11), min_size=2, max_size=9), st.integers(0, 9), st.data())
def test_levels_are_nearly_as_even_as_they_can_be_where_combinations_are_missing(
    kept: set[int], seed: int, data: st.DataObject
) -> None:
    """The best of so many may be a little better: a smaller choice has to be a part of every larger one."""
    levels = (2, 3, 2)
    whole = layout(levels, 1, 1, seed)
    whole = replace(whole, conditions=[whole.conditions[at] for at in sorted(kept)])
    room = data.draw(st.integers(1, len(kept)))
    best = min(unevenness(some, levels) for some in combinations(whole.conditions, room))
    assert unevenness((p.condition for p in limited(whole, room).places()), levels) <= max(2, best + 1)


def test_replicated_conditions_are_subset_like_others() -> None:
    """Centre points have more trials than the rest; each replicate comes once."""
    whole = layout((2, 2), 3, 2)
    centre = msgspec.structs.replace(whole.conditions[0], factors={}, digest="centre", shown={}, replicates=4)
    whole = replace(whole, conditions=[*whole.conditions, centre])
    assert whole.size == 4 * 6 + 4 * 6
    for most in range(1, whole.size):
        part = limited(whole, most)
        assert len(set(part.indexes())) == most
        assert spread((p.condition.digest for p in limited(whole, min(most, 30)).places()), 5) <= 1
    last = limited(whole, whole.size - 1)
    assert Counter(p.condition.digest for p in last.places())["centre"] == 4 * 6 - 1


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.integers(0, 9))
def test_every_beginning_of_the_even_order_is_balanced(sizes: list[int], seed: int) -> None:
    order = list(BalancedOrder(sizes, seed))
    assert sorted(order) == sorted(product(*map(range, sizes)))
    counts = [Counter(dict.fromkeys(range(size), 0)) for size in sizes]
    for levels in order:
        for count, level in zip(counts, levels, strict=True):
            count[level] += 1
            assert max(count.values()) - min(count.values()) <= 1


def crossed(*sizes: int, cases: int = 5, kept: Callable[[int], bool] | None = None) -> Layout:
    grid = Grid("a", "agent", {f"f{i}": list(range(n)) for i, n in enumerate(sizes)})
    places = None if kept is None else array("Q", filter(kept, range(len(grid))))
    return Layout(Crossed([grid], [""], False, places), {"": planned(cases)}, 2, 0, 0)


def test_a_few_of_very_many_are_spread_over_everything_at_once() -> None:
    whole = crossed(10, 10, 10, 10, 10, 10, 10)
    assert whole.size == 100_000_000
    part = limited(whole, 100)
    assert len(part) == 100
    for name in (f"f{i}" for i in range(7)):
        assert set(Counter(p.condition.factors[name] for p in part.places()).values()) == {10}
    assert set(Counter(p.case.id for p in part.places()).values()) == {20}
    assert set(Counter(p.repeat for p in part.places()).values()) == {50}


@given(st.integers(1, 120), st.integers(1, 120))
def test_combinations_that_are_not_listed_are_subset_alike(one: int, other: int) -> None:
    few, more = sorted((one, other))
    for kept in (None, lambda at: at % 3 != 1):
        whole = crossed(2, 3, 2, kept=kept)
        part = limited(whole, min(more, whole.size))
        assert set(part.indexes()) <= set(whole.indexes())
        assert len(set(part.indexes())) == min(more, whole.size)
        assert set(limited(whole, few).indexes()) <= set(part.indexes())
        assert list(limited(part, few).indexes()) == list(limited(whole, few).indexes())


def test_it_is_never_the_head_of_the_list() -> None:
    """Cutting the tail would leave out whole conditions."""
    part = limited(layout((2, 2), 10, 2), 20)
    assert Counter(p.condition.digest for p in part.places()).total() == 20
    assert set(Counter(p.condition.digest for p in part.places()).values()) == {5}
    assert [p.case.id for p in part.places()][:5] != ["c0", "c1", "c2", "c3", "c4"]
    chosen = {
        tuple(p.case.id for p in limited(layout((2, 2), 10, 2, seed), 20).places()) for seed in range(9)
    }
    assert len(chosen) > 1  # which cases is the seed's to say


def test_case_sets_of_unequal_size_are_both_gone_through() -> None:
    sets = {"small": planned(2, "s"), "large": planned(6, "l")}
    conditions = [
        Condition("a", "agent", f, digest(f), cases=f["cases"], shown=f)
        for f in [{"x": x, "cases": label} for x in (0, 1) for label in sets]
    ]
    whole = Layout(conditions, sets, 1, 0, 0)
    assert whole.size == 16
    assert set(Counter(p.condition.cases for p in limited(whole, 8).places()).values()) == {4}
    assert Counter(p.condition.cases for p in limited(whole, 12).places()) == {"small": 4, "large": 8}


@given(shapes, drawn)
def test_where_keeps_exactly_what_fits_and_a_limit_stays_within_it(shape: Any, data: st.DataObject) -> None:
    whole = layout(*shape)
    slice_ = data.draw(st.sampled_from(["odd", "even"]))
    part = where(whole, lambda facts: facts["slice"] == slice_ and facts["repeat"] == 0)
    kept = [p.number for p in whole.places() if p.case.slice == slice_ and p.repeat == 0]
    assert list(part.indexes()) == kept
    if kept:
        few = limited(part, data.draw(st.integers(1, len(kept))))
        assert set(few.indexes()) <= set(kept)
        assert spread((p.condition.digest for p in few.places()), len(whole.conditions)) <= 1


@pytest.mark.parametrize("most", [0, 1])
def test_hardly_anything_is_still_a_layout(most: int) -> None:
    part = limited(layout((2,), 2), most)
    assert len(part) == most
    assert len(list(part.in_run_order())) == most
