"""Packages that open their rooms when something of them is asked for."""

from __future__ import annotations

import subprocess
import sys

import pytest

import peira.evaluators


def test_a_room_opens_when_something_of_it_is_asked_for() -> None:
    code = (
        "import sys, peira.evaluators as shelf\n"
        "assert 'peira.evaluators.calibration' not in sys.modules\n"
        "import peira.evaluators.calibration\n"
        "from peira.evaluators import calibration\n"
        "assert callable(calibration) and shelf.calibration is calibration\n"
        "assert 'peira.evaluators.code' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_every_name_is_there_and_no_other() -> None:
    for name in peira.evaluators.__all__:
        assert getattr(peira.evaluators, name)
    assert set(peira.evaluators.__all__) <= set(dir(peira.evaluators))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = peira.evaluators.nonsense  # type: ignore[attr-defined]
