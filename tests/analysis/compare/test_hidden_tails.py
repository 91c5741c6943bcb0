"""Few units of a measure without limits may hide a long tail: what it could overturn is said first."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest

from peira.analysis.compare.hypotheses import decide
from peira.analysis.effects.marginal_means import GridQuery, marginal_means
from peira.report.sections.answer import hidden
from peira.results.aims import Aims
from peira.spec.aims import AnalysisPlan, Hypothesis

GAPS = [-1.5, -1.2, -0.9, -0.6, 0.5, -1.1, -0.2, -1.4, 0.3, -0.1]
"""Ten differences that are clear, and lean a little: further off on the other side there may be more."""
DOUBT = "A long tail that 10 cases may hide could overturn this: "


@pytest.fixture
def study(trial, results):
    def made(gaps, levels="ab", unit=1.0, lost=()):
        return results(
            [
                trial(c, 20.0 + 3 * c + unit * gap * (m == "b") + (0.1 * (c * c % 7) - 0.3) * (m == "c"), m=m)
                for c, gap in enumerate(gaps)
                for m in levels
                if (c, m) not in lost
            ]
        )

    return made


def test_comparisons_say_so_first_and_in_json(study):
    found = study(GAPS).compare("m")
    (one,) = found.contrasts
    assert one.adjusted <= 0.05 < one.tailed
    assert one.hides_tail(0.05)
    assert not one.hides_tail(0.01)
    assert found.sentence.startswith(f"{DOUBT}b scores lower than a")
    document = json.loads(found.to_json())["contrasts"][0]
    assert document["hides_tail"] is True
    assert document["overturnable"] is False


def test_what_no_tail_could_undo_is_told_without_doubt(study):
    found = study([gap - 9 for gap in GAPS]).compare("m")
    assert found.contrasts[0].tailed <= 0.05
    assert "could overturn" not in found.sentence
    unclear = study([gap + 1 for gap in GAPS]).compare("m")
    assert unclear.contrasts[0].adjusted > 0.05
    assert "could overturn" not in unclear.sentence


def test_neither_scores_within_limits_nor_many_units_hide_a_tail(trial, results, study):
    within = results([trial(c, 0.5 + m * 0.1 * (c % 3), m=m) for c in range(10) for m in range(2)])
    assert within.compare("m").contrasts[0].tailed is None
    rng = np.random.default_rng(0)
    assert study(rng.normal(0.5, 1, 40)).compare("m").contrasts[0].tailed is None
    assert study(rng.normal(0.5, 1, 39)).compare("m").contrasts[0].tailed is not None
    assert study(GAPS).compare("m", test="wilcoxon").contrasts[0].tailed is None


@pytest.mark.parametrize("n", [6, 8, 9])
def test_flips_of_signs_presume_symmetry_and_are_doubted_too(study, n):
    gaps = [-1.0 - 0.1 * c for c in range(n - 1)] + [-0.02]
    (one,) = study(gaps).compare("m").contrasts
    assert one.test.startswith("sign-flip")
    assert one.adjusted <= one.tailed


def test_families_adjust_what_is_doubted_as_they_do_p_values(study):
    given = study(GAPS, "abc")
    for correction in ("holm", "bonferroni", "tukey"):
        contrasts = given.compare("m", correction=correction).contrasts
        for one in contrasts:
            assert one.adjusted <= one.tailed <= 1
    single = study(GAPS).compare("m").contrasts[0]
    by_bonferroni = given.compare("m", correction="bonferroni").contrasts[0]
    assert by_bonferroni.tailed == pytest.approx(min(1.0, 3 * single.tailed))


def test_sides_without_a_case_in_common_hide_tails_too(trial, results):
    sides = {"a": [0.02 * (c % 5) for c in range(10)], "b": GAPS}
    given = [trial(f"{m} {c}", value, m=m) for m, values in sides.items() for c, value in enumerate(values)]
    (one,) = results(given).compare("m").contrasts
    assert one.model == "groups"
    assert one.p <= 0.05 < one.tailed


def test_the_model_of_the_design_hides_tails_too(trial, results):
    lost = {(0, "b", 0), (4, "a", 1)}
    given = [
        trial(c, 20.0 + 3 * c + gap * (m == "b") + 0.3 * (c * 7 % 5) * s, m=m, s=s)
        for c, gap in enumerate(GAPS)
        for m, s in product("ab", range(2))
        if (c, m, s) not in lost
    ]
    (one,) = results(given).compare("m").contrasts
    assert one.model == "design"
    assert one.adjusted <= 0.05 < one.tailed
    assert results(given).compare("m").sentence.startswith(DOUBT)
    effects = results(given).effects()
    assert "A long tail that 10 units may hide could overturn this: m (b - a) changes" in effects.sentence
    assert hidden(effects) == "A long tail that 10 units may hide could overturn m: "


def test_effects_of_several_levels_hide_tails_too(study):
    effects = study(GAPS, "abc").effects()
    (test,) = effects.tests
    assert test.p <= test.tailed
    plain = study([gap - 9 for gap in GAPS]).effects()
    assert hidden(plain) == ""


def test_grids_say_so_first(study):
    trials = list(study(GAPS).trials)
    found = marginal_means(trials, GridQuery(("m",), {}))
    assert found.sentence.startswith("A long tail that 10 units may hide could overturn this: b - a changes")
    assert json.loads(found.to_json())["contrasts"][0]["hides_tail"] is True


def test_leaderboards_mark_what_a_tail_could_undo(study):
    board = study(GAPS).leaderboard("m")
    assert board.hides_tail
    assert board.sentence.startswith("A long tail that so few cases may hide could overturn this: a is best")
    assert [one.letters for one in board.entries] == ["a", "b"]
    assert all(one.doubtful for one in board.entries)
    assert "? told apart from others only if so few cases hide no long tail" in board.notes
    firm = study([gap - 9 for gap in GAPS]).leaderboard("m")
    assert not firm.hides_tail
    assert firm.sentence.startswith("a is best")


def decided(given, direction, correction=""):
    about = [Hypothesis("h", factor="m", levels=("b", "a"), direction=direction)]
    if not correction:
        return decide(list(given.trials), Aims(hypotheses=tuple(about))).found[0]
    plan = AnalysisPlan(name="main", hypotheses=("h",), correction=correction)
    return decide(list(given.trials), Aims(hypotheses=tuple(about), plans=(plan,))).found[0]


@pytest.mark.parametrize(
    ("direction", "verdict"), [("different", "supported"), ("less", "supported"), ("greater", "rejected")]
)
@pytest.mark.parametrize("correction", ["", "holm", "dunnett"])
def test_verdicts_on_hypotheses_are_doubted_in_every_direction(study, direction, verdict, correction):
    found = decided(study(GAPS), direction, correction)
    assert found.verdict == verdict
    assert found.sentence.startswith(DOUBT)
    firm = decided(study([gap - 9 for gap in GAPS]), direction, correction)
    assert firm.verdict == verdict
    assert "could overturn" not in firm.sentence
    assert not decided(study([gap + 0.6 for gap in GAPS]), direction, correction).doubt


def test_what_is_said_of_a_margin_allows_for_a_hidden_tail(study):
    """Ten differences whose mean lies within a quarter, if none of the next ones is far off."""
    near = [gap / 2 + 0.31 for gap in GAPS]
    assert (
        "; equivalent within 0.25 if 10 cases hide no long tail"
        in study(near).compare("m", margin=0.25).sentence
    )
    assert study(near).compare("m", margin=5.0).sentence.endswith("; equivalent within 5.")


@pytest.mark.parametrize(
    ("direction", "margin", "gaps", "firm"),
    [
        ("not_less", 0.1, [-gap / 2 for gap in GAPS], [5 - gap / 2 for gap in GAPS]),
        ("equivalent", 0.25, [gap / 2 + 0.31 for gap in GAPS], [gap / 20 for gap in GAPS]),
        ("less", 0.05, [gap / 2 for gap in GAPS], [gap / 2 - 4 for gap in GAPS]),
    ],
)
def test_hypotheses_of_a_margin_are_doubted_too(study, direction, margin, gaps, firm):
    about = Hypothesis("h", factor="m", levels=("b", "a"), direction=direction, margin=margin)
    found, sure = (
        decide(list(study(each).trials), Aims(hypotheses=(about,))).found[0] for each in (gaps, firm)
    )
    assert found.verdict == sure.verdict == "supported"
    assert found.sentence.startswith(DOUBT)
    assert not sure.doubt
