"""A run that outlives its terminal.

The run is started in a session of its own. Until it is durable it shares our standard error, so that a
study with problems, or a store in use, is told here; then it turns to a log beside the store, and says its
id through a pipe. No id and the pipe closed means that it ended before: its exit code is ours.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from peira.api.running import Begun
from peira.api.stores import beside
from peira.cli.next import command
from peira.cli.output import Output
from peira.core.ids import short
from peira.engine.execution import Execution

OURS = ("--detach", "--json")


def start(arguments: Sequence[str], store: str | None, out: Output) -> int:
    """Start the same command detached; returns once its run is durable, or has failed to begin."""
    read, write = os.pipe()
    words = [*(word for word in arguments if word not in OURS), "--announce", str(write)]
    child = subprocess.Popen(
        [sys.executable, "-P", "-m", "peira.cli", *words],
        stdin=subprocess.DEVNULL,
        stdout=2,
        pass_fds=(write,),
        start_new_session=True,
    )
    os.close(write)
    try:
        with os.fdopen(read) as told:
            begun = told.read()
    except KeyboardInterrupt:
        child.terminate()
        child.wait()
        raise
    return _tell({**json.loads(begun), "pid": child.pid}, store, out) if begun else child.wait()


def _tell(begun: dict[str, Any], store: str | None, out: Output) -> int:
    run = begun["run"]
    out.document(begun)
    out.text(
        f"run {short(run)} goes on in process {begun['pid']}\n"
        f"  log:    {begun['log']}\n"
        f"  watch:  {command('watch', run, store)}\n"
        f"  stop:   {command('cancel', run, store)}"
    )
    return 0


def announced(pipe: int) -> Begun:
    """In the detached process: turn to the log and say the run's id."""
    os.set_inheritable(pipe, False)

    def begun(run: str, execution: Execution) -> None:
        log = beside(execution.store, "logs") / f"{short(run)}.log"  # type: ignore[arg-type]
        log.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(file, 1)
        os.dup2(file, 2)
        os.close(file)
        os.write(pipe, json.dumps({"run": run, "log": str(log)}).encode())
        os.close(pipe)

    return begun
