"""The source of a plan's units: all are offered in the order of their needs, and the scheduler does the rest.

What a unit starts from is put together when it is executed, from what its needs made. A unit that proposes
others has these added when it has ended; who needs all of them is offered then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any

from peira.core.code.signature import wants
from peira.core.codec import decode
from peira.core.contracts import Ended, Offer, Store
from peira.core.ids import Json, canonical, compose, digest, normalise
from peira.core.log.events import State, TaskSpec
from peira.engine.kinds import UNIT, UNIT_FUNCTION
from peira.engine.stages import LocalWork, StoredOutput
from peira.engine.work.attempt import UnitAttempt, WorkBase
from peira.engine.work.monitor import WorkMonitor
from peira.engine.work.record import (
    REUSED,
    EndedUnit,
    UnitInputs,
    UnitResult,
    ended_unit,
    merged,
    result_of,
    unit_task,
)
from peira.spec.limits import Allowance
from peira.spec.work.plan import ALL, WorkPlan, WorkUnit, base_name
from peira.spec.work.problems import topological


class UnitWork(LocalWork):
    """Execute a unit, or take over what it made before from the same content."""

    stage = UNIT
    asynchronous = False

    def __init__(self, source: WorkSource, unit: WorkUnit, task: str, depth: int) -> None:
        self.unit, self.trial, self._source, self._depth = unit, task, source, depth
        self._key = task
        limits = Allowance(money=unit.money, tokens=unit.tokens, calls=unit.calls)
        self.allowance = limits if limits.bounded else None
        """What its calls may use."""

    def scope(self) -> str:
        """The scope of its calls: what it is made from, so that a later execution replays them."""
        return self._key

    def copy(self) -> UnitWork:
        """A copy for hooks."""
        return UnitWork(self._source, self.unit, self.trial, self._depth)

    def perform(self, channel: Any, epoch: int) -> Json:
        """What the unit made, as JSON."""
        inputs = self._source.inputs(self.unit)
        self._key = inputs.key
        if (known := self._source.recorded(inputs.key)) is not None:
            channel.report({}, {REUSED: "yes"})
            for name, digest_, _, media in known["artifacts"]:
                channel.attach(name, self._source.store.get(digest_), media)
            return known["output"]
        if self.unit.function is not None:
            made, artifacts = _called(self.unit, inputs), []
        else:
            attempt = UnitAttempt(
                self.unit, inputs, self._source.base, channel, self._source.monitor, self._depth
            )
            made, artifacts = attempt.run(), attempt.artifacts
        output = made.document()
        record = canonical(normalise({"output": output, "artifacts": artifacts}))
        channel.keep(inputs.key, f"unit {self.unit.name}", record)
        return output


def _called(unit: WorkUnit, inputs: UnitInputs) -> UnitResult:
    """Call the function of a unit with what its parameters name."""
    function = unit.function
    assert function is not None
    wanted = _wanted(function)
    values: dict[str, Json] = {name: result.value for name, result in inputs.needs.items()}
    given: dict[str, Any] = {"needs": values, "task": unit.task, "unit": unit.name}
    named = {name: value for name, value in {**given, **values}.items() if name in wanted.names}
    return UnitResult(normalise(function(**named), "value"))


_wanted = lru_cache(maxsize=1024)(wants)


class WorkSource:
    """The units of a plan in one execution, whose tasks belong to `scope`.

    `salt` separates the recorded results of executions that must not share any. With `first` nothing was
    recorded of any plan in this store.
    """

    unit = UNIT

    def __init__(
        self,
        plan: WorkPlan,
        base: WorkBase,
        store: Store,
        scope: str,
        monitor: WorkMonitor | None = None,
        salt: str = "",
        first: bool = False,
    ) -> None:
        self.plan, self.base, self.store, self.scope = plan, base, store, scope
        self.monitor = monitor or WorkMonitor()
        self._salt, self._first = salt, first
        self._units: dict[str, WorkUnit] = {}
        self._depths: dict[str, int] = {}
        self._children: dict[str, list[str]] = {}  # of units that have ended
        self._resolved: dict[str, tuple[str, ...]] = {}  # needs without ALL
        self._late: dict[str, list[WorkUnit]] = {}  # by a unit that has to end first
        self._ended: dict[str, EndedUnit | None] = {}  # None: it did not succeed
        self._order = 0
        self._ready: deque[Offer] = deque()
        order = topological({one.name: [base_name(n) for n in one.needs] for one in plan.units})
        self._ready.extend(self._placed([plan.by_name[name] for name in order], plan.depth))

    @property
    def size(self) -> int | None:
        """The number of units so far."""
        return len(self._units)

    @property
    def closed(self) -> bool:
        """Whether all of the plan was offered; what is proposed follows from ends."""
        return not self._ready

    @property
    def units(self) -> Mapping[str, WorkUnit]:
        """All units, also those that were proposed."""
        return self._units

    def performs(self, kind: str) -> bool:
        """Always true."""
        return True

    def more(self, n: int) -> list[Offer]:
        """The next units of the plan."""
        return [self._ready.popleft() for _ in range(min(n, len(self._ready)))]

    def _placed(self, units: Iterable[WorkUnit], depth: int) -> list[Offer]:
        """Take units in; the offers of those whose needs are known by now."""
        offers = []
        for one in units:
            self._units[one.name], self._depths[one.name] = one, depth
            offers += self._offer(one)
        return offers

    def _offer(self, one: WorkUnit) -> list[Offer]:
        """The offer of a unit; none while what a need proposes is not known."""
        needs: list[str] = []
        left = list(reversed(one.needs))
        while left:
            need = left.pop()
            name = base_name(need)
            if need.endswith(ALL):
                if name not in self._ended:
                    self._late.setdefault(name, []).append(one)
                    return []
                left += [f"{child}{ALL}" for child in self._children.get(name, ()) if self._grows(child)]
                left += [child for child in self._children.get(name, ()) if not self._grows(child)]
            if name not in needs:
                needs.append(name)
        self._resolved[one.name] = tuple(needs)
        task = unit_task(self.scope, one.name)
        spec = TaskSpec(
            task,
            UNIT,
            UNIT_FUNCTION if one.function is not None else UNIT,
            priority=one.priority,
            needs=tuple(unit_task(self.scope, name) for name in needs),
        )
        return [Offer(spec, UnitWork(self, one, task, self._depths[one.name] - 1))]

    def _grows(self, name: str) -> bool:
        return bool(self._units[name].grows)

    def follow(self, offer: Offer, ended: Ended) -> Sequence[Offer]:
        """Note what a unit made; the units that it proposes, and those that waited for these to be known."""
        work = offer.work
        if not isinstance(work, UnitWork):
            return ()
        name = work.unit.name
        self.monitor.note_end(name, ended)
        if ended.state is not State.succeeded:
            self._ended[name] = None
            return self._released(name)
        result = result_of(StoredOutput(ended, self.store).value())
        self._order += 1
        layer = merged(self._layers(name)).plus(result.changes, self._order)
        self._ended[name] = ended_unit(layer, result)
        proposed = [_proposed(name, key, table) for key, table in result.units.items()]
        self._children[name] = [one.name for one in proposed]
        return [*self._placed(proposed, self._depths[name] - 1), *self._released(name)]

    def _released(self, name: str) -> list[Offer]:
        """The offers of units that waited until this one had ended."""
        return [offer for one in self._late.pop(name, ()) for offer in self._offer(one)]

    def _layers(self, name: str) -> list[Any]:
        return [self._need(need).layer for need in self._resolved[name]]

    def _need(self, name: str) -> EndedUnit:
        found = self._ended[name]
        assert found is not None, f"{name} did not succeed"
        return found

    def inputs(self, unit: WorkUnit) -> UnitInputs:
        """What a unit starts from, whose needs have succeeded."""
        needs = self._resolved[unit.name]
        seen = [[name, self._need(name).digest] for name in sorted(needs)]
        key = compose(UNIT, self.base.digest, unit.digest, digest([*seen, self._salt]))
        return UnitInputs(
            key, merged(self._layers(unit.name)), {name: self._need(name).result for name in needs}
        )

    def recorded(self, key: str) -> dict[str, Any] | None:
        """What was recorded of a unit with this content; None if it never succeeded."""
        if self._first:
            return None
        call = self.store.find("call", [key]).get(key)
        if call is None or call.state != "recorded":
            return None
        found: dict[str, Any] = decode(self.store.get(call.blob) if call.blob else bytes(call.value))
        return found


def _proposed(proposer: str, name: str, table: Mapping[str, Json]) -> WorkUnit:
    """A unit that another one proposed: its name, and those of its needs, begin with the proposer's."""
    fields = {str(key): value for key, value in table.items()}
    needs = tuple(f"{proposer}/{need}" for need in fields.pop("needs", ()))
    return WorkUnit(**{"name": f"{proposer}/{name}", "needs": needs, **fields})
