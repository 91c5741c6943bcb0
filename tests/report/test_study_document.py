"""The whole study as a document: every field in it, from a plan and from a run alike."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from peira import Case, Study, match, run
from peira.app.plan import plan_document
from peira.errors import Invalid
from peira.spec.factors import Factor, Level


def answer(case: Any, style: str) -> str:
    return "x"


STUDY = {
    "name": "told",
    "title": "A | title with <marks>",
    "authors": ["Ada"],
    "cases": [Case(f"q{n}", expected="x", metadata={"level": n}) for n in range(3)],
    "factors": [
        Factor(
            "style", [Level("plain", label="as is", baseline=True), Level("loud", metadata={"tone": "high"})]
        )
    ],
    "evaluators": [match()],
    "transform": "last_line",
    "agent": answer,
    "repeats": 2,
    "slices": {"hard": "metadata.level > 1"},
    "hypotheses": [{"id": "h", "factor": "style", "levels": ["loud"], "direction": "greater"}],
    "budget": {"calls": 7},
    "policy": {"retries": 3},
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "peira.toml").write_text(
        'parallel = 3\n[models.m]\nmodel = "openai:m"\nheaders = {X-Secret = "very secret"}\n'
    )
    return tmp_path


def test_everything_that_is_stated_and_every_default_of_limits(folder: Path) -> None:
    text = plan_document(Study(**STUDY)).markdown()
    for line in (
        "# The study told",
        "2 conditions x 3 cases x 2 repeats",
        "| title | A \\| title with &lt;marks> |",
        "| style | manipulated | as is (baseline) | plain |  |",
        '| style | manipulated |  | loud | {"tone":"high"} |',
        "| hard | metadata.level > 1 |",
        "| transform | last\\_line |",
        '| h | style | ["loud"] | greater |'.replace("[", "\\[").replace("]", "\\]"),
        "| calls | 7 |",
        "| retries | 3 |",
        "| call\\_tries | 6 |",
        "| parallel | 3 |",
        "X-Secret",
    ):
        assert line in text
    assert "very secret" not in text


def test_a_run_gives_the_document_of_its_plan(folder: Path) -> None:
    before = plan_document(Study(**STUDY))
    results = run(Study(**STUDY), progress=False)
    written = results.export("told.study.md").read_text()
    parts = [part for part in before.parts if part.heading not in ("Project", "Models")]
    assert all(f"## {part.heading}" in written for part in parts)
    assert written.startswith("# The study told\n")
    results.export("art", format="artifact")
    assert (folder / "art" / "study.md").read_text() == written


def test_it_is_saved_in_every_form(folder: Path) -> None:
    made = plan_document(Study(**STUDY), where="style == 'plain'")
    for ending in (".md", ".html", ".tex", ".txt", ".csv"):
        assert "plain" in made.save(folder / f"told{ending}").read_text()
    assert "<h2>Factors</h2>" in (folder / "told.html").read_text()
    assert "<marks>" not in (folder / "told.html").read_text()
    kept = json.loads(made.save(folder / "told.json").read_text())
    assert kept["study"] == "told"
    with pytest.raises(Invalid, match="is there already"):
        made.save(folder / "told.md")
