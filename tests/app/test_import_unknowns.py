"""What is not known of imported outputs is not shown as 0, and reports say that they were imported."""

from __future__ import annotations

from pathlib import Path

import pytest

from peira import Study, run
from peira.analysis.results import Results
from peira.app.imports.outputs import import_outputs

ROWS = """case,model,input,expected,output
c1,a,2+2,4,is 4
c1,b,2+2,4,is 5
c2,a,2+3,5,is 5
c2,b,2+3,5,is 5
"""


@pytest.fixture
def results(tmp_path: Path) -> Results:
    (tmp_path / "outs.csv").write_text(ROWS)
    import_outputs(
        [tmp_path / "outs.csv"],
        transform="last_number",
        evaluators=["numeric"],
        store=tmp_path / "s.db",
        progress=False,
    )
    import peira

    return peira.open(tmp_path / "s.db").results()


def test_cost_and_seconds_are_unknown(results: Results) -> None:
    assert [(trial.cost, trial.took, trial.seed, trial.started) for trial in results] == [(None,) * 4] * 4
    board = results.leaderboard()
    assert [(entry.cost, entry.took) for entry in board.entries] == [(None, None)] * 2
    assert all(row.split()[-3:] == ["-", "-", "-"] for row in str(board).splitlines()[1:3])


def test_the_report_claims_neither_an_order_nor_times(results: Results, tmp_path: Path) -> None:
    text = results.report(tmp_path / "r.md").read_text()
    assert "random order" not in text
    assert " s were estimated" not in text
    assert "The run took" not in text
    assert "All of the outputs were made elsewhere and imported" in text
    assert "The cost and the time of 4 imported outputs are not known." in text
    assert "Answers were found in the outputs by last" in text
    assert "**Imported outputs.** 4 of 4 outputs were made elsewhere" in text
    assert "Reused trials" not in text


def test_other_trials_are_told_from_imported_ones(tmp_path: Path) -> None:
    found = run(
        Study(name="s", cases=["a"], agent=lambda case: case.input), store=tmp_path / "s.db", progress=False
    )
    assert (found.trials[0].cost, found.trials[0].imported) == (0.0, False)
    assert "random order (seed 0)" in found.report(tmp_path / "r.md").read_text()
