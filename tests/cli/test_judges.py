"""contest, leaderboard of a contest, and trust: judges at work, and how far they can be trusted."""

from __future__ import annotations

import csv
import json
import re

import pytest

from peira.core.registry import registry
from peira.models import ScriptedModel

WORDS = """
from peira import Case, judge, study

@study(cases=[Case(n, metadata={"human": 1 + n % 5}) for n in range(12)],
       factors={"style": ["terse", "plain", "wordy"]},
       evaluators=[judge("ruled:judge", "Is it short?", repairs=0)])
def explain(case, style):
    return "word " * ({"terse": 1, "plain": 3, "wordy": 4}[style] + case.input % 3)
"""


def verdict(request):
    said = re.findall(r"<(\w+) \w+>\n(.*?)\n</", request.messages[0]["content"], re.DOTALL)
    words = {name: len(text.split()) for name, text in said}
    if "answer" in words:
        grade = {"reason": "so long", "grade": max(1, 6 - words["answer"])}
        return "?" if words["answer"] == 6 else json.dumps(grade)
    better = "first" if words["first"] <= words["second"] else "second"
    return json.dumps({"reason": "shorter", "better": better})


registry.add("model", "ruled", lambda model: ScriptedModel(model, answers=verdict))


@pytest.fixture
def ran(peira, folder):
    (folder / "words.py").write_text(WORDS)
    return peira("run", "words.py", "--json").document


def test_no_verdicts_are_told_beside_the_means(peira, ran):
    assert ran["exit_code"] == 0
    rows = {row["style"]: row for row in ran["table"]["rows"]}
    assert [rows[style]["no_verdict"] for style in ("terse", "plain", "wordy")] == [0, 0, 4]
    shown = peira("show", ran["run"], "--trials").out
    assert "judge: no verdict" in shown
    assert "4 scores without a verdict" in shown
    assert "\nno failures\n" in peira("show", "--failures").out


def test_a_contest_is_run_shown_and_shown_again(peira, ran):
    done = peira("contest", ran["run"], "--by", "style", "--judge", "ruled:judge")
    assert done.code == 0
    assert "terse" in done.out.split("won-tied-lost")[1].splitlines()[1]
    again = peira("leaderboard", "--elo", "--bootstrap", "--json").document
    assert [entry["label"] for entry in again["entries"]] == ["terse", "plain", "wordy"]
    assert again["games"] == 36
    assert again["entries"][0]["elo"] > 1000
    assert "wins of" in peira("leaderboard", "--wins").out
    more = peira("contest", ran["run"], "--by", "style", "--judge", "ruled:judge", "--json").document
    assert more["counts"]["reused"] == 72
    assert more["standings"]["games"] == 36


def test_what_is_wrong_with_a_contest_is_said(peira, ran):
    for words, problem in [
        (("contest", "--judge", "ruled:judge", "--by", "stile"), "no factor 'stile'"),
        (("contest", "--by", "style"), "--judge: name the model"),
        (("contest", "--by", "style", "--judge", "nobody"), "nobody"),
        (("leaderboard", "--elo"), "peira contest"),
        (("trust", "--cut", "1"), "--labels"),
        (("trust", "--labels", "humna"), "human"),
    ]:
        done = peira(*words)
        assert done.code == 2, words
        assert problem in done.err


def test_trust_by_a_field_and_by_a_file(peira, ran, folder):
    found = peira("trust", "--labels", "human", "--by", "style", "--json").document
    assert set(found) == {"agreement", "biases", "corrected"}
    assert found["agreement"]["labelled"] == 32
    assert [row["labels"] for row in found["corrected"]["body"]] == [["terse"], ["plain"], ["wordy"]]
    trials = peira("show", "--trials", "--json").document["trials"]
    cases = [one["case"] for one in trials if one["condition"] == {"style": "terse"}][:3]
    with (folder / "labels.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, ["case", "style", "label"])
        writer.writeheader()
        writer.writerows({"case": case, "style": "terse", "label": 5} for case in cases)
    shown = peira("trust", "--labels", "labels.csv").out
    assert "judge.raw on 3 labelled outputs of 3 cases" in shown
    assert "too few to say" in shown
    assert "corrected" in shown
    assert "per doubling of length" in peira("trust").out
