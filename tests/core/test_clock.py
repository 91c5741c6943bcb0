"""Durations as people write them, and moments as they read them."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.clock import UNITS, SystemClock, seconds, stamp
from peira.errors import Invalid
from peira.testing import ManualClock


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (90, 90.0),
        (0, 0.0),
        (1.5, 1.5),
        ("90", 90.0),
        ("90s", 90.0),
        ("200ms", 0.2),
        (" 5 m ", 300.0),
        ("5min", 300.0),
        ("1.5h", 5400.0),
        ("2d", 172800.0),
    ],
)
def test_durations(written: Any, meant: float) -> None:
    assert seconds(written) == meant


@pytest.mark.parametrize(
    "written",
    [-1, math.nan, True, None, "", "s", "-1s", "1 week", "1h30m", "1,5h", "1.h", ".5s", "inf", [1], b"1"],
)
def test_what_is_no_duration(written: Any) -> None:
    with pytest.raises(Invalid, match="is not a duration; write seconds, or 200ms, 90s, 5m, 2h, 1d"):
        seconds(written)


@given(st.integers(0, 10**6), st.sampled_from([unit for unit in UNITS if unit]))
def test_a_unit_is_a_factor(number: int, unit: str) -> None:
    assert seconds(f"{number}{unit}") == number * UNITS[unit]


def test_moments_are_utc_to_the_millisecond() -> None:
    assert stamp(0) == "1970-01-01T00:00:00.000Z"
    assert stamp(1_700_000_000.1239) == "2023-11-14T22:13:20.123Z"


def test_time_that_never_goes_back() -> None:
    clock = SystemClock()
    assert clock.monotonic() <= clock.monotonic()
    manual = ManualClock(5.0)
    manual.advance(2)
    assert (manual.now(), manual.monotonic()) == (7.0, 7.0)
