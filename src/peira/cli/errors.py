"""What people are told when something is wrong: `peira: ` and one line per problem, on standard error."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer

from peira.core.registry import nearest
from peira.errors import Invalid, PeiraError

UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""What the parser raises. It lives in another package from one release of typer to the next."""

NOT_AGAIN = ("--fresh", "--detach")
"""What was asked for once: going on with a run must not ask for it a second time."""


def say(lines: Iterable[str], exit_code: int) -> int:
    sys.stdout.flush()
    for line in lines:
        print(f"peira: {' '.join(line.splitlines())}", file=sys.stderr, flush=True)
    return exit_code


def problems(error: PeiraError) -> Sequence[str]:
    return error.problems if isinstance(error, Invalid) else [str(error)]


def wrong_use(error: Any) -> int:
    """A command, an option or an argument that there is not, or that is missing."""
    text = _meant(error) or _plain(error.format_message())
    command = f"{error.ctx.command_path} --help" if error.ctx else "peira --help"
    return say([f"{text[:1].lower()}{text[1:]} (see `{command}`)"], 2)


def _meant(error: Any) -> str:
    option = getattr(error, "option_name", "")
    if not option.startswith("-") or type(error).__name__ != "NoSuchOption":
        return ""
    known = [name for param in error.ctx.command.get_params(error.ctx) for name in _names(param)]
    return f"no such option {option}{nearest(option, known) if _near(option, known) else ''}"


def _plain(message: str) -> str:
    text = message.strip().rstrip(".").replace("Value error, ", "")
    return text.partition(", unable")[0].replace("Input should be", "must be")


def _names(param: Any) -> list[str]:
    return [] if getattr(param, "hidden", False) else [*param.opts, *param.secondary_opts]


def _near(name: str, known: Iterable[str]) -> bool:
    return "did you mean" in nearest(name, known)


def again(arguments: Sequence[str]) -> str:
    """The command that goes on where this one was stopped."""
    return shlex.join(["peira", *(word for word in arguments if word not in NOT_AGAIN)])
