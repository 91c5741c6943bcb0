"""Error messages: `peira: ` and one line per problem, on standard error."""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import typer

from peira.cli.output import program
from peira.core.registry import nearest
from peira.core.text.terminal import printable
from peira.errors import Invalid, PeiraError

UsageError: type[Exception] = typer.BadParameter.__bases__[0]
"""The base class of the parser's errors; its package differs between releases of typer."""

LONGEST = 600
"""Characters of a line; of a longer one the middle is left out."""

PASSWORDS = {
    r"(\b\w+://[^\s/:@]*):[^\s/]*(?=@)": r"\1",
    r"\?password=[^&\s'\"]*&": "?",
    r"[?&]password=[^&\s'\"]*": "",
}
"""The passwords in an address, which no message shows, and what is left of it. These are texts, which `re`
compiles with the first message."""

NOT_AGAIN = ("--fresh", "--detach")
"""Options that must not be repeated when a run is continued."""


def say(lines: Iterable[str], exit_code: int) -> int:
    """Print the lines to standard error, each with the prefix `peira: `; returns the exit code."""
    sys.stdout.flush()
    for line in lines:
        text = without_passwords(" ".join(line.splitlines()))
        if len(text) > LONGEST:  # what was given may be in it, whatever its length
            text = f"{text[: LONGEST // 2]} ... {text[-LONGEST // 2 :]}"
        print(printable(f"peira: {text}"), file=sys.stderr, flush=True)
    return exit_code


def without_passwords(text: str) -> str:
    """The text, without the passwords of addresses in it."""
    for found, left in PASSWORDS.items():
        text = re.sub(found, left, text)
    return text


def problems(error: PeiraError) -> Sequence[str]:
    """The problems in an error, one line each."""
    return error.problems if isinstance(error, Invalid) else [str(error)]


def wrong_use(error: Any) -> int:
    """Report an unknown or missing command, option or argument; returns exit code 2."""
    text = _unknown_option(error) or _plain(error.format_message())
    command = f"{error.ctx.command_path} --help" if error.ctx else "peira --help"
    return say([f"{text[:1].lower()}{text[1:]} (see `{command}`)"], 2)


def _unknown_option(error: Any) -> str:
    """The message for an unknown option, with the nearest one; "" for other errors."""
    option = getattr(error, "option_name", "")
    if not option.startswith("-") or type(error).__name__ != "NoSuchOption":
        return ""
    known = [name for param in error.ctx.command.get_params(error.ctx) for name in _names(param)]
    return f"no such option {option}{nearest(option, known) if _has_similar(option, known) else ''}"


def _plain(message: str) -> str:
    """The parser's message in the style of ours."""
    text = message.strip().rstrip(".").replace("Value error, ", "")
    return text.partition(", unable")[0].replace("Input should be", "must be")


def _names(param: Any) -> list[str]:
    """The names of an option that is not hidden."""
    return [] if getattr(param, "hidden", False) else [*param.opts, *param.secondary_opts]


def _has_similar(name: str, known: Iterable[str]) -> bool:
    """Whether there is a similar name."""
    return "did you mean" in nearest(name, known)


def resume_command(arguments: Sequence[str]) -> str:
    """The command that continues where this one was stopped."""
    words = (without_passwords(word) for word in arguments if word not in NOT_AGAIN)
    return shlex.join([program(), *words])
