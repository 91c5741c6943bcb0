"""Failures grouped by reason: which, how often, and where one of them can be seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from peira.core.log.events import State
from peira.core.text.words import counted
from peira.results.trials import FailureRow, end_word

MOST = 5
"""Reasons that a summary lists; the rest are counted."""
_VARYING = re.compile(r"\b[0-9a-f]{8,}\b|\d+")


class FailureReason(msgspec.Struct, frozen=True):
    """Failures of one stage that end the same way with the same message, apart from numbers and ids in it.

    `message` and `trial` are those of the first; `state` is how the trial or score ended, `cause` one of the
    declared causes.
    """

    count: int
    stage: str
    state: State
    type: str
    message: str
    trial: str
    cause: str

    def __str__(self) -> str:
        of = "" if self.stage == "generate" else f" ({self.stage})"
        why = " ".join(self.message.split())
        if self.state is not State.failed:
            return f"{self.count:,} x{of} {': '.join(filter(None, (end_word(self.state), why)))}"
        return f"{self.count:,} x{of} {f'{self.type}: {why}' if self.type else 'no reason is recorded'}"

    @property
    def is_failure(self) -> bool:
        """Whether it failed; what was cancelled or exhausted was stopped."""
        return self.state not in (State.cancelled, State.exhausted)


def failure_reasons(rows: Iterable[FailureRow]) -> list[FailureReason]:
    """The reasons of these failures, the most frequent first."""
    groups: dict[tuple[str, State, str, str], list[FailureRow]] = {}
    for row in rows:
        kind, message = (row.failure.type, row.failure.message) if row.failure else ("", "")
        key = row.score or row.stage, row.state, kind, _VARYING.sub("#", message)
        groups.setdefault(key, []).append(row)
    found = [
        FailureReason(
            count=len(same),
            stage=stage,
            state=state,
            type=kind,
            message=same[0].failure.message if same[0].failure else "",
            trial=same[0].trial.id,
            cause=same[0].cause,
        )
        for (stage, state, kind, _), same in groups.items()
    ]
    return sorted(found, key=lambda reason: -reason.count)


def reason_lines(reasons: Sequence[FailureReason]) -> list[str]:
    """The most frequent reasons, a line each, and how many others there are."""
    lines = [str(reason) for reason in reasons[:MOST]]
    if rest := reasons[MOST:]:
        failures = counted(sum(reason.count for reason in rest), "failure")
        lines.append(f"and {counted(len(rest), 'other reason')}, of {failures}")
    return lines
