"""`yes_no` is a transform."""

from __future__ import annotations

import pytest
from peira_extras.transform import YesNo

from peira.core.transforms import NoAnswer
from peira.testing import TransformSuite


class TestYesNo(TransformSuite):
    found = (
        ("Yes, because.", True),
        ("I think so. No!", False),
        ("Nobody knows", NoAnswer("neither yes nor no")),
        (7, NoAnswer("neither yes nor no")),
    )

    @pytest.fixture
    def transform(self) -> YesNo:
        return YesNo()

    @pytest.fixture
    def twin(self) -> YesNo:
        return YesNo()
