"""Looking at a batch that was handed in, and recording what came of it.

Its answers are recorded one by one, so that a process that dies in the middle loses none; the batch is over
once all are. A batch of which nobody knows whether it was taken is looked for by its label; if it cannot be
found, or is gone, its calls are in doubt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import msgspec

from peira.core.contracts import Op
from peira.core.events import AnyEvent, CallLost, State, StepRecorded, TaskFinished, TasksReleased
from peira.core.ids import canonical, short
from peira.core.models import Answer, BatchState, CallFailed, Reply
from peira.engine.budget import Share
from peira.engine.buying import Buyer
from peira.engine.slips import Ending, Endings, Handed, Opened, Told, batches_of, step_key
from peira.errors import Abandoned, StoreDamaged

SEARCHES = 3
"""How often a batch is looked for that may have been taken: a provider may list it a little later."""
GROUP = 500
NO_KEY, GONE = (401, 403), (404, 410)
Seen = tuple[BatchState, Endings | None]
"""How far a batch is, and how its calls ended, if it is at hand no more."""


class Collector:
    """All methods run on the ledger's loop."""

    def __init__(self, run: str, out: Buyer, told: Told, searches: int = SEARCHES) -> None:
        self._run, self._out, self._told, self._searches = run, out, told, searches

    async def look(self, opened: Opened) -> Seen:
        """How far it is; if it is over, what came of it is recorded."""
        batches = batches_of(opened.named)
        try:
            if not opened.name and (given_up := await self._search(opened)) is not None:
                return given_up
            state = await batches.look(opened.name)
            answers = await batches.collect(opened.name) if state.over else {}
        except CallFailed as problem:
            return await self._unseen(opened, problem)
        if state.over:
            return state, await self._collect(opened, state, answers)
        self._progress(opened, state)
        return state, None

    async def _search(self, opened: Opened) -> Seen | None:
        """Find a batch that may have been taken; None if it is found."""
        name, opened.searched = "", opened.searched + 1
        try:
            name = await batches_of(opened.named).find(opened.id)
        except CallFailed as problem:
            if problem.free or problem.doubt or problem.status in NO_KEY:
                raise
            opened.searched = self._searches
        if name:
            await self.note(opened, name)
            return None
        state = BatchState(over=opened.searched >= self._searches, said="not known to have been taken")
        doubt = CallFailed("its batch may have been taken, or not", doubt=True)
        return state, await self.lost(opened, doubt) if state.over else None

    async def note(self, opened: Opened, name: str) -> None:
        """Keep the provider's name for it."""
        opened.name = name
        value = msgspec.Raw(canonical(name))
        await self.write(StepRecorded(opened.id, opened.epoch, step_key(opened.id), "handed in", value))

    def _progress(self, opened: Opened, state: BatchState) -> None:
        tenths, opened.unseen = 10 * state.done // max(1, state.total), False
        if tenths > opened.tenths:
            opened.tenths = tenths
            self._say(opened, f"{state.done:,} of {state.total:,} calls are done")

    async def _unseen(self, opened: Opened, problem: CallFailed) -> Seen:
        """It could not be looked at: for now, for good, or not by us."""
        said = BatchState(over=problem.status in GONE, said="cannot be looked at", failure=str(problem))
        if problem.free or problem.doubt:
            if not opened.unseen:
                self._say(opened, f"cannot be looked at: {problem}")
            opened.unseen = True
            return said, None
        if said.over:
            return said, await self.lost(opened, CallFailed(f"its batch is gone: {problem}", doubt=True))
        await self.write(TasksReleased((opened.id,), (opened.epoch,)))
        return said, dict.fromkeys(opened.calls, problem)

    async def lost(self, opened: Opened, problem: CallFailed) -> Endings:
        """The provider does not work on it, or nobody knows whether it does."""
        state = State.in_doubt if problem.doubt else State.failed
        calls = {key: handed for key, handed in opened.calls.items() if key not in opened.lost}
        doubted = calls if problem.doubt else {}
        aside = {key: (handed.tokens, handed.money) for key, handed in doubted.items()}
        lost = [CallLost(h.task, k, str(problem), problem.doubt, *aside.get(k, ())) for k, h in calls.items()]
        await self.write(*lost, TaskFinished(opened.id, opened.epoch, state))
        for handed in doubted.values():
            self._out.doubted(opened.named, handed.share)
        for key, handed in calls.items():
            self._tell(opened, key, handed, problem)
        self._told.counted(state)
        self._say(opened, f"given up: {problem}")
        return dict.fromkeys(opened.calls, problem)

    async def _collect(
        self, opened: Opened, state: BatchState, answers: Mapping[str, Answer | CallFailed]
    ) -> Endings:
        endings: dict[str, Ending] = {}
        why = state.failure or "its batch ended before it was worked on"
        rest = CallFailed(why, free=state.busy or not state.failure)
        items = list(opened.calls.items())
        for start in range(0, len(items) or 1, GROUP):
            some = items[start : start + GROUP]
            kept = asyncio.gather(
                *(self._kept(opened, key, handed, answers.get(key, rest)) for key, handed in some)
            )
            # Right behind the last of them, so that hardly anything can come between.
            finish = self._finish(opened) if start + GROUP >= len(items) else asyncio.sleep(0)
            outcomes, _ = await asyncio.gather(kept, finish)
            endings |= zip((key for key, _ in some), outcomes, strict=True)
        self._told.counted(State.succeeded)
        answered = sum(isinstance(ending, Share) for ending in endings.values())
        self._say(opened, f"{state.said}, {answered:,} of {len(endings):,} calls answered")
        return endings

    async def _finish(self, opened: Opened) -> None:
        await self.write(TaskFinished(opened.id, opened.epoch, State.succeeded))

    async def _kept(self, opened: Opened, key: str, handed: Handed, outcome: Answer | CallFailed) -> Ending:
        """Record what came of one call."""
        named, task = opened.named, handed.task
        if isinstance(outcome, CallFailed):
            if key not in opened.lost:
                await self.write(CallLost(task, key, str(outcome)))
                self._tell(opened, key, handed, outcome)
            return outcome
        part = named.price.batch if named.price else 1.0
        try:
            reply, usage, cost = await self._out.record(named, task, key, handed.size, outcome, part)
        except Abandoned as refusal:
            raise StoreDamaged(f"an answer of a batch was refused: {refusal}") from None
        self._tell(opened, key, handed, reply)
        return Share(handed.money if cost is None else cost, usage.total)

    def _tell(self, opened: Opened, key: str, handed: Handed, outcome: Reply | CallFailed) -> None:
        self._out.tell(handed.task, 0, opened.named, key, outcome, opened.id)

    def _say(self, opened: Opened, text: str) -> None:
        self._told.say(f"{opened.named.name}: batch {short(opened.id)}: {text}")

    async def write(self, *events: AnyEvent) -> None:
        if (refusal := await self._out.write(Op(self._run, events))) is not None:
            raise StoreDamaged(f"a batch of this run was taken elsewhere: {refusal}")
