"""Telling a store what the tasks of a plan are about, so that other programs can read it.

A run tells it as its trials end; what it did not (a killed run, a store of before) is told from the manifest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import sha256
from zlib import crc32

import msgspec

from peira.core.codec import decode
from peira.core.contracts import ListsPlans, PlanEntry, Store
from peira.core.ids import Json
from peira.core.log.events import Result
from peira.errors import StoreDamaged, Unknown
from peira.plan.conditions import Condition, LevelLabels
from peira.plan.manifest import read
from peira.plan.trials import Place, PlannedCase

FEWEST, MOST = 2_000, 20_000
"""Trials that are written together: few at first, so that this is done while others run; then more and more,
because trials end in random order, and the more are written in theirs the fewer pages are written again."""
MOST_TEXT = 2000
"""Characters that are shown of a long text."""
MOST_REMEMBERED = 20_000
"""Cases and conditions whose texts are kept for the next trials of them."""
_json = msgspec.json.encode
Noted = tuple[Place, str, Result, Sequence[tuple[str, str]]]
"""A trial: its place, id and result, and the names and ids of its scores."""


class PlanListing:
    """The entries of one plan, on their way to a store."""

    def __init__(
        self, plan: str, store: ListsPlans, labels: LevelLabels, get: Callable[[str], bytes] | None
    ) -> None:
        """`plan` is the digest of the manifest; `get` reads blobs, None if nothing is shown of them."""
        self._plan, self._store, self._labels, self._get = plan, store, labels, get
        self._waiting: list[Noted] = []
        self._enough = FEWEST
        self._groups: dict[int, tuple[Condition, tuple[int, str, str]]] = {}
        self._subjects: dict[int, tuple[PlannedCase, tuple[int | str | None, ...]]] = {}

    @classmethod
    def of(cls, store: Store, manifest: str, texts: bool = True) -> PlanListing | None:
        """Where a run tells of its trials as they end; None if the store cannot be told.

        Without `texts`, nothing of what was said in long outputs is written.
        """
        if not isinstance(store, ListsPlans):
            return None
        labels = LevelLabels.kept(read(manifest, store.get).snapshot)
        return cls(manifest, store, labels, store.get if texts else None)

    def note(self, place: Place, trial: str, result: Result, scores: Sequence[tuple[str, str]]) -> None:
        """Add a trial that has ended. Never waits: the store's own thread makes texts of it, and writes."""
        self._waiting.append((place, trial, result, scores))
        if len(self._waiting) >= self._enough:
            self._enough = min(2 * self._enough, MOST)
            self._flush()

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._store.list_plan(self._plan, map(self._entry, waiting))

    def close(self, complete: bool) -> None:
        """Write the rest; with `complete`, nothing of the plan is missing then."""
        waiting, self._waiting = self._waiting, []
        self._store.list_plan(self._plan, map(self._entry, waiting), complete).result()

    def add_all(self, trials: Iterable[Noted], complete: bool) -> None:
        """Write these trials."""
        self._store.list_plan(self._plan, map(self._entry, trials), complete).result()

    def _entry(self, noted: Noted) -> PlanEntry:
        place, trial, result, scores = noted
        group, subject = self._group(place.condition), self._subject(place.case)
        output = self._output(result) if result.blob else ""
        return PlanEntry(place.number, trial, group, subject, place.repeat, output, scores)

    def _group(self, condition: Condition) -> tuple[int, str, str]:
        """Agent and condition. A value is remembered by what it was made from, which is kept meanwhile."""
        known = self._groups.get(id(condition))
        if known is None:
            if len(self._groups) >= MOST_REMEMBERED:
                self._groups.clear()
            texts = condition.agent, _json(self._labels.shown(condition.shown)).decode()
            known = self._groups[id(condition)] = condition, (_number(texts), *texts)
        return known[1]

    def _subject(self, case: PlannedCase) -> tuple[int | str | None, ...]:
        known = self._subjects.get(id(case))
        if known is None:
            if len(self._subjects) >= MOST_REMEMBERED:
                self._subjects.clear()
            metadata = _json(case.metadata).decode() if case.metadata else None
            expected = as_text(case.expected)
            # What an agent sees of the case has a digest already; what is expected is not part of that.
            number = int(case.seen[:14], 16) ^ crc32((expected or "").encode())
            texts = case.id, case.slice, case.cluster, as_text(case.input), expected, metadata
            known = self._subjects[id(case)] = case, (number, *texts)
        return known[1]

    def _output(self, result: Result) -> str:
        """How an output begins that is in a blob."""
        if self._get is None or result.exposed:
            return ""
        try:
            return beginning(as_text(decode(self._get(result.blob))) or "")
        except (StoreDamaged, Unknown) as problem:
            return f"({problem})"


def _number(texts: Iterable[str | None]) -> int:
    """A number that only equal texts share."""
    return int.from_bytes(sha256(_json(list(texts))).digest()[:7], "big")


def as_text(value: Json) -> str | None:
    """A value as text: texts as they are, anything else as JSON."""
    return value if value is None or isinstance(value, str) else _json(value).decode()


def beginning(text: str) -> str:
    """The first characters of a text, and how many there are if it is cut."""
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}… ({len(text):,} characters)"
