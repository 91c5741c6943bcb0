"""Length-controlled standings: what a judge's love of long answers adds is taken away again."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from peira.analysis.ranking.tournament import CONTEST, games, relative_lengths, standings
from peira.core.log.events import State
from peira.errors import Invalid
from peira.results.trials import TrialResult


def contested(strengths, love, cases=300, seed=0, longer=(0, 200, 0)):
    """Games between sides of these strengths, before a judge who loves long answers by `love` log odds."""
    rng, trials = np.random.default_rng(seed), []
    names = [f"side {k}" for k in range(len(strengths))]
    pairs = [(i, j) for i in range(len(names)) for j in range(i)]
    sizes = {
        (c, k): int(500 + longer[k] + 150 * rng.normal()) for c in range(cases) for k in range(len(names))
    }
    gaps = [sizes[c, i] - sizes[c, j] for c in range(cases) for i, j in pairs]
    deviation = float(np.std(gaps, ddof=1))
    for c in range(cases):
        for i, j in pairs:
            odds = strengths[i] - strengths[j] + love * math.tanh((sizes[c, i] - sizes[c, j]) / deviation)
            won = float(rng.random() < 1 / (1 + math.exp(-odds)))
            for order in ("given", "swapped"):
                trials.append(
                    TrialResult(
                        id=f"{c} {i} {j} {order}",
                        agent="prefer",
                        case_id=f"{c}-{i}-{j}",
                        cluster=str(c),
                        state=State.succeeded,
                        condition={"order": order, "model": "judge"},
                        output={"won": won, "reason": ""},
                        input={"one": "x" * max(1, sizes[c, i]), "two": "x" * max(1, sizes[c, j])},
                        metadata={CONTEST: {"by": "model", "sides": [names[i], names[j]]}},
                    )
                )
    return trials


def test_the_love_of_length_is_taken_away():
    """Sides of equal strength; side 1 writes longer answers, which the judge loves."""
    trials = contested((0.0, 0.0), love=2.5)
    plain, controlled = standings(trials), standings(trials, length_controlled=True)
    assert plain.sentence == "side 1 is preferred to every other."
    assert "cannot be told apart" in controlled.sentence
    rows = {row.label: row for row in controlled.entries}
    assert rows["side 1"].rate > 0.6
    assert rows["side 1"].controlled.low < 0.5 < rows["side 1"].controlled.high
    assert any(note.startswith("length: log odds of 2.") for note in controlled.notes)


def test_of_two_sides_it_is_the_published_win_rate():
    """Dubois et al. (2024): logistic(theta_m - theta_b), with the length term of the regression at 0."""
    trials = contested((0.0, 0.6), love=1.0)
    found = standings(trials, length_controlled=True)
    one, two = found.entries
    assert one.controlled.value == pytest.approx(1 / (1 + math.exp(two.strength - one.strength)), abs=1e-8)
    assert one.controlled.value + two.controlled.value == pytest.approx(1)
    played = list(games(trials))
    lengths = np.array([game.longer for game in played], dtype=float)
    assert relative_lengths(played) == pytest.approx(np.tanh(lengths / lengths.std(ddof=1)).tolist())


def test_strengths_at_equal_length_are_found_again():
    truth = (0.0, 0.8, -0.5)
    found = standings(contested(truth, love=1.2, cases=500), length_controlled=True)
    centred = {f"side {k}": one - sum(truth) / 3 for k, one in enumerate(truth)}
    for row in found.entries:
        assert row.low < centred[row.label] < row.high
    assert [row.label for row in found.entries] == ["side 1", "side 0", "side 2"]
    assert json.loads(found.to_json())["entries"][0]["controlled"]["low"] < found.entries[0].controlled.value
    assert "at equal length [95% interval]" in str(found)


def test_intervals_hold_the_truth_as_often_as_they_say():
    held, rounds = 0, 60
    for seed in range(rounds):
        found = standings(contested((0.0, 0.3), 1.0, cases=60, seed=seed), length_controlled=True)
        row = next(row for row in found.entries if row.label == "side 1")
        if row.controlled.low is None:  # hardly any overlap in this draw
            held += 1
            continue
        held += row.controlled.low <= 1 / (1 + math.exp(-0.3)) <= row.controlled.high
    assert held / rounds >= 0.88


def test_where_it_cannot_be_controlled_for_that_is_said():
    always = contested((0.0, 40.0), love=0.0, cases=20)
    found = standings(always, length_controlled=True)
    assert any("length cannot be controlled for" in note for note in found.notes)
    with pytest.raises(Invalid, match="bootstrap"):
        standings(always, method="bootstrap", length_controlled=True)


def test_what_was_never_equally_long_is_not_told_apart():
    """Side 1 always writes more: what equal lengths would show is not in the data."""
    found = standings(contested((0.0, 0.0, 0.0), 1.5, longer=(0, 5000, 0)), length_controlled=True)
    rows = {row.label: row for row in found.entries}
    assert rows["side 1"].controlled.low is None
    assert (rows["side 1"].low, rows["side 1"].best, rows["side 1"].worst) == (None, 1, 3)
    assert any("hardly ever equally long, and so not told apart: " in note for note in found.notes)
