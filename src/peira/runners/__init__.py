"""The shelf of runners: where attempts are executed."""

from __future__ import annotations

from peira.core.registry import Registry
from peira.runners.loop import LoopRunner
from peira.runners.process import ProcessRunner
from peira.runners.threads import ThreadRunner

__all__ = ["LoopRunner", "ProcessRunner", "ThreadRunner", "register"]


def register(registry: Registry) -> None:
    for runner in (ThreadRunner, LoopRunner, ProcessRunner):
        registry.add("runner", runner.name, runner)
