"""The shelf of agents."""

from peira.agents.function import FunctionAgent, register

__all__ = ["FunctionAgent", "register"]
