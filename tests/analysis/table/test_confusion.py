"""Confusion matrices: counts, recall and precision with intervals, and what is not a label."""

from __future__ import annotations

from typing import Any

import pytest

from peira.analysis.table.confusion import Confusion, confusion
from peira.core.log.events import Failure, State
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.results.trials import FoundAnswer, TrialResult
from peira.stats.intervals.proportions import exact


def answered(case: int, expected: Any, output: Any, **more: Any) -> TrialResult:
    given = {"id": f"{case}", "agent": "a", "case_id": f"{case}", "state": State.succeeded, **more}
    return TrialResult(expected=expected, output=output, **given)


def of(pairs: list[tuple[Any, Any]]) -> Confusion:
    return confusion(answered(case, *pair) for case, pair in enumerate(pairs))


def test_counts_recall_and_precision() -> None:
    found = of([("yes", "Yes ")] * 8 + [("yes", "no")] * 2 + [("no", "no")] * 5 + [("no", "maybe")])
    assert (found.labels, found.answers) == (("no", "yes"), ("no", "yes", "(other)"))
    assert found.counts == ((5, 0, 1), (2, 8, 0))
    no, yes = found.scores
    assert (yes.expected, yes.answered, no.answered) == (10, 8, 7)
    assert yes.recall == exact(8, 10)
    assert yes.precision == exact(8, 8)
    assert no.precision == exact(5, 7)
    assert found.right == exact(13, 16)
    assert found.sentence.endswith("most often yes was answered by no (2).")


def test_an_answer_is_what_the_transform_found() -> None:
    none = FoundAnswer(State.succeeded, NoAnswer("nothing"))
    trials = [
        answered(0, "B", "I think it is B.", found=FoundAnswer(State.succeeded, "B")),
        answered(1, "B", "B", found=none),
        answered(2, "B", None, state=State.failed, failure=Failure("E", "x")),
        answered(3, None, "B"),
        answered(4, "B", "A", anchor=True),
    ]
    found = confusion(trials)
    assert (found.labels, found.answers, found.counts) == (("B",), ("B", "(no answer)"), ((1, 1),))
    assert found.notes == (
        "not in the matrix: 1 trial without an output, 1 trial of cases that expect nothing",
    )


def test_repeats_of_a_case_are_not_more_evidence() -> None:
    trials = [
        answered(case, True, True, id=f"{case} {again}", repeat=again)
        for case in range(5)
        for again in range(20)
    ]
    recall = confusion(trials).scores[0].recall
    assert recall is not None
    assert recall.low is not None
    assert recall.low < 0.6


def test_the_rarest_of_many_labels_are_shown_together() -> None:
    found = of([(number, number) for number in range(20) for _ in range(1 + (number < 12))])
    assert len(found.labels) == 13
    assert found.labels[-1] == found.answers[-1] == "(other)"
    assert found.counts[-1][-1] == 8
    assert found.right is not None
    assert found.right.mean == 1


def test_what_cannot_be_a_label_is_refused() -> None:
    for wrong in ([1, 2], {"a": 1}, 0.5, "x" * 81):
        with pytest.raises(Invalid, match="what case 0 expects is no label"):
            of([(wrong, "a")])
    with pytest.raises(Invalid, match="between 0 and 1"):
        confusion([], level=1.0)
    assert "nothing can be said" in of([]).text()
