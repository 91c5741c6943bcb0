"""Trials as they are read back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from peira import Case, run, study


def test_tables_are_the_same_from_brief_and_from_whole_trials(tmp_path: Path) -> None:
    def agent(case: Any, style: str) -> str:
        if case.input == "3" and style == "long":
            raise OSError("not this one")
        return str(case.input) * (2 if style == "long" else 1)

    cases = [Case(str(n), expected=str(n), metadata={"odd": n % 2}) for n in range(12)]
    studied = study(agent=agent, cases=cases, factors={"style": ["short", "long"]}, evaluators=["exact"])
    results = run(studied, store=tmp_path / "s.db", progress=False)
    asked = [(), ("style",), ("case",), ("odd", "style")]
    brief = [str(results.table(*by)) for by in asked]
    assert results.trials  # from here on tables are computed from these
    assert [str(results.table(*by)) for by in asked] == brief
