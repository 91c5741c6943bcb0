"""Conformance suites for extensions of peira, and the fakes that our own tests use.

A new store, runner or agent is tested by a class and one fixture:

    class TestMyStore(StoreSuite):
        durable = True

        @pytest.fixture
        def store(self, tmp_path):
            with closing(MyStore(tmp_path)) as store:
                yield store

What an implementation supports beyond the common part is declared as an attribute of the class. The suites
need pytest (some also hypothesis), which are imported when a suite is first used; the fakes need nothing.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from peira.stores.memory import MemoryStore
from peira.testing.fakes import HeldReplies, ManualClock, MemoryChannel, ScriptedQueue
from peira.testing.script import scripted, scripted_async, scripted_attempt

if TYPE_CHECKING:
    from peira.testing.agents import AgentSuite
    from peira.testing.evaluators import EvaluatorSuite
    from peira.testing.hostile import HostileEndpointSuite
    from peira.testing.models import ModelSuite
    from peira.testing.runners import RunnerSuite
    from peira.testing.stopping import StopRuleSuite
    from peira.testing.stores import StoreSuite
    from peira.testing.streams import StreamSuite
    from peira.testing.transforms import TransformSuite

__all__ = [
    "AgentSuite",
    "EvaluatorSuite",
    "HeldReplies",
    "HostileEndpointSuite",
    "ManualClock",
    "MemoryChannel",
    "MemoryStore",
    "ModelSuite",
    "RunnerSuite",
    "ScriptedQueue",
    "StopRuleSuite",
    "StoreSuite",
    "StreamSuite",
    "TransformSuite",
    "scripted",
    "scripted_async",
    "scripted_attempt",
]
_SUITES = {
    "AgentSuite": "agents",
    "EvaluatorSuite": "evaluators",
    "HostileEndpointSuite": "hostile",
    "ModelSuite": "models",
    "RunnerSuite": "runners",
    "StopRuleSuite": "stopping",
    "StoreSuite": "stores",
    "StreamSuite": "streams",
    "TransformSuite": "transforms",
}


def __getattr__(name: str) -> Any:
    """Import a suite on first use, with pytest's assertion rewriting."""
    if name not in _SUITES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import pytest

    where = f"{__name__}.{_SUITES[name]}"
    if where not in sys.modules:
        pytest.register_assert_rewrite(where)  # else a failure would only show AssertionError
    return getattr(import_module(where), name)
