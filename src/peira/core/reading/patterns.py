"""Patterns that people bring, searched in texts that models wrote.

Some patterns take exponential time on some texts, and Python's own `re` can then not be interrupted: it would
stop every other thread, too. Searches here let the others go on, and end.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from peira.errors import Invalid, TimedOut

SECONDS = 2.0


def compiled(pattern: object, who: str) -> Any:
    """The pattern, in the syntax of `re`; Invalid, naming who wants it, if it is none."""
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
    """The first match or None; TimedOut after a few seconds, which says nothing about the text."""
    try:
        return pattern.search(text, timeout=SECONDS, concurrent=True)
    except TimeoutError:
        raise TimedOut(f"the pattern {pattern.pattern!r} took more than {SECONDS:g} s on this text") from None
