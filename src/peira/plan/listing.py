"""Telling a store what the tasks of a plan are about, so that other programs can read it.

A run tells it as its trials end, and a large one when it is over; what it did not (a killed run, a store of
before) is told from the manifest.
"""

from __future__ import annotations

import sys
from array import array
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from hashlib import sha256
from itertools import chain, islice, repeat
from typing import TYPE_CHECKING
from zlib import crc32

import msgspec

from peira.core.codec import decode
from peira.core.contracts import ListsPlans, PlanEntry, Store
from peira.core.garbage_collector import collection_paused
from peira.core.ids import Json
from peira.core.log.events import Result
from peira.errors import StoreDamaged, Unknown
from peira.plan.conditions import Condition, LevelLabels
from peira.plan.manifest import read
from peira.plan.trials import Layout, Place, PlannedCase

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

FEWEST, MOST = 2_000, 4_000
"""Trials that are written together while others run: few at first; then more, because trials end in random
order, and the more are written in theirs the fewer pages are written again. What is left in the end is waited
for."""
CHUNK = 20_000
"""Trials of a large plan that are written together when the run is over."""
AT_ONCE = 2
"""So many chunks are written while the next is made."""
LARGE = 50_000
"""Trials of a plan from which on all are written in the order of their places, when the run is over: written
as they end, they would touch pages all over tables that no cache holds."""
POSITIONS = 2**23
"""Cases of a set that are numbered by their position."""
MOST_TEXT = 2000
"""Characters that are shown of a long text."""
MOST_REMEMBERED = 20_000
"""Cases and conditions whose texts are kept for the next trials of them."""
_json = msgspec.json.encode
Noted = tuple[Place, str, Result, Sequence[tuple[str, str]]]
"""A trial: its place, id and result, and the names and ids of its scores."""


TrialNote = tuple[int, str, str, Sequence[tuple[str, str]]]
"""A trial that has ended: the number of its place, the beginning of its id, the blob of its output if it has
one, and the names of its scores with the beginnings of their ids."""


class TrialNotes:
    """Notes of trials in some 30 bytes each, in whatever order they are added."""

    def __init__(self) -> None:
        self._places, self._tasks, self._kinds = array("Q"), array("Q"), array("I")
        self._known: dict[
            tuple[tuple[str, ...], bool], int
        ] = {}  # names of scores and whether there is a blob
        self._scores, self._blobs = array("Q"), bytearray()

    def add(self, place: int, trial: str, blob: str, scores: Sequence[tuple[str, str]]) -> None:
        """Add a trial; of several notes of one place the last one counts."""
        kind = tuple([name for name, _ in scores]), bool(blob)
        self._places.append(place)
        self._tasks.append(int(trial[:16], 16))
        self._kinds.append(self._known.setdefault(kind, len(self._known)))
        for _, score in scores:
            self._scores.append(int(score[:16], 16))
        if blob:
            self._blobs += bytes.fromhex(blob)

    def add_all(
        self, places: Sequence[int], trials: Sequence[str], scores: Sequence[tuple[str, Sequence[str]]]
    ) -> None:
        """Add trials without blobs that have scores of the same names; each name has the ids of all."""
        kind = tuple([name for name, _ in scores]), False
        self._places.extend(places)
        self._tasks.extend(_numbers(trials))
        self._kinds.extend(repeat(self._known.setdefault(kind, len(self._known)), len(places)))
        self._scores.extend(_numbers(chain.from_iterable(zip(*[ids for _, ids in scores], strict=True))))

    def in_order(self) -> Iterator[TrialNote]:
        """The notes, by place."""
        import numpy as np  # slow to import, and there are many notes

        places, kinds = np.frombuffer(self._places, np.uint64), np.frombuffer(self._kinds, np.uint32)
        known = [names for names, _ in self._known]
        firsts = _before(np.array([len(names) for names in known] or [0]), kinds)
        begins = (
            _before(np.array([64 * blob for _, blob in self._known] or [0]), kinds) if self._blobs else None
        )
        order = np.argsort(places, kind="stable")
        last = np.append(np.diff(places[order]) > 0, [True])[: len(order)]  # of several notes of one place
        tasks, scores = np.frombuffer(self._tasks, np.uint64), np.frombuffer(self._scores, np.uint64)
        order, blobs = order[last], self._blobs.hex()
        known_blob = [blob for _, blob in self._known]
        for start in range(0, len(order), CHUNK):  # as lists they need much more memory
            some = order[start : start + CHUNK]
            yield from zip(
                places[some].tolist(),
                _digits(tasks[some]),
                [""] * len(some)
                if begins is None
                else [
                    blobs[at : at + 64 * known_blob[kind]]
                    for at, kind in zip(begins[some].tolist(), kinds[some].tolist(), strict=True)
                ],
                _named_scores(known, kinds[some].tolist(), firsts[some].tolist(), scores),
                strict=True,
            )


def _before(sizes: NDArray[np.int64], kinds: NDArray[np.uint32]) -> NDArray[np.int64]:
    """For each trial, the sum of the sizes of those before it; the kind of a trial says its size."""
    each = sizes[kinds]
    found: NDArray[np.int64] = each.cumsum()
    found -= each
    return found


def _named_scores(
    known: Sequence[tuple[str, ...]], kinds: Sequence[int], firsts: Sequence[int], scores: NDArray[np.uint64]
) -> list[list[tuple[str, str]]]:
    """For each trial its scores, whose names its kind says, and the first of which is at such a place."""
    import numpy as np

    if len(known) > 1 or not known[0]:
        return [
            list(zip(known[kind], _digits(scores[first : first + len(known[kind])]), strict=True))
            for kind, first in zip(kinds, firsts, strict=True)
        ]
    ids = _digits(scores[np.add.outer(firsts, range(len(known[0])))])
    columns = [zip(repeat(name), ids[n :: len(known[0])]) for n, name in enumerate(known[0])]
    return list(map(list, zip(*columns, strict=True)))


def _numbers(ids: Iterable[str]) -> array[int]:
    """The first 16 hexadecimal digits of each id, as a number."""
    numbers = array("Q", bytes.fromhex("".join([id[:16] for id in ids])))
    if sys.byteorder == "little":
        numbers.byteswap()
    return numbers


def _digits(numbers: NDArray[np.uint64]) -> list[str]:
    """The numbers as 16 hexadecimal digits each."""
    digits = numbers.astype(">u8").tobytes().hex()
    return [digits[at : at + 16] for at in range(0, len(digits), 16)]


class PlanListing:
    """The entries of one plan, on their way to a store."""

    def __init__(
        self,
        plan: str,
        store: ListsPlans,
        labels: LevelLabels,
        get: Callable[[str], bytes] | None,
        case_sets: Mapping[str, str],
        layout: Layout | None = None,
    ) -> None:
        """`plan` is the digest of the manifest, `case_sets` are those of its sets of cases; `get` reads
        blobs, None if nothing is shown of them. `layout` is given if the plan is large."""
        self._plan, self._store, self._labels, self._get = plan, store, labels, get
        self._case_sets, self._layout = case_sets, layout
        self._notes = TrialNotes()
        self._waiting: list[Noted] = []
        self._enough = FEWEST
        self._groups: dict[int, tuple[Condition, tuple[int, str, str]]] = {}
        self._subjects: dict[int, tuple[PlannedCase, tuple[int | str | None, ...]]] = {}

    @classmethod
    def of(
        cls, store: Store, manifest: str, texts: bool = True, layout: Layout | None = None
    ) -> PlanListing | None:
        """Where a run tells of its trials as they end; None if the store cannot be told.

        Without `texts`, nothing of what was said in long outputs is written. With the plan's `layout`, a
        large plan is written when the listing is closed.
        """
        if not isinstance(store, ListsPlans):
            return None
        plan = read(manifest, store.get)
        late = layout if layout is not None and layout.size >= LARGE else None
        labels = LevelLabels.kept(plan.snapshot)
        return cls(manifest, store, labels, store.get if texts else None, plan.case_sets, late)

    def note(self, place: Place, trial: str, result: Result, scores: Sequence[tuple[str, str]]) -> None:
        """Add a trial that has ended. Never waits: the store's own thread makes texts of it, and writes."""
        if self._layout is not None:
            self._notes.add(place.number, trial, "" if result.exposed else result.blob, scores)
            return
        self._waiting.append((place, trial, result, scores))
        if len(self._waiting) >= self._enough:
            self._enough = min(2 * self._enough, MOST)
            self._flush()

    def note_all(
        self,
        places: Sequence[Place],
        trials: Sequence[str],
        results: Sequence[Result],
        scores: Sequence[tuple[str, Sequence[str]]],
    ) -> None:
        """As `note` of each of these trials; `scores` are names, each with the ids of the scores of all."""
        if self._layout is not None and not any(result.blob for result in results):
            self._notes.add_all([place.number for place in places], trials, scores)
            return
        names = [name for name, _ in scores]
        for place, trial, result, *ids in zip(
            places, trials, results, *[ids for _, ids in scores], strict=True
        ):
            self.note(place, trial, result, list(zip(names, ids, strict=True)))

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        self._store.list_plan(self._plan, map(self._entry, waiting))

    def close(self, complete: bool) -> None:
        """Write the rest; with `complete`, nothing of the plan is missing then."""
        if self._layout is not None:
            with collection_paused():
                self._write_notes(self._layout)
        waiting, self._waiting = self._waiting, []
        self._store.list_plan(self._plan, map(self._entry, waiting), complete).result()

    def _write_notes(self, layout: Layout) -> None:
        """Write all that was noted."""
        late, written = self._late_entries(layout), deque[Future[None]]()
        while chunk := list(islice(late, CHUNK)):
            written.append(self._store.list_plan(self._plan, chunk))
            if len(written) > AT_ONCE:
                written.popleft().result()

    def add_all(self, trials: Iterable[Noted], complete: bool) -> None:
        """Write these trials."""
        self._store.list_plan(self._plan, map(self._entry, trials), complete).result()

    def _late_entries(self, layout: Layout) -> Iterator[PlanEntry]:
        """All that was noted, by place; cases are numbered in the order in which they come here, too."""
        # The first case of each set has a number above all that are made of a case's content.
        sets = {label: 2**62 + int(digest[:9], 16) * POSITIONS for label, digest in self._case_sets.items()}
        known = {label for label, first in sets.items() if self._has_listed(first, layout.case_sets[label])}
        of: tuple[str, int] | None = None
        subject: tuple[int | str | None, ...] = ()
        for number, task, blob, scores in self._notes.in_order():
            condition, position, repeat = layout.located(number)
            if of != (condition.cases, position):  # repeats of a case follow each other
                of = condition.cases, position
                if position >= POSITIONS:
                    subject = self._subject(layout.case_sets[condition.cases][position])
                elif condition.cases in known:
                    subject = (sets[condition.cases] + position,)
                else:
                    case = layout.case_sets[condition.cases][position]
                    subject = sets[condition.cases] + position, *_texts(case)
            output = self._output(blob) if blob else ""
            yield PlanEntry(number, task, self._group(condition), subject, repeat, output, scores)

    def _has_listed(self, first: int, cases: Sequence[PlannedCase]) -> bool:
        """Whether the cases of a set were all listed with another plan."""
        numbers = range(first, first + min(len(cases), POSITIONS))
        return self._store.listed_cases(numbers) == len(numbers)

    def _entry(self, noted: Noted) -> PlanEntry:
        place, trial, result, scores = noted
        group, subject = self._group(place.condition), self._subject(place.case)
        output = self._output(result.blob) if result.blob and not result.exposed else ""
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
            texts = _texts(case)
            # What an agent sees of the case has a digest already; what is expected is not part of that.
            number = int(case.seen[:14], 16) ^ crc32((as_text(case.expected) or "").encode())
            known = self._subjects[id(case)] = case, (number, *texts)
        return known[1]

    def _output(self, blob: str) -> str:
        """How an output begins that is in a blob."""
        if self._get is None:
            return ""
        try:
            return beginning(as_text(decode(self._get(blob))) or "")
        except (StoreDamaged, Unknown) as problem:
            return f"({problem})"


def _texts(case: PlannedCase) -> tuple[str | None, ...]:
    """A case as it is shown."""
    metadata = _json(case.metadata).decode() if case.metadata else None
    return case.id, case.slice, case.cluster, as_text(case.input), as_text(case.expected), metadata


def _number(texts: Iterable[str | None]) -> int:
    """A number that only equal texts share."""
    return int.from_bytes(sha256(_json(list(texts))).digest()[:7], "big")


def as_text(value: Json) -> str | None:
    """A value as text: texts as they are, anything else as JSON."""
    return value if value is None or isinstance(value, str) else _json(value).decode()


def beginning(text: str) -> str:
    """The first characters of a text, and how many there are if it is cut."""
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}… ({len(text):,} characters)"
