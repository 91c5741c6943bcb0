"""`peira import`: what people see."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

OUTPUTS = """\
{"case": "fr", "input": "Capital of France?", "expected": "Paris", "model": "a", "output": "Paris"}
{"case": "fr", "input": "Capital of France?", "expected": "Paris", "model": "b", "output": "Lyon"}
{"case": "pe", "input": "Capital of Peru?", "expected": "Lima", "model": "a", "output": "Lima"}
{"case": "pe", "input": "Capital of Peru?", "expected": "Lima", "model": "b", "output": "Lima"}
"""
ONTO = """\
input,model,size,output
France?,a,1,Paris
France?,c,1,Paris
Japan?,b,2,Tokyo
"""

Peira = Callable[..., Any]


def test_outputs_are_imported_judged_and_compared(peira: Peira, folder: Path) -> None:
    (folder / "old.jsonl").write_text(OUTPUTS)
    done = peira("import", "old.jsonl", "--evaluator", "match", "--quiet")
    assert done.code == 0
    assert done.out.startswith("imported from old.jsonl (sha256 ")
    assert "4 outputs recorded" in done.out
    assert "b      match  0.50" in done.out
    assert peira("compare", "--by", "model").code == 0
    assert peira("effects").code == 0
    assert "Lyon" in peira("show", "--trials").out
    assert peira("verify").code == 0
    again = peira("import", "old.jsonl", "--evaluator", '{"name": "match"}', "--quiet", "--json").document
    assert (again["recorded"], again["same"], again["refused"]) == (0, 4, 0)
    assert again["imported_from"].startswith("old.jsonl (sha256 ")
    assert len(again["table"]["rows"]) == 2


def test_stored_outputs_are_scored_by_another(peira: Peira, folder: Path) -> None:
    (folder / "old.jsonl").write_text(OUTPUTS)
    (folder / "mine.py").write_text("def long(output):\n    return len(output) > 4\n")
    done = peira("import", "old.jsonl", "--evaluator", "mine.py:long", "--quiet", "--json")
    assert done.document["counts"]["scores"] == 4
    assert peira("score", done.document["run"], "--quiet").code == 0


def test_onto_a_study_what_belongs_nowhere_is_told(peira: Peira, folder: Path) -> None:
    (folder / "old.csv").write_text(ONTO)
    done = peira("import", "old.csv", "--study", "capitals.py", "--quiet")
    assert done.code == 1
    assert done.problems == ["peira: old.csv:3: the study has no condition model=c, size=1"]
    assert "2 outputs recorded, 1 refused" in done.out
    results = peira("run", "capitals.py", "--quiet", "--json").document
    assert results["counts"]["reused"] == 2
    assert any(note.startswith("imported from old.csv") for note in results["notes"])


def test_wrong_use_is_told_and_nothing_is_written(peira: Peira, folder: Path) -> None:
    (folder / "old.jsonl").write_text('{"case": "fr", "said": "Paris"}\n{broken\n')
    assert peira("import", "none.jsonl").code == 2
    assert peira("import", "old.jsonl", "--map", "output", "--field", "=x").problems == [
        "peira: --map output: write PART=FIELD, like input=question",
        "peira: --map =x: write PART=FIELD, like input=question",
    ]
    done = peira("import", "old.jsonl")
    assert done.code == 2
    assert [text.split(": ")[1] for text in done.problems] == ["old.jsonl:1", "old.jsonl:2"]
    assert peira("import", "old.jsonl", "--evaluator", "{x").code == 2
    assert peira("import", "old.txt").code == 2
    assert not (folder / ".peira").exists()
