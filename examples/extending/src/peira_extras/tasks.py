"""A kind of task of its own, `checksum`: the SHA-256 of files, computed once and kept in a store.

It shows what the engine asks of a kind of task: a `Work`, which does one task, and a `Source`, which offers
tasks. Neither the engine nor the stores know what a checksum is.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from peira.core.contracts import Channel, Ended, Offer, Op, OpenStore
from peira.core.ids import compose, digest
from peira.core.log.events import RunPlanned, RunStarted, TaskSpec
from peira.core.registry import registry
from peira.engine.context import RunContext
from peira.engine.execution import Execution
from peira.engine.run import RunDriver, RunEnd
from peira.errors import Invalid

CHECKSUM = "checksum"


class ChecksumWork:
    """What a task of this kind does."""

    stage = CHECKSUM
    asynchronous = False
    reader = ""
    """It cannot be rebuilt in another process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def scope(self) -> str:
        """What its calls of models would be known by."""
        return str(self.path)

    def perform(self, channel: Channel, epoch: int) -> Any:
        return hashlib.sha256(self.path.read_bytes()).hexdigest()

    def message(self) -> dict[str, Any]:
        raise Invalid("checksum: is done in the process of the run")

    def copy(self) -> ChecksumWork:
        return ChecksumWork(self.path)


class Files:
    """Offers one task for each file. A task is recorded under its id: the same file, changed at another time,
    is another task."""

    unit = CHECKSUM

    def __init__(self, paths: Iterable[Path]) -> None:
        self._paths = list(paths)
        self.size = len(self._paths)
        self.closed = False

    def performs(self, kind: str) -> bool:
        return True

    def more(self, n: int) -> list[Offer]:
        taken, self._paths = self._paths[:n], self._paths[n:]
        self.closed = not self._paths
        return [Offer(TaskSpec(task_id(path), CHECKSUM, CHECKSUM), ChecksumWork(path)) for path in taken]

    def follow(self, offer: Offer, ended: Ended) -> Sequence[Offer]:
        """No task brings another into being."""
        return ()


def task_id(path: Path) -> str:
    return compose(CHECKSUM, digest(str(path.resolve())), path.stat().st_mtime_ns)


def checksums(paths: Iterable[Path], store: OpenStore, work: Path, workers: int = 2) -> RunEnd:
    """Compute what is not recorded yet; `work` is a folder for running attempts."""
    source, owner = Files(paths), str(store.incarnation)
    run = compose("run", CHECKSUM, uuid.uuid4().hex)
    planned = RunPlanned(store.put(b"{}"), CHECKSUM, source.size)
    store.commit([Op(run, (planned, RunStarted(owner, store.incarnation)))]).result()
    execution = Execution(RunContext(run, owner, store, work_root=work), source)
    runner = registry.make("runner", "local", asynchronous=False)
    return RunDriver(execution, {CHECKSUM: (runner, workers)}).conduct()
