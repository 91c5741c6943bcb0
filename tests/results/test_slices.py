"""Slices that a study declares: in tables, gates, comparisons and reports, over cases and over outputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from peira import Case, Study, exact, plan, run
from peira.errors import Invalid, Unknown
from peira.report.builder import build


def answer(case: Any, style: str) -> str:
    return "x" if style == "think" or case.metadata["level"] < 2 else "y"


CASES = [
    Case(f"q{n}", expected="x", id=f"c{n}", metadata={"level": n % 4, "src": "web" if n % 3 else "book"})
    for n in range(24)
]
SLICES = {"hard": "metadata.level >= 2", "web": "src == 'web' and style == 'think'"}


def made(**fields: Any) -> Study:
    said: dict[str, Any] = {
        "name": "sliced",
        "cases": CASES,
        "factors": {"style": ["plain", "think"]},
        "evaluators": [exact()],
        "agent": answer,
        "slices": SLICES,
    }
    return Study(**said | fields)


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return run(made(), store=tmp_path_factory.mktemp("sliced") / "s.db", progress=False)


def test_a_table_by_a_slice(done: Any) -> None:
    rows = {row.labels: (row.mean, row.n) for row in done.table("hard", "style").body}
    assert rows == {
        (True, "plain"): (0.0, 12),
        (True, "think"): (1.0, 12),
        (False, "plain"): (1.0, 12),
        (False, "think"): (1.0, 12),
    }


def test_slices_may_overlap_and_may_name_factors(done: Any) -> None:
    found = done.slices()
    assert [(one.label, one.n) for one in found.slices] == [("hard", 24), ("web", 16), ("(all)", 48)]
    assert "slices may overlap: nothing is pooled" in found.notes
    whole = {one.label: one.mean for one in found.slices}
    assert whole == {"hard": 0.5, "web": 1.0, "(all)": 0.75}


def test_gates_and_comparisons_of_a_slice(done: Any) -> None:
    assert done.gate(min={"exact": 0.7}, where="hard and style == 'think'").met
    assert not done.gate(min={"exact": 0.7}, where="hard").met
    same = done.compare("style", slice="hard")
    assert "only where hard" in same.notes
    assert abs(same.contrasts[0].difference.mean) == 1.0
    assert same.contrasts[0].n == 12
    with pytest.raises(Unknown, match="no slice 'wbe'"):
        done.compare("style", slice="wbe")


def test_the_report_has_them(done: Any) -> None:
    shown = build(done, trials=0).slices
    assert shown is not None
    assert [one.label for one in shown.slices] == ["hard", "web", "(all)"]


def test_slices_by_what_was_answered_say_so(tmp_path: Path) -> None:
    study = made(slices={"wrong": "answer != expected or output == 'y'", "right": "score.exact == 1"})
    results = run(study, store=tmp_path / "s.db", progress=False)
    counts = {one.label: one.n for one in results.slices().slices}
    assert counts == {"wrong": 48, "right": 36, "(all)": 48}  # without a transform there is no answer
    warned = "by outputs: right; conditions are not compared on the same cases there"
    assert warned in results.table("right").notes
    assert warned in "; ".join(results.where("right").notes)
    assert warned not in results.table("style").notes


def test_slices_by_what_was_asked_hold_the_same_cases_for_all_conditions(tmp_path: Path) -> None:
    study = made(slices={"asked": "len(input) > 0 and expected != 'nothing'"})
    results = run(study, store=tmp_path / "s.db", progress=False)
    assert {one.label: one.n for one in results.slices().slices} == {"asked": 48, "(all)": 48}
    assert not [note for note in results.table("asked").notes if "by outputs" in note]


def test_declaring_slices_changes_no_trial(tmp_path: Path) -> None:
    run(made(slices={}), store=tmp_path / "s.db", progress=False)
    assert plan(made(), store=tmp_path / "s.db").new == 0
    again = run(made(), store=tmp_path / "s.db", progress=False)
    assert again.counts["reused"] == 48
    assert {row.labels for row in again.table("hard").body} == {(True,), (False,)}


def test_every_problem_is_told_at_once() -> None:
    wrong = {
        "hard": "metadata.levl > 2",
        "style": "src == 'web'",
        "level": "src == 'web'",
        "took": "src == 'web'",
        "two words": "src == 'web'",
        "broken": "src ==",
        "number": 3,
        "calls": "__import__('os')",
    }
    with pytest.raises(Invalid) as caught:
        made(slices=wrong)
    said = "\n".join(caught.value.problems)
    for line in (
        "slices.hard: there is no 'metadata.levl'; did you mean 'metadata.level'?",
        "slices.style: the name is taken by a factor",
        "slices.level: the name is taken by a field of the cases' metadata",
        "slices.took: the name is taken by 'took' of a trial",
        "slices.two words: the name must be a word",
        "slices.broken:",
        "slices.number: must be an expression",
        "slices.calls:",
    ):
        assert line in said
