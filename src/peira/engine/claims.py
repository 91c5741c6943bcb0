"""Taking tasks up, and putting them back: both are written before anybody acts on them."""

from __future__ import annotations

from collections.abc import Sequence

from peira.core.contracts import Attempt, Op
from peira.core.events import TasksClaimed, TasksReleased
from peira.core.failpoints import reach
from peira.engine.journal import Journal
from peira.engine.scheduler import Entry
from peira.errors import StoreDamaged
from peira.spec.limits import Policy


class Claims:
    def __init__(self, run: str, owner: str, journal: Journal, policy: Policy) -> None:
        self._run, self._owner, self._journal, self._policy = run, owner, journal, policy

    def claim(self, entries: Sequence[Entry]) -> list[Attempt]:
        """An attempt at each, durable when it returns."""
        groups: dict[tuple[str, str], list[Entry]] = {}
        for entry in entries:
            entry.epoch += 1
            entry.tries += 1
            entry.attempts += 1
            groups.setdefault((entry.spec.kind, entry.spec.cls), []).append(entry)
        ops = [Op(self._run, (self._claimed(*key, group),)) for key, group in groups.items()]
        for refusal in self._journal.write(ops):
            if refusal:
                raise StoreDamaged(f"a task of this run was claimed elsewhere: {refusal}")
        reach("engine.after_claim")
        return [Attempt(entry.spec, entry.epoch, entry.offer.work, self._draw(entry)) for entry in entries]

    def _draw(self, entry: Entry) -> int:
        """How many draws failed before; a crash is no failure, and replays what it has."""
        return entry.attempts - entry.interruptions - 1 if self._policy.redraw else 0

    def _claimed(self, kind: str, cls: str, entries: Sequence[Entry]) -> TasksClaimed:
        epochs = tuple(entry.epoch for entry in entries)
        ids = tuple(entry.spec.id for entry in entries)
        return TasksClaimed(kind, cls, self._owner, ids, epochs if any(e > 1 for e in epochs) else ())

    def release(self, attempts: Sequence[Attempt], entries: Sequence[Entry]) -> None:
        """These will not begin, and were no attempts."""
        tasks, epochs = zip(*(attempt.key for attempt in attempts), strict=True)
        self._journal.add([Op(self._run, (TasksReleased(tasks, epochs),))])
        for entry in entries:
            entry.tries -= 1
            entry.attempts -= 1
