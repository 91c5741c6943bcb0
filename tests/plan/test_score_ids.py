"""The ids of scores, of one trial or of many at once."""

from __future__ import annotations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from peira.core.ids import canonical, digest
from peira.core.log.events import Result
from peira.plan.conditions import Condition
from peira.plan.score_ids import ScoreIds
from peira.plan.trials import Place, PlannedCase

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2),
)
CASES = st.builds(lambda id, expected: PlannedCase(id, digest(id), id, expected), st.text(max_size=3), JSON)
ANSWERS = st.one_of(
    JSON.map(lambda value: Result(output=msgspec.Raw(canonical(value)))),
    JSON.map(lambda value: Result(blob=digest(value))),
)
TAKES = st.dictionaries(
    st.sampled_from("abc").map(digest), st.frozensets(st.sampled_from(["output", "expected", "case"]))
)
PLAIN = Condition("agent", digest("agent"), {}, digest({}))


@given(st.lists(st.tuples(CASES, ANSWERS), max_size=5), TAKES)
def test_the_ids_of_many_trials_are_those_of_each(given, takes):
    judging = ScoreIds(list(takes), takes)
    columns = judging.columns([case for case, _ in given], [answer for _, answer in given])
    assert columns.keys() == takes.keys()
    for row, (case, answer) in enumerate(given):
        scores = judging.scores(Place(row, PLAIN, case, 0), digest(row), answer, answer)
        assert scores == [(judge, ids[row]) for judge, ids in columns.items()]
    assert all(len(ids) == len(given) for ids in columns.values())
