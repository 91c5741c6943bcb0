"""The life cycle of a run's tasks, told to whoever listens."""

from __future__ import annotations

from peira.core.contracts import Attempt
from peira.core.events import State
from peira.core.registry import registry


class Hooks:
    def __init__(self, run: str, unit: str) -> None:
        self._run, self._unit = run, unit
        self._stages: set[str] = set()
        self._waiting: set[str] = set()

    def began(self, attempt: Attempt, tries: int) -> None:
        task, kind = attempt.spec.id, attempt.spec.kind
        if kind not in self._stages:
            self._stages.add(kind)
            registry.call("stage_began", run=self._run, stage=kind)
        if task in self._waiting:
            self._waiting.discard(task)
        elif kind == self._unit and tries == 1:
            registry.call("trial_began", task=task)
        registry.call("attempt_began", run=self._run, task=task, epoch=attempt.epoch, attempt=attempt)

    def put_aside(self, attempt: Attempt) -> None:
        """It is over, and its trial is not: that began once."""
        if registry.listening:
            self._waiting.add(attempt.spec.id)
            self.ended(attempt, State.waiting)

    def ended(self, attempt: Attempt, state: State) -> None:
        if registry.listening:
            task, epoch = attempt.key
            registry.call("attempt_ended", run=self._run, task=task, epoch=epoch, state=state.value)

    def over(self) -> None:
        for stage in sorted(self._stages):
            registry.call("stage_ended", run=self._run, stage=stage)
