"""Multiple imputation of lost trials: Rubin's rules, what is imputed, and what it is right about."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.analysis.compare.imputation import DRAWS, imputations, pooled
from peira.analysis.table.measures import measure
from peira.errors import Invalid
from peira.stats.student import Spread
from tests.analysis.conftest import gathered, one

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "benchmarks" / "calibration"))


def test_estimates_are_pooled_by_rubins_rules():
    """R 4.2.2, by the definitions of Rubin (1987) and Barnard and Rubin (1999):
    q <- c(1.2, 0.9, 1.1, 1.4, 1.0); se <- c(0.30, 0.28, 0.33, 0.31, 0.29); dfcom <- 24; m <- 5
    w <- mean(se^2); b <- var(q); t <- w + (1 + 1/m) * b; lambda <- (1 + 1/m) * b / t
    old <- (m - 1) / lambda^2; obs <- (dfcom + 1) / (dfcom + 3) * dfcom * (1 - lambda)
    c(mean(q), sqrt(t), old * obs / (old + obs))"""
    errors = (0.30, 0.28, 0.33, 0.31, 0.29)
    mean, spread = pooled(
        [(q, Spread(se, 24)) for q, se in zip((1.2, 0.9, 1.1, 1.4, 1.0), errors, strict=True)]
    )
    assert (mean, spread.error, spread.df) == pytest.approx(R, rel=1e-9)


R = (1.12, 0.3686461718233, 10.6927792864203)
"""Mean, error and degrees of freedom."""


def test_equal_imputations_add_no_uncertainty():
    assert pooled([(0.5, Spread(0.1, 9.0))] * 5) == (0.5, Spread(pytest.approx(0.1), 9.0))


def lost_by_the_other(cases=300, seed=1):
    """Sides of equal means whose answers go together; a is lost where b is wrong, in half of the cases."""
    rng = np.random.default_rng(seed)
    hard = rng.random(cases)
    right = {m: rng.random(cases) < 1 - hard for m in "ab"}
    gone = ~right["b"] & (rng.random(cases) < 0.5)
    return [
        one(c, None if m == "a" and gone[c] else float(right[m][c]), m=m) for m in "ab" for c in range(cases)
    ]


def test_what_is_lost_by_the_other_sides_answer_is_put_right():
    given = gathered(lost_by_the_other())
    (ended,), (imputed,) = (given.compare("m", missing=how).contrasts for how in ("ended", "impute"))
    assert ended.clear(0.05)
    assert not imputed.clear(0.05)
    assert abs(imputed.difference.mean) < abs(ended.difference.mean) / 2
    assert (imputed.model, imputed.test) == ("imputed", f"t, {DRAWS} imputations")
    assert imputed.bounds == ended.bounds
    text = str(given.compare("m", missing="impute"))
    assert "imputed: " in text
    assert "right if they are missing at random" in text


def test_the_same_every_time_and_nothing_that_was_seen_is_changed():
    measured = measure(lost_by_the_other(40))
    first, second = imputations(measured), imputations(measured)
    for a, b in zip(first, second, strict=True):
        assert [x.value for x in a.observations] == [x.value for x in b.observations]
        assert not a.lost
        kept = zip(measured.observations, a.observations, strict=True)
        assert all(x.value is None or x == y for x, y in kept)
    assert len({tuple(x.value for x in a.observations) for a in first}) == DRAWS


def test_without_losses_nothing_changes():
    trials = [one(c, float((c * 7 + m) % 5 > m), m=m) for c in range(20) for m in range(2)]
    given = gathered(trials)
    assert given.compare("m", missing="impute") == given.compare("m")
    assert given.leaderboard(missing="impute") == given.leaderboard()


def test_lost_trials_count_as_worst_if_asked_for():
    given = gathered(lost_by_the_other(60))
    (found,) = given.compare("m", missing="worst").contrasts
    filled = [t if t.scores else one(t.case_id, 0.0, **t.condition) for t in given.trials]
    (expected,) = gathered(filled).compare("m").contrasts
    assert found.difference == expected.difference
    assert found.bounds is None
    assert "counted as worst: " in str(given.compare("m", missing="worst"))
    lowest = given.leaderboard(lowest_first=True, missing="worst")
    assert next(e for e in lowest.entries if e.label == "a").mean.mean > found.difference.mean


def test_ranks_include_what_is_not_known_of_the_lost():
    given = gathered(lost_by_the_other())
    plain, imputed = given.leaderboard(), given.leaderboard(missing="impute")
    assert plain.entries[0].worst == 1
    assert [(e.best, e.worst, e.letters) for e in imputed.entries] == [(1, 2, "a")] * 2
    a = next(e for e in imputed.entries if e.label == "a")
    assert a.mean.method == f"t, {DRAWS} imputations"
    widths = [e.mean.high - e.mean.low for e in (a, next(e for e in imputed.entries if e.label == "b"))]
    assert widths[0] > widths[1]


@settings(max_examples=20, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 3), st.booleans())
def test_any_table_can_be_imputed(seed, repeats, empty):
    """Whatever is lost, finite values come out; a condition without any value stays lost."""
    rng = np.random.default_rng(seed)
    trials = [
        one(c, None if rng.random() < 0.4 or (empty and m == 2) else float(rng.integers(0, 2)), repeat=r, m=m)
        for c in range(5)
        for m in range(3)
        for r in range(repeats)
    ]
    measured = measure(trials, "match") if any(t.scores for t in trials) else None
    for each in imputations(measured, 2) if measured else ():
        filled = [x.value for x in each.observations if x.value is not None]
        assert np.isfinite(filled).all()
        known = {x.trial.condition["m"] for x in measured.observations if x.value is not None}
        assert all((x.value is None) == (x.trial.condition["m"] not in known) for x in each.observations)


def test_bad_wishes_are_refused():
    given = gathered(lost_by_the_other(30))
    with pytest.raises(Invalid, match="there is no"):
        given.compare("m", missing="impue")
    with pytest.raises(Invalid, match="leave out test"):
        given.compare("m", missing="impute", test="permutation")
    with pytest.raises(Invalid, match="missing: runs"):
        given.compare(given, missing="impute")
    times = [one(c, None if c == 3 and m else float(c * 100 + m), m=m) for c in range(9) for m in range(2)]
    with pytest.raises(Invalid, match="no known worst value"):
        gathered(times).compare("m", missing="worst")
    with pytest.raises(Invalid, match="missing"):
        given.leaderboard(missing="drop")


def test_imputed_differences_keep_their_level():
    """A sample of `make calibrate`, section "Imputed trials"."""
    import missing

    for cell in missing.compared("yes/no", 30, "by the other side", 60, 7):
        assert not cell.verdict.startswith("TOO")


def test_where_a_side_has_nothing_there_is_nothing_to_impute(trial, results):
    """A level, or a study, of which every trial failed."""
    lost = [trial(f"{case}", None, m=side) for case in range(8) for side in "ab"]
    half = [trial(f"{case}", None if side == "a" else case % 2, m=side) for case in range(8) for side in "ab"]
    for trials in (lost, half):
        found = results(trials).compare("m", missing="impute")
        assert found.contrasts[0].p is None
        assert results(trials).leaderboard("m", missing="impute").entries[0].best in (None, 1)


def test_a_side_that_lost_the_cases_of_the_other_sides_low_values_is_not_higher_for_it(trial, results):
    """Sides alike; of a, half is lost where b is below its median. The mean of what is left is 0.3 higher."""
    rng, found = np.random.default_rng(8), []
    for _ in range(12):
        hard = rng.normal(size=300)
        one, two = (hard + rng.normal(size=300) for _ in range(2))
        gone = (two < np.median(two)) & (rng.random(300) < 0.7)
        given = [trial(c, None if gone[c] else float(one[c]), m="a") for c in range(300)]
        given += [trial(c, float(two[c]), m="b") for c in range(300)]
        contrast = results(given).compare("m", missing="impute").contrasts[0]
        found.append(contrast.difference.mean * (1 if contrast.first == "a" else -1))
    assert abs(np.mean(found)) < 3 * np.std(found) / 12**0.5 + 0.01
    assert np.std(found) < 0.12


def test_lost_values_of_cases_without_any_other_are_drawn_from_their_condition(trial, results):
    given = [trial(c, None if c % 3 == 0 else float(c % 5), m=m) for c in range(30) for m in "ab"]
    made = imputations(measure(given))
    assert len(made) == 20
    assert all(one.value is not None for each in made for one in each.observations)
    drawn = [each.observations[0].value for each in made]
    assert np.std(drawn) > 0.5
    assert abs(np.mean(drawn) - 2) < 1.5
