"""The process that has peira imported, and forks one for each program that warm.py asks for."""

from __future__ import annotations

import atexit
import importlib
import io
import json
import os
import runpy
import socket
import sys
from pathlib import Path
from typing import Any

LARGEST = 1 << 20
IMPORTED = (
    "peira.cli.commands.run",
    "peira.cli.commands.show",
    "peira.cli.commands.analysis.compare",
    "peira.cli.commands.analysis.compare",
    "peira.cli.commands.store",
    "peira.cli.commands.plan",
    "scipy.optimize",
    "scipy.stats",
)


_codes: list[Any] = []
"""How the program in this process ended."""


def serve(orders: socket.socket) -> None:
    atexit.register(_leave)  # the first that is registered is the last that is called
    for name in IMPORTED:
        importlib.import_module(name)
    while True:
        order, fds, *_ = socket.recv_fds(orders, LARGEST, 4)
        if not order:
            return
        if not os.fork():
            orders.close()
            return keep(json.loads(order), fds)
        for fd in fds:
            os.close(fd)
        _forget_ended()


def _forget_ended() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return


def keep(order: dict[str, Any], fds: list[int]) -> None:
    """Fork the program, say its number, wait, and say how it ended."""
    *standard, told = fds
    pid = os.fork()
    if not pid:
        os.close(told)
        return perform(order, standard)
    for fd in (*standard, 0, 1, 2):
        os.close(fd)
    os.write(told, str(pid).encode())
    _, status = os.waitpid(pid, 0)
    os.write(told, str(os.waitstatus_to_exitcode(status)).encode())
    os._exit(0)


def perform(order: dict[str, Any], standard: list[int]) -> None:
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    _find_first(os.environ.get("PYTHONPATH", ""))
    for number, fd in enumerate(standard):
        os.dup2(fd, number)
    os.closerange(3, max(standard) + 1)
    _speak()
    importlib.reload(importlib.import_module("peira.core.failpoints"))  # it looks at the environment
    sys.argv = order["command"]
    try:
        _run(sys.argv[0])
    except SystemExit as end:
        if end.code:
            _codes.append(end.code)
            raise
    _codes.append(0)


def _find_first(folders: str) -> None:
    """Folders of PYTHONPATH come first, as in a Python that begins with it."""
    sys.path[:0] = [folder for folder in folders.split(os.pathsep) if folder and folder not in sys.path]


def _run(program: str) -> None:
    if program == "peira":
        sys.exit(importlib.import_module("peira.cli").main())
    sys.path.insert(0, str(Path(program).resolve().parent))
    runpy.run_path(program, run_name="__main__")


def _leave() -> None:
    """The last thing at an end that is no failure: what was imported need not be taken apart."""
    if _codes and isinstance(_codes[0], int):
        sys.stdout.flush()
        os._exit(_codes[0])


def _speak() -> None:
    """Standard output and error as Python opens them."""
    raw: Any = io.FileIO(1, "w", closefd=False)
    direct = "PYTHONUNBUFFERED" in os.environ
    out = raw if direct else io.BufferedWriter(raw)
    sys.stdout = io.TextIOWrapper(out, encoding="utf-8", write_through=direct)
    error: Any = io.FileIO(2, "w", closefd=False)
    sys.stderr = io.TextIOWrapper(error, "utf-8", errors="backslashreplace", write_through=True)


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
