"""From the shell's words to an exit code: every error in one form, and never a traceback for bad input."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence

import typer

from peira.cli import errors
from peira.cli.app import commands
from peira.cli.output import standard_output_kept
from peira.core.expressions import ExpressionError
from peira.errors import PeiraError

INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Do what the arguments (by default the process's own) say, and return the exit code."""
    if arguments is None:  # the process ends after this: standard output stays as --json left it
        code = _perform(sys.argv[1:])
        if code == INTERRUPTED:  # it is said already: another Ctrl-C must not turn it into a crash
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return code
    with standard_output_kept():
        return _perform(list(arguments))


def _perform(arguments: list[str]) -> int:
    try:
        with commands().make_context("peira", list(arguments), obj=arguments) as context:
            return int(context.command.invoke(context) or 0)
    except typer.Exit as end:
        return int(end.exit_code)
    except errors.UsageError as problem:
        return errors.wrong_use(problem)
    except PeiraError as problem:
        return errors.say(errors.problems(problem), problem.exit_code)
    except ExpressionError as problem:
        return errors.say([problem.reason], 2)
    except KeyboardInterrupt:
        return errors.say([f"interrupted; again: {errors.again(arguments)}"], INTERRUPTED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # whoever read this has gone, and wants no complaint
        return 1
    except OSError as problem:
        if problem.filename is None:
            raise
        return errors.say([f"{problem.filename}: {problem.strerror}"], 1)
