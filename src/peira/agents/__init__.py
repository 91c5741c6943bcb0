"""The shelf of agents."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peira.core.door import late, open_late
from peira.core.registry import Registry

if TYPE_CHECKING:
    from peira.agents.chat import chat
    from peira.agents.function import FunctionAgent

__all__ = ["FunctionAgent", "chat", "register"]

_ROOMS = {"peira.agents.chat": ("chat",), "peira.agents.function": ("FunctionAgent",)}


def register(registry: Registry) -> None:
    """Offer the built-in agents, as any plug-in would."""
    registry.add("agent", "function", late(__name__, "FunctionAgent"))
    registry.promise("prompted", ("chat",), "peira.agents.chat")


open_late(__name__, _ROOMS)
