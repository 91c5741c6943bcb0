"""A Python function as agent: arguments are injected by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cached_property
from typing import Any

from peira.core.code.fingerprint import Fingerprint, fingerprint
from peira.core.context import Trial
from peira.core.ids import Json
from peira.core.signature import wants

INJECTED = frozenset({"case", "trial"})


class FunctionAgent:
    """Calls `fn` with `case`, `trial` and the factors that it has as parameters."""

    def __init__(self, fn: Callable[..., Any], label: str, version: str | None = None) -> None:
        self.fn, self.label, self.version = fn, label, version
        self.asynchronous = inspect.iscoroutinefunction(inspect.unwrap(fn))
        self._wants = wants(fn)

    @property
    def takes(self) -> frozenset[str] | None:
        """The factors it takes; None if it takes `**kwargs`."""
        return None if self._wants.anything else self._wants.names - INJECTED

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the function's code, computed once."""
        return fingerprint(self.fn, version=self.version)

    @property
    def identity(self) -> Json:
        """Label and code; a change of either makes new trials."""
        return {"agent": "function", "label": self.label, "code": self.fingerprint.digest}

    def invoke(self, trial: Trial) -> Any:
        """Call the function; its result, or a coroutine if `asynchronous`."""
        given = self._wants.names
        arguments = (
            dict(trial.condition)
            if self._wants.anything
            else {name: value for name, value in trial.condition.items() if name in given}
        )
        if "case" in given:
            arguments["case"] = trial.case
        if "trial" in given:
            arguments["trial"] = trial
        return self.fn(**arguments)
