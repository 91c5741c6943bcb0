from __future__ import annotations

import json
import math
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.analysis.table.means import tabulate
from peira.analysis.table.value import STATISTICS
from peira.core.log.events import State
from peira.errors import Invalid, Unknown
from peira.results.trials import Score, TrialResult


def trial(
    value: object = None, /, state: State = State.succeeded, case: str = "c", **condition: object
) -> TrialResult:
    scores = {} if value is None else {"match": Score("match", State.succeeded, value)}
    return TrialResult(id="t", agent="a", case_id=case, state=state, condition=condition, scores=scores)


def broken(case: str = "c", **condition: object) -> TrialResult:
    scores = {"match": Score("match", State.failed)}
    return TrialResult(
        id="t", agent="a", case_id=case, state=State.succeeded, condition=condition, scores=scores
    )


OUTCOMES = st.one_of(
    st.builds(
        trial, st.booleans() | st.floats(-9, 9), case=st.sampled_from("cde"), model=st.sampled_from("xy")
    ),
    st.builds(broken, st.sampled_from("cde"), model=st.sampled_from("xy")),
    st.builds(trial, state=st.sampled_from(State), case=st.sampled_from("cde"), model=st.sampled_from("xy")),
)


@given(st.lists(OUTCOMES, min_size=1))
def test_the_counts_of_every_row_reconcile_with_its_group(trials: list[TrialResult]) -> None:
    sizes = Counter(trial.condition["model"] for trial in trials)
    rows = tabulate(trials, ["model"]).body
    assert {row.labels[0] for row in rows} == set(sizes)
    for row in rows:
        stopped = row.exhausted + row.cancelled + row.in_doubt
        assert row.n + row.failed + stopped + row.unscored == sizes[row.labels[0]]
        assert row.n >= row.cases >= (row.n > 0)


@given(
    st.lists(OUTCOMES, min_size=1),
    st.lists(st.sampled_from([broken(), trial(state=State.failed)]), min_size=1),
)
def test_failures_change_no_mean_and_no_interval(trials: list[TrialResult], lost: list[TrialResult]) -> None:
    before = {row.score: row for row in tabulate(trials).body}
    after = {row.score: row for row in tabulate(trials + lost).body}
    if "match" in before:
        assert after["match"] == replace(before["match"], failed=before["match"].failed + len(lost))


@given(st.lists(st.tuples(st.booleans(), st.sampled_from("cde")), min_size=1))
def test_the_mean_is_the_mean(scored: list[tuple[bool, str]]) -> None:
    [row] = tabulate([trial(value, case=case) for value, case in scored]).body
    assert row.mean is not None
    assert math.isclose(row.mean, sum(value for value, _ in scored) / len(scored))
    assert row.cases == len({case for _, case in scored})


def test_no_number_is_shown_without_its_uncertainty() -> None:
    one = str(tabulate([trial(3.5)]))
    assert "3.50 [unknown]" in one
    assert "1.00 [0.00, 1.00]" in str(tabulate([trial(True)]))


def test_a_group_in_which_all_failed_keeps_its_rows() -> None:
    table = tabulate([trial({"a": 1, "b": 2}, m="good"), broken(m="bad")], ["m"])
    rows = {(row["m"], row["score"]): row for row in table.rows}
    assert set(rows) == {(m, score) for m in ("good", "bad") for score in ("match.a", "match.b")}
    for score in ("match.a", "match.b"):
        assert (rows["bad", score]["mean"], rows["bad", score]["n"], rows["bad", score]["failed"]) == (
            None,
            0,
            1,
        )


def test_an_evaluator_that_always_failed_keeps_its_row() -> None:
    [row] = tabulate([broken(), broken()]).rows
    assert (row["score"], row["mean"], row["n"], row["failed"]) == ("match", None, 0, 2)


def test_texts_are_counted_as_shares() -> None:
    rows = {
        row.score: row
        for row in tabulate([trial("A", case="1"), trial("B", case="2"), trial("A", case="3")]).body
    }
    assert set(rows) == {"match=A", "match=B"}
    assert rows["match=A"].mean == pytest.approx(2 / 3)
    assert rows["match=A"].n == rows["match=B"].n == 3


@given(st.lists(st.sampled_from("ABCDEFGHIJKLMNOPQRST"), min_size=1))
def test_shares_add_up_to_one_however_many_categories_there_are(texts: list[str]) -> None:
    rows = tabulate([trial(text, case=str(i)) for i, text in enumerate(texts)]).body
    assert len(rows) <= 13
    assert sum(row.mean or 0.0 for row in rows) == pytest.approx(1)


def test_numbers_and_texts_of_one_score_are_kept_apart() -> None:
    rows = {row.score: row for row in tabulate([trial(1), trial(3), trial("none")]).body}
    assert (rows["match"].mean, rows["match"].n, rows["match"].unscored) == (2, 2, 1)
    assert (rows["match=none"].mean, rows["match=none"].n) == (1, 1)


def test_a_score_or_a_part_of_it_can_be_chosen() -> None:
    trials = [trial({"a": 1, "b": 2})]
    assert [row.score for row in tabulate(trials, score="match").body] == ["match.a", "match.b"]
    assert [row.score for row in tabulate(trials, score="match.b").body] == ["match.b"]
    with pytest.raises(Unknown, match=r"no score 'match.c'; did you mean"):
        tabulate(trials, score="match.c")
    with pytest.raises(Unknown, match="no score 'match'"):
        tabulate([trial()], score="match")


def test_a_study_without_scores_has_a_table_of_counts() -> None:
    table = tabulate(
        [trial(m=1), trial(m=1), trial(state=State.failed, m=1), trial(state=State.queued, m=2)], ["m"]
    )
    assert str(table) == "m  n            failed\n1  2 (1 case)   1\n2  0 (0 cases)  0\nnot begun: 1 trial"
    assert [(row["n"], row["failed"], row["unscored"]) for row in table.rows] == [(2, 1, 0), (0, 0, 1)]


def test_no_trials_at_all() -> None:
    assert str(tabulate([], ["anything"])) == "no trials"
    assert tabulate([]).rows == []


@pytest.mark.parametrize("level", [0, 1, 95, float("nan")])
def test_the_level_lies_between_0_and_1(level: float) -> None:
    with pytest.raises(Invalid, match="level"):
        tabulate([], level=level)


def test_a_factor_that_bears_the_name_of_a_statistic_keeps_a_column_of_its_own() -> None:
    table = tabulate([trial(True, n=5, mean="x")], ["n", "mean"])
    assert table.columns == ("condition.n", "condition.mean", *STATISTICS)
    assert (table.rows[0]["condition.n"], table.rows[0]["n"]) == (5, 1)
    assert json.loads(table.to_json())["rows"] == table.rows
