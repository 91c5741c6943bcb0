"""Split plots: each term against the error of its own stratum."""

from __future__ import annotations

import json

import numpy as np
import pytest

from peira import Case, Design, Factor, match, run, study

YIELDS = """
111 130 157 174 117 114 161 141 105 140 118 156 61 91 97 100 70 108 126 149 96 124 121 144 68 64 112 86 60 102
89 96 89 129 132 124 74 89 81 122 64 103 132 133 70 89 104 117 62 90 100 116 80 82 94 126 63 70 109 99 53 74
118 113 89 82 86 104 97 99 119 121
"""
"""Yates (1935), oats: six blocks of three whole plots (Victory, Golden, Marvellous) of four nitrogens."""


def oats(trial, cases=(0.0,)):
    """One run for each yield; with several cases each run is made on all of them, shifted."""
    rows = [int(text) for text in YIELDS.split()]
    for n, yielded in enumerate(rows):
        block, variety, nitrogen = n // 12, "VGM"[n // 4 % 3], n % 4
        for case, shift in enumerate(cases):
            where = {"block": f"b{block}", "plot": f"{block}{variety}", "id": f"{n} {case}"}
            yield trial(case, yielded + shift, variety=variety, nitrogen=nitrogen, **where)


def test_published_oats_agree_with_r(trial, results):
    """R 4.2.2: summary(aov(Y ~ V*N + Error(B/V), MASS::oats)), digits = 12."""
    found = results(oats(trial)).strata()
    lines = {one.term: one for one in found.lines}
    assert [(error.df, error.squares) for error in found.errors] == [
        (10, pytest.approx(6013.30555556, rel=1e-11)),
        (45, pytest.approx(7968.75, rel=1e-11)),
    ]
    assert lines["variety"].squares == pytest.approx(1786.36111111, rel=1e-11)
    assert lines["variety"].f == pytest.approx(1.48534037944, rel=1e-11)
    assert lines["variety"].p == pytest.approx(0.272386856735, rel=1e-10)
    assert lines["nitrogen"].squares == pytest.approx(20020.50, rel=1e-11)
    assert lines["nitrogen"].p == pytest.approx(2.45770955456e-12, rel=1e-8)
    assert lines["variety x nitrogen"].squares == pytest.approx(321.75, rel=1e-11)
    assert lines["variety x nitrogen"].p == pytest.approx(0.932198758999, rel=1e-10)
    assert "nitrogen makes a difference" in found.sentence
    assert "variety makes no clear difference" in found.sentence
    assert json.loads(found.to_json())["lines"][0]["stratum"] == "whole plots"


def test_cases_that_react_alike_change_nothing(trial, results):
    one, many = (results(oats(trial, cases)).strata() for cases in ((0.0,), (0.0, 5.0, -3.0)))
    for a, b in zip(one.lines, many.lines, strict=True):
        assert (b.f, b.p) == (pytest.approx(a.f), pytest.approx(a.p))
        assert b.squares == pytest.approx(3 * a.squares)


def test_without_two_plots_of_a_setting_nothing_is_said_of_it(trial, results):
    """Ignoring plots, the same trials would show a clear effect."""
    rng = np.random.default_rng(1)
    trials = [
        trial(case, 10.0 * (plot == "b") + rng.normal(), tool=plot, style=style, plot=plot)
        for case in range(20)
        for plot in ("a", "b")
        for style in ("x", "y")
    ]
    found = results(trials).strata()
    assert found.line("tool").p is None
    assert "no error to test it against" in found.sentence
    assert found.line("style").p is None or found.line("style").p > 0.01
    assert any("set for whole plots: tool" in note for note in results(trials).effects().notes)


@pytest.mark.parametrize(("reaction", "plot"), [(0.5, 1.0), (1.0, 0.0)])
def test_it_keeps_its_level_where_plots_and_cases_differ(trial, results, reaction, plot):
    """Plots that differ by chance, and cases that react differently to the whole-plot factor: over 150 data
    sets without any effect the false alarms stay about the level. Ignoring plots they would be many."""
    rng, strata, naive = np.random.default_rng(5), 0, 0
    for _ in range(150):
        reacts, plots = rng.normal(0, reaction, (8, 2)), rng.normal(0, plot, 12)
        trials = [
            trial(case, reacts[case, p % 2] + plots[p] + rng.normal(), tool=p % 2, style=s, plot=f"p{p}")
            for case in range(8)
            for p in range(12)
            for s in range(2)
        ]
        made = results(trials)
        strata += made.strata("tool", "style").line("tool").p <= 0.05
        naive += made.effects("tool").tests[0].p <= 0.05
    assert strata <= 0.05 * 150 + 2 * (150 * 0.05 * 0.95) ** 0.5
    assert naive > 30 or not plot


def test_plots_of_a_design_are_known_to_its_results(tmp_path):
    @study(
        cases=[Case(str(n), expected="a") for n in range(5)],
        factors=[Factor("model", levels=["m", "n"], dear=True), Factor("style", levels=["x", "y"])],
        design=Design("split_plot", {"plots": 3}),
        evaluators=[match()],
    )
    def answer(case, model, style):
        return "a" if (int(case.input) + len(style + model)) % 2 else "b"

    found = run(answer, store=tmp_path / "s.db")
    assert {trial.plot for trial in found} == {str(n) for n in range(1, 7)}


@pytest.mark.parametrize("values", [[None, None], [1.0, 1.0]])
def test_nothing_to_test(trial, results, values):
    trials = [trial("c", value, tool=n, plot=str(n)) for n, value in enumerate(values)]
    assert results(trials).strata().sentence.endswith(("said.", "tested."))


def test_without_plots_it_says_where_to_look(trial, results):
    assert "no whole plots" in str(results([trial("c", 1.0, tool=1)]).strata())
