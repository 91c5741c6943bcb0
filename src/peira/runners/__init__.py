"""The built-in runners, which execute attempts; the module of each is imported when it is made."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peira.core.contracts import Runner
from peira.core.lazy import late, lazy_imports
from peira.core.registry import Registry

with lazy_imports(__name__, "BUILT_IN", "register"):
    from peira.runners.loop import LoopRunner as LoopRunner
    from peira.runners.process import ProcessRunner as ProcessRunner
    from peira.runners.ray import RayRunner as RayRunner
    from peira.runners.threads import ThreadRunner as ThreadRunner

BUILT_IN = {
    "loop": "LoopRunner",
    "process": "ProcessRunner",
    "ray": "RayRunner",
    "threads": "ThreadRunner",
}
"""The classes of the built-in runners by name."""


def register(registry: Registry) -> None:
    """Register the built-in runners, as any plug-in would."""
    registry.add("runner", "local", _local)
    registry.add("runner", "process", _process)
    registry.add("runner", "ray", _ray)


def _local(asynchronous: bool = False) -> Runner:
    """Attempts in this process: an event loop for `async def` agents, threads for plain functions."""
    runner: Runner = late(__name__, BUILT_IN["loop" if asynchronous else "threads"])()
    return runner


def _process(agents: Mapping[str, Any], label: str) -> Runner:
    """Attempts in child processes."""
    runner: Runner = late(__name__, BUILT_IN["process"])(agents, label)
    return runner


def _ray(agents: Mapping[str, Any], label: str, options: Mapping[str, Any]) -> Runner:
    """Attempts in child processes that Ray places."""
    runner: Runner = late(__name__, BUILT_IN["ray"])(agents, label, options)
    return runner
