"""Help pages of a command's actions: each with its own arguments, options and examples."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

COMMON = ("store", "project", "as_json", "help")
"""Options that every action takes."""
Function = TypeVar("Function", bound=Callable[..., Any])


class HelpPage(NamedTuple):
    """The help of one action: its arguments as they are typed, what it does, its options, and examples.

    `arguments` and `options` are the names of parameters of the command's function.
    """

    usage: str
    text: str
    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    examples: tuple[str, ...] = ()

    def takes(self, parameter: str) -> bool:
        """Whether the action uses this parameter."""
        return parameter in (*self.arguments, *self.options, *COMMON)


def with_pages(pages: Mapping[str, HelpPage]) -> Callable[[Function], Function]:
    """Give a command, whose first argument is an action, a page of help for each action."""

    def decorate(function: Function) -> Function:
        function.pages = pages  # type: ignore[attr-defined]
        return function

    return decorate


def in_vain(pages: Mapping[str, HelpPage], action: str, parameter: str) -> str:
    """For which actions a parameter is, if it is given to one that does not use it; "" if it does."""
    if action not in pages or pages[action].takes(parameter):
        return ""
    return " or ".join(name for name, page in pages.items() if page.takes(parameter))
