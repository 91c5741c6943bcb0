"""The diff of two versions of a plan: which trials are reused, run again, or scored again.

Trials are equal if their ids are. A trial at the baseline level of an added factor is reused as well, as it
is when the later version is run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from peira.core.ids import digest
from peira.core.text.result_value import ResultValue, TextGrid
from peira.plan.conditions import agents_of
from peira.plan.diff.changes import Change, PlanVersion, compare
from peira.plan.trials import Baselines, Place, PlannedCase

MOST_COMPARED = 1_000_000
"""Plans with more trials are not compared trial by trial."""


class TrialReuse(msgspec.Struct, frozen=True):
    """How many trials the later of two versions can reuse, must run, and must score again."""

    reused: int
    """Trials of the later version that have an output if the earlier version was run."""
    new: int
    """Trials of the later version that have to be run."""
    dropped: int
    """Trials that are only in the earlier version."""
    why: dict[str, int]
    """The number of new trials by reason."""
    rescored: int
    """Reused trials that need scores they do not have."""
    scores: dict[str, int]
    """The number of those scores by evaluator."""


class Diff(ResultValue, msgspec.Struct, frozen=True):
    """The differences between two versions of a plan."""

    a: str
    """The name of the earlier version."""
    b: str
    """The name of the later version."""
    changes: tuple[Change, ...]
    before: int
    """Trials of the earlier version."""
    after: int
    """Trials of the later version."""
    shared: TrialReuse | None
    """The comparison trial by trial; None if there are too many."""
    recorded: int | None = None
    """Trials of the later version that have an output in the store, if one was queried."""

    nothing = "nothing changed"

    @property
    def title(self) -> str:
        """The names of the two versions."""
        return f"{self.a} -> {self.b}"

    def grids(self) -> list[TextGrid]:
        """A row for each change."""
        rows = [[change.part, change.said] for change in self.changes]
        return [TextGrid(["part", "change"], rows)] if rows else []

    def plain_tables(self, width: int | None = None) -> str:
        """A line for each change."""
        longest = max((len(change.part) for change in self.changes), default=0)
        lines = [f"  {change.part:<{longest}}  {change.said}" for change in self.changes]
        return "\n".join(lines) or self.nothing

    @property
    def remarks(self) -> list[str]:
        """What follows for trials, and what the store holds."""
        return [*self._trials(), *self._recorded()]

    def _trials(self) -> Iterator[str]:
        """The lines about trials."""
        yield f"trials: {self.before:,} before, {self.after:,} after"
        if self.shared is None:
            yield f"  more than {MOST_COMPARED:,}: not compared one by one"
            return
        found = self.shared
        yield f"  {found.reused:,} can be reused, {found.new:,} must be run, {found.dropped:,} dropped"
        yield from (f"  to be run: {n:,}, {why}" for why, n in found.why.items())
        if found.rescored:
            judges = ", ".join(f"{name} {n:,}" for name, n in found.scores.items())
            yield f"  only scored again: {found.rescored:,} ({judges})"

    def _recorded(self) -> Iterator[str]:
        """The line about the store."""
        if self.recorded is not None:
            yield f"recorded in the store: {self.recorded:,} of {self.after:,} outputs"


def diff(before: PlanVersion, after: PlanVersion, a: str = "before", b: str = "after") -> Diff:
    """The differences if `before` is replaced by `after`."""
    few = max(len(before.layout), len(after.layout)) <= MOST_COMPARED
    return Diff(
        a=a,
        b=b,
        changes=compare(before, after),
        before=len(before.layout),
        after=len(after.layout),
        shared=_shared(before, after) if few else None,
    )


def _shared(before: PlanVersion, after: PlanVersion) -> TrialReuse:
    """Compare the versions trial by trial."""
    old = {before.layout.trial_id(place): place for place in before.layout.places()}
    reasons, judges = _Reasons(before, after), _MissingScores(before, after)
    met, reused, why, rescored, scores = set[str](), 0, Counter[str](), 0, Counter[str]()
    for place, ids in _identities(after):
        source = next((id for id in ids if id in old), None)
        if source is None:
            why[reasons.of(place)] += 1
            continue
        reused += 1
        met.add(source)
        missing = judges.missing(old[source].case, place.case)
        rescored += bool(missing)
        scores.update(missing)
    return TrialReuse(
        reused, len(after.layout) - reused, len(old.keys() - met), dict(why), rescored, dict(scores)
    )


def _identities(version: PlanVersion) -> Iterator[tuple[Place, list[str]]]:
    """Each trial with the ids under which its output may be found, its own first."""
    baselines = Baselines(version.factors, version.layout)
    for place in version.layout.places():
        former = (id for id, _ in baselines.former(place))
        yield place, [version.layout.trial_id(place), *former]


class _MissingScores:
    """Determines which scores a reused trial still needs."""

    def __init__(self, before: PlanVersion, after: PlanVersion) -> None:
        self._before, self._after = before.manifest.common, after.manifest.common
        found = [
            part.digest if part else "" for part in (before.manifest.transform, after.manifest.transform)
        ]
        self._transform_changed = found[0] != found[1]
        parts = (*before.manifest.evaluators, *after.manifest.evaluators)
        self._takes = {part.digest: part.takes for part in parts}
        self._names = {part.digest: part.name for part in parts}

    def missing(self, was: PlannedCase, now: PlannedCase) -> list[str]:
        """The names of the evaluators that have to score the case."""
        had = {*self._before, *was.judged_by}
        changed = {"expected"} if digest(was.expected) != digest(now.expected) else set()
        changed |= {"output"} if self._transform_changed else set()
        wanted = dict.fromkeys((*self._after, *now.judged_by))
        return [self._names[j] for j in wanted if j not in had or changed.intersection(self._takes[j])]


class _Reasons:
    """Determines why a trial is not in the earlier version."""

    def __init__(self, before: PlanVersion, after: PlanVersion) -> None:
        old, new = before.layout, after.layout
        self._all = "the seed changed" if old.seed != new.seed else ""
        if old.generation != new.generation:
            self._all = "another generation"
        self._agents = agents_of(old.conditions)
        self._cases = before.cases
        self._conditions = {(c.agent, c.digest) for c in old.conditions}
        self._planned = {(p.condition.agent, p.condition.digest, p.case.id) for p in old.places()}

    def of(self, place: Place) -> str:
        """The reason for one trial."""
        condition, case = place.condition, place.case
        key = condition.agent, condition.digest
        was = self._cases.get((condition.cases, case.id))
        if self._all:
            return self._all
        if condition.agent not in self._agents:
            return f"agent {condition.agent} is new"
        if self._agents[condition.agent] != condition.agent_digest:
            return "agent code changed"
        if key not in self._conditions:
            return "the condition is new"
        if was is None or was.seen != case.seen:
            return "the case is new" if was is None else "the case changed"
        return "more repeats" if (*key, case.id) in self._planned else "not in the part planned before"
