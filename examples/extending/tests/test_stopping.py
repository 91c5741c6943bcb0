"""`enough` is a stopping rule."""

from __future__ import annotations

import pytest
from peira_extras.stopping import Enough

from peira.core.looks import Question, Span
from peira.testing import StopRuleSuite


class TestEnough(StopRuleSuite):
    @pytest.fixture
    def rule(self) -> Enough:
        return Enough(cases=20)

    @pytest.fixture
    def question(self) -> Question:
        return Question(({"style": "plain"}, {"style": "brief"}), 90)


def test_it_answers_after_its_cases() -> None:
    watch = Enough(cases=2).watch(Question(({},), 5))
    unit = {0: Span(1.0, 1.0)}
    assert watch.take(unit) is None
    look = watch.take(unit)
    assert look is not None
    assert (look.units, look.answer) == (2, "2 cases were enough")


def test_wrong_options_are_problems_of_the_study() -> None:
    assert list(Enough(cases=0).problems(None)) == ["cases: must be at least 1, not 0"]
