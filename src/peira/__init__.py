"""peira runs experiments on language models and AI agents.

Stop anywhere; run again. Nothing finished is lost, nothing recorded is paid for twice, and no number is
shown without its uncertainty.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peira.analysis.chaining import cases_from
    from peira.analysis.results import Results
    from peira.api import evaluate, generate, open, run, submit, transform
    from peira.api.comparing import diff
    from peira.api.planning import estimate, plan
    from peira.core.asking import ask, ask_async
    from peira.core.context import current_trial
    from peira.core.models import Reply
    from peira.core.steps import step
    from peira.errors import PeiraError
    from peira.evaluators import exact, includes, match, numeric, regex
    from peira.spec.aims import AnalysisPlan, Hypothesis, Outcome
    from peira.spec.benchmark import Benchmark
    from peira.spec.case import Case
    from peira.spec.constraints import Constraint
    from peira.spec.decorator import study
    from peira.spec.factors import Block, Design, Factor, Level
    from peira.spec.limits import Budget, Policy, Storage
    from peira.spec.study import Study

__all__ = [
    "AnalysisPlan",
    "Benchmark",
    "Block",
    "Budget",
    "Case",
    "Constraint",
    "Design",
    "Factor",
    "Hypothesis",
    "Level",
    "Outcome",
    "PeiraError",
    "Policy",
    "Reply",
    "Results",
    "Storage",
    "Study",
    "ask",
    "ask_async",
    "cases_from",
    "current_trial",
    "diff",
    "estimate",
    "evaluate",
    "exact",
    "generate",
    "includes",
    "match",
    "numeric",
    "open",
    "plan",
    "regex",
    "run",
    "step",
    "study",
    "submit",
    "transform",
]

_ROOMS = {
    "peira.analysis.chaining": ("cases_from",),
    "peira.analysis.results": ("Results",),
    "peira.api": ("evaluate", "generate", "open", "run", "submit", "transform"),
    "peira.api.comparing": ("diff",),
    "peira.api.planning": ("estimate", "plan"),
    "peira.core.asking": ("ask", "ask_async"),
    "peira.core.context": ("current_trial",),
    "peira.core.models": ("Reply",),
    "peira.core.steps": ("step",),
    "peira.errors": ("PeiraError",),
    "peira.evaluators": ("exact", "includes", "match", "numeric", "regex"),
    "peira.spec.aims": ("AnalysisPlan", "Hypothesis", "Outcome"),
    "peira.spec.benchmark": ("Benchmark",),
    "peira.spec.case": ("Case",),
    "peira.spec.constraints": ("Constraint",),
    "peira.spec.decorator": ("study",),
    "peira.spec.factors": ("Block", "Design", "Factor", "Level"),
    "peira.spec.limits": ("Budget", "Policy", "Storage"),
    "peira.spec.study": ("Study",),
}
_ROOM_OF = {name: room for room, names in _ROOMS.items() for name in names}


class _Door(ModuleType):
    """The package itself. A room is opened when something of it is first asked for."""

    def __getattr__(self, name: str) -> Any:
        if name not in _ROOM_OF:
            raise AttributeError(f"module 'peira' has no attribute {name!r}")
        value = getattr(import_module(_ROOM_OF[name]), name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        """Importing the room `peira.plan` binds its name here; the function of that name stays."""
        if not (name in _ROOM_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *__all__})


sys.modules[__name__].__class__ = _Door
