"""Agents as a study writes them: a function, or the name of a kind of agent with its options."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pydantic import Field

from peira.core.contracts import Agent
from peira.core.ids import Json
from peira.core.registry import registry
from peira.core.signature import Wants, wants
from peira.errors import Invalid, Unknown
from peira.spec.modules import reference
from peira.spec.values import Name, Table, Value

FUNCTION = "function"
"""The kind of agent that wraps a function; it is not written as a table, only as the function itself."""


class AgentKind(Value):
    """An agent given by the name of its `kind`, which a plug-in registers, and its `options`.

    The plug-in is made with the options, the agent's `label`, and the study's `version` if it takes that.
    """

    kind: Name
    options: Table = Field(default_factory=dict)

    if TYPE_CHECKING:

        def __init__(self, kind: str, options: Json = ...) -> None: ...

    def made(self, label: str, version: str | None = None) -> Agent:
        """Make the agent; Invalid says what is wrong with its kind or its options."""
        try:
            make = registry.look("agent", self.kind)
            given = {"label": label, **({"version": version} if "version" in wants(make).names else {})}
            agent = make(**self.options, **given)
        except Unknown as error:
            raise Invalid(str(error)) from None
        except TypeError as error:
            raise Invalid(f"{self.kind}: {error}") from None
        if not isinstance(agent, Agent):
            raise Invalid(f"{self.kind}: makes a {type(agent).__name__}, which has not all that an agent has")
        return agent

    def written(self) -> dict[str, Json]:
        """The table that a study file contains for it."""
        return {"kind": self.kind, **self.options}


def is_kind(given: object) -> bool:
    """Whether this is a table {kind = "...", ...} rather than a table of agents by label."""
    return isinstance(given, Mapping) and isinstance(given.get("kind"), str) and ".py:" not in given["kind"]


def read_kind(given: Mapping[str, Any]) -> AgentKind:
    """Read {kind = "echo", suffix = "!"}; Invalid if there is no such kind, or it refuses the options."""
    if given["kind"] == FUNCTION:
        raise Invalid("write a function as file.py:name")
    reserved = [name for name in ("label", "version") if name in given]
    if reserved:
        raise Invalid(f"{reserved[0]}: is the study's to say, and no option of an agent")
    kind = AgentKind(given["kind"], {str(key): value for key, value in given.items() if key != "kind"})
    kind.made(kind.kind)
    return kind


def made_agent(given: Any, label: str, version: str | None = None) -> Agent:
    """Make the agent under test from a function or from its kind."""
    if isinstance(given, AgentKind):
        return given.made(label, version)
    agent: Agent = registry.make("agent", FUNCTION, fn=given, label=label, version=version)
    return agent


def written_agent(given: Any) -> str | dict[str, Json] | None:
    """How another process finds the agent: "file.py:name", or a table of its kind; None if it cannot."""
    return given.written() if isinstance(given, AgentKind) else reference(given)


def wanted_by(given: Any) -> Wants:
    """Which factors an agent takes by name, and which it requires.

    TypeError or ValueError if the signature of a function cannot be read.
    """
    if not isinstance(given, AgentKind):
        return wants(given)
    takes = given.made(given.kind).takes
    return Wants(frozenset(takes or ()), frozenset(), takes is None)
