"""The state of a run under way, and the one lock that guards it.

The parts of an execution share it: dispatch to workers, active attempts, waiting tasks, the stopping rule,
cancellation. Under the lock nobody waits for a commit (ops are only queued; a source may read from the
store, and large blobs are written as files when ops are handed over), and nobody else's code runs: listeners
are told through queues (`hooks`), the stopping rule is asked on a thread of its own with the lock released
(`rule`), models are called on the ledger's loop, agents and evaluators by runners. The locks of the journal,
the hooks and the store are taken inside it, never around it. `docs/architecture.md` draws threads, locks and
who may wait where.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping
from types import MappingProxyType

import peira.engine.sources as sources
from peira.core.contracts import Op, Source
from peira.core.log.events import RunNoted
from peira.core.text.secrets import without_keys
from peira.engine.attempts.admission import Admission, Claims
from peira.engine.context import RunContext
from peira.engine.control import StopRequest
from peira.engine.kinds import BATCH, UNIT
from peira.engine.places import RunPlaces
from peira.engine.progress import TaskCounts
from peira.engine.scheduler import Scheduler


class RunState:
    """What is at hand, what was asked for, and when it is over.

    `changed` is the lock's main condition: the run may be over. `hungry`: admission should look. `evident`:
    the stopping rule should look. Workers wait on conditions of their own (`Dispatch`).
    """

    def __init__(
        self,
        context: RunContext,
        source: Source,
        adaptive: sources.AdaptiveSource | None = None,
        stays: bool = False,
        recorded: Mapping[str, int] = MappingProxyType({}),
        places: RunPlaces | None = None,
    ) -> None:
        """As `Execution` takes them."""
        self.context, self.source, self.adaptive, self.stays = context, source, adaptive, stays
        self.journal = context.journal
        self.tally = TaskCounts(source.unit, frozenset({BATCH, UNIT}) - {source.unit})
        self.tally.counts.update(recorded)
        self.places = places
        self.scheduler = Scheduler(places=places)
        self.admission = Admission(context, source, self.scheduler, self.tally)
        self.claims = Claims(context)
        self.lock = threading.RLock()
        self.changed = threading.Condition(self.lock)
        self.hungry = threading.Condition(self.lock)
        self.evident = threading.Condition(self.lock)
        self.stop: StopRequest | None = None
        self.starved: StopRequest | None = None
        self.fault: BaseException | None = None
        self.paused = self.asking_rule = False
        self.parked = False
        """All that is at hand waits, and the run may be closed: what wakes up does not begin."""
        self.notices: deque[str] = deque()
        """Texts for the user, which the driver shows."""

    @property
    def resting(self) -> bool:
        """Nothing begins for the time being."""
        return self.paused or self.parked

    @property
    def rule_pending(self) -> bool:
        """The stopping rule is being asked, or about to be: what it says comes before anything new begins."""
        return self.adaptive is not None and (self.asking_rule or self.adaptive.evidence.due)

    @property
    def over(self) -> bool:
        """Nothing is under way and nothing is left to start."""
        if self.fault:
            return True
        if self.stop:
            return not self.scheduler.started
        if not self.admission.dry or self.admission.busy or (self.adaptive and self.rule_pending):
            return False
        if self.scheduler.waiting and not self.stays:
            return self.scheduler.only_waiting
        return self.scheduler.idle

    def say(self, text: str) -> None:
        """Tell people, now and in the log."""
        text = without_keys(text)
        self.journal.queue([Op(self.context.run, (RunNoted(text),))])
        self.notices.append(text)
