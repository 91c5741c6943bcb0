"""Results with hostile texts in every place, and a stored run of a small study with odd names."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import strategies as st

from peira import AnalysisPlan, Case, Hypothesis, Outcome, Study, current_trial, exact, run
from peira.analysis.results import Results
from peira.core.log.events import Failure, State
from peira.results.trials import Score, TrialResult

HOSTILE = [
    "",
    " ",
    "=1+1",
    "+1",
    "-1",
    "@SUM(A1)",
    "\t=1",
    "\r=1",
    "\n=1",
    '"',
    '","',
    "a\r\nb",
    "a\rb",
    "order",
    "select",
    "team size",
    "1st",
    "trial",
    "run",
    "condition",
    "agent",
    "timestamp",
    "study_id",
    "../../x",
    "/etc/passwd",
    "a/b",
    "x'; DROP TABLE trials; --",
    "]]",
    "\x00",
    "\x1b[31m",
    "\u202eabc",
    "日本語",
    "é\u0301",
    "😀",
    "NaN",
    "null",
    "true",
    "---\nconfigs: []",
    "<script>",
    "| a |",
    "A",
    "a",
]
TEXTS = st.one_of(st.sampled_from(HOSTILE), st.text(st.characters(exclude_categories=["Cs"]), max_size=12))
WHOLE = st.integers(-(2**53) + 1, 2**53 - 1)
FRACTIONS = st.floats(allow_nan=False, allow_infinity=False)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), WHOLE, FRACTIONS, TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=4,
)
PLAIN = st.one_of(st.booleans(), WHOLE, FRACTIONS, TEXTS)
SCORES = st.one_of(PLAIN, st.dictionaries(TEXTS, PLAIN, max_size=3))


@st.composite
def scores_of(draw: st.DrawFn, failed: bool) -> dict[str, Score]:
    if failed:
        return {}
    found = {}
    # A dot would make "a" with the part "b.c" and "a.b" with the part "c" the same column.
    for name in draw(st.lists(TEXTS.filter(lambda text: "." not in text), max_size=2, unique=True)):
        state = draw(st.sampled_from([State.succeeded, State.succeeded, State.failed, State.queued]))
        value = draw(SCORES) if state is State.succeeded else None
        why = Failure("E", draw(TEXTS)) if state is State.failed else None
        found[name] = Score(name, state, value, why)
    return found


@st.composite
def trials(draw: st.DrawFn, number: int) -> TrialResult:
    state = draw(st.sampled_from([State.succeeded, State.succeeded, State.failed, State.queued]))
    return TrialResult(
        id=f"{number:064x}",
        agent=draw(TEXTS),
        case_id=draw(TEXTS),
        state=state,
        condition=draw(st.dictionaries(TEXTS, VALUES, max_size=3)),
        cluster=draw(st.none() | TEXTS),
        slice=draw(st.none() | TEXTS),
        repeat=draw(st.integers(0, 9)),
        input=draw(VALUES),
        expected=draw(VALUES),
        output=draw(VALUES),
        failure=Failure("E", draw(TEXTS)) if state is State.failed else None,
        scores=draw(scores_of(failed=state is not State.succeeded)),
        metrics=draw(st.dictionaries(TEXTS, st.floats(), max_size=2)),
        took=draw(st.floats(0, 1e6)),
        attempts=draw(st.integers(0, 9)),
        reused=draw(st.booleans()),
        metadata=draw(st.dictionaries(TEXTS, VALUES, max_size=2)),
    )


@st.composite
def some(draw: st.DrawFn) -> list[TrialResult]:
    return [draw(trials(number)) for number in range(draw(st.integers(0, 4)))]


def gathered(found: list[TrialResult], **more: Any) -> Results:
    return Results(lambda: iter(found), run_id="f" * 64, study="s", status="completed", counts={}, **more)


def answer(case, order, model, timestamp, admissible):  # type: ignore[no-untyped-def]
    current_trial().report(loss=0.5 * case.input)
    if case.input == 5:
        raise OSError("gone")
    return case.input * order % 4


def length(output):  # type: ignore[no-untyped-def]
    if output == 3:
        raise ValueError("no\nlength")
    return {"chars": len(str(output)), "kind": '=1+1, "short"'}


@pytest.fixture(scope="session")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Results:
    """A run with refused conditions, failures, a text score, and factors named like columns."""
    folder: Path = tmp_path_factory.mktemp("stored")
    asked = Study(
        name="odd",
        agent=answer,
        cases=[Case(i, expected=i % 3, id=f"=c{i}", slice="s" if i % 2 else None) for i in range(6)],
        factors={
            "order": [1, 2],
            "model": ["=SUM(1)", 'b,"c"\n'],
            "timestamp": [True],
            "admissible": ["no"],
        },
        repeats=2,
        evaluators=[exact(), length],
        constraints=["order == 1 or model != '=SUM(1)'"],
        outcomes=[Outcome(name="right", evaluator="exact", primary=True, unit="share")],
        hypotheses=[Hypothesis(id="h", factor="order", outcome="right")],
        analysis_plans=[AnalysisPlan(name="p", hypotheses=["h"])],
    )
    return run(asked, store=folder / "odd.db", progress=False)
