"""A Postgres server for the whole test session, shared by all of its processes; each test has a schema.

`python postgres.py FOLDER` starts it and waits: when nobody holds the lock file of the folder any more,
however they ended, it stops the server and removes the folder.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from peira.errors import PeiraError
from peira.stores.postgres.server import PrivateServer

QUICK = {"fsync": "off", "full_page_writes": "off", "autovacuum": "off", "shared_buffers": "32MB"}
"""Tests crash processes, and no machine."""
PATIENCE = 50.0
"""Seconds in which the server has to start."""


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
            until = time.monotonic() + PATIENCE
            while not answer.exists():
                if time.monotonic() > until:
                    raise RuntimeError(f"Postgres has not started in {PATIENCE:g} s")
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


class CuttingProxy:
    """A socket in front of the server's, which passes everything on until it is told to cut."""

    def __init__(self, server: str) -> None:
        self._query = dict(parse_qsl(urlsplit(server).query))
        self._folder = tempfile.TemporaryDirectory(prefix="peira-proxy-")
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(f"{self._folder.name}/.s.PGSQL.5432")
        self._listener.listen()
        self._left: int | None = None
        self._every = 0
        self._open: list[socket.socket] = []
        self.cuts = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def address(self, url: str) -> str:
        """The address of a store of the same server, through here."""
        return url.replace(self._query["host"], self._folder.name)

    def cut(self, at: int, every: int = 0) -> None:
        """From now on, let so many answers pass; the next one is lost, with its connection.

        With `every`, the same happens again after so many more.
        """
        self._left, self._every = at, every

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)  # who waits for connections hears of it
        self._listener.close()
        for one in self._open:
            one.close()
        self._folder.cleanup()

    def _serve(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(f"{self._query['host']}/.s.PGSQL.5432")
            self._open += [client, server]
            for source, target, answers in ((client, server, False), (server, client, True)):
                threading.Thread(target=self._pass_on, args=(source, target, answers), daemon=True).start()

    def _pass_on(self, source: socket.socket, target: socket.socket, answers: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 20):
                if answers and self._left is not None:
                    self._left -= 1
                    if self._left < 0:
                        self._left = self._every or None
                        self.cuts += 1
                        break
                target.sendall(data)
        for one in (source, target):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)


if __name__ == "__main__":
    if os.fork():  # nobody waits for it
        os._exit(0)
    supervise(Path(sys.argv[1]))
