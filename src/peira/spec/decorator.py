"""`study`: the decorator that makes a study of a function, and the call that makes one of several agents."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypedDict, Unpack, overload

from peira.spec.modules import caller
from peira.spec.study import Study


class Fields(TypedDict, total=False):
    """What a study can be made of; see `Study`."""

    name: str
    title: str
    description: str
    authors: Any
    rationale: str
    tags: Any
    notes: str
    version: str
    cases: Any
    factors: Any
    blocks: Any
    constraints: Any
    design: Any
    agent: Any
    agents: Any
    transform: Any
    evaluators: Any
    repeats: int
    seed: int
    order: str
    anchors: int
    outcomes: Any
    hypotheses: Any
    analysis_plans: Any
    stop: Any
    budget: Any
    policy: Any
    storage: Any
    data: Any


class Decorator:
    """A study that waits for its function."""

    def __init__(self, fields: Fields, folders: list[Path], module: str) -> None:
        self._fields, self._folders, self._module = fields, folders, module

    def __call__(self, function: Callable[..., Any]) -> Study:
        named = {"name": getattr(function, "__name__", "study"), **self._fields, "agent": function}
        return Study.assemble(named, self._folders, self._module)


@overload
def study(function: Callable[..., Any], /, **fields: Unpack[Fields]) -> Study: ...
@overload
def study(function: None = None, /, **fields: Unpack[Fields]) -> Any: ...
def study(function: Callable[..., Any] | None = None, /, **fields: Unpack[Fields]) -> Any:
    """Make a study: `@study(cases=..., factors=...)` on a function, or `study(agents={...}, cases=...)`.

    The function stays callable. Relative files are looked for beside the calling file, then in the working
    folder. Everything that is wrong is raised at once, as `Invalid`.
    """
    folder, module = caller()
    folders = [folder or Path(), Path()]
    if function is not None:
        return Decorator(fields, folders, module)(function)
    if "agent" in fields or "agents" in fields:
        return Study.assemble(fields, folders, module)
    return Decorator(fields, folders, module)
