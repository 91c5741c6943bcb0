"""A Python function as agent, an object with `run`, or a factory of such: arguments are injected by name."""

from __future__ import annotations

import inspect
from functools import cached_property
from types import CoroutineType, NoneType
from typing import Any

from peira.core.chat.transcript import as_text
from peira.core.code.fingerprint import Fingerprint, fingerprint
from peira.core.code.signature import CONDITION, TakenArguments, agent_code, wants
from peira.core.context import Trial
from peira.core.ids import Json

PLAIN = frozenset({str, bool, int, float, dict, list, NoneType, CoroutineType})
"""The types of most results: values, and coroutines of them, which cannot be called."""
INJECTED = frozenset({"case", "trial"})
BY_NAME = ("input", "prompt", "seed", CONDITION)
"""What an agent may also take by name, unless a factor has that name: the case's input, the same as text,
the trial's seed, and the levels of all factors."""


class FunctionAgent:
    """Calls `fn` with `case`, `trial`, `input`, `prompt`, `seed`, `condition` and the factors that it has as
    parameters.

    `fn` may also be an object that has `run`, a class, or a function that returns such an object or another
    function: then that, or its `run`, is called in the same way.
    """

    def __init__(self, fn: Any, label: str, version: str | None = None) -> None:
        self.fn, self.label, self.version = fn, label, version
        code = agent_code(fn)
        self._called, self._wants = code.called, code.wants
        self._first = code.wants if code.called is code.works else wants(code.called)
        self.asynchronous = inspect.iscoroutinefunction(inspect.unwrap(code.works))

    @property
    def takes(self) -> frozenset[str] | None:
        """The factors it takes; None if it takes all of them."""
        return None if self._wants.every_factor else self._wants.names - INJECTED

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the function's code, computed once."""
        return fingerprint(self._called, version=self.version)

    @property
    def identity(self) -> Json:
        """Label and code; a change of either makes new trials."""
        return {"agent": "function", "label": self.label, "code": self.fingerprint.digest}

    def invoke(self, trial: Trial) -> Any:
        """Call the function; its result, or a coroutine if `asynchronous`."""
        made = self._called(**chosen_arguments(self._first, trial))
        if type(made) in PLAIN:
            return made
        if inspect.isfunction(made) or inspect.ismethod(made):  # what the user wrote, no built-in
            return made(**chosen_arguments(wants(made), trial))
        if callable(made) or not callable(getattr(type(made), "run", None)):
            return made
        return made.run(**chosen_arguments(wants(made.run), trial))


def chosen_arguments(wanted: TakenArguments, trial: Trial) -> dict[str, Any]:
    """The arguments that a function with these parameters gets: factors first, then what is injected."""
    condition = trial.condition
    arguments = (
        dict(condition)
        if wanted.anything
        else {name: value for name, value in condition.items() if name in wanted.names}
    )
    if "case" in wanted.names:
        arguments["case"] = trial.case
    if "trial" in wanted.names:
        arguments["trial"] = trial
    for name in BY_NAME if not wanted.names.isdisjoint(BY_NAME) else ():
        if name in wanted.names and name not in arguments:
            arguments[name] = _injected(name, trial)
    return arguments


def _injected(name: str, trial: Trial) -> Any:
    """The case's input, its text, the trial's seed, or its condition."""
    if name == "seed":
        return trial.seed
    if name == CONDITION:
        return dict(trial.condition)
    return trial.case.input if name == "input" else as_text(trial.case.input)
