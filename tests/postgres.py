"""A Postgres server for the whole test session, shared by all of its processes; each test has a schema.

`python postgres.py FOLDER` starts it and waits: when nobody holds the lock file of the folder any more,
however they ended, it stops the server and removes the folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peira.errors import PeiraError
from peira.stores.postgres.server import PrivateServer

QUICK = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off", "shared_buffers": "32MB"}
"""Tests crash processes, and no machine."""


class SharedServer:
    """The session's server, as one of the processes that use it."""

    def __init__(self, session: str) -> None:
        self.folder = Path(tempfile.gettempdir()) / f"peira-tests-{os.getuid()}-{session}"
        self.folder.mkdir(exist_ok=True)
        self.folder.chmod(0o755)  # the server's user passes through it
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def url(self) -> str:
        """Its address; the first to ask starts it. RuntimeError says in a line why it cannot run here."""
        starting = os.open(self.folder / "starting", os.O_RDWR | os.O_CREAT)
        fcntl.flock(starting, fcntl.LOCK_EX)
        try:
            answer = self.folder / "answer"
            if not answer.exists():
                self._start()
            while not answer.exists():
                time.sleep(0.02)
            said = answer.read_text()
        finally:
            os.close(starting)
        if not said.startswith("postgresql://"):
            raise RuntimeError(said)
        return said

    def _start(self) -> None:
        with (self.folder / "log").open("wb") as log:
            subprocess.run(
                [sys.executable, __file__, str(self.folder)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                check=True,
            )

    def leave(self) -> None:
        """Use it no more."""
        os.close(self._lock)


def supervise(folder: Path) -> None:
    """Run the server as long as anybody uses it."""
    server, draft = PrivateServer(folder / "server"), folder / "draft"
    try:
        server.start(QUICK)
        said = server.url
    except PeiraError as problem:
        said = f"no Postgres can be run here: {problem}"
    draft.write_text(said)
    draft.rename(folder / "answer")
    lock = os.open(folder / "lock", os.O_RDWR)
    fcntl.flock(lock, fcntl.LOCK_EX)
    if server.pid:
        server.stop("immediate")
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    if os.fork():  # nobody waits for it
        os._exit(0)
    supervise(Path(sys.argv[1]))
