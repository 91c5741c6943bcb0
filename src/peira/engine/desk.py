"""Where the workers of one class fetch attempts and leave what came of them.

Short tasks are taken by the batch, so that a claim's sync is shared; long ones singly, so that no
worker hoards what another could do.
"""

from __future__ import annotations

from collections.abc import Sequence

from peira.core.contracts import Attempt, Runner
from peira.engine.channel import AttemptChannel
from peira.engine.execution import Execution

BATCH_SECONDS = 0.02
MOST = 128


class ClassDesk:
    def __init__(self, execution: Execution, cls: str, runner: Runner) -> None:
        self._execution, self._cls, self._runner = execution, cls, runner
        self._typical = 1.0

    def take(self, n: int, at_once: int = 1) -> list[Attempt]:
        ahead = min(MOST, int(BATCH_SECONDS / self._typical))
        batch = min(n, max(at_once, ahead))
        try:
            return self._execution.take(self._cls, batch)
        except Exception as problem:
            self._execution.fail(problem)
            return []

    def begin(self, attempt: Attempt) -> AttemptChannel | None:
        try:
            return self._execution.begin(attempt, self)
        except Exception as problem:
            self._execution.fail(problem)
            return None

    def end(self, attempt: Attempt, outcome: object, failure: BaseException | None) -> None:
        try:
            took = self._execution.end(attempt, outcome, failure)
            self._typical = 0.8 * self._typical + 0.2 * max(took, 1e-5)
        except Exception as problem:
            self._execution.fail(problem)

    def back(self, attempts: Sequence[Attempt]) -> None:
        try:
            self._execution.back(list(attempts))
        except Exception as problem:
            self._execution.fail(problem)

    def abandon(self, attempt: Attempt) -> None:
        self._runner.abandon(attempt)
