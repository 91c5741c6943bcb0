"""Leaderboards: ranks that may be held, letters for who cannot be told apart, and the front."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.analysis.ranking.leaderboard import leaderboard, seconds_text
from peira.core.log.events import State
from peira.errors import Invalid, Unknown
from peira.results.trials import Score, TrialResult
from peira.stats.values import Estimate


def test_times_below_a_millisecond_are_not_told_apart() -> None:
    assert seconds_text(Estimate(4.5e-05, 3.9e-05, 6.9e-05, 9, "skewed")) == "< 0.001"
    assert seconds_text(Estimate(0.0005, 0.0001, 0.002, 9, "t")).startswith("0.0005 [0.0001, 0.002]")
    assert seconds_text(None) == "-"


def test_a_published_leaderboard(gsm8k):
    found = gsm8k.leaderboard()
    assert [(entry.label, entry.best, entry.worst, entry.letters) for entry in found.entries] == [
        ("175b, verification", 1, 1, "a"),
        ("6b, verification", 2, 2, "b"),
        ("175b, finetuning", 3, 3, "c"),
        ("6b, finetuning", 4, 4, "d"),
    ]
    assert found.sentence == "size=175b, method=verification is best on match."
    right = {
        (t.case_id, t.condition["size"], t.condition["method"]): t.scores["match"].value for t in gsm8k.trials
    }
    cases = {case for case, _, _ in right}
    won = sum(right[c, "175b", "verification"] > right[c, "6b", "finetuning"] for c in cases)
    assert found.wins[0][3] == won
    assert str(won) in found.win_matrix()


def test_what_cannot_be_told_apart_shares_a_letter(trial, results):
    rng = np.random.default_rng(0)
    means = {"a": 0, "b": 0.05, "c": 3}
    found = results([trial(c, rng.normal(means[m]), model=m) for c in range(25) for m in means]).leaderboard()
    assert found.entries[0].label == "c"
    assert [(e.best, e.worst) for e in found.entries] == [(1, 1), (2, 3), (2, 3)]
    assert [e.letters for e in found.entries] == ["a", "b", "b"]
    lowest = results([trial(c, rng.normal(means[m]), model=m) for c in range(25) for m in means])
    assert lowest.leaderboard(lowest_first=True).entries[-1].label == "c"


def test_the_front_is_what_nothing_beats(trial, results):
    quality, seconds = {"good": 0.9, "fast": 0.5, "bad": 0.3}, {"good": 9.0, "fast": 1.0, "bad": 5.0}
    rng = np.random.default_rng(1)
    trials = [
        trial(c, quality[m] + rng.normal(0, 0.01), model=m, took=seconds[m] + rng.normal(0, 0.1))
        for c in range(20)
        for m in quality
    ]
    chances = {e.label: e.on_front for e in results(trials).leaderboard().entries}
    assert chances == {"good": 1, "fast": 1, "bad": 0}


def test_an_unknown_price_is_no_price(trial, results):
    priced = {"calls": 1.0, "cost": 0.01}
    trials = [trial(c, 1, model="a", metrics=priced) for c in range(5)]
    trials += [trial(c, 0, model="b", metrics={"calls": 1.0}) for c in range(5)]
    costs = {e.label: e.cost for e in results(trials).leaderboard().entries}
    assert costs == {"a": pytest.approx(0.01), "b": None}


def test_entries_without_a_score_come_last_and_hide_nobody(trial, results):
    trials = [trial(c, c % 2 if m == "a" else 1, model=m) for c in range(20) for m in "ab"]
    trials += [trial(c, None, model="broken") for c in range(20)]
    found = results(trials).leaderboard()
    assert [e.label for e in found.entries] == ["b", "a", "broken"]
    assert found.entries[0].worst == 1
    assert found.entries[-1].mean is None
    assert "not in the means: 20 failed trials" in found.notes


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({}, "No entry has a score: nothing can be said."),
        ({"a": [None]}, "No entry has a score: nothing can be said."),
        ({"a": [1]}, "There is one entry, and nothing to rank it with."),
        ({"a": [1], "b": [None]}, "Only a has a score: there is nothing to rank it with."),
        ({"a": [1], "b": [1]}, "a and b have the same mean on match, and cannot be told apart."),
        ({"a": [0.5] * 4, "b": [0.5] * 4}, "a and b have the same mean on match, and cannot be told apart."),
        (
            {"a": [1, 0], "b": [1, 1], "c": [1, 1]},
            "b and c have the same mean on match, and cannot be told apart from a.",
        ),
        ({"a": [1, None], "b": [1, 1]}, "a leads on match, but cannot be told apart from b."),
    ],
)
def test_degenerate_results_say_so(trial, results, values, said):
    found = results(
        [trial(c, v, model=m) for m, vs in values.items() for c, v in enumerate(vs)]
    ).leaderboard()
    assert found.sentence == said
    assert json.loads(found.to_json())["sentence"] == found.sentence
    assert found.markdown()
    assert str(found)


@pytest.mark.parametrize(("second", "who"), [(1, "2 entries share"), (0, "a has")])
def test_entries_without_common_cases_are_not_ranked(trial, results, second, who):
    found = results([trial(0, 1, model="a"), trial(1, second, model="b")]).leaderboard()
    assert found.sentence == f"{who} the best mean on match; who is best cannot be told."


def test_bad_wishes_are_refused(trial, results):
    found = results([trial(1, 1, model="a")])
    with pytest.raises(Unknown, match="model"):
        found.leaderboard("modle")
    with pytest.raises(Invalid, match="level"):
        found.leaderboard(level=0)


@settings(max_examples=25)
@given(st.lists(st.lists(st.integers(0, 4), min_size=4, max_size=4), min_size=2, max_size=5))
def test_ranks_hold_the_place_and_letters_agree_with_them(columns):
    trials = [
        TrialResult(
            id=f"{m} {c}",
            agent="x",
            case_id=str(c),
            condition={"model": m},
            state=State.succeeded,
            scores={"s": Score("s", State.succeeded, value)},
        )
        for m, column in enumerate(columns)
        for c, value in enumerate(column)
    ]
    entries = leaderboard(trials).entries
    for place, entry in enumerate(entries, 1):
        assert entry.best <= place <= entry.worst
    for one in entries:
        apart = sum(not set(one.letters) & set(other.letters) for other in entries)
        assert apart == len(entries) - 1 - (one.worst - one.best)


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_difference_without_spread_is_a_difference(trial, results, repeats):
    trials = [trial(c, m == "b", repeat=r, model=m) for c in range(200) for m in "ab" for r in range(repeats)]
    found = results(trials).leaderboard()
    assert found.sentence == "b is best on match."
    assert [(e.best, e.worst, e.letters) for e in found.entries] == [(1, 1, "a"), (2, 2, "b")]


def lossy(trial, n=10, cases=100, lost=0.2):
    """Models of increasing strength, with failures at random: of 100 cases all ten share about ten."""
    rng = np.random.default_rng(5)
    hard = rng.normal(size=cases)
    return [
        trial(
            c, None if rng.random() < lost else rng.random() < 1 / (1 + np.exp(hard[c] - 0.35 * m)), model=m
        )
        for m in range(n)
        for c in range(cases)
    ]


def test_each_pair_is_compared_on_the_cases_that_it_shares(trial, results):
    found = results(lossy(trial)).leaderboard()
    first, last = found.entries[0], found.entries[-1]
    assert not set(first.letters) & set(last.letters)
    assert first.worst < 10
    assert last.best > 1
    for place, entry in enumerate(found.entries, 1):
        assert entry.best <= place <= entry.worst
    # Holm over the 45 pairs, each on its own cases, as compare has it.
    pairs = results(lossy(trial)).compare("model", correction="holm").contrasts
    apart = {frozenset((c.first, c.second)) for c in pairs if c.adjusted <= 0.05}
    letters = {e.label: set(e.letters) for e in found.entries}
    assert apart == {
        frozenset((a, b)) for a in letters for b in letters if a < b and not letters[a] & letters[b]
    }


def test_the_order_follows_common_cases_and_not_the_means(trial, results):
    """a fails on the 60 hard cases: its mean is the highest, and b is better on every other case."""
    rng = np.random.default_rng(2)
    trials = [trial(c, None if c < 60 else rng.random() < 0.7, model="a") for c in range(100)]
    trials += [trial(c, rng.random() < (0.1 if c < 60 else 0.97), model="b") for c in range(100)]
    found = results(trials).leaderboard()
    means = {e.label: e.mean.mean for e in found.entries}
    assert means["a"] > means["b"]
    assert [e.label for e in found.entries] == ["b", "a"]
    assert any("in the order of their differences on common cases" in note for note in found.notes)
    a = found.entries[1]
    assert (a.lowest, a.highest) == (pytest.approx(0.2, abs=0.1), pytest.approx(0.97, abs=0.05))
    assert (a.best_possible, a.worst_possible) == (1, 2)
    assert found.sentence.startswith("60 lost trials could overturn this: b is best on match")
    assert "with lost trials" in str(found)


def test_what_no_lost_trial_can_overturn_is_said_without_doubt(trial, results):
    trials = [trial(c, None if c < 2 else m == "b", model=m) for c in range(100) for m in "ab"]
    found = results(trials).leaderboard()
    assert found.sentence == "b is best on match."
    assert [(e.best_possible, e.worst_possible) for e in found.entries] == [(1, 1), (2, 2)]


def test_cost_and_time_have_intervals(trial, results):
    rng = np.random.default_rng(0)
    made = [trial(c, m == "a", model=m, took=float(rng.uniform(1, 3))) for c in range(20) for m in "ab"]
    entry = results(made).leaderboard().entries[0]
    assert entry.took_interval.low < entry.took < entry.took_interval.high
    assert " [" in results(made).leaderboard().grids()[0].rows[0][6]


def test_letters_heed_what_the_lost_trials_could_change(trial, results):
    """b leads a clearly among what ended, but half of its trials are lost; c is behind whatever they were."""

    def value(c, m):
        if m == "b" and c % 2:
            return None
        return float(m == "b" or (m == "a" and c % 3 != 0))

    found = results([trial(c, value(c, m), model=m) for c in range(60) for m in "abc"]).leaderboard()
    by = {entry.label: entry for entry in found.entries}
    assert (by["b"].letters, by["a"].letters, by["c"].letters) == ("a", "b", "c")
    assert (by["b"].letters_possible, by["a"].letters_possible, by["c"].letters_possible) == ("a", "a", "b")
    assert [by[name].doubtful for name in "abc"] == [True, True, False]
    rows = {row[1]: row for row in found.grids()[0].rows}
    assert (rows["b"][3], rows["a"][3], rows["c"][3]) == ("a?", "b?", "c")
    assert rows["b"][-1] == "a"
    assert "? told apart from others only if lost trials were like those that ended" in found.notes


def test_an_entry_that_was_not_begun_has_no_lost_trials(trial, results):
    trials = [trial(c, float(c % 2), model=m) for c in range(10) for m in "ab"]
    trials += [trial(c, None, model="c", state=State.queued) for c in range(10)]
    found = results(trials).leaderboard()
    last = found.entries[-1]
    assert (last.label, last.mean, last.n, last.lost) == ("c", None, 0, 0)
    assert "not begun: 10 trials" in found.notes
    assert not found.has_bounds


def test_the_front_is_that_of_the_cases_that_entries_share(trial, results):
    """A fails on the 60 hard cases: its mean over easy ones does not put it on the front beside B."""
    trials = []
    for c in range(100):
        trials.append(trial(c, None if c < 60 else c % 10 > 0, model="a", took=2.0))
        trials.append(trial(c, c >= 60 or c % 3 == 0, model="b", took=1.0))
    first, second = results(trials).leaderboard().entries
    assert (first.label, second.label) == ("b", "a")
    assert second.mean.mean > first.mean.mean
    assert first.on_front == 1
    assert second.on_front < 0.05
