"""What anchors say of drift."""

from __future__ import annotations

import pytest

from peira import current_trial, run, study
from peira.analysis.table.reliability import drift
from peira.core.log.events import State
from peira.results.trials import Score, TrialResult


def anchors(*values: float) -> list[TrialResult]:
    return [
        TrialResult(
            id=str(n),
            agent="a",
            case_id="c",
            state=State.succeeded,
            repeat=n,
            anchor=True,
            scores={"s": Score("s", State.succeeded, value)},
        )
        for n, value in enumerate(values)
    ]


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ((), []),
        ((1, 2), ["drift of s: 2 anchors are too few to tell; take at least 4"]),
        ((1, 1, 1, 1), ["drift of s: none seen; all 4 anchors scored 1"]),
        ((3, 1, 4, 2, 5), ["drift of s: none seen (5 anchors, Kendall's tau 0.40, p = 0.483)"]),
        (
            (1, 2, 3, 4, 5, 6),
            [
                "drift of s: it rises during the run (6 anchors, Kendall's tau 1.00, p = 0.00278); "
                "compare only what was interleaved"
            ],
        ),
    ],
)
def test_what_is_said_of_a_row_of_anchors(values, said):
    assert drift(anchors(*values)) == said


def test_a_provider_that_gets_worse_is_told_of_below_the_table(tmp_path):
    asked = []

    def agent(case, a):
        asked.append(current_trial().id)
        return len(asked)

    one = study(
        agent=agent,
        cases=list("uvwxyz"),
        factors={"a": [1, 2]},
        anchors=6,
        evaluators=[lambda output: -output],
    )
    results = run(one, store=tmp_path / "s.db", parallel=1, progress=False)
    [line] = [note for note in results.table().notes if note.startswith("drift of ")]
    assert "it falls during the run (6 anchors" in line
