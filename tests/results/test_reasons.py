"""Failures by reason, and the words for how trials ended."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from peira.analysis.table.means import tabulate
from peira.core.log.events import Failure, State
from peira.results.reasons import MOST, failure_reasons, reason_lines
from peira.results.trials import FAILED, FailureRow, TrialResult, end_counts, end_word


def row(message: str = "no", kind: str = "ValueError", state: State = State.failed, stage: str = "generate"):
    trial = TrialResult(id=f"t{message}", agent="a", case_id="c", state=state)
    return FailureRow(trial, stage, state, Failure(kind, message) if kind else None)


def test_failures_are_grouped_by_reason_most_frequent_first() -> None:
    rows = [row("line 3: odd"), *[row("401: Incorrect API key", "CallFailed")] * 100, row("line 14: odd")]
    rows += [
        row("interrupted", "Abandoned", State.cancelled),
        row("", "", State.exhausted),
        row(stage="match"),
    ]
    assert [str(reason) for reason in failure_reasons(rows)] == [
        "100 x CallFailed: 401: Incorrect API key",
        "2 x ValueError: line 3: odd",
        "1 x cancelled: interrupted",
        "1 x exhausted",
        "1 x (match) ValueError: no",
    ]


def test_many_reasons_are_counted() -> None:
    rows = [row(f"reason {chr(97 + n)}") for n in range(MOST + 3)]
    lines = reason_lines(failure_reasons(rows))
    assert len(lines) == MOST + 1
    assert lines[-1] == "and 3 other reasons, of 3 failures"


@given(
    st.lists(
        st.builds(row, st.text(max_size=5), st.sampled_from(["A", "B", ""]), st.sampled_from(sorted(FAILED)))
    )
)
def test_every_failure_has_one_reason(rows: list[FailureRow]) -> None:
    reasons = failure_reasons(rows)
    assert sum(reason.count for reason in reasons) == len(rows)
    assert [reason.count for reason in reasons] == sorted((r.count for r in reasons), reverse=True)
    assert all("\n" not in str(reason) for reason in reasons)


def test_every_end_has_a_word_of_its_own() -> None:
    words = [end_word(state) for state in (*FAILED, State.queued)]
    assert len(set(words)) == len(words)
    ends = end_counts(
        [State.queued, State.cancelled, State.succeeded, State.exhausted, State.failed, State.failed]
    )
    assert ends == {"failed": 2, "exhausted": 1, "cancelled": 1, "not begun": 1}


def test_a_table_tells_the_ends_apart_and_counts_no_trial_as_lost_that_was_not_begun() -> None:
    scored = [TrialResult(id=str(n), agent="a", case_id=str(n), state=State.succeeded) for n in range(3)]
    states = [State.queued] * 11 + [State.cancelled] * 2 + [State.exhausted]
    others = [TrialResult(id=f"x{n}", agent="a", case_id=f"x{n}", state=s) for n, s in enumerate(states)]
    table = tabulate([*scored, *others])
    (line,) = table.body
    assert (line.n, line.failed, line.exhausted, line.cancelled, line.unscored) == (3, 0, 1, 2, 11)
    assert "failed  exhausted  cancelled" in str(table)
    assert "not begun: 11 trials" in table.notes
    assert "lost" not in str(table)
