"""Plans laid out by designs: which conditions, how often, in which order; lazily where they are many."""

from __future__ import annotations

import tracemalloc
from collections import Counter
from itertools import islice, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira import Block, Factor, run, study
from peira import plan as preview
from peira.analysis.table.groups import gather
from peira.core.ids import digest_bytes
from peira.errors import Invalid
from peira.plan.conditions import Crossed
from peira.plan.expansion import expand
from peira.plan.manifest import keep, layout_of, read


def said(case, **factors):
    return factors


def made(**parts):
    return study(agent=said, **{"cases": ["x", "y"], **parts})


def rows(layout):
    return [condition.factors for condition in layout.conditions]


def order(layout):
    return list(layout.in_run_order())


TWO = {name: ["lo", "hi"] for name in "abcde"}
MANY = {f"f{i}": list(range(10)) for i in range(7)}


def stored(plan):
    blobs = {}

    def put(data):
        blobs[digest_bytes(data)] = data
        return digest_bytes(data)

    return layout_of(read(keep(plan, put), blobs.__getitem__), blobs.__getitem__), sum(
        map(len, blobs.values())
    )


def test_a_design_by_name_and_parameters_lays_out_the_conditions():
    layout = expand(made(factors=TWO, design={"name": "fractional_factorial", "resolution": 5})).layout
    assert len(layout.conditions) == 16
    assert all(Counter(row[name] for row in rows(layout)) == {"lo": 8, "hi": 8} for name in TWO)
    assert len(layout) == 32


def test_ranges_become_values_inside_them():
    factors = {"t": {"low": 0, "high": 1}, "n": {"low": 1, "high": 9, "scale": "integer"}, "m": ["s", "l"]}
    found = rows(expand(made(factors=factors, design={"name": "latin_hypercube", "runs": 8})).layout)
    assert all(0 <= row["t"] <= 1 and row["n"] in range(1, 10) for row in found)
    assert Counter(row["m"] for row in found) == {"s": 4, "l": 4}


def test_a_range_in_a_full_factorial_needs_a_number_of_levels():
    with pytest.raises(Invalid, match="t"):
        expand(made(factors={"t": {"low": 0, "high": 1}}))
    layout = expand(
        made(factors={"t": {"low": 0, "high": 1}}, design={"name": "full_factorial", "levels": 3})
    )
    assert [row["t"] for row in rows(layout.layout)] == [0.0, 0.5, 1.0]


@pytest.mark.parametrize(
    ("design", "message"),
    [
        ({"name": "fractional_factorial", "rns": 8}, "has no parameter 'rns'; did you mean 'runs'?"),
        ({"name": "fractional_factorial", "resolution": 9}, "resolution"),
        ("d_optimal", "runs"),
    ],
)
def test_what_is_wrong_with_a_design_is_one_line(design, message):
    with pytest.raises(Invalid, match="design: ") as caught:
        expand(made(factors=TWO, design=design))
    assert message in str(caught.value)
    assert len(caught.value.problems) == 1


def test_replicates_are_further_repeats_of_the_same_condition():
    design = {"name": "central_composite", "center": 3}
    layout = expand(made(cases=["x"], factors={n: {"low": 0, "high": 1} for n in "ab"}, design=design)).layout
    places = list(layout.places())
    centre = [place.repeat for place in places if place.condition.factors == {"a": 0.5, "b": 0.5}]
    assert centre == [0, 1, 2]
    assert len({layout.trial_id(place) for place in places}) == len(places) == len(layout)


def test_the_same_assignment_in_two_plots_is_told_apart_by_repeat():
    design = {"name": "split_plot", "whole": ["a"], "plots": 2}
    layout = expand(made(factors={"a": [1, 2], "b": [3, 4]}, design=design, repeats=2)).layout
    ids = [layout.trial_id(place) for place in layout.places()]
    assert len(set(ids)) == len(ids) == 2 * 2 * 2 * 2 * 2
    plots = [layout.place(index).condition.plot for index in order(layout)]
    assert sum(a != b for a, b in pairwise(plots)) == 3, "each whole plot is run in one piece"


def test_blocks_and_blocked_factors_are_crossed_with_the_design_and_run_in_one_piece():
    parts = {"factors": [*[Factor(n, ["lo", "hi"]) for n in "abc"], Factor("d", [1, 2], kind="blocked")]}
    layout = expand(
        made(
            **parts, blocks=[Block("day", ["mon", "tue"])], design={"name": "fractional_factorial", "runs": 4}
        )
    ).layout
    assert len(layout.conditions) == 4 * 2 * 2
    blocks = [layout.place(index).condition.block for index in order(layout)]
    assert sum(a != b for a, b in pairwise(blocks)) == 3


def test_in_a_crossover_each_case_meets_the_conditions_in_a_sequence_of_its_own():
    layout = expand(made(cases=list("wxyz"), factors={"m": list("abcd")}, design="crossover")).layout
    met = {}
    for index in order(layout):
        place = layout.place(index)
        met.setdefault(place.case.id, []).append(place.condition.factors["m"])
    assert all(sorted(seen) == list("abcd") for seen in met.values())
    follows = Counter(pair for seen in met.values() for pair in pairwise(seen))
    assert set(follows.values()) == {1}
    assert len(follows) == 12
    assert all(set(period) == set("abcd") for period in zip(*met.values(), strict=True))


def test_interleaved_rounds_hold_every_condition_once():
    layout = expand(made(factors={"a": [1, 2], "b": [3, 4]}, order="interleaved", repeats=3)).layout
    places = [layout.place(index) for index in order(layout)]
    for start in range(0, len(places), 4):
        turn = places[start : start + 4]
        assert len({place.condition.digest for place in turn}) == 4
        assert len({(place.case.id, place.repeat) for place in turn}) == 1


def test_as_given_is_as_given_and_said_to_be_so(tmp_path):
    layout = expand(made(factors={"a": [1, 2]}, order="given")).layout
    assert order(layout) == list(range(4))


def test_anchors_are_the_first_trial_again_all_through_the_run(tmp_path):
    one = made(cases=list("uvwxyz"), factors={"a": [1, 2]}, anchors=4, evaluators=["exact"])
    layout = expand(one).layout
    run_order = order(layout)
    anchors = [at for at, index in enumerate(run_order) if index >= layout.anchored]
    assert anchors == [0, 5, 10, 15]
    first = layout.place(0)
    for index in run_order:
        place = layout.place(index)
        if index >= layout.anchored:
            assert (place.case.id, place.condition.digest) == (first.case.id, first.condition.digest)
    results = run(one, store=tmp_path / "s.db", progress=False)
    assert (len(results), sum(trial.anchor for trial in results)) == (16, 4)
    assert [group.trials for group in gather(results.trials).groups] == [12], "anchors are in no mean"


@given(
    sizes=st.lists(st.integers(1, 4), max_size=3),
    repeats=st.integers(1, 3),
    anchors=st.integers(0, 4),
    how=st.sampled_from(["random", "interleaved", "given"]),
    limit=st.none() | st.integers(1, 20),
)
def test_every_planned_trial_is_run_once_in_any_order(sizes, repeats, anchors, how, limit):
    factors = {f"f{i}": list(range(n)) for i, n in enumerate(sizes)}
    plan = expand(made(factors=factors, repeats=repeats, anchors=anchors, order=how), limit=limit)
    layout = plan.layout
    assert sorted(order(layout)) == sorted(layout.indexes())
    ids = [layout.trial_id(layout.place(index)) for index in layout.indexes()]
    assert len(set(ids)) == len(ids) == len(layout)
    again, _ = stored(plan)
    assert order(again) == order(layout)
    assert [again.trial_id(place) for place in again.places()] == ids


def test_ten_million_combinations_are_planned_and_kept_as_their_levels():
    tracemalloc.start()
    plan = expand(made(cases=["x"], factors=MANY))
    first = [plan.layout.trial_id(plan.layout.place(i)) for i in islice(plan.layout.in_run_order(), 1000)]
    layout, size = stored(plan)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert len(plan) == 10_000_000
    assert len(set(first)) == 1000
    assert [layout.trial_id(layout.place(i)) for i in islice(layout.in_run_order(), 1000)] == first
    assert size < 100_000
    assert peak < 20_000_000


def test_lazy_and_listed_conditions_are_the_same():
    factors = {"a": list(range(30)), "b": list(range(30)), "c": list(range(30))}
    lazy = expand(made(cases=["x"], factors=factors)).layout.conditions
    assert isinstance(lazy, Crossed)
    small = expand(made(cases=["x"], factors={**factors, "c": [0]})).layout.conditions
    assert not isinstance(small, Crossed)
    by_digest = {condition.digest: condition for condition in lazy}
    assert len(by_digest) == 27_000
    assert all(by_digest[condition.digest].factors == condition.factors for condition in small)


def test_constraints_on_many_combinations_keep_what_they_admit_and_say_what_not():
    factors = {"a": list(range(200)), "b": list(range(200))}
    plan = expand(made(cases=["x"], factors=factors, constraints=["a <= b"]))
    assert len(plan.layout.conditions) == 200 * 201 // 2
    assert plan.refusals == 200 * 199 // 2
    assert len(plan.refused) < plan.refusals
    assert all(c.factors["a"] <= c.factors["b"] for c in islice(plan.layout.conditions, 500))
    again, _ = stored(plan)
    assert again.conditions[777] == plan.layout.conditions[777]


def test_too_many_runs_of_a_design_that_must_be_held_are_refused_at_once():
    factors = {f"f{i}": list(range(10)) for i in range(9)}
    with pytest.raises(Invalid, match="1,000,000,000 runs"):
        expand(made(cases=["x"], factors=factors, design={"name": "full_factorial", "replicates": 2}))


def test_the_order_of_a_table_of_factors_changes_no_trial():
    one, other = (
        expand(made(factors=dict(pairs), design={"name": "fractional_factorial", "runs": 8})).layout
        for pairs in (list(TWO.items()), list(TWO.items()))
    )
    assert {c.digest for c in one.conditions} == {c.digest for c in other.conditions}


def test_a_plan_says_what_constraints_take_from_its_design(tmp_path):
    parts = {"factors": TWO, "design": {"name": "fractional_factorial", "runs": 16}}
    whole = preview(made(**parts), store=tmp_path / "s.db")
    cut = preview(made(**parts, constraints=["not (a == 'hi' and b == 'hi')"]), store=tmp_path / "s.db")
    assert not [note for note in whole.notes if note.startswith("constraints: ")]
    assert "constraints: a and b are no longer orthogonal to each other" in cut.notes
    assert cut.refusals == 4
