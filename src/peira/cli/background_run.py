"""`run --detach`: a run in a process of its own, which outlives the terminal.

The new process announces its run through a pipe once the run is durable.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from peira.app.run import BegunRun, OnBegin
from peira.app.store.access import Located, environment_of, store_folder
from peira.cli.errors import without_passwords
from peira.cli.output import CommandOutput
from peira.cli.run_summary import next_command
from peira.core.ids import short

OURS = ("--detach", "--json")
"""Options that are not passed on to the detached process."""


def start(arguments: Sequence[str], where: Located, store: str | None, out: CommandOutput) -> int:
    """Start the same command detached; returns once its run is durable, or has failed to begin.

    Its command line, which others can read, has no password.
    """
    read, write = os.pipe()
    kept = (without_passwords(word) for word in arguments if word not in OURS)
    words = [*kept, "--announce", str(write)]
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "peira.cli", *words],
        stdin=subprocess.DEVNULL,
        stdout=2,
        pass_fds=(write,),
        start_new_session=True,
        env=environment_of(where),
    )
    os.close(write)
    try:
        with os.fdopen(read) as pipe:
            begun = pipe.read()
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        raise
    return _report({**json.loads(begun), "pid": child.pid}, store, out) if begun else child.wait()


def _report(begun: dict[str, Any], store: str | None, out: CommandOutput) -> int:
    """Show the run's id, its log, and how to watch and stop it."""
    run = begun["run"]
    out.document(begun)
    out.text(
        f"run {short(run)} goes on in process {begun['pid']}\n"
        f"  log:    {begun['log']}\n"
        f"  watch:  {next_command('watch', run, store)}\n"
        f"  stop:   {next_command('cancel', run, store)}"
    )
    return 0


def announced(pipe: int) -> OnBegin:
    """The callback of the detached process: redirect output to the log, and announce the run.

    `pipe` is the file descriptor to write to.
    """
    os.set_inheritable(pipe, False)

    def begun(run: BegunRun) -> None:
        log = store_folder(run.store, "logs") / f"{short(run.run)}.log"
        log.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.close(file)
        os.write(pipe, json.dumps({"run": run.run, "log": str(log)}).encode())
        os.close(pipe)

    return begun
