"""The user's own source files that a plan's code needs, so that a run can keep them."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import ModuleType

from peira.core.code.origin import own_file
from peira.plan.expand import Plan


def own_sources(plan: Plan) -> list[str]:
    """Files of the agents and evaluators, and of all modules of the user's own that these import."""
    found: set[str] = set()
    queue = sorted(_reached(plan))
    while queue:
        file = queue.pop()
        if file not in found and Path(file).is_file():
            found.add(file)
            queue += _imported(file)
    return sorted(found)


def _reached(plan: Plan) -> set[str]:
    steps = getattr(plan.transform, "steps", ())
    parts = (*plan.agents.values(), plan.transform, *steps, *plan.evaluators.values())
    code = [getattr(part, "fingerprint", None) for part in parts]
    return {str(Path(file).resolve()) for seen in code if seen is not None for file in seen.files}


def _imported(file: str) -> Iterator[str]:
    """The user's own files whose modules, functions or classes stand in this file's module."""
    for module in _modules_of(file):
        for value in list(vars(module).values()):
            where = getattr(value, "__file__", None) if isinstance(value, ModuleType) else None
            own = own_file(value) if where is None else own_file(_At(where))
            if own is not None:
                yield str(Path(own).resolve())


def _modules_of(file: str) -> Iterable[ModuleType]:
    return [m for m in list(sys.modules.values()) if getattr(m, "__file__", None) and _same(m.__file__, file)]


def _same(one: str | None, other: str) -> bool:
    # Names first: to resolve the path of every imported module would take longer than all the rest.
    if one is None or os.path.basename(one) != os.path.basename(other):
        return False
    return str(Path(one).resolve()) == other


class _At:
    """A thing at a file, for `own_file`."""

    def __init__(self, file: str) -> None:
        self.file = file
