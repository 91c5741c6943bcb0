"""Agents as a study writes them: a function, or the name of a kind of agent with its options."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from pydantic import Field

from peira.core.code.signature import TakenArguments, agent_code, wants
from peira.core.contracts import Agent
from peira.core.ids import Json
from peira.core.registry import registry
from peira.errors import Invalid, Unknown
from peira.spec.documents import locate
from peira.spec.modules import is_reference, reference
from peira.spec.values import Name, Table, Value

FUNCTION = "function"
"""The kind of agent that wraps a function; it is not written as a table, only as the function itself."""


COMMAND = "command"
"""The kind of agent that is a command; its table may leave the kind out: {command = ["prog", "{input}"]}."""
FILES = "files"
"""The option of any kind that names files the agent needs: paths, or paths by their names in its folder."""


class AgentKind(Value):
    """An agent given by the name of its `kind`, which a plug-in registers, and its `options`.

    The plug-in is made with the options, the agent's `label`, and the study's `version` if it takes one and
    has none of its own among its options. An option `files` holds paths by their names in the agent's folder.
    """

    kind: Name
    options: Table = Field(default_factory=dict)

    if TYPE_CHECKING:

        def __init__(self, kind: str, options: Json = ...) -> None: ...

    def made(self, label: str, version: str | None = None) -> Agent:
        """Make the agent; Invalid says what is wrong with its kind or its options."""
        try:
            make = registry.look("agent", self.kind)
            takes = "version" in wants(make).names
            given = {"label": label, **({"version": version} if takes else {})}
            agent = make(**{**given, **self.options})
        except Unknown as error:
            raise Invalid(str(error)) from None
        except TypeError as error:
            raise Invalid(f"{self.kind}: {error}") from None
        if not isinstance(agent, Agent):
            raise Invalid(f"{self.kind}: makes a {type(agent).__name__}, which has not all that an agent has")
        return agent

    def written(self, base: Path | None = None) -> dict[str, Json]:
        """The table that a study file contains for it; its files are relative to `base`, or else absolute."""
        options = dict(self.options)
        if base is not None and isinstance(options.get(FILES), Mapping):
            paths = options[FILES].items()
            options[FILES] = {name: os.path.relpath(path, base.resolve()) for name, path in paths}
        return {"kind": self.kind, **options}


@runtime_checkable
class AgentValue(Protocol):
    """An agent that a study holds as a value and that is no function: an `AgentKind`, or one made in Python,
    which may hold functions (a tool loop, a conversation, a graph)."""

    @property
    def kind(self) -> str:
        """The name of its kind."""
        ...

    def made(self, label: str, version: str | None = None) -> Agent:
        """The agent under a label of a study; `version` stands for its code."""
        ...

    def written(self, base: Path | None = None) -> dict[str, Json] | None:
        """The table that a study file contains for it; None if code in it has no name in a file."""
        ...


def is_kind(given: object) -> bool:
    """Whether this is a table {kind = "...", ...} rather than a table of agents by label."""
    if not isinstance(given, Mapping):
        return False
    kind = given.get("kind")
    return (isinstance(kind, str) and ".py:" not in kind) or isinstance(given.get(COMMAND), list | tuple)


def read_kind(given: Mapping[str, Any], folders: Sequence[Path] = ()) -> AgentKind:
    """Read {kind = "echo", suffix = "!"}; Invalid if there is no such kind, or it refuses the options.

    Its files are looked for in these folders; without any, their paths must be absolute.
    """
    named = str(given.get("kind", COMMAND))
    if named == FUNCTION:
        raise Invalid("write a function as file.py:name")
    if "label" in given:
        raise Invalid("label: is the study's to say, and no option of an agent")
    options = {str(key): value for key, value in given.items() if key != "kind"}
    if folders and named != COMMAND:
        options = {name: located_code(value, folders) for name, value in options.items()}
    if folders and options.get(FILES):
        options[FILES] = located_files(options[FILES], folders)
    kind = AgentKind(named, options)
    kind.made(kind.kind)
    return kind


def located_code(given: Any, folders: Sequence[Path]) -> Any:
    """An option of an agent, with the files of code that it names ("file.py:name") as absolute paths."""
    if isinstance(given, Mapping):
        return {name: located_code(part, folders) for name, part in given.items()}
    if isinstance(given, list | tuple):
        return [located_code(part, folders) for part in given]
    if not isinstance(given, str) or not is_reference(given):
        return given
    file, _, name = given.rpartition(":")
    return f"{locate(file, folders).resolve()}:{name}"


def located_files(given: Any, folders: Sequence[Path]) -> dict[str, str]:
    """The absolute path of each file by its name in the agent's folder; a folder stands for all its files.

    A path that leads out of the folder that it is relative to is known by its last part.
    """
    if isinstance(given, str | Path):
        given = [given]
    if not isinstance(given, Mapping | list | tuple):
        raise Invalid(f"{FILES}: must be a list of paths, or a table of names and paths, not {given!r}")
    pairs = given.items() if isinstance(given, Mapping) else ((None, path) for path in given)
    found: dict[str, str] = {}
    problems: list[str] = []
    for name, path in pairs:
        try:
            for inner, file in _files_at(name, path, folders):
                if found.setdefault(inner, str(file)) != str(file):
                    problems.append(f"{FILES}: two of them are called {inner!r}")
        except Invalid as error:
            problems += [f"{FILES}: {problem}" for problem in error.problems]
    if problems:
        raise Invalid(problems)
    return found


def _files_at(name: str | None, path: Any, folders: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """The files that a path stands for, each with its name in the agent's folder."""
    if not isinstance(path, str | Path) or not str(path):
        raise Invalid(f"{path!r} is not a path")
    place = locate(path, folders).resolve()
    pure = PurePosixPath(path)
    leads_out = pure.is_absolute() or ".." in pure.parts
    inner = PurePosixPath(name or (place.name if leads_out else str(pure)))
    if place.is_file():
        yield str(inner), place
        return
    for file in sorted(place.rglob("*")):
        if file.is_file():
            yield str(inner / file.relative_to(place).as_posix()), file


def made_agent(given: Any, label: str, version: str | None = None) -> Agent:
    """Make the agent under test from a function or from its kind."""
    if isinstance(given, AgentValue):
        return given.made(label, version)
    agent: Agent = registry.make("agent", FUNCTION, fn=given, label=label, version=version)
    return agent


def written_agent(given: Any) -> str | dict[str, Json] | None:
    """How another process finds the agent: "file.py:name", or a table of its kind; None if it cannot."""
    return (given.written() if isinstance(given, AgentValue) else None) or reference(given)


def wanted_by(given: Any) -> TakenArguments:
    """Which factors an agent takes by name, and which it requires (`requires` of an agent of some kind).

    TypeError or ValueError if the signature of a function cannot be read.
    """
    if not isinstance(given, AgentValue):
        return agent_code(given).wants
    agent = given.made(given.kind)
    takes, required = agent.takes, frozenset[str](getattr(agent, "requires", ()))
    return TakenArguments(frozenset(takes or ()), required, takes is None)
