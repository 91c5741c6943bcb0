"""The built-in agents; the module of each is imported when it is first used."""

from __future__ import annotations

from peira.core.lazy import late, lazy_imports
from peira.core.registry import Registry

with lazy_imports(__name__, "register"):
    from peira.agents.chat import chat as chat
    from peira.agents.function import FunctionAgent as FunctionAgent


def register(registry: Registry) -> None:
    """Register the built-in agents, as any plug-in would."""
    registry.add("agent", "function", late(__name__, "FunctionAgent"))
    registry.promise("prompted", ("chat",), "peira.agents.chat")
