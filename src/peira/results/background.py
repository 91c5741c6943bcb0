"""What is known of a run beside its trials: manifest, provenance, calls, open store, stopping rule.

An interval for a fixed number of cases is too narrow where one stopped because of what one saw, and the mean
it is around too far from 0. The rule's own interval holds at every look, so it holds here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from peira.core.chat.transcript import CallSummary, Transcript
from peira.core.contracts import Store
from peira.core.ids import Json
from peira.core.log.state import Run
from peira.core.looks import Look
from peira.core.text.words import counted
from peira.plan.manifest import Manifest
from peira.plan.provenance import Provenance


@dataclass(frozen=True)
class Background:
    """How a run came about. `standing` says how it stands to its frozen plan, if there is one.

    `order` names the trials in the order in which they were to be run; `exchanges` finds calls by their keys,
    those that are recorded, and `transcripts` makes the transcripts of trials.
    """

    run: Run
    manifest: Manifest
    provenance: Provenance | None
    standing: tuple[str, ...]
    order: Callable[[], Iterator[str]]
    exchanges: Callable[[Sequence[str]], Mapping[str, CallSummary]]
    transcripts: Callable[[Sequence[str]], Mapping[str, Transcript]]


@dataclass(frozen=True)
class StoredRun:
    """A run as stored. The store is open as long as the context that gave this."""

    store: Store
    run: Run
    manifest: Manifest


Reopen = Callable[[], AbstractContextManager[StoredRun]]
"""Opens the store for reading, and closes it again."""


def remarks(stop: Json, look: Look | None, spared: int) -> list[str]:
    """What a run with this stopping rule has to say beside every number."""
    name = stop if isinstance(stop, str) else stop.get("rule", "decided")
    if look is None:
        return [f"the stopping rule ({name}) is not followed in this run"]
    looks = counted(look.number, "look")
    if not look.answer and not spared:
        return [f"the stopping rule ({name}) has not decided in {looks}, {look}"]
    how = "stopped by its rule" if look.answer else "narrowed by its rule"
    return [
        f"{how} ({name}) at look {look.number}, {look}; {counted(spared, 'trial')} not needed",
        "intervals of tables and comparisons are for a fixed number of cases: after stopping they are too "
        "narrow, and means too far apart; what the rule says holds at every look",
    ]
