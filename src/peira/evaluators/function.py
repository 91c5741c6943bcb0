"""Functions as evaluators; arguments are passed by name."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from peira.core.code.fingerprint import Fingerprint, fingerprint
from peira.core.code.signature import wants
from peira.core.ids import Json, normalise
from peira.errors import Invalid

FACTS = ("output", "expected", "case", "trial", "transcript")
EVERYTHING = frozenset(FACTS) - {"transcript"}
"""What `**kwargs` takes: a transcript is read from the store only where it is named."""


@dataclass(frozen=True, repr=False)
class FunctionEvaluator:
    """A function of any of output, expected, case, trial and transcript; its code is its identity."""

    fn: Callable[..., Any]
    name: str
    takes: frozenset[str]
    asynchronous: bool
    options: Mapping[str, Json] | None = None
    """The options of the factory that made the function; None if no factory did."""

    @cached_property
    def fingerprint(self) -> Fingerprint:
        """The fingerprint of the function's code."""
        return fingerprint(self.fn)

    @property
    def identity(self) -> Json:
        """The name and the digest of the fingerprint."""
        known = {"evaluator": self.name, "fingerprint": self.fingerprint.digest}
        return known if self.options is None else {**known, "config": normalise(dict(self.options))}

    def judge(self, facts: Mapping[str, Any]) -> Any:
        """Call the function with the facts it takes."""
        return self.fn(**{name: facts[name] for name in self.takes})

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(name for name in FACTS if name in self.takes)})"


def from_function(
    fn: Callable[..., Any], name: str = "", options: Mapping[str, Json] | None = None
) -> FunctionEvaluator:
    """Make an evaluator of a function or callable; raises `Invalid` for unsupported parameters.

    `name` and `options` are those of the factory that returned the function, if one did.
    """
    name = name or _name(fn)
    takes = _takes(fn, name)
    called = fn if inspect.isroutine(fn) or isinstance(fn, partial) else type(fn).__call__
    return FunctionEvaluator(fn, name, takes, inspect.iscoroutinefunction(called), options)


def _name(fn: Callable[..., Any]) -> str:
    if isinstance(fn, partial):
        return _name(fn.func)
    return str(getattr(fn, "__name__", type(fn).__name__)).strip("<>")


def _takes(fn: Callable[..., Any], name: str) -> frozenset[str]:
    """The facts it takes; other parameters need a default, `**kwargs` takes all facts but the transcript."""
    try:
        wanted = wants(fn)
    except (TypeError, ValueError):
        raise Invalid(f"evaluator {name}: its parameters cannot be read; wrap it in a function") from None
    if wrong := sorted(wanted.required - set(FACTS)):
        raise Invalid(
            f"evaluator {name} takes {', '.join(wrong)}; an evaluator takes any of {', '.join(FACTS)}"
        )
    takes = EVERYTHING if wanted.anything else wanted.names & set(FACTS)
    if not takes:
        raise Invalid(f"evaluator {name} takes none of {', '.join(FACTS)}; if it makes one, write {name}()")
    return takes
