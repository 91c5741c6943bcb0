"""A small seeded sample of benchmarks/calibration: nothing that is a default may promise too much."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks" / "calibration"))

import designed
import live
import means
import others
import page
import run as sections
import shares
import unbalanced
import verdicts
from cells import Cell, covered, enumerated, narrowest, rejected


def broken(cells: list[Cell]) -> list[Cell]:
    assert cells
    return [cell for cell in cells if cell.verdict.startswith("TOO")]


def test_proportions_over_every_outcome():
    cells = list(shares.independent(quick=True))
    assert not broken(cells)
    assert sum(cell.verdict == "ok" for cell in cells) >= len(cells) - 1


def test_pairs_of_proportions_over_every_outcome():
    assert not broken([*shares.matched(quick=True), *shares.unmatched(quick=True)])


@pytest.mark.parametrize(
    ("p", "correlation", "sizes"),
    [
        (0.97, 0.3, np.full(25, 5)),
        (0.97, 0.3, np.full(100, 5)),
        (0.1, 0.8, np.full(10, 10)),
        (0.5, 0.0, np.full(100, 2)),
        (0.8, 0.3, np.arange(40) % 9 + 1),
    ],
)
def test_proportions_in_clusters(p, correlation, sizes):
    assert shares.cluster_cell(p, correlation, sizes, 400, seed=1).verdict == "ok"


def test_means_of_clusters_where_nothing_is_skewed():
    assert not broken(list(means.clusters(quick=True)))


def test_means_also_of_skewed_values():
    cells = list(means.single(quick=True))
    assert not broken(cells)
    assert all(cell.verdict == "ok" for cell in cells if cell.situation.endswith((" normal", "3 df")))


def test_the_page_has_every_section_that_is_run_and_no_other():
    known = page.sections(
        (Path(__file__).resolve().parents[2] / "docs" / "calibration.md").read_text("utf-8")
    )
    assert set(known) == set(sections.SECTIONS)


@pytest.mark.parametrize("shape", ["normal", "t with 3 df", "lognormal 1"])
def test_tests_keep_their_level(shape):
    assert not broken(list(means.tests_of(10, shape, 500, seed=3)))


def test_looking_on_the_way():
    assert not broken(list(others.looking(quick=True)))


def test_everything_else():
    assert not broken(list(others.rest(quick=True)))


def test_designed_studies():
    assert not broken(list(designed.rest(quick=True)))


@pytest.mark.parametrize("judge", ["mostly 5, rarely 1", "nearly always 5"])
def test_skewed_judges_are_covered_and_compared_without_false_alarms(judge):
    means = [verdicts.judged_cell(judge, n, 100, 1) for n in (12, 30)]
    assert not broken(means)
    assert any(float(cell.note.removeprefix("t: ")) < 0.92 for cell in means)
    assert not broken([verdicts.compared_cell(judge, 12, True, 100, 3)])


def test_skewed_judges_do_not_pass_gates_at_their_mean():
    cells = [verdicts.gate_cell(name, shares, 12, 100, 2) for name, shares in verdicts.JUDGES.items()]
    assert not broken(cells)
    assert any(float(cell.note.removeprefix("t: ")) > 0.1 for cell in cells)


def test_gates_of_seconds_are_not_passed_at_their_mean():
    """By Student's t a limit at the mean of twelve log-normal times is passed in 0.19."""
    cell = verdicts.time_gate("log-normal", 12, 200, 4)
    assert not broken([cell])
    assert float(cell.note.removeprefix("t: ")) > 0.1


def test_planned_looks_at_skewed_differences():
    draw = verdicts.DIFFERENCES["-0.95 in 5%, else +0.05"]
    assert verdicts.crossed(draw, 50, "pocock", 40, 1) <= 0.05 + 2 * np.sqrt(0.05 * 0.95 / 40)


def test_small_slices():
    assert not broken(list(verdicts.small_slices(quick=True)))


def test_few_cases_of_a_measure_without_limits_are_told_apart_only_with_doubt():
    """Sign flips of eight log-normal differences reject in 0.16, t with its adjustment of twelve in 0.08."""
    cells = list(verdicts.hidden_tails(quick=True))
    assert not broken(cells)
    assert any(float(cell.note.split()[2]) > 0.08 for cell in cells if cell.note)


def test_lost_trials_that_depend_on_the_answer():
    cells = list(verdicts.lost(quick=True))
    assert not broken(cells)
    assert any(float(cell.note.rpartition(" ")[2]) > 0.2 for cell in cells if cell.note)


def test_the_page_keeps_what_is_not_run_again(tmp_path):
    path = tmp_path / "calibration.md"

    def table_of(verdict):
        rows = ("method | situation | found | best attainable | verdict", "---|---|---|---|---")
        lines = (*rows, f"t | n 10 | 0.842 ± 0.007 | 0.950 | {verdict}")
        return "\n".join(f"| {line} |" for line in lines)

    page.write(
        path, {"B": ("2", table_of("ok")), "A": ("1", table_of("TOO RARELY (warned in 41%)"))}, ["A", "B"]
    )
    text = path.read_text(encoding="utf-8")
    assert text.index("## A (1 s)") < text.index("## B (2 s)")
    assert "| A | 0 | 0 | 1 |" in text
    assert "| t | n 10 | 0.842 ± 0.007 | TOO RARELY (warned in 41%) |" in text
    page.write(path, {"A": ("3", table_of("ok"))}, ["A", "B"])
    again = path.read_text(encoding="utf-8")
    assert "Nothing." in again
    assert "## B (2 s)" in again
    assert "| B | 1 | 0 | 0 |" in again


def test_verdicts():
    def verdict(kind, found, attainable=0.95, rounds=0):
        return Cell("m", "s", kind, found, attainable, rounds).verdict

    assert [verdict("coverage", found) for found in (0.93, 0.94, 0.97, 0.98)] == [
        "TOO RARELY",
        "ok",
        "ok",
        "wide",
    ]
    assert verdict("coverage", 0.99, attainable=0.985) == "ok"
    assert verdict("coverage", 0.93, rounds=100) == "ok"
    assert [verdict("rejection", found, 0.05) for found in (0.056, 0.05, 0.02)] == [
        "TOO OFTEN",
        "ok",
        "rarely",
    ]
    assert verdict("rejection", 0.001, 0.004) == "ok"
    assert [verdict("anytime", found) for found in (0.0, 0.05, 0.06)] == ["ok", "ok", "TOO OFTEN"]


def test_what_is_attainable():
    # A fair coin thrown twice: only all three outcomes together reach 0.95. Five throws: 1 to 5 heads do.
    assert narrowest(np.array([0.25, 0.5, 0.25])) == 1.0
    assert narrowest(np.array([1, 5, 10, 10, 5, 1]) / 32) == pytest.approx(31 / 32)
    assert enumerated(np.array([0.01, 0.04, 0.2]), np.array([0.03, 0.04, 0.93])) == pytest.approx(
        (0.07, 0.03)
    )


@pytest.mark.parametrize("method", unbalanced.TESTS)
@pytest.mark.parametrize(
    "where",
    ["7-run D-optimal, 5 factors", "half fraction of 5, 3 runs left out", "2 x 2 x 3 under a constraint"],
)
def test_a_factor_without_effect_in_a_design_that_is_not_balanced(where, method):
    """Averages over the other factors call it a difference in most of these studies."""
    draw = partial(unbalanced.null_factor, unbalanced.designs()[where], 10, unbalanced.TESTS[method])
    assert rejected(draw, 60, seed=1)[0] <= 0.12


@pytest.mark.parametrize(
    "draw",
    [
        partial(unbalanced.with_losses, 12, 0.5, "m"),
        partial(unbalanced.few_complete, 3),
        partial(unbalanced.uneven, (4, 4, 30)),
        partial(unbalanced.uneven, (3, 3, 3, 30)),
        partial(unbalanced.reacting, 12),
    ],
    ids=[
        "12 cases, half lost",
        "4 of 30 complete",
        "4, 4 and 30 cases",
        "3, 3, 3 and 30 cases",
        "mixed model",
    ],
)
def test_effects_count_information_and_not_units(draw):
    """By the number of units: 0.10, 0.35, 0.14 and 0.28; by random intercepts alone 0.17."""
    assert rejected(draw, 80, seed=2)[0] <= 0.055 + 2 * (0.055 * 0.945 / 80) ** 0.5


@pytest.mark.parametrize("shape", unbalanced.SHAPES)
def test_marginal_means_of_skewed_scores_with_lost_trials(shape):
    """Student's t held the mean of twelve cases in 0.76 (grades) to 0.88."""
    own, truth = unbalanced.SHAPES[shape]
    assert (
        covered(partial(unbalanced.shaped, own, 12), truth, 80, seed=1)
        >= 0.94 - 2 * (0.06 * 0.94 / 80) ** 0.5
    )


def test_forecasts_of_power_are_what_is_found():
    """16 runs x 3 cases: 0.39 was promised and 0.17 found; 8 x 2 x 2: 0.78 and 0.20."""
    assert not broken(list(unbalanced.forecasts(quick=True)))


def test_live_comparisons_hold_at_every_look():
    """Without weights, drift is taken for an effect in most of the experiments whose traffic follows."""
    drift = live.SITUATIONS["drift from 0.2 to 0.9"]
    cells = [live.missed("thompson", drift, 12, 3, floor=0.05), live.missed("random", drift, 12, 3)]
    assert not broken(cells)


def test_experiments_that_are_decided_name_no_false_winner():
    none = live.decided("thompson", (0.5, 0.5), 5, 5, 150)
    some = live.decided("random", (0.9, 0.4), 5, 6, 150)
    assert not broken([none, some])
    assert some.note.startswith("found in 1.00")


def test_goals_are_seldom_wrong_however_often_one_looks():
    assert not broken([live.goal(0.8, over, 15, 7, 200) for over in (None, 50.0)])
