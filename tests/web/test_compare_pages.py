"""Comparisons of runs that have several scores, and what a page says where a part of it cannot be had."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from .conftest import Server, Tab, serving

STUDY = """
from peira import study

def words(output):
    return {"count": len(output.split()), "kind": "long" if len(output) > 5 else "short"}

@study(
    cases=[(f"{n}+1?", str(n + 1)) for n in range(12)],
    factors={"shots": [0, 2]},
    evaluators=["match", "includes", words],
    OUTCOMES
)
def sums(case, shots):
    right = str(int(case.input.partition("+")[0]) + 1)
    return right if shots else f"It is {right}."
"""
DECLARED = 'outcomes=[{"name": "in it", "evaluator": "includes", "primary": True}],'


@pytest.fixture(scope="module")
def scored(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server of two runs with three scores each: without a primary outcome, then with one."""
    folder = tmp_path_factory.mktemp("scored")
    (folder / "peira.toml").write_text('store = "s.db"\n')
    for outcomes in ("", DECLARED):
        (folder / "sums.py").write_text(STUDY.replace("OUTCOMES", outcomes))
        command = [sys.executable, "-P", "-m", "peira.cli", "run", "sums.py", "--quiet"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    with serving(folder) as started:
        yield started


@pytest.fixture
def runs(scored: Server) -> tuple[str, str]:
    """The run without and the run with a primary outcome."""
    second, first = (one["id"] for one in scored.api("/runs")["runs"])
    return first, second


def test_without_a_score_the_first_one_is_compared(scored: Server, runs: tuple[str, str]) -> None:
    found = scored.api(f"/compare?run={runs[0]}&by=shots&show=b")
    assert found["comparison"]["score"] == "match"
    assert len(found["pairs"]["rows"]) == 12


def test_a_primary_outcome_is_what_is_compared(scored: Server, runs: tuple[str, str]) -> None:
    found = scored.api(f"/compare?run={runs[1]}&by=shots&show=b")
    assert found["comparison"]["score"] == "includes"
    assert found["pairs"]["rows"] == []


def test_which_side_is_right_is_asked_of_the_chosen_score(scored: Server, runs: tuple[str, str]) -> None:
    by_match = scored.api(f"/compare?run={runs[0]}&by=shots&score=match&show=b")["pairs"]["rows"]
    assert [row["a"]["correct"] for row in by_match] == [False] * 12
    assert scored.api(f"/compare?run={runs[0]}&by=shots&score=includes&show=b")["pairs"]["rows"] == []
    both = scored.api(f"/compare?run={runs[0]}&by=shots&score=includes&show=all")["pairs"]["rows"]
    assert all(row["a"]["correct"] and row["b"]["correct"] for row in both)


def test_of_a_score_with_parts_the_first_number_is_compared(scored: Server, runs: tuple[str, str]) -> None:
    assert scored.api(f"/compare?run={runs[0]}&by=shots&score=words")["comparison"]["score"] == "words.count"


def test_the_page_shows_the_difference_and_which_score_it_is_of(
    scored: Server, runs: tuple[str, str], tab: Callable[..., Tab]
) -> None:
    seen = tab(of=scored)
    seen.go(f"/compare?run={runs[1]}&by=shots")
    assert seen.page.locator("[name=score]").input_value() == "includes"
    seen.until("document.querySelector('.difference') !== null")
    assert "difference in includes" in seen.page.inner_text("[aria-label=Difference]")
    seen.page.select_option("[name=score]", "match")
    seen.page.click("form.filter button")
    seen.until("document.querySelector('.difference') !== null")
    assert "difference in match" in seen.page.inner_text("[aria-label=Difference]")
    saved = scored.ask(f"/compare.html?run={runs[0]}&by=shots")
    assert (saved.status, "shots=0 scores lower than shots=2" in saved.text) == (200, True)


def test_a_difference_that_cannot_be_had_says_why(
    scored: Server, runs: tuple[str, str], tab: Callable[..., Tab]
) -> None:
    seen = tab(of=scored)
    path = f"run={runs[0]}&by=shots&score=nothing"
    seen.go(f"/compare?{path}")
    seen.until("document.querySelector('[aria-label=Difference]').innerText.includes(\"no score 'nothing'\")")
    saved = scored.ask(f"/compare.html?{path}")
    assert (saved.status, "no score &#39;nothing&#39;" in saved.text) == (200, True)
