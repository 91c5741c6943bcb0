from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.models.http.failures import MOST_SECONDS, retry_after

NOW = {"date": "Wed, 21 Oct 2026 07:28:00 GMT"}


ABSURD = ("9" * 400, "9" * 400 + "s", "Fri, 31 Dec 99999 23:59:59 GMT", "0001-01-01T00:00:00+14:00", "\udcff")


@pytest.mark.parametrize("wait", ABSURD)
@pytest.mark.parametrize("date", [*ABSURD, NOW["date"]])
def test_absurd_headers_are_bounded(wait: str, date: str) -> None:
    for name in ("retry-after", "retry-after-ms"):
        asked = retry_after({name: wait, "date": date})
        assert asked is None or 0 <= asked <= MOST_SECONDS


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:29:30 GMT"}, 90.0),
        ({"retry-after": "Wed, 21 Oct 2026 07:20:00 GMT"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"x-ratelimit-reset-requests": "1s", "x-ratelimit-remaining-requests": "5"}, None),
        ({"x-ratelimit-reset-requests": "20ms", "x-ratelimit-remaining-requests": "0"}, 0.02),
        (
            {
                "x-ratelimit-reset-requests": "2s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "6m0s",
                "x-ratelimit-remaining-tokens": "0",
            },
            360.0,
        ),
        (
            {
                "anthropic-ratelimit-tokens-remaining": "0",
                "anthropic-ratelimit-tokens-reset": "2026-10-21T07:28:12Z",
            },
            12.0,
        ),
        ({"x-ratelimit-remaining": "0", "x-ratelimit-reset": "1792567685000"}, 5.0),
        ({}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], seconds: float | None) -> None:
    found = retry_after({**NOW, **headers})
    assert found == (None if seconds is None else pytest.approx(seconds))


@given(st.text(), st.text(), st.text())
def test_whatever_a_header_says_the_wait_is_a_time_or_unknown(after: str, left: str, reset: str) -> None:
    headers = {"retry-after": after, "x-ratelimit-remaining": left, "x-ratelimit-reset": reset, "date": reset}
    wait = retry_after(headers)
    assert wait is None or wait >= 0
