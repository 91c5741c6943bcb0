"""The tools that an agent was given: functions, tool sets, and how files and tables name them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from peira.core.chat.tools import FunctionTool, Tool, Toolset, function_tool
from peira.core.code.fingerprint import NOTHING_SEEN, Fingerprint, fingerprint_of
from peira.core.context import Trial
from peira.core.ids import Json, digest
from peira.core.registry import nearest, registry
from peira.errors import Invalid
from peira.spec.modules import is_reference, reference, resolve_reference

KIND = "tools"
"""The registry kind of tool sets that can be named: shell, python, files, mcp, and those of plug-ins."""


@dataclass(frozen=True)
class Toolbox:
    """Tools as an agent has them: single ones and sets, in order."""

    items: tuple[Tool | Toolset, ...] = ()

    @property
    def identity(self) -> Json:
        """The identities of all of them."""
        return [item.identity for item in self.items]

    def written(self, base: Path | None = None) -> list[Json] | None:
        """How a file names them; None if it cannot name one of them."""
        found = [_written(item, base) for item in self.items]
        return None if any(one is None for one in found) else found

    def tools(self, trial: Trial) -> dict[str, Tool]:
        """The tools by name, open until the attempt ends: opened once, however often they are used."""
        key = f"tools {digest(self.identity)}"
        if key not in trial.parts:
            trial.parts[key] = trial.lasting.enter_context(self.open(trial))
        found: dict[str, Tool] = trial.parts[key]
        return found

    @contextmanager
    def open(self, trial: Trial) -> Iterator[dict[str, Tool]]:
        """The tools by name while a trial needs them; Invalid if two have the same name."""
        with ExitStack() as open_sets:
            found: dict[str, Tool] = {}
            for item in self.items:
                some = (item,) if isinstance(item, Tool) else open_sets.enter_context(item.open(trial))
                for tool in some:
                    if tool.name in found:
                        raise Invalid(f"tools: two of them are called {tool.name!r}")
                    found[tool.name] = tool
            yield found


def read_toolbox(given: Any, path: str = "tools") -> Toolbox:
    """The tools that were written: one or several; Invalid with every problem."""
    several = given if isinstance(given, Sequence) and not isinstance(given, str) else [given]
    items, problems = [], []
    for number, one in enumerate(several):
        try:
            items.append(_read(one))
        except Invalid as error:
            problems += [f"{path}[{number}]: {problem}" for problem in error.problems]
    names = [item.name for item in items if isinstance(item, Tool)]
    problems += [f"{path}: two of them are called {n!r}" for n in dict.fromkeys(names) if names.count(n) > 1]
    if problems:
        raise Invalid(problems)
    return Toolbox(tuple(items))


def _read(given: Any) -> Tool | Toolset:
    """A tool or tool set from what was written."""
    if isinstance(given, str):
        if is_reference(given):
            return _read(resolve_reference(given, Path()))
        known = registry.names(KIND)
        if given not in known:
            raise Invalid(f"no tool {given!r}{nearest(given, known)}; a function is written as file.py:name")
        return _made(given, {})
    if isinstance(given, Mapping):
        named = [name for name in given if name in registry.names(KIND)]
        if "name" in given:
            return _made(str(given["name"]), {str(k): v for k, v in given.items() if k != "name"})
        if len(named) != 1:
            raise Invalid(f'{dict(given)!r}: a table of a tool has its name: {{name = "shell", ...}}')
        return _made(
            named[0], {str(k): v for k, v in given.items() if k != named[0]} | {"command": given[named[0]]}
        )
    if isinstance(given, Toolset | Tool):
        return given
    return function_tool(given)


def _made(name: str, options: dict[str, Any]) -> Toolset:
    """The tool set of this name with its options."""
    if name not in registry.names(KIND):
        raise Invalid(f"no tool {name!r}{nearest(name, registry.names(KIND))}")
    try:
        made: Toolset = registry.make(KIND, name, **options)
    except TypeError as error:
        raise Invalid(f"{name}: {error}") from None
    return made


def _written(item: Tool | Toolset, base: Path | None) -> Json:
    """How a file names one of them; None if it cannot."""
    if isinstance(item, FunctionTool):
        return reference(item.fn, base)
    return item.written() if isinstance(item, Toolset) else None


def joined_fingerprint(parts: Sequence[object]) -> Fingerprint:
    """One fingerprint of several parts, those that have one."""
    found = [one for part in parts if (one := fingerprint_of(part)) is not NOTHING_SEEN]
    if not found:
        return NOTHING_SEEN
    return Fingerprint(
        digest([one.digest for one in found]),
        tuple(sorted({part for one in found for part in one.parts})),
        tuple(sorted({what for one in found for what in one.unseen})),
        tuple(sorted({file for one in found for file in one.files})),
    )
