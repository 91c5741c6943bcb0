"""The shelf of agents."""

from peira.agents.chat import chat
from peira.agents.function import FunctionAgent
from peira.core.registry import Registry

__all__ = ["FunctionAgent", "chat", "register"]


def register(registry: Registry) -> None:
    registry.add("agent", "function", FunctionAgent)
    registry.add("prompted", "chat", chat)
