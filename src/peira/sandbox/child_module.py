"""Child processes that execute a module of peira: how they are started, and how what they print gets out."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence
from io import TextIOWrapper


def start_module(
    module: str,
    pipe: int,
    env: Mapping[str, str],
    *,
    files: Sequence[int] = (),
    folder: str | None = None,
    silent: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a module with the number of its pipe as its argument; it also gets these open files.

    What it prints goes to standard error, because output of user code must not mix with results on standard
    output; nowhere if it is `silent`. It has no standard input, and a Ctrl-C in the terminal is for its
    parent to handle.
    """
    return subprocess.Popen(
        [sys.executable, "-m", module, str(pipe)],
        pass_fds=[pipe, *files],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL if silent else 2,
        stderr=subprocess.DEVNULL if silent else None,
        env=env,
        cwd=folder,
        start_new_session=True,
    )


def print_by_line() -> None:
    """Write what this process prints line by line: standard output is no terminal, and the process is killed
    in the end."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(line_buffering=True)
