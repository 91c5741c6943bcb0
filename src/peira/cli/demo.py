"""`peira demo`: a small study of real computation, its plug pulled half-way, and then resumed.

Everything it prints is measured. The study notes each execution in a file of its own, so the claim that
nothing finished was run again is counted outside peira.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from peira.api.follow import Follower
from peira.api.look import Opened
from peira.cli import errors
from peira.cli.ending import results_table, tally
from peira.cli.init import starter
from peira.cli.output import means
from peira.core.events import State
from peira.errors import Invalid, Unknown
from peira.report.live import display

STUDY, EXECUTED = "bandits.py", "executed.log"
PARALLEL = 8
POLL = 0.05


def demo(
    store: Annotated[
        str | None, typer.Option("--store", metavar="PATH", help="Keep it here, not in a temporary folder.")
    ] = None,
) -> int:
    """See it work: a small study, its plug pulled half-way, resumed.

    Needs no model and no network, and takes some ten seconds. Its files stay in a temporary folder (or beside
    --store), so that you can look at them.

    \b
    Examples:
      peira demo
      peira demo --store demo.db
    """
    folder = Path(tempfile.mkdtemp(prefix="peira-demo-")) if store is None else Path(store).resolve().parent
    path = folder / "demo.db" if store is None else Path(store).resolve()
    _prepare(folder, path)
    print("Does exploring pay? 3 strategies x 2 lengths of play x 8 cases x 5 repeats.")
    print(f"The study: {folder / STUDY}\n")

    print("1. Run it, and pull the plug half-way (kill -9).", flush=True)
    _run(folder, path, kill_at=0.5)
    finished = {trial.id for trial in Opened(path).results() if trial.state is State.succeeded}
    killed, begun = Opened(path).run(), len(_executions(folder))
    print(f"   killed: {len(finished)} of {killed.trials} trials finished, {begun - len(finished)} under way")
    print(f"   the store says: {killed.status}\n")

    print("2. Run it again: the same command goes on where it stopped.", flush=True)
    code = _run(folder, path)
    results = Opened(path).results()
    repeated = [trial for trial, n in _executions(folder).items() if n > 1 and trial in finished]
    print(f"   {results.status}: {tally(results.counts)}")
    print(f"   finished before the kill: {len(finished)}; of these run again: {len(repeated)}\n")

    print(f"3. What it says.\n\n{means(results_table(results))}\n")
    print(_next(path))
    if code or repeated:
        return errors.say(
            [f"the demonstration failed: exit code {code}, {len(repeated)} trials run again"], 1
        )
    return 0


def _prepare(folder: Path, store: Path) -> None:
    there = [path for path in (folder / STUDY, folder / EXECUTED, store) if path.exists()]
    if there:
        raise Invalid(f"{path}: is there already; the demonstration wants a fresh --store" for path in there)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / STUDY).write_text(starter(STUDY), encoding="utf-8")


def _run(folder: Path, store: Path, kill_at: float | None = None) -> int:
    """`peira run` in a process of its own, followed from here as anybody could; its exit code."""
    before = _known(store)
    words = ["run", STUDY, "--store", str(store), "--parallel", str(PARALLEL), "--quiet"]
    command = [sys.executable, "-P", "-m", "peira.cli", *words]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL) as child:
        follower = _begun(child, store, before)
        with display("bandits", None) as show:
            while child.poll() is None:
                progress = follower.look()
                show(progress)
                if kill_at is not None and progress.done >= kill_at * follower.run.trials:
                    child.send_signal(signal.SIGKILL)
                time.sleep(POLL)
    return child.returncode


def _begun(child: subprocess.Popen[bytes], store: Path, before: list[str]) -> Follower:
    """The child's run, once there is one."""
    while child.poll() is None:
        if new := [run for run in _known(store) if run not in before]:
            return Follower(store, new[0])
        time.sleep(POLL)
    raise Unknown(f"the run ended before it began, with exit code {child.returncode}")


def _known(store: Path) -> list[str]:
    try:
        return [run.id for run in Opened(store).runs()]
    except Unknown:
        return []


def _executions(folder: Path) -> Counter[str]:
    return Counter((folder / EXECUTED).read_text().split())


def _next(store: Path) -> str:
    return "\n".join(
        [
            "Try next:",
            f"  peira show --by strategy --store {store}",
            f"  peira show --trials --store {store}",
            f"  peira events --store {store}",
            f"  peira verify --store {store}",
            "  peira init my-study",
        ]
    )
