"""Which trials a study has, and when a trial is another one."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.errors import Invalid, OverBudget
from peira.plan.expansion import Plan, expand
from peira.spec.study import Study

Ids = Callable[..., set[str]]
Edit = Callable[[str, str], None]


class TestIdentity:
    """What changes a trial's identity, and what does not."""

    @pytest.mark.parametrize(
        "change",
        [
            {"name": "another"},
            {"title": "T", "description": "D", "notes": "N", "rationale": "R"},
            {"tags": ["x"], "authors": ["me"]},
            {"cases": [{"input": "one", "id": "1", "expected": "x"}, {"input": "two", "id": "2"}]},
            {"cases": [{"input": "two", "id": "2"}, {"input": "one", "id": "1"}]},
            {"factors": {"style": ["b", "a"]}},
            {"factors": {"style": [{"value": "a", "label": "A", "metadata": {"x": 1}}, "b"]}},
            {"evaluators": ["exact"]},
            {"policy": {"retries": 3}, "budget": {"trials": 100}, "storage": {"inline": 1}},
            {"hypotheses": [{"id": "h", "statement": "a is better"}]},
        ],
    )
    def test_what_the_agent_does_not_see_does_not_count(self, ids: Ids, change: dict[str, Any]) -> None:
        assert ids(**change) == ids()

    @pytest.mark.parametrize(
        ("change", "kept"),
        [
            ({"seed": 1}, 0),
            ({"factors": {"style": ["a", "c"]}}, 2),
            ({"factors": {"style": ["a", "b"]}, "blocks": {"day": [1]}}, 0),
            ({"cases": [{"input": "ONE", "id": "1"}, {"input": "two", "id": "2"}]}, 2),
            ({"cases": [{"input": "one", "id": "uno"}, {"input": "two", "id": "2"}]}, 2),
            ({"cases": [{"input": "one", "id": "1", "slice": "s"}, {"input": "two", "id": "2"}]}, 2),
            ({"cases": [{"input": "one", "id": "1", "cluster": "s"}, {"input": "two", "id": "2"}]}, 2),
            ({"cases": [{"input": "one", "id": "1", "metadata": {"a": 1}}, {"input": "two", "id": "2"}]}, 2),
            ({"repeats": 2}, 4),
            ({"cases": [{"input": c, "id": i} for c, i in [("zero", "0"), ("one", "1"), ("two", "2")]]}, 4),
            ({"cases": {"x": [{"input": "one", "id": "1"}]}}, 0),
        ],
    )
    def test_what_the_agent_sees_counts_and_only_where_it_changed(
        self, ids: Ids, change: dict[str, Any], kept: int
    ) -> None:
        assert len(ids() & ids(**change)) == kept

    def test_a_generation_is_a_set_of_trials_of_its_own(self, ids: Ids) -> None:
        assert not ids(generation=1) & ids()

    def test_an_agents_label_counts(self, ids: Ids, folder: Path) -> None:
        one = ids(agents={"x": f"{folder}/agent.py:answer"})
        assert not one & ids(agents={"y": f"{folder}/agent.py:answer"})

    def test_code_counts_wherever_it_is_reached_and_comments_do_not(self, ids: Ids, edit: Edit) -> None:
        before = ids()
        edit("def answer(case, style):", 'def answer(case, style):\n    """Said."""\n    # and noted')
        edit("def plain(case):\n    return case.input", "def plain(case):\n    return case.id")
        assert ids() == before
        edit('"> "', '">> "')
        assert not ids() & before

    def test_numbers_that_are_the_same_level_are_the_same_trial(self, ids: Ids) -> None:
        assert ids(factors={"style": [1, 2.5]}) == ids(factors={"style": [1.0, 2.5]})
        assert len(ids(factors={"style": [1, True]}) & ids(factors={"style": [1]})) == 2
        assert ids(factors={"style": [[1, -0.0]]}) == ids(factors={"style": [(1.0, 0)]})

    def test_equal_cases_are_several(self, ids: Ids) -> None:
        assert len(ids(cases=["same", "same"])) == 4
        assert ids(cases=["same", "same"]) >= ids(cases=["same"])
        assert ids(cases=["new", "same"]) >= ids(cases=["same"])


BASE: dict[str, Any] = {
    "name": "s",
    "seed": 3,
    "repeats": 2,
    "cases": [{"input": {"q": 1}, "id": "1", "expected": 1}, {"input": "two", "id": "2", "slice": "x"}],
    "factors": {"style": ["a", 1], "heat": [0.5]},
}
unseen = st.sampled_from(["name", "title", "notes", "tags", "expected", "evaluators", "order"])
seen = st.sampled_from(["input", "level", "seed", "id", "slice"])


def answer(case: Any, style: Any, heat: Any) -> Any:
    return case.input


def edited(study: dict[str, Any], what: str, how: Any) -> None:
    case = study["cases"][how % 2]
    if what in ("name", "title", "notes"):
        study[what] = f"text {how}"
    elif what == "tags":
        study["tags"] = [f"tag {how}"]
    elif what == "expected":
        case["expected"] = ["expected", how]
    elif what == "evaluators":
        study["evaluators"] = ["exact", "includes"][: 1 + how % 2]
    elif what == "order":
        study["cases"].reverse()
        study["factors"] = {name: levels[::-1] for name, levels in reversed(study["factors"].items())}
    elif what == "input":
        case["input"] = ["input", how]
    elif what == "level":
        study["factors"]["heat"] = [how + 1]
    elif what == "seed":
        study["seed"] = how + 4
    else:
        case[what] = f"other {how}"


def planned(study: dict[str, Any]) -> Plan:
    return expand(Study.assemble({**study, "agent": answer}, [Path()]))


def ids_of(plan: Plan) -> set[str]:
    return {plan.layout.trial_id(place) for place in plan.layout.places()}


@settings(max_examples=60)
@given(st.lists(st.tuples(unseen, st.integers(0, 5)), max_size=5))
def test_no_edit_of_what_is_unseen_makes_a_trial_new(edits: list[tuple[str, int]]) -> None:
    study = copy.deepcopy(BASE)
    for what, how in edits:
        edited(study, what, how)
    assert ids_of(planned(study)) == ids_of(planned(BASE))


@settings(max_examples=60)
@given(
    st.lists(st.tuples(unseen, st.integers(0, 5)), max_size=3),
    st.lists(st.tuples(seen, st.integers(0, 5)), min_size=1, max_size=3),
)
def test_every_edit_of_what_is_seen_makes_trials_new(
    blind: list[tuple[str, int]], edits: list[tuple[str, int]]
) -> None:
    study = copy.deepcopy(BASE)
    for what, how in [*blind, *edits]:
        edited(study, what, how)
    before, after = ids_of(planned(BASE)), ids_of(planned(study))
    assert len(after) == 8
    assert after != before
    if {what for what, _ in edits} & {"level", "seed"}:
        assert not after & before


def assigned(plan: Plan) -> list[dict[str, Any]]:
    return [dict(condition.shown) for condition in plan.layout.conditions]


class TestConditions:
    def test_a_factor_is_not_crossed_for_an_agent_that_does_not_take_it(
        self, make: Any, folder: Path
    ) -> None:
        agents = {label: f"{folder}/agent.py:{name}" for label, name in [("x", "answer"), ("y", "plain")]}
        plan = expand(make(agents=agents))
        assert assigned(plan) == [
            {"agent": "x", "style": "a"},
            {"agent": "x", "style": "b"},
            {"agent": "y"},
        ]
        assert len(plan) == 6

    def test_a_case_set_is_a_factor(self, make: Any) -> None:
        plan = expand(make(cases={"easy": ["1"], "hard": ["2", "3"]}))
        assert [c["cases"] for c in assigned(plan)] == ["easy", "hard"] * 2
        assert Counter((p.condition.cases, p.case.input) for p in plan.layout.places()) == {
            ("easy", "1"): 2,
            ("hard", "2"): 2,
            ("hard", "3"): 2,
        }

    def test_a_constraint_refuses_with_its_reason_and_a_warning_admits(self, make: Any) -> None:
        said = [
            {"expression": "style != 'a'", "message": "a is broken"},
            {"expression": "style != 'b'", "severity": "warning"},
        ]
        plan = expand(make(constraints=said))
        assert assigned(plan) == [{"style": "b"}]
        [[warning]] = [c.warnings for c in plan.layout.conditions]
        assert "style != 'b'" in warning
        assert [(c.shown, c.reasons) for c in plan.refused] == [({"style": "a"}, ("a is broken",))]
        assert len(plan) == 2

    def test_a_constraint_does_not_bind_an_agent_without_the_factor(self, make: Any, folder: Path) -> None:
        agents = {"x": f"{folder}/agent.py:answer", "y": f"{folder}/agent.py:plain"}
        plan = expand(make(agents=agents, constraints=["style == 'a'"]))
        assert assigned(plan) == [{"agent": "x", "style": "a"}, {"agent": "y"}]

    def test_trials_of_one_block_run_together(self, make: Any) -> None:
        plan = expand(make(blocks={"day": ["mon", "tue", "wed"]}, repeats=3, cases=list("abcde")))
        order = [plan.layout.place(i).condition.factors["day"] for i in plan.layout.in_run_order()]
        runs = [day for i, day in enumerate(order) if i == 0 or order[i - 1] != day]
        assert sorted(runs) == ["mon", "tue", "wed"]
        assert set(Counter(order).values()) == {30}
        styles = [plan.layout.place(i).condition.factors["style"] for i in plan.layout.in_run_order()]
        assert styles[:30] != sorted(styles[:30])

    def test_blocks_stay_together_in_a_part_of_the_plan(self, make: Any) -> None:
        study = make(blocks={"day": ["mon", "tue"]}, repeats=2, cases=list("abcde"))
        layout = expand(study, where="case != 'x' and repeat == 1", limit=9).layout
        order = [layout.place(i).condition.factors["day"] for i in layout.in_run_order()]
        assert len(order) == 9
        assert len([1 for a, b in pairwise(order) if a != b]) == 1

    def test_the_run_order_is_the_seeds_and_covers_all(self, make: Any) -> None:
        orders = {tuple(expand(make(seed=seed, repeats=5)).layout.in_run_order()) for seed in range(5)}
        assert len(orders) == 5
        assert all(sorted(order) == list(range(20)) for order in orders)


class TestParts:
    @pytest.mark.parametrize(
        ("where", "n"),
        [
            ("style == 'a'", 4),
            ("case == '1' and repeat == 0", 2),
            ("slice == 'x'", 4),
            ("slice == None", 4),
            ("agent == 'answer'", 8),
        ],
    )
    def test_where_chooses_by_what_is_known_of_a_trial(self, make: Any, where: str, n: int) -> None:
        cases = [{"input": "one", "id": "1"}, {"input": "two", "id": "2", "slice": "x"}]
        plan = expand(make(cases=cases, repeats=2), where=where)
        assert (len(plan), plan.layout.size) == (n, 8)

    def test_a_part_has_the_identities_of_the_whole(self, make: Any) -> None:
        whole = ids_of(expand(make(repeats=3)))
        assert ids_of(expand(make(repeats=3), where="style == 'a'")) < whole
        assert ids_of(expand(make(repeats=3), limit=5)) < whole

    def test_an_unknown_name_in_where_is_told_with_the_nearest(self, make: Any) -> None:
        with pytest.raises(Invalid, match="where: no 'stile' in this study; did you mean 'style'"):
            expand(make(), where="stile == 'a'")

    def test_a_plan_beyond_its_budget_is_refused_or_reduced_evenly(self, make: Any) -> None:
        with pytest.raises(OverBudget, match="the plan has 4 trials and the budget allows 3"):
            expand(make(budget={"trials": 3}))
        assert len(expand(make(budget={"trials": 4}))) == 4
        plan = expand(make(budget={"trials": 2, "excess": "subset"}))
        assert sorted(p.condition.factors["style"] for p in plan.layout.places()) == ["a", "b"]
        assert len({p.case.id for p in plan.layout.places()}) == 1

    def test_a_limit_within_the_budget_is_not_refused(self, make: Any) -> None:
        assert len(expand(make(budget={"trials": 3}), limit=2)) == 2
