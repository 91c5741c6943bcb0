"""The ledger: every paid call is intended, sent, recorded as received, and only then used.

A recorded answer is never bought again: a call is known by its model, its request, and its place (the
trial's scope, the stage, the ordinal among equal requests), not by the agent's code. What cannot be
known, whether a send that brought no answer was billed, is in doubt: it is sent again, the resend
recorded first, or held, as the policy says. A model that cannot answer is replaced by its fallbacks, if it
has any; an answer that any of them gave earlier is used before anything is bought.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, InvalidStateError

import msgspec

from peira.core.contracts import Store
from peira.core.events import Spent, State
from peira.core.mailbox import Mailbox
from peira.core.models import CallFailed, Named, Reply
from peira.core.state import Call
from peira.engine.batching import Batcher, in_batch
from peira.engine.budget import Reserve, Share
from peira.engine.buying import Asked, Buyer, read_answer
from peira.engine.gate import Gate
from peira.engine.journal import Journal
from peira.engine.slips import Told
from peira.errors import Abandoned, InDoubt
from peira.spec.limits import Budget, Policy

LAST_WAIT = 5.0
"""How long answers that are on their way may take when the run ends."""


MANY = 128
"""So many calls are looked up at once: others that are under way wait meanwhile."""
_Rows = dict[str, Call]


class Question:
    """A request in its place, whom it may be put to, and what the call is known by for each of them."""

    __slots__ = "asked", "chain", "keys", "reply"

    def __init__(self, chain: Sequence[Named], asked: Asked) -> None:
        self.chain, self.asked, self.keys = chain, asked, asked.keys(chain)
        self.reply: Future[Reply] = Future()

    def settle(self, outcome: Reply | BaseException) -> None:
        try:
            if isinstance(outcome, Reply):
                self.reply.set_result(outcome)
            else:
                self.reply.set_exception(outcome)
        except InvalidStateError:
            return  # whoever asked waits no more


class Ledger:
    """The calls of one run. They are made on an event loop of their own, whoever asks."""

    def __init__(
        self,
        run: str,
        store: Store,
        journal: Journal,
        policy: Policy,
        models: Callable[[str], Named],
        *,
        owner: str = "",
        batch: bool = False,
        budget: Budget | None = None,
        before: Iterable[Spent] = (),
        wake: Callable[[Iterable[str]], None] = lambda tasks: None,
        say: Callable[[str], None] = lambda text: None,
        halt: Callable[[str], None] = lambda why: None,
        fail: Callable[[BaseException], None] = lambda problem: None,
        batch_ended: Callable[[State], None] = lambda state: None,
    ) -> None:
        """`batch` hands calls in with many others; `wake` is told whose answers have come. `before` is what
        earlier runs of the study spent; `halt` is told when the budget is used up, `fail` what must end the
        run."""
        self._store, self._policy, self._make, self._say = store, policy, models, say
        self._named: dict[str, Named] = {}
        self._gates: dict[str, Gate] = {}
        self._said: set[tuple[str, str]] = set()
        self._asking: dict[str, Question] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._questions: Mailbox[Question] | None = None
        self._arrived: deque[Question] = deque()
        self._under_way: dict[Question, asyncio.Task[None]] = {}
        self._thread: threading.Thread | None = None
        self.reserve = Reserve(budget or Budget(), before)
        self._buyer = Buyer(run, journal, policy, self.reserve, halt)
        told = Told(say=say, counted=batch_ended, fail=fail)
        self._batcher = Batcher(
            run, owner, store, self._buyer, self.reserve, policy, self._known_as, told=told, wake=wake
        )
        self._batch = batch

    @property
    def spent(self) -> tuple[Spent, ...]:
        """What this run spent so far, by model."""
        return self._buyer.spent()

    def ask(self, name: str, asked: Asked) -> Future[Reply]:
        """The reply to a request at this place: recorded before, or bought now."""
        named = self._known_as(name)
        question = Question((named, *map(self._known_as, named.fallbacks)), asked)
        (self._questions or self._box()).post(question)
        return question.reply

    def _known_as(self, name: str) -> Named:
        if (known := self._named.get(name)) is not None:
            return known
        with self._lock:
            if name not in self._named:
                found = self._make(name)
                found.model.check()
                self._named[name] = found
            return self._named[name]

    def _box(self) -> Mailbox[Question]:
        with self._lock:
            if self._questions is None:
                self._loop = asyncio.new_event_loop()
                self._questions = Mailbox(self._loop, self._arrived.append, self._look)
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="peira-calls", daemon=True
                )
                self._thread.start()
            return self._questions

    def _look(self) -> None:
        """What is recorded of the calls that are asked for: the store is asked once for many."""
        questions = [self._arrived.popleft() for _ in range(min(MANY, len(self._arrived)))]
        if self._arrived:
            asyncio.get_running_loop().call_soon(self._look)
        try:
            rows = self._store.find("call", [key for question in questions for key in question.keys])
        except Exception as problem:  # whoever asked is told
            for question in questions:
                question.settle(problem)
            return
        for question in questions:
            self._begin(question, None if question.keys[0] in self._asking else rows)

    def _begin(self, question: Question, rows: _Rows | None) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(question, rows))
        self._under_way[question] = task

    async def _serve(self, question: Question, rows: _Rows | None) -> None:
        try:
            known = await self._turn(question, rows)
            try:
                question.settle(await self._ask(question, known))
            finally:
                del self._asking[question.keys[0]]
        except asyncio.CancelledError:
            question.settle(Abandoned("the run is over"))
        except BaseException as problem:  # whoever asked is told
            question.settle(problem)
        finally:
            del self._under_way[question]

    async def _turn(self, question: Question, rows: _Rows | None) -> _Rows:
        """Who needs a call that is on its way already, for another attempt or another agent, waits for it:
        then what is recorded is another thing (`rows` is None)."""
        key = question.keys[0]
        while (other := self._asking.get(key)) is not None:
            await asyncio.wait([self._under_way[other]])
            rows = None
        known = self._store.find("call", question.keys) if rows is None else rows
        self._asking[key] = question
        return known

    async def _ask(self, question: Question, rows: _Rows) -> Reply:
        chain, keys, asked = question.chain, question.keys, question.asked
        if rows and any(key in rows for key in keys):
            reply = await self._known(chain, keys, asked, rows)
            if reply is not None:
                return reply
        for named, after, key in zip(chain, [*chain[1:], None], keys, strict=True):
            row = rows.get(key)
            try:
                if self._batch:
                    await self._batcher.ask(named, asked, key, row)
                return await self._buyer.buy(named, self._gate(named), asked, key, row.sends if row else 0)
            except CallFailed as problem:
                if after is None:
                    raise
                self._say_once(named.name, after.name, problem)
        raise AssertionError("unreachable: the last one answers, or raises")

    async def _known(
        self, chain: Sequence[Named], keys: Sequence[str], asked: Asked, rows: _Rows
    ) -> Reply | None:
        """What was recorded before, by whichever of them; None if there is no answer, and one may be bought.
        A call that is held ends here, and one that is in a batch waits for it."""
        for named, key in zip(chain, keys, strict=True):
            if key in rows and rows[key].state == "answered":
                return self._replay(named, rows[key], asked)
        for named, key in zip(chain, keys, strict=True):
            self._held(named, rows.get(key))
        for named, key in zip(chain, keys, strict=True):
            if in_batch(rows.get(key)):
                await self._batcher.ask(named, asked, key, rows[key])
        return None

    def hand_in(self) -> None:
        """Nobody else will ask before something is answered: what has gathered for a batch need not wait."""
        if self._loop is not None and self._batcher.gathering:
            self._loop.call_soon_threadsafe(self._hand_in)

    def _hand_in(self) -> None:
        if not (
            self._under_way or self._arrived
        ):  # some that were asked in the same breath are still on their way
            self._batcher.hand_in()

    def _held(self, named: Named, row: Call | None) -> None:
        doubtful = row is not None and row.state in ("intended", "in_doubt") and not in_batch(row)
        if row is not None and doubtful and self._policy.in_doubt == "hold":
            raise InDoubt(
                f"a call of {named.name} may have been billed and its answer is unknown: it is held "
                f"(peira resolve {row.key[:12]})"
            )

    def _replay(self, named: Named, row: Call, asked: Asked) -> Reply:
        raw = self._store.get(row.blob) if row.blob else bytes(row.value)
        cost = None if row.cost < 0 else row.cost
        reply = msgspec.structs.replace(
            named.model.read(read_answer(raw)),
            cost=cost,
            served=named.name,
            replayed=self._batcher.bought.get(row.key) != asked.attempt.spec.id,
            call=row.key,
        )
        if asked.account is not None:
            asked.account.take(Share(cost or 0.0, reply.usage.total))
        return reply

    def _gate(self, named: Named) -> Gate:
        if named.name not in self._gates:
            now = asyncio.get_running_loop().time
            self._gates[named.name] = Gate(named.name, named.limits, now, self._say)
        return self._gates[named.name]

    def _say_once(self, name: str, instead: str, problem: CallFailed) -> None:
        if (name, instead) not in self._said:
            self._said.add((name, instead))
            self._say(f"{name} cannot answer, {instead} is asked instead: {problem}")

    def close(self) -> None:
        """End the loop; an answer that is still on its way is recorded first, if it comes soon."""
        if self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        while self._arrived:
            self._arrived.popleft().settle(Abandoned("the run is over"))
        for gate in self._gates.values():
            gate.turn_away(lambda _: Abandoned("the run is over"))
        if self._under_way:
            _, late = await asyncio.wait(set(self._under_way.values()), timeout=LAST_WAIT)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._batcher.close()
        for named in self._named.values():
            await named.model.close()
