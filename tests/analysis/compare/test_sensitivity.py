"""How different lost trials would have to be to overturn a difference."""

from __future__ import annotations

import numpy as np
import pytest

from peira.analysis.compare.difference import Differences
from peira.analysis.compare.sensitivity import sensitivity
from peira.analysis.compare.sides import choose_pairs, levels_of
from peira.analysis.table.measures import measure


def curve(trials):
    measured = measure(trials)
    (pair,) = choose_pairs(levels_of(measured, "model"))
    return sensitivity(Differences(measured).between(*pair, "model"), "match")


def planted(trial, lost, gap=0.2, n=120):
    """Side b is better by `gap`; it lost the first trials."""
    rng = np.random.default_rng(7)
    return [
        trial(c, None if m == "b" and c < lost else rng.random() < 0.5 + gap * (m == "b"), model=m)
        for c in range(n)
        for m in "ab"
    ]


def test_without_lost_trials_there_is_no_curve(trial):
    assert curve(planted(trial, 0)) is None


def test_the_more_is_lost_the_earlier_it_tips(trial):
    few, many = curve(planted(trial, 12)), curve(planted(trial, 40))
    assert few.clear
    assert many.clear
    assert few.tipping is None or few.tipping > many.tipping
    assert 0 < many.tipping < 1
    assert f"by {many.tipping:.2g} than trials alike" in many.sentence


def test_the_curve_begins_at_the_difference_and_falls(trial):
    found = curve(planted(trial, 30))
    means = [point.difference.mean for point in found.points]
    assert means == sorted(means, reverse=True)
    known = [t for t in planted(trial, 30) if t.scores]
    complete = {(t.case_id, t.condition["model"]): t.scores["match"].value for t in known}
    both = [c for c, m in complete if m == "b" and (c, "a") in complete]
    expected = np.mean([float(complete[c, "b"]) - float(complete[c, "a"]) for c in both])
    assert means[0] == pytest.approx(expected)


def test_a_difference_that_nothing_overturns_says_so(trial):
    trials = [trial(c, None if c < 2 else m == "b", model=m) for c in range(60) for m in "ab"]
    assert "stays clear whatever the 4 lost trials would have scored" in curve(trials).sentence


def test_an_unclear_difference_says_so(trial):
    assert "is not clear" in curve(planted(trial, 5, gap=0.0)).sentence


def test_without_a_shift_the_difference_is_the_one_that_is_compared(trial, results):
    """Sixty lost trials imputed from forty pairs are no evidence: the comparison is not clear."""
    trials = [
        trial(
            c, None if m == "a" and c < 60 else (c % 20 > 0 if m == "a" else c >= 60 or c % 3 == 0), model=m
        )
        for c in range(100)
        for m in "ab"
    ]
    found, compared = curve(trials), results(trials).compare("model").contrasts[0].difference
    first = found.points[0].difference
    assert (first.mean, first.low, first.high) == (compared.mean, compared.low, compared.high)
    assert not compared.excludes_zero
    assert not found.clear
    assert found.sentence == "b - a in match is not clear, with or without the 60 lost trials."


def test_a_shift_moves_the_interval_with_the_difference(trial):
    found = curve(planted(trial, 40))
    first, last = (found.points[at].difference for at in (0, -1))
    assert last.high - first.high == pytest.approx(last.mean - first.mean)
    assert last.mean < first.mean
