"""Repeats made into one, against the closed forms."""

from __future__ import annotations

from math import comb
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.analysis.results import Results
from peira.analysis.table.repeats import reduce_repeats
from peira.core.log.events import State
from peira.errors import Invalid
from peira.results.trials import Score, TrialResult


def trial(case: str, repeat: int, value: Any, state: State = State.succeeded, **more: Any) -> TrialResult:
    scores = {"s": Score("s", State.succeeded, value)} if state is State.succeeded else {}
    return TrialResult(
        id=f"{case}{repeat}", agent="a", case_id=case, state=state, repeat=repeat, scores=scores, **more
    )


def results(trials: list[TrialResult]) -> Results:
    return Results(lambda: iter(trials), run_id="f" * 64, study="x", status="completed", counts={})


@given(st.lists(st.lists(st.booleans(), min_size=3, max_size=8), min_size=1, max_size=6))
def test_pass_at_k_is_the_closed_form_case_by_case(cases: list[list[bool]]) -> None:
    trials = [trial(f"c{i}", j, ok) for i, repeats in enumerate(cases) for j, ok in enumerate(repeats)]
    found = [one.scores["s"].value for one in reduce_repeats(trials, "pass@3")]
    wanted = [1 - comb(len(r) - sum(r), 3) / comb(len(r), 3) for r in cases]
    assert found == pytest.approx(wanted, abs=1e-12)
    assert [one.case_id for one in reduce_repeats(trials, "mean")] == [f"c{i}" for i in range(len(cases))]


def test_parts_of_a_score_are_reduced_each() -> None:
    trials = [trial("c", i, {"x": x, "ok": x > 1}) for i, x in enumerate([1, 2, 3])]
    [one] = reduce_repeats(trials, "best")
    assert one.scores["s"].value == {"x": 3.0, "ok": 1.0}


def test_a_case_with_too_few_repeats_is_lost_and_told() -> None:
    trials = [
        trial("c", 0, True),
        trial("c", 1, True, State.failed),
        trial("d", 0, True),
        trial("d", 1, False),
    ]
    table = results(trials).reduced("pass@2").table()
    assert (table.rows[0]["n"], table.rows[0]["failed"], table.rows[0]["mean"]) == (1, 1, 1.0)
    assert any("pass@2" in note for note in table.notes)


def test_consistency_is_the_share_of_equal_pairs() -> None:
    answers = ["x", "x", "y", None]
    trials = [trial("c", i, True, output=answer) for i, answer in enumerate(answers)]
    [one] = reduce_repeats(trials, "consistency")
    assert one.scores["consistency"].value == pytest.approx(1 / 6)
    [lonely] = reduce_repeats(trials[:1], "consistency")
    assert lonely.scores["consistency"].state is State.failed


def test_what_repeats_took_and_cost_they_did_together() -> None:
    trials = [trial("c", i, True, took=1.5, metrics={"calls": 1.0, "cost": 0.25}) for i in range(3)]
    [one] = reduce_repeats(trials, "majority")
    assert (one.took, one.cost, one.metrics["calls"]) == (4.5, 0.75, 3.0)


def test_conditions_stay_apart_and_anchors_are_none() -> None:
    trials = [trial("c", i, i == 0, condition={"m": m}) for m in (1, "1", True) for i in range(2)]
    trials.append(trial("c", 9, True, anchor=True))
    assert [one.scores["s"].value for one in reduce_repeats(trials, "best")] == [1.0, 1.0, 1.0]


def test_a_name_that_is_none_is_refused_with_those_there_are() -> None:
    with pytest.raises(Invalid, match=r"no reducer .pass.; known: mean, majority.*consistency"):
        results([]).reduced("pass").table()
