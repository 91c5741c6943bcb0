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
