"""design: what a design can tell, in words and as a document, of Python and TOML studies; nothing is run."""

from __future__ import annotations

from pathlib import Path

import pytest

FRACTION = """
from peira import match, study

@study(cases=[(f"q{n}", "a") for n in range(20)], evaluators=[match()], repeats=2,
       factors={"model": ["a", "b"], "style": ["plain", "think"], "length": ["short", "long"],
                "temperature": ["cold", "hot"]},
       design={"name": "fractional_factorial", "runs": 8})
def fraction(case, model, style, length, temperature):
    raise RuntimeError("nothing is to be run")
"""

CONSTRAINED = """
name = "constrained"
agent = "agent.py:answer"
cases = [{input = "q", expected = "a"}, {input = "r", expected = "b"}]
evaluators = ["match"]
constraints = ["not (model == 'c' and style == 'think')"]
[factors]
model = ["a", "b", "c"]
style = ["plain", "think"]
"""

AGENTS = """
from peira import match, study

def both(case, model, style): ...
def too(case, model, style): ...
def one(case, model): ...
def bare(case): ...

agents = study(cases=["q", "r"], evaluators=[match()],
               agents={"both": both, "too": too, "one": one, "bare": bare},
               factors={"model": ["a", "b"], "style": ["plain", "think"]})
"""

AUTO = """
from peira import match, study

@study(cases=[(f"q{n}", "a") for n in range(20)], evaluators=[match()], design="auto",
       factors={name: ["low", "high"] for name in "abcdefg"})
def auto(case, a, b, c, d, e, f, g): ...
"""

LARGE = """
from peira import match, study

@study(cases=["q"], evaluators=[match()], factors={name: list(range(10)) for name in "abcdefg"})
def large(case, a, b, c, d, e, f, g): ...
"""


@pytest.fixture
def studies(folder: Path) -> Path:
    written = {
        "fraction.py": FRACTION,
        "constrained.toml": CONSTRAINED,
        "agent.py": "def answer(case, model, style): ...",
        "agents.py": AGENTS,
        "auto.py": AUTO,
        "large.py": LARGE,
    }
    for name, text in written.items():
        (folder / name).write_text(text)
    return folder


def test_plain_words_first_then_tables_and_nothing_written(peira, studies):
    done = peira("design", "fraction.py", "--effect", "0.2", "--noise", "0.5")
    assert done.code == 0
    words, effects, levels, facts = done.out.strip().split("\n\n")
    assert words.splitlines()[:4] == [
        "fraction: fractional_factorial, 320 trials",
        "8 runs of 4 factors: a regular 1/2 fraction of resolution IV",
        "main effects of model, style, length and temperature are clear of two-way interactions",
        "model x style is confounded with length x temperature",
    ]
    assert effects.splitlines()[0].split("  ")[0] == "effect"
    assert len(effects.splitlines()) == 1 + 4 + 6
    assert "model        a 4, b 4" in levels
    assert "defining relation: I = model:style:length:temperature" in facts
    assert "efficiency: D 100%, A 100%, G 100%, I 100%; condition number 1" in facts
    assert not (studies / ".peira").exists()


def test_a_document_for_programs(peira, studies):
    document = peira("design", "fraction.py", "--effect", "0.2", "--json").document
    assert [*document] == ["study", "design", "parameters", "trials", "notes", "why", "parts"]
    (part,) = document["parts"]
    assert part["agents"] == ["fraction"]
    assert part["words"][0].startswith("8 runs of 4 factors")
    found = part["diagnosis"]
    assert found["regular"]["resolution"] == 4
    assert (found["assumed"]["effect"], found["assumed"]["noise"]) == (0.2, 1.0)
    assert (found["assumed"]["cases"], found["assumed"]["repeats"]) == (20, 2)
    assert [one["effect"] for one in found["powers"]] == ["model", "style", "length", "temperature"]


def test_the_formula_and_the_noise_of_cases_are_heeded(peira, studies):
    plain = peira("design", "capitals.py", "--json").document["parts"][0]["diagnosis"]
    main = peira("design", "capitals.py", "--json", "--formula", "main").document["parts"][0]["diagnosis"]
    noisy = peira("design", "capitals.py", "--json", "--case-noise", "2").document["parts"][0]["diagnosis"]
    assert (plain["formula"], main["formula"]) == ("interactions", "main")
    assert noisy["powers"][0]["error"] > plain["powers"][0]["error"]


def test_what_constraints_take_is_said(peira, studies):
    done = peira("design", "constrained.toml")
    assert "1 combination inadmissible, and not run" in done.out
    assert "constraints: the balance of model and style is lost" in done.out
    assert "constraints: model and style are no longer orthogonal to each other" in done.out


def test_agents_that_take_other_factors_are_told_apart(peira, studies):
    document = peira("design", "agents.py", "--json").document
    assert [(part["agents"], part["diagnosis"]["factors"]) for part in document["parts"]] == [
        (["both", "too"], ["agent", "model", "style"]),
        (["one"], ["model"]),
    ]
    assert document["trials"] == (2 * 4 + 2 + 1) * 2
    assert document["notes"] == ["bare: nothing varies, so there is nothing to compare"]


def test_what_was_chosen_and_why(peira, studies):
    done = peira("design", "auto.py")
    assert "16 runs of 7 factors: a regular 1/8 fraction of resolution IV" in done.out
    assert "\nchosen: fractional_factorial(runs = 16): 16 runs x " in done.out
    assert "\nnot full_factorial (128 runs): 16 runs will do" in done.out


def test_ten_million_runs_are_told_of_at_once(peira, studies):
    done = peira("design", "large.py")
    assert done.out.startswith("large: full_factorial, 10,000,000 trials\n10,000,000 runs of 7 factors")


def test_the_runs_are_drawn(peira, studies):
    done = peira("design", "fraction.py", "--plot", "design.svg")
    assert done.code == 0
    assert done.problems == ["drawn in design.svg"]
    assert (studies / "design.svg").read_text().count("temperature") >= 2
    peira("design", "agents.py", "--plot", "agents.png")
    assert (studies / "agents.png").read_bytes().startswith(b"\x89PNG")
    assert (studies / "agents-2.png").exists()


def test_a_stored_run_has_a_design_too(peira, studies):
    peira("run", "capitals.py")
    run = peira("runs", "--json").document["runs"][0]["run"]
    done = peira("design", run[:8])
    assert done.out.startswith("capitals: full_factorial, 16 trials\n4 runs of 2 factors: every combination")


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--formula", "modle"], "no factor 'modle'; did you mean 'model'?"),
        (["--alpha", "2"], "'--alpha': 2 is not between 1e-12 and 0.999999999999"),
        (
            ["--effect", "-1", "--noise", "0"],
            "effect: must be a number above 0 (from 1e-12 to 1e+12), not -1.0",
        ),
        (["--plot", "design.txt"], "plot: 'design.txt' must end in one of .svg, .png, .pdf"),
        (["--plot", "nowhere/design.svg"], "plot: there is no folder 'nowhere'"),
    ],
)
def test_what_is_wrong_is_said_in_a_line_each(peira, studies, options, problem):
    done = peira("design", "fraction.py", *options)
    assert done.code == 2
    assert problem in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


def test_a_study_without_factors_has_nothing_to_compare(peira, studies):
    done = peira("design", "failing.py")
    assert done.code == 2
    assert done.problems == ["peira: nothing varies: there is no factor with two levels or more; give one"]
