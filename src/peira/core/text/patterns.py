"""Users' regular expressions, searched in models' outputs with a time limit."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from peira.errors import Invalid, TimedOut

SECONDS = 2.0


def compiled(pattern: object, who: str) -> Any:
    """Compile a pattern in the syntax of `re`; Invalid, prefixed with `who`, if it is not one."""
    try:
        regex = import_module("regex")
    except ImportError:
        raise Invalid(f"{who} needs the package regex: pip install regex") from None
    if not isinstance(pattern, str):
        raise Invalid(f"{who}: {pattern!r} is not a pattern; write a text")
    try:
        return regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError) as problem:
        raise Invalid(f"{who}: {pattern!r} is not a valid pattern: {problem}") from None


def search(pattern: Any, text: str) -> Any:
    """The first match or None; TimedOut after `SECONDS`, because then neither is known."""
    try:
        return pattern.search(text, timeout=SECONDS, concurrent=True)
    except TimeoutError:
        raise TimedOut(f"the pattern {pattern.pattern!r} took more than {SECONDS:g} s on this text") from None
