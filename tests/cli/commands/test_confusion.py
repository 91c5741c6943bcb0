"""`peira confusion`: the matrix of a run, also of some of its trials."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

STUDY = """
from peira import Case, study

CASES = [Case("a", expected="x"), Case("b", expected="y"), Case("c", expected="y")]

@study(cases=CASES, factors={"m": ["one", "two"]})
def guess(case, m):
    return "y" if m == "one" else "x"
"""


def test_the_command(peira: Callable[..., Any], folder: Path) -> None:
    (folder / "guess.py").write_text(STUDY)
    assert peira("run", "guess.py").code == 0
    document = peira("confusion", "--where", "m == 'one'", "--json").document
    assert (document["labels"], document["counts"]) == (["x", "y"], [[0, 1], [0, 2]])
    assert "expected \\ answered" in peira("confusion").out
