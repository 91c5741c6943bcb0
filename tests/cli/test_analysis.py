"""compare, leaderboard, effects, hypotheses, power, gate: what results mean, for people and for programs."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

QUIZ = """
from peira import exact, study

@study(cases=[(n, "yes") for n in range(40)],
       factors={"model": ["small", "large"], "style": ["plain", "kind"]},
       evaluators=[exact()],
       hypotheses=[{"id": "h1", "factor": "model", "levels": ["large", "small"], "direction": "greater"},
                   {"id": "h2", "factor": "model", "levels": ["large", "small"], "direction": "less"},
                   {"id": "h3", "factor": "style"}],
       analysis_plans=[{"name": "main", "correction": "holm", "hypotheses": ["h1", "h3"]}])
def quiz(case, model, style):
    return "yes" if case.input % (10 if model == "large" else 3) else "no"
"""


@pytest.fixture
def ran(peira, folder):
    (folder / "quiz.py").write_text(QUIZ)
    return peira("run", "quiz.py", "--json").document["run"]


def test_levels_are_compared_case_by_case(peira, ran):
    found = peira("compare", ran[:8], "--by", "model", "--json").document
    (contrast,) = found["contrasts"]
    assert (contrast["first"], contrast["second"], contrast["paired"]) == ("large", "small", True)
    assert contrast["n"] == 80
    assert contrast["units"] == 40
    assert contrast["difference"]["low"] > 0
    assert contrast["clear"]
    assert "large scores higher than small" in peira("compare", "--by", "model").out


def test_a_run_compared_with_itself_shares_everything(peira, ran):
    found = peira("compare", ran, ran, "--json").document["contrasts"][0]
    assert (found["shared"], found["difference"]["mean"]) == (1, 0)
    assert peira("compare", ran, ran, "--test", "welch").code == 2


def test_what_to_compare_must_be_said(peira, ran):
    done = peira("compare", ran)
    assert done.code == 2
    assert "model, style" in done.err
    assert peira("compare", ran, ran, "--by", "model").code == 2
    assert "'model'" in peira("compare", ran, "--by", "modle").err
    assert "holm" in peira("compare", ran, "--by", "model", "--correction", "hulm").err


def test_the_leaderboard_says_who_cannot_be_told_apart(peira, ran):
    found = peira("leaderboard", "--by", "model", "--json").document
    assert [(e["label"], e["best"], e["worst"], e["letters"]) for e in found["entries"]] == [
        ("large", 1, 1, "a"),
        ("small", 2, 2, "b"),
    ]
    assert "wins of" in peira("leaderboard", "--wins").out


@pytest.mark.parametrize("model", ["paired", "linear", "anova2", "anova3"])
def test_effects_by_every_model(peira, ran, model):
    done = peira("effects", ran, "--model", model)
    assert done.code == 0
    assert "model x style" in done.out
    assert peira("effects", ran, "--model", model, "--json").document["score"] == "exact"


def test_an_unknown_model_of_effects_is_refused(peira, ran):
    assert "paired" in peira("effects", ran, "--model", "pared").err


def test_hypotheses_end_with_a_verdict(peira, ran):
    found = peira("hypotheses", ran, "--json").document["found"]
    verdicts = {one["hypothesis"]: (one["verdict"], one["plan"]) for one in found}
    assert verdicts == {"h1": ("supported", "main"), "h3": ("undecided", "main"), "h2": ("rejected", "")}
    assert "h1 is supported" in peira("hypotheses").out


def test_power_from_a_run_and_from_a_number(peira, ran):
    found = peira("power", ran, "--by", "model", "--difference", "0.05", "--json").document["rows"][0]
    assert found["needed"] > found["cases"] == 40
    given = peira("power", "--deviation", "0.5", "--difference", "0.25", "--json").document["rows"][0]
    assert given["needed"] == 34
    assert peira("power", ran, "--deviation", "0.5").code == 2
    assert peira("power", "--deviation", "0.5", "--power", "2").code == 2


def test_a_gate_is_passed_only_with_confidence(peira, ran, folder):
    mean = peira("show", ran, "--json").document["table"]["rows"]
    assert len(mean) == 4
    assert peira("gate", ran, "--min", "exact=0.6").code == 0
    close = peira("gate", ran, "--min", "exact=0.77", "--junit", "gate.xml", "--json")
    assert close.code == 1
    assert close.document["checks"][0]["met"] is False
    suite = ElementTree.fromstring(Path("gate.xml").read_text())
    assert suite.attrib["failures"] == "1"
    assert "confidence" in suite.find("testcase/failure").attrib["message"]
    assert peira("gate", ran, "--no-worse-than", f"{ran}:exact:0.1").code == 0
    assert peira("gate", ran, "--max", "took=1000").code == 0


@pytest.mark.parametrize(
    "demand",
    [[], ["--min", "exact"], ["--min", "exact=high"], ["--no-worse-than", "x"], ["--min", "exacct=0.5"]],
)
def test_a_gate_without_a_clear_demand_is_refused(peira, ran, demand):
    assert peira("gate", ran, *demand).code == 2


def test_a_gate_says_where_it_was_asked(peira, folder):
    (folder / "shots.py").write_text(
        "from peira import exact, study\n"
        "@study(cases=[(f'q{n}', 'a') for n in range(12)], factors={'shots': [0, 2]}, evaluators=[exact()])\n"
        "def shots(case, shots):\n    return 'a' if shots else 'b'\n"
    )
    run = peira("run", "shots.py", "--json").document["run"]
    done = peira("gate", run, "--min", "exact=0.5", "--where", "shots=2")
    assert (done.code, "met: exact >= 0.5 where shots=2: " in done.out) == (0, True)
    assert peira("gate", run, "--min", "exact=0.5", "--where", "shots=0").code == 1


def test_failed_trials_count_against_the_gate(peira, folder):
    peira("run", "failing.py")
    done = peira("gate", "--min", "exact=0.1")
    assert done.code == 1
    assert "NOT MET" in done.out


def test_other_numbers_than_means(peira, ran):
    found = peira("ratio", "took/exact", "--by", "model", "--json").document
    assert [row["label"] for row in found["rows"]] == ["small", "large"]
    assert peira("ratio", "took").code == 2
    assert [q["n"] for q in peira("quantiles", ran, "--json").document["rows"][0]["quantiles"]] == [160] * 3
    assert "90% of exact" in peira("quantiles", "--score", "exact", "--q", "0.9").out
    assert "own weight" in peira("slices", "--by", "model").out
    assert "none of 160 trials of 40 cases failed" in peira("show", "--failures").out
    assert "bootstrap t" in peira("show", "--interval", "bootstrap", "--by", "model").out
    assert "two-way" in peira("show", "--across", "style", "--level", "0.9").out
    assert peira("show", "--interval", "bootstrp").code == 2


def test_effect_sizes_and_intervals_by_name(peira, ran):
    asked = (
        "compare",
        "--by",
        "model",
        "--effect",
        "cliffs delta",
        "--interval",
        "bootstrap",
        "--margin",
        "0.05",
    )
    done = peira(*asked)
    assert "cliffs delta" in done.out
    assert "bootstrap t" in done.out
    assert "given the data" in done.out
    assert peira("compare", "--by", "model", "--effect", "cliff").code == 2


def test_split_plots_and_surfaces_say_when_there_are_none(peira, ran):
    assert "no whole plots" in peira("effects", "--model", "split-plot").out
    assert "No factor is a number" in peira("surface").out
    assert peira("surface", "--factor", "model").code == 2


def test_power_from_shares(peira, folder):
    assert "cases" in peira("power", "--won", "0.12", "--lost", "0.08").out
    assert "cases on each side" in peira("power", "--rates", "0.8", "0.7", "--cases", "100").out
    assert peira("power", "--won", "0.12").code == 2
    assert peira("power", "--rates", "0.8", "0.7", "--deviation", "1").code == 2
    assert peira("power", "--cluster", "3").code == 2


def test_means_over_a_grid_and_their_contrasts(peira, ran):
    found = peira("means", ran, "--by", "model", "--by", "style", "--within", "style", "--json").document
    assert [one["levels"] for one in found["means"]] == [
        ["small", "plain"],
        ["small", "kind"],
        ["large", "plain"],
        ["large", "kind"],
    ]
    assert [(one["label"], one["within"]) for one in found["contrasts"]] == [
        ("large - small", "plain"),
        ("large - small", "kind"),
    ]
    held = peira("means", ran, "--by", "model", "--at", "style=plain", "--baseline", "small")
    assert "large - small changes exact by" in held.out
    assert peira("means", ran).code == 2
    wrong = peira("means", ran, "--by", "model", "--at", "style", "--at", "model")
    assert wrong.err.count("--at: write FACTOR=LEVEL") == 2
    assert "no level 'plane' of style" in peira("means", ran, "--by", "model", "--at", "style=plane").err


def test_lost_trials_are_imputed_or_count_as_worst(peira, folder):
    (folder / "flaky.py").write_text(
        QUIZ.replace(
            "    return",
            "    if model == 'small' and case.input % 5 == 0:\n        raise OSError('gone')\n    return",
        )
    )
    ran = peira("run", "flaky.py", "--json").document["run"]
    ended = peira("compare", ran, "--by", "model", "--json").document["contrasts"][0]
    imputed = peira("compare", ran, "--by", "model", "--missing", "impute", "--json").document["contrasts"][0]
    worst = peira("compare", ran, "--by", "model", "--missing", "worst", "--json").document["contrasts"][0]
    assert (ended["model"], imputed["model"], worst["bounds"]) == ("design", "imputed", None)
    assert worst["difference"]["mean"] > imputed["difference"]["mean"]
    board = peira("leaderboard", ran, "--by", "model", "--missing", "impute")
    assert "imputed: 16 failed trials" in board.out
    assert "'impute'" in peira("compare", ran, "--by", "model", "--missing", "imput").err


def test_what_more_cases_are_worth(peira, ran):
    found = peira("worth", ran, "--by", "style", "--more", "200", "--json").document
    assert (found["more"], found["rows"]) == (200, [])
    told = peira("worth", ran, "--by", "model", "--more", "200", "--per-point", "5")
    assert "200 more cases change the choice of large with a chance of" in told.out
    assert peira("worth", ran, "--by", "model", "--more", "0").code == 2
