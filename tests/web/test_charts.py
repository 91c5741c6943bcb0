"""Charts that the server draws: their axes cover what is shown, and they hold nothing but numbers."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from peira.web.charts import axis_over, looks_charts, progress_chart, tightening_charts

numbers = st.floats(-1e6, 1e6, allow_nan=False)


@given(st.lists(numbers, min_size=1, max_size=30))
def test_an_axis_covers_its_values_with_round_ticks(values: list[float]) -> None:
    axis = axis_over(values)
    close = 1e-6 * (axis.most - axis.least)
    assert axis.least <= min(values) + close
    assert axis.most >= max(values) - close
    assert axis.least < axis.most
    assert 2 <= len(axis.ticks) <= 12
    assert all(0 <= axis.percent(value) <= 100 for value in values)


def test_the_boundary_is_on_the_chart_of_looks() -> None:
    def standing(low: float, high: float, verdict: str = "") -> dict[str, object]:
        middle = (low + high) / 2
        return {
            "about": "H1",
            "first": "b<script>",
            "second": "a",
            "mean": middle,
            "low": low,
            "high": high,
            "verdict": verdict,
        }

    looks = [
        {"number": 1, "units": 10, "standings": [standing(-0.5, 0.9)]},
        {"number": 2, "units": 40, "standings": [standing(0.1, 0.5, "supported")]},
    ]
    [(title, drawn)] = looks_charts(looks)
    assert title == "H1: b<script> - a, supported"
    assert "<script" not in drawn
    zero = re.search(r'class="boundary" points="0.00,([\d.]+) 100.00,\1"', drawn)
    assert zero
    assert 0 < float(zero[1]) < 100
    assert 'text-anchor="end">cases<' in drawn


def test_progress_begins_where_the_run_does() -> None:
    drawn = progress_chart([(1e9 + n, 10 * n, n) for n in range(1000)])
    points = re.findall(r'class="main" points="([^"]+)"', drawn)[0].split()
    assert points[0] == "0.00,100.00"
    assert len(points) <= 402


def test_intervals_of_conditions_share_an_axis() -> None:
    history = [(n, {"a": (0.5, 0.5 - 1 / n, 0.5 + 1 / n), "b": (0.6, 0.4, 0.8)}) for n in (4, 8, 16)]
    drawn = tightening_charts(history)
    assert [title for title, _ in drawn] == ["a", "b"]
    assert tightening_charts(history[:1]) == []
    assert tightening_charts([]) == []
