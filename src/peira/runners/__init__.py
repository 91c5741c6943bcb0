"""The shelf of runners: where attempts are executed. A room is opened when its runner is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peira.core.door import late, open_late
from peira.core.registry import Registry

if TYPE_CHECKING:
    from peira.runners.loop import LoopRunner
    from peira.runners.process import ProcessRunner
    from peira.runners.threads import ThreadRunner

__all__ = ["BUILT_IN", "LoopRunner", "ProcessRunner", "ThreadRunner", "register"]

_ROOMS = {
    "peira.runners.loop": ("LoopRunner",),
    "peira.runners.process": ("ProcessRunner",),
    "peira.runners.threads": ("ThreadRunner",),
}
BUILT_IN = {"loop": "LoopRunner", "process": "ProcessRunner", "threads": "ThreadRunner"}
"""The runners that are offered, by the names that they have."""


def register(registry: Registry) -> None:
    """Offer the built-in runners, as any plug-in would."""
    for name, runner in BUILT_IN.items():
        registry.add("runner", name, late(__name__, runner))


open_late(__name__, _ROOMS)
