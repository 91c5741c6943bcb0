"""An attempt's line to the engine: steps, observations, metrics, files, a private folder.

Once the attempt is abandoned its channel is closed: whatever still runs can record and spend nothing.
What was reported before then is kept with the trial.
"""

from __future__ import annotations

import math
import shutil
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import msgspec

from peira.core.contracts import Attempt, Op, Outcome, Store
from peira.core.events import NOTHING, AnyEvent, Artifact, Attached, Observed, Reported, StepRecorded
from peira.core.ids import Json, canonical, digest_bytes, normalise, short
from peira.engine.journal import Journal
from peira.errors import Abandoned, Invalid

INLINE = 2048


class AttemptChannel:
    def __init__(
        self,
        run: str,
        attempt: Attempt,
        store: Store,
        journal: Journal,
        work_root: Path,
        inline: int = INLINE,
    ) -> None:
        self._run, self._attempt, self._store, self._journal = run, attempt, store, journal
        self._work_root, self.inline = work_root, inline
        self._folder: Path | None = None
        self._open = True
        self.metrics: dict[str, float] = {}
        self.about: dict[str, str] = {}
        self.artifacts: tuple[Artifact, ...] = ()

    def recall(self, key: str) -> bytes | None:
        self._check()
        if self._attempt.epoch == 1:  # nothing can have been recorded before the first attempt
            return None
        call = self._store.find("call", [key]).get(key)
        if call is None:
            return None
        return self._store.get(call.blob) if call.blob else bytes(call.value)

    def record(self, key: str, name: str, value: bytes) -> Future[None]:
        inline, blob, blobs = payload(value, self.inline)
        done: Future[None] = Future()
        event = StepRecorded(*self._attempt.key, key, name, inline, blob)
        written = self._write(event, blobs)
        written.add_done_callback(lambda outcome: _pass_on(outcome, done))
        return done

    def observe(self, name: str, data: Json) -> None:
        body = canonical(normalise(data, f"log {name!r}"))
        self._add(Observed(*self._attempt.key, name, msgspec.Raw(body)))

    def report(self, metrics: Mapping[str, float], about: Mapping[str, str]) -> None:
        wrong = [name for name, value in metrics.items() if not math.isfinite(value)]
        if wrong:
            raise Invalid(f"metric {name!r} is not a finite number" for name in wrong)
        self._add(Reported(*self._attempt.key, dict(metrics), dict(about)))
        self.metrics |= metrics
        self.about |= about

    def attach(self, name: str, data: bytes, media: str) -> str:
        artifact = Artifact(name, digest_bytes(data), len(data), media)
        self._add(Attached(*self._attempt.key, artifact), (data,))
        self.artifacts += (artifact,)
        return artifact.digest

    def workdir(self) -> Path:
        self._check()
        if self._folder is None:
            self._folder = self._work_root / f"{short(self._attempt.spec.id)}-{self._attempt.epoch}"
            self._folder.mkdir(parents=True)
        return self._folder

    def close(self) -> None:
        """Nothing more through here; the private folder goes with it."""
        self._open = False
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _check(self) -> None:
        if not self._open:
            raise Abandoned("this attempt was abandoned: it may do nothing more")

    def _add(self, event: AnyEvent, blobs: tuple[bytes, ...] = ()) -> None:
        self._check()
        self._journal.add([Op(self._run, (event,), blobs)])

    def _write(self, event: AnyEvent, blobs: tuple[bytes, ...]) -> Future[list[Outcome]]:
        self._check()
        return self._journal.send(Op(self._run, (event,), blobs))


def payload(value: bytes, inline: int) -> tuple[msgspec.Raw, str, tuple[bytes, ...]]:
    """Where canonical JSON is kept: small in the event, large as the blob of this digest."""
    if len(value) <= inline:
        return msgspec.Raw(value), "", ()
    return NOTHING, digest_bytes(value), (value,)


def _pass_on(written: Future[list[Outcome]], done: Future[Any]) -> None:
    if problem := written.exception():
        done.set_exception(problem)
    elif refusal := written.result()[-1]:
        done.set_exception(Abandoned(str(refusal)))
    else:
        done.set_result(None)
