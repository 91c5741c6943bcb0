from __future__ import annotations

from enum import Enum

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.ids import digest
from peira.core.verdicts import NoVerdict, no_verdict
from peira.errors import Invalid
from peira.evaluators import score_value


class Grade(str, Enum):  # noqa: UP042 - the older kind, whose str() is not its value
    good = "good"


PLAIN = (
    st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(-1e149, 1e149)
    | st.text("ab\n", max_size=5)
)


@given(PLAIN | st.dictionaries(st.text("ab", min_size=1), PLAIN, min_size=1))
def test_plain_scores_are_kept(raw: object) -> None:
    assert digest(score_value(raw)) == digest(raw)


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        (numpy.float64(0.5), 0.5),
        (numpy.bool_(True), True),
        (numpy.int64(3), 3),
        (numpy.array(2.5), 2.5),
        (Grade.good, "good"),
        ({"a": numpy.bool_(False)}, {"a": False}),
    ],
)
def test_scores_become_plain(raw: object, value: object) -> None:
    found = score_value(raw)
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (float("nan"), "nan; a score is a finite number"),
        (float("-inf"), "finite"),
        (1e200, "finite"),
        (numpy.float64("nan"), "finite"),
        (None, "None: it judged nothing"),
        ([1], "of type list"),
        (object(), "of type object"),
        (numpy.zeros(2), "of type ndarray"),
        ({}, "an empty dict"),
        ({"a": {"b": 1}}, "under 'a', a value of type dict"),
        ({"a": float("nan")}, "under 'a', nan"),
        ({1: True}, "the key 1"),
        (2**60, "2\\^53"),
        ("\ud800", "surrogate"),
    ],
)
def test_anything_else_is_refused_in_one_line(raw: object, said: str) -> None:
    with pytest.raises(Invalid, match=said) as caught:
        score_value(raw, "judge")
    assert str(caught.value).startswith("judge returned")
    assert "\n" not in str(caught.value)


def test_no_verdict_is_recorded_as_itself_and_nothing_else_is() -> None:
    none = NoVerdict("the judge said nothing")
    assert score_value(none) == {"no_verdict": "the judge said nothing"}
    assert no_verdict(score_value(none)) == none
    for other in (1.0, "no_verdict", {"value": 0.0}, {"no_verdicts": 1}, {"reason": "no_verdict"}):
        assert no_verdict(score_value(other)) is None
    for forged in ({"no_verdict": "x"}, {"no_verdict": 1, "value": 1}):
        with pytest.raises(Invalid, match="return NoVerdict"):
            score_value(forged)
    with pytest.raises(Invalid, match="which is no text"):
        score_value(NoVerdict(None))  # type: ignore[arg-type]
