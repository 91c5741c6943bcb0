"""`at_most` is an evaluator."""

from __future__ import annotations

import pytest
from peira_extras.evaluator import AtMost

from peira.errors import Invalid
from peira.testing import EvaluatorSuite


class TestAtMost(EvaluatorSuite):
    judged = (({"output": "Paris, of course"}, True), ({"output": "It is Paris, of course"}, False))

    @pytest.fixture
    def evaluator(self) -> AtMost:
        return AtMost(words=3)

    @pytest.fixture
    def twin(self) -> AtMost:
        return AtMost(words=3)


def test_wrong_options_are_refused() -> None:
    with pytest.raises(Invalid, match="at_most: words=0 must be at least 1"):
        AtMost(words=0)
