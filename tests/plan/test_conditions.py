from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from peira import Factor, Hypothesis, Level, Study, plan, run
from peira.errors import Invalid

LONG = {"template": "long " * 50}


def echoing(case: Any, prompt: Any) -> Any:
    return case.input if prompt == LONG else None


def labelled(*levels: Any) -> Study:
    return Study(
        cases=[(i, i) for i in range(12)],
        factors=[Factor("prompt", [Level(LONG, label="long"), Level("short")])],
        agent=echoing,
        evaluators=["exact"],
        hypotheses=[Hypothesis("h", factor="prompt", outcome="exact", levels=levels)],
    )


@pytest.mark.parametrize("levels", [(LONG, "short"), ("long", "short")])
def test_levels_are_shown_by_their_labels_everywhere(tmp_path: Path, levels: tuple[Any, ...]) -> None:
    study = labelled(*levels)
    assert "prompt=long\n" in str(plan(study))
    results = run(study, store=tmp_path / "s.db", progress=False)
    assert [(row["prompt"], row["mean"]) for row in results.table("prompt").rows] == [
        ("long", 1.0),
        ("short", 0.0),
    ]
    assert "long" in results.compare("prompt", "long", "short").sentence
    assert "supported" in str(results.hypotheses())


def test_what_is_neither_a_level_nor_a_label_is_refused() -> None:
    with pytest.raises(Invalid, match="'lang' is not a level of prompt"):
        labelled("lang", "short")
