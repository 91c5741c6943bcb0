from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.analysis.table.groups import gather
from peira.core.log.events import Failure, State
from peira.errors import Unknown
from peira.results.trials import FAILED, FailureRow, Score, TrialResult, failures, numbers, parts

VALUES = st.booleans() | st.integers(-5, 5) | st.sampled_from("ABC") | st.just({"clear": 0.5, "grade": "A"})


@st.composite
def trials(draw: st.DrawFn) -> list[TrialResult]:
    def one(number: int) -> TrialResult:
        names = draw(st.lists(st.sampled_from(["match", "rubric"]), unique=True))
        states = st.sampled_from([State.succeeded, State.succeeded, State.failed, State.queued])
        return TrialResult(
            id=str(number),
            agent=draw(st.sampled_from(["planner", "direct"])),
            condition=draw(
                st.dictionaries(st.sampled_from(["model", "n"]), st.sampled_from([1, True, "1", None, [1]]))
            ),
            case_id=draw(st.sampled_from(["c1", "c2", "c3"])),
            cluster=draw(st.sampled_from([None, "c1"])),
            slice=draw(st.sampled_from([None, "easy"])),
            state=draw(st.sampled_from(State)),
            scores={name: Score(name, draw(states), draw(VALUES)) for name in names},
        )

    return [one(number) for number in range(draw(st.integers(0, 12)))]


@given(trials(), st.lists(st.sampled_from(["agent", "case", "slice", "cluster"]), max_size=3))
def test_every_trial_is_in_one_group_and_counted_once(given: list[TrialResult], by: list[str]) -> None:
    found = gather(given, by).groups
    assert sum(group.trials for group in found) == len(given)
    for state in set(State) - {State.succeeded}:
        assert sum(group.ends[state] for group in found) == sum(trial.state is state for trial in given)
    failed = (State.failed, State.blocked)
    assert sum(group.failed for group in found) == sum(trial.state in failed for trial in given)
    lost = sum(trial.state in FAILED and trial.state is not State.cancelled for trial in given)
    assert sum(len(group.lost) for group in found) == lost
    assert sum(group.succeeded for group in found) == sum(trial.state == State.succeeded for trial in given)
    assert sum(group.failed_scores.total() for group in found) == sum(
        row.stage == "evaluate" for trial in given for row in failures(trial)
    )


@given(trials(), st.randoms())
def test_the_order_of_the_trials_changes_no_group(given: list[TrialResult], rng: random.Random) -> None:
    mixed = rng.sample(given, len(given))
    for by in ([], ["agent"], ["slice", "case"]):
        once, again = gather(given, by).groups, gather(mixed, by).groups
        assert {repr((g.labels, g.trials, g.failed)) for g in once} == {
            repr((g.labels, g.trials, g.failed)) for g in again
        }
        assert len(once) == len(again)


def trial(**given: object) -> TrialResult:
    return TrialResult(**{"id": "t", "agent": "a", "case_id": "c", "state": State.succeeded} | given)  # type: ignore[arg-type]


def test_labels_that_python_takes_for_equal_are_different_groups() -> None:
    given = [trial(condition={"x": x}) for x in (1, True, "1", [1], (), None)] + [trial()]
    found = [group.labels[0] for group in gather(given, ["x"]).groups]
    assert sorted(map(repr, found)) == sorted(["1", "True", "'1'", "[1]", "()", "None"])


def test_groups_come_in_the_order_of_the_study_column_by_column() -> None:
    names, styles = ["small", "large", "gpt-2"], ["think", "plain"]
    given = [trial(condition={"model": m, "style": s}) for m in names for s in styles]
    given = [given[0], given[3], *given]  # a gap in the first rows does not put "large think" last
    found = gather(given, ["model", "style"]).groups
    assert [group.labels for group in found] == [(m, s) for m in names for s in styles]


def test_a_factor_wins_over_an_attribute_of_the_same_name() -> None:
    assert gather([trial(slice="easy", condition={"slice": "thin"})], ["slice"]).groups[0].labels == ("thin",)


def test_unknown_names_are_answered_with_the_nearest() -> None:
    given = [trial(condition={"model": "x"}, scores={"match": Score("match", State.succeeded, True)})]
    with pytest.raises(Unknown, match="no factor 'modle' to group by; did you mean 'model'"):
        gather(given, ["modle"])
    with pytest.raises(Unknown, match=r"'match' is a score.*score='match'"):
        gather(given, ["match"])


def test_a_unit_is_the_cluster_or_else_the_case_and_the_two_never_meet() -> None:
    assert trial(case_id="x").unit != trial(case_id="y", cluster="x").unit
    assert trial(case_id="y", cluster="x").unit == trial(case_id="z", cluster="x").unit


def test_scores_are_flattened_by_name() -> None:
    score = Score("rubric", State.succeeded, {"clear": True, "depth": 3, "grade": "B"})
    assert parts(score) == {"rubric.clear": 1.0, "rubric.depth": 3.0, "rubric.grade": "B"}
    assert numbers(score) == {"rubric.clear": 1.0, "rubric.depth": 3.0}
    assert numbers(Score("match", State.succeeded, False)) == {"match": 0.0}
    assert numbers(Score("match", State.failed)) == {}


def test_failures_are_the_trial_or_its_scores() -> None:
    why = Failure("ValueError", "bad")
    broken = {"m": Score("m", State.failed, None, why), "k": Score("k", State.succeeded, True)}
    one, other = trial(scores=broken), trial(state=State.exhausted, failure=why, scores=broken)
    assert list(failures(one)) == [FailureRow(one, "evaluate", State.failed, why, "m")]
    assert list(failures(other)) == [FailureRow(other, "generate", State.exhausted, why)]
    assert list(failures(trial(state=State.running))) == []


def test_refusals_are_counted_apart(trial, results) -> None:
    found = results([trial("a", True, metrics={"refusals": 1.0}), trial("b", False), trial("c", None)])
    [row] = found.table().rows
    assert (row["refused"], row["n"], row["failed"]) == (1, 2, 1)
    assert "refused" in str(found.table())
    assert "refused" not in str(results([trial("a", True), trial("b", False)]).table())
