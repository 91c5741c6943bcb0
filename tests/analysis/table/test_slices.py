"""Slices are pulled together as far as their own evidence is weak."""

from __future__ import annotations

import json

import numpy as np
import pytest

from peira.errors import Unknown


def test_a_small_slice_does_not_shout(trial, results):
    rng = np.random.default_rng(0)
    trials = [
        trial(f"{name} {c}", rng.random() < 0.6, slice=name) for name in "abcdef" for c in range(100)
    ] + [trial(f"tiny {c}", 1.0 if c else 0.0, slice="tiny") for c in range(3)]
    found = {one.label: one for one in results(trials).slices().slices}
    tiny = found["tiny"]
    assert tiny.mean == pytest.approx(2 / 3)
    assert tiny.pooled.weight < min(found[name].pooled.weight for name in "abcdef")
    assert all(one.pooled.low < one.pooled.mean < one.pooled.high for one in found.values())


def test_slices_by_a_factor_and_few_of_them(trial, results):
    found = results([trial(c, c % 2, model=m) for c in range(9) for m in "ab"]).slices("model")
    assert {one.label for one in found.slices} == {"a", "b"}
    assert [one.mean for one in found.slices] == pytest.approx([4 / 9, 4 / 9])
    assert "fewer than three slices: nothing is pooled" in str(found)
    assert json.loads(found.to_json())["by"] == "model"
    assert found.markdown()


def test_nothing_scored_says_so(trial, results):
    assert "nothing can be said" in str(results([trial(1, None)]).slices())
    with pytest.raises(Unknown, match="slice"):
        results([trial(1, 1)]).slices("slcie")


def test_equal_scores_in_a_tiny_slice_are_no_certainty(trial, results):
    rng = np.random.default_rng(4)
    trials = [trial(f"{s} {c}", rng.integers(0, 5) / 4, slice=s) for s in "abcdefgh" for c in range(3)]
    trials += [trial(f"same {c}", 1.0, slice="same") for c in range(2)]
    found = {one.label: one for one in results(trials).slices().slices}
    same = found["same"].pooled
    assert same.high - same.low > 0.2
    assert all(0 <= one.pooled.low < one.pooled.high <= 1 for one in found.values())


def test_two_slices_have_intervals_of_their_own(trial, results):
    found = results([trial(c, 0.9, slice="a" if c < 3 else "b") for c in range(6)]).slices()
    assert [one.pooled.low for one in found.slices] == pytest.approx([0.9 * (0.025 ** (1 / 3))] * 2, rel=0.01)
