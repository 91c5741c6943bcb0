"""Lost trials stand beside the means as bounds; without them tables are as they were."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from peira.analysis.table.groups import gather
from peira.analysis.table.means import MOST, tabulate
from peira.core.log.events import State
from peira.results.trials import Score, TrialResult


def test_bounds_of_a_proportion(trial, results):
    found = results([trial(c, c < 6) for c in range(8)] + [trial(c, None) for c in range(8, 10)]).table()
    note = next(note for note in found.notes if "at worst or best" in note)
    assert note.startswith("match: with 2 lost trials at worst or best 0.600 to 0.800, 95% bounds 0.")
    assert found.columns[-1] == "method"


def test_nothing_is_said_where_nothing_is_lost(trial, results):
    assert not any("lost" in note for note in results([trial(c, 1) for c in range(3)]).table().notes)


def test_a_score_without_ends_has_no_bounds(trial, results):
    notes = results([trial(1, 7.0), trial(2, None)]).table().notes
    assert "match: the mean with 1 lost trial has no known bounds" in notes


def test_everything_lost_leaves_the_whole_range(trial, results):
    known = trial(0, 1, model="a")
    notes = results([known, *(trial(c, None, model="b") for c in range(3))]).table("model").notes
    assert any(
        note.startswith("model=b, match: with 3 lost trials at worst or best 0.000 to 1.000")
        for note in notes
    )


def test_many_groups_are_counted(trial, results):
    trials = [trial(c, v, model=m) for m in range(20) for c, v in enumerate([1, None])]
    notes = results(trials).table("model").notes
    assert f"and {20 - MOST} more means with lost trials" in notes


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from([0, 1, None, "failed score"])), min_size=1))
def test_every_lost_value_has_its_unit(drawn):
    trials = [
        TrialResult(
            id=str(n),
            agent="x",
            case_id=str(case),
            state=State.failed if value is None else State.succeeded,
            scores={}
            if value is None
            else {"s": Score("s", State.failed if value == "failed score" else State.succeeded, value)},
        )
        for n, (case, value) in enumerate(drawn)
    ]
    (group,) = gather(trials).groups
    lost = [*group.lost, *group.lost_scores.get("s", ())]
    assert sorted(unit[1] for unit in lost) == sorted(str(c) for c, v in drawn if v in (None, "failed score"))
    assert tabulate(trials).notes is not None
