"""A process that is not confined: a temporary folder, a few limits, and its whole tree ended afterwards.

It sees and may touch everything that its user may. For machines without bubblewrap, and only where somebody
has allowed it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from uuid import uuid4

from peira.sandbox import tree
from peira.sandbox.confine import ENVIRONMENT
from peira.sandbox.limits import Limits
from peira.sandbox.workspace import collect, fill

# Not every system knows each of them: where one fails, the others hold.
LIMITED = '{ ulimit -c 0; ulimit -t "$1"; ulimit -f "$2"; ulimit -v "$3"; } 2>/dev/null; shift 3; exec "$@"'
BLOCK, KIB = 512, 1024


class Unconfined:
    confined = False
    peak: int | None = None

    def __init__(
        self,
        argv: Sequence[str],
        files: Mapping[str, bytes],
        limits: Limits,
        env: Mapping[str, str],
        keep: Sequence[str],
    ) -> None:
        self._limits, self._keep = limits, keep
        self._folder = Path(tempfile.mkdtemp(prefix="peira-"))
        self._label = f"unconfined-{uuid4().hex}"
        try:
            fill(self._folder, files)
            self.process = self._started(argv, env)
        except BaseException:
            shutil.rmtree(self._folder, ignore_errors=True)
            raise

    def _started(self, argv: Sequence[str], env: Mapping[str, str]) -> subprocess.Popen[bytes]:
        amounts = [self._limits.cpu, self._limits.disk // BLOCK, self._limits.memory // KIB]
        home = {"HOME": str(self._folder), "TMPDIR": str(self._folder)}
        return subprocess.Popen(
            ["/bin/sh", "-c", LIMITED, "sh", *map(str, amounts), *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=self._folder,
            env=tree.labelled({**ENVIRONMENT, **home, **env}, self._label),
            start_new_session=True,
            bufsize=0,
        )

    def look(self) -> str:
        return ""

    def stop(self) -> None:
        tree.end(self._label, self.process.pid)

    def end(self, stopped: bool) -> int | None:
        code = self.process.wait()
        return None if stopped else code if code >= 0 else 128 - code

    def files(self) -> dict[str, bytes]:
        folder = os.open(self._folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return collect(folder, self._keep, self._limits.disk)
        finally:
            os.close(folder)

    def close(self) -> None:
        self.stop()
        self.process.__exit__(None, None, None)  # closes its pipes, and waits
        shutil.rmtree(self._folder, ignore_errors=True)
