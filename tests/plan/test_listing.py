"""Notes of trials, which large runs are listed from when they are over."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from peira.plan.listing import TrialNotes

DIGESTS = st.binary(min_size=32, max_size=32).map(bytes.hex)
SCORES = st.lists(st.tuples(st.sampled_from(["exact", "words", "words.tone"]), DIGESTS), max_size=3)
NOTES = st.lists(st.tuples(st.integers(0, 20), DIGESTS, st.one_of(st.just(""), DIGESTS), SCORES), max_size=30)


@given(NOTES)
def test_notes_are_read_by_place_and_the_last_of_a_place_counts(given):
    notes, last = TrialNotes(), {}
    for place, trial, blob, scores in given:
        notes.add(place, trial, blob, scores)
        last[place] = (place, trial[:16], blob, [(name, score[:16]) for name, score in scores])
    assert list(notes.in_order()) == [last[place] for place in sorted(last)]


ROW = st.tuples(st.integers(0, 1000), DIGESTS, DIGESTS, DIGESTS)


@given(st.lists(ROW, max_size=20, unique_by=lambda row: row[0]), st.sampled_from([0, 1, 2]))
def test_notes_that_are_added_in_columns_are_those_that_are_added_one_by_one(given, scores):
    names = ["exact", "length"][:scores]
    in_columns, one_by_one = TrialNotes(), TrialNotes()
    for notes in (in_columns, one_by_one):
        notes.add(1001, "ab" * 32, "cd" * 32, [("words", "ef" * 32)])
    for place, trial, *ids in given:
        one_by_one.add(place, trial, "", list(zip(names, ids, strict=False)))
    columns = [(name, [row[2 + n] for row in given]) for n, name in enumerate(names)]
    in_columns.add_all([row[0] for row in given], [row[1] for row in given], columns)
    assert list(in_columns.in_order()) == list(one_by_one.in_order())
