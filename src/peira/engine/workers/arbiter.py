"""The stopping rule of a shared run: one member at a time, the arbiter, asks it about what all have recorded.

The rule gets units of evidence in the planned order, whoever executed their trials and whenever they ended:
so its looks are those that one process would take, and a member that takes over comes to the same. It begins
from the first trial again, and records only what nobody has recorded. Who was held up, and is the arbiter no
more without knowing it, records nothing twice: a look names the one that it follows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence

import msgspec

from peira.core.contracts import Ended, Offer, Op
from peira.core.failpoints import reach
from peira.core.log.events import AnyEvent, RunDecided, RunLooked, RunNoted
from peira.core.log.state import Run
from peira.engine.attempts.admission import is_settled
from peira.engine.execution import Execution
from peira.engine.sources.adaptive import AdaptiveSource
from peira.engine.sources.study import trial_of
from peira.stores.sharing import SharedStore

DUTY = 3.0
"""Seconds for which a member is the arbiter; it says so again several times meanwhile."""
LOOK, REST = 0.25, 1.0
"""Seconds between two looks of the arbiter, and of who would be if there were none."""
AT_HAND = 1000
"""Trials whose ends are looked for at the same time."""
CHUNK = 1000
LAST_LOOK = 5.0
"""Seconds that the rule may still take when this process ends."""


class RecordedEvidence:
    """What a shared run has recorded, as its stopping rule takes it: read from the store, again and again."""

    def __init__(self, store: SharedStore, execution: Execution, source: AdaptiveSource) -> None:
        self._store, self._run, self._policy = store, execution.run, execution.context.policy
        self.source = source
        self._open: dict[str, list[Offer]] = {}  # tasks that have not ended, with the trials they belong to

    def read(self) -> None:
        """Count all that has ended, up to trials that nobody has begun; ask the rule about complete units."""
        while not self.source.closed or self._open:
            if len(self._open) < AT_HAND:
                self._add(self.source.more(AT_HAND - len(self._open)))
            ended = self._count_ended()
            if self.source.evidence.due:
                self.source.evidence.drain()
                self._drop_unwanted()
            if not ended:
                return

    def _add(self, offers: Sequence[Offer]) -> None:
        for offer in offers:
            self._open.setdefault(offer.spec.id, []).append(offer)

    def _count_ended(self) -> bool:
        """Count the tasks that have ended since the last look; whether there were any."""
        rows = self._store.find("task", list(self._open))
        ended = [row for row in rows.values() if is_settled(row, self._run, self._policy)]
        for row in ended:
            for offer in self._open.pop(row.id):
                self._add(self.source.follow(offer, Ended(row.state, row.result)))
        return bool(ended)

    def _drop_unwanted(self) -> None:
        if self.source.narrowed:
            for task, offers in list(self._open.items()):
                if all(self.source.unwanted(trial_of(offer)) for offer in offers):
                    del self._open[task]


class Arbiter:
    """Asks the stopping rule of a shared run while this member has that duty; a thread ("peira-arbiter")."""

    def __init__(
        self, store: SharedStore, execution: Execution, source: Callable[[], AdaptiveSource]
    ) -> None:
        """`source` makes a source of the study with its rule that has seen nothing."""
        self._store, self._execution, self._make, self._run = store, execution, source, execution.run
        self._evidence: RecordedEvidence | None = None
        self._ending, self._last = threading.Event(), False
        self.finished = False
        """Whether the last look is recorded."""
        self._thread = threading.Thread(target=self._serve, name="peira-arbiter", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def finish(self) -> None:
        """All has ended: let the arbiter, if it is this member, have the last look."""
        self._last = True

    def close(self) -> None:
        """Look no more."""
        self._ending.set()
        self._thread.join(LAST_LOOK)

    def _serve(self) -> None:
        try:
            while not self._ending.is_set():
                if self._store.sharing.hold(f"rule of {self._run}", DUTY):
                    self._look(self._last)
                else:
                    self._evidence = None  # another looks: who takes over begins anew
                self._ending.wait(LOOK if self._last or self._evidence else REST)
        except BaseException as problem:
            self._execution.fail(problem)

    def _look(self, last: bool) -> None:
        """Ask the rule about what has become complete, and record what it says."""
        if self.finished:
            return
        if self._evidence is None:
            self._evidence = RecordedEvidence(self._store, self._execution, self._make())
        self._evidence.read()
        if last:
            self._evidence.source.evidence.finish()
        for event in self._evidence.source.evidence.news():
            self._record(event)
        self.finished = last

    def _record(self, event: AnyEvent) -> None:
        """Record an event, unless an arbiter before this one has."""
        reach("shared.before_look")
        if isinstance(event, RunNoted):
            if not self._noted(event):
                self._store.commit([Op(self._run, (event,))]).result()
            return
        assert isinstance(event, (RunLooked, RunDecided))
        while (seen := _units_seen(self._row)) < event.look.units:
            self._store.commit([Op(self._run, (msgspec.structs.replace(event, after=seen),))]).result()
        reach("shared.after_look")

    @property
    def _row(self) -> Run:
        run: Run = self._store.find("run", [self._run])[self._run]
        return run

    def _noted(self, event: RunNoted) -> bool:
        """Whether the run's log has this note."""
        after = 0
        while records := self._store.events(self._run, after, CHUNK):
            if any(record.event == event for record in records):
                return True
            after = records[-1].seq
        return False


def _units_seen(run: Run) -> int:
    """The units of the last look at a run."""
    return run.look.units if run.look is not None else 0
