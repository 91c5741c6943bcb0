"""One number of each trial: what was lost is told apart from what was never asked."""

from __future__ import annotations

import math

import pytest

from peira.analysis.table.measures import measure
from peira.core.log.events import State
from peira.errors import Invalid, Unknown
from peira.results.trials import Score


def scored(**values):
    return {name: Score(name, State.succeeded, value) for name, value in values.items()}


def seen(measured):
    return [(one.trial.case_id, one.value) for one in measured.observations]


def test_a_number_that_was_never_asked_for_is_not_lost(trial):
    trials = [
        trial(1, 0, scores=scored(a=1)),
        trial(1, None, repeat=1),
        trial(2, 0, scores=scored(b=1)),
        trial(2, None, repeat=1),
        trial(3, None),
    ]
    assert seen(measure(trials, "a")) == [("1", 1), ("1", None), ("3", None)]


def test_a_score_that_failed_is_lost(trial):
    failed = {"a": Score("a", State.failed)}
    assert seen(measure([trial(1, 0, scores=scored(a=True)), trial(2, 0, scores=failed)])) == [
        ("1", 1.0),
        ("2", None),
    ]


def test_anchors_are_no_evidence(trial):
    assert seen(measure([trial(1, 1), trial(1, 0, anchor=True)])) == [("1", 1)]


def test_parts_categories_and_metrics(trial):
    trials = [
        trial(1, 0, scores=scored(j={"tone": 0.5, "word": "x"}, w="y"), metrics={"n": 3.0}, took=2.0),
        trial(2, 0, scores=scored(j={"tone": 1, "word": "y"}, w="x"), metrics={"n": math.nan}),
    ]
    assert seen(measure(trials)) == [("1", 0.5), ("2", 1)]
    assert seen(measure(trials, "j.word=x")) == [("1", 1), ("2", 0)]
    assert seen(measure(trials, "w=x")) == [("1", 0), ("2", 1)]
    assert seen(measure(trials, "n")) == [("1", 3), ("2", None)]
    assert seen(measure(trials, "took")) == [("1", 2), ("2", 0)]


def test_an_unknown_price_is_lost(trial):
    priced = trial(1, 1, metrics={"calls": 1.0, "cost": 0.5})
    assert seen(measure([priced, trial(2, 1, metrics={"calls": 1.0}), trial(3, 1)], "cost")) == [
        ("1", 0.5),
        ("2", None),
        ("3", 0),
    ]


def test_texts_alone_have_no_mean(trial):
    with pytest.raises(Invalid, match="SCORE=TEXT"):
        measure([trial(1, 0, scores=scored(w="y"))])


def test_scores_from_0_to_1_and_grades_from_1_to_5_have_ends(trial):
    assert measure([trial(1, 1), trial(2, 0.5)]).ends == (0, 1)
    assert measure([trial(1, 1), trial(2, 3)]).ends == (1, 5)
    assert measure([trial(1, 1), trial(2, 3.5)]).ends is None
    assert measure([trial(1, 1), trial(2, 6)]).ends is None
    assert measure([trial(1, 1, metrics={"steps": 3.0})], "steps").ends is None
    assert measure([trial(1, 1, took=0.5)], "took").ends is None
    assert measure([trial(1, None)]).ends is None


def test_no_verdict_is_lost_and_is_no_category(trial):
    none = {"no_verdict": "it said nothing"}
    trials = [trial(2, 0, scores=scored(a=none)), trial(1, 0, scores=scored(a=0.5))]
    assert seen(measure(trials)) == [("2", None), ("1", 0.5)]
    with pytest.raises(Unknown, match="no score"):
        measure(trials, "a.no_verdict=it said nothing")


def test_value_stands_for_a_score_of_several(trial):
    said = {"value": 0.75, "raw": 4, "kind": 0.5, "reason": "so it is"}
    trials = [trial(1, 0, scores=scored(judge=said))]
    assert seen(measure(trials)) == seen(measure(trials, "judge")) == [("1", 0.75)]
    assert seen(measure(trials, "judge.raw")) == [("1", 4.0)]
    with pytest.raises(Unknown):
        measure(trials, "judge.reason=so it is")
    with pytest.raises(Invalid, match="there are several scores"):
        measure([trial(1, 0, scores=scored(judge=said, exact=1))])
