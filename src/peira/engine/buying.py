"""Buying one answer: set aside, wait for a turn, intend, send, record what came, settle.

Every send is recorded before it is made, so that bills never exceed calls and recorded resends. What came
back is recorded as it was received, whether or not it can be read.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache

import msgspec

from peira.core.codec import encode
from peira.core.contracts import Attempt, Op, Outcome
from peira.core.events import AnyEvent, CallAnswered, CallIntended, CallLost, Spent
from peira.core.failpoints import reach
from peira.core.ids import compose, digest
from peira.core.mailbox import Mailbox
from peira.core.models import Answer, CallFailed, Named, Reply, Request, Usage
from peira.core.registry import registry
from peira.engine.budget import NOTHING, UNCOUNTED, Account, Reserve, Share, may_cost
from peira.engine.gate import Gate
from peira.engine.journal import Journal
from peira.engine.payload import payload
from peira.errors import Abandoned, Exhausted, InDoubt
from peira.spec.limits import Policy

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
MOST_BUSY = 100
"""How often a provider may say that it is busy, for one call: it costs nothing, but it must end."""
read_answer = msgspec.json.Decoder(Answer).decode


@lru_cache(1024)
def _identity(named: Named) -> str:
    return digest(named.model.identity)


@lru_cache(1024)
def _text(text: str) -> str:
    return digest(text)


class Asked(msgspec.Struct, frozen=True):
    """A request in its place: `body` is its canonical form, known by its digest; `account` is what its trial
    may still spend."""

    attempt: Attempt
    scope: str
    place: str
    ordinal: str
    request: Request
    body: bytes
    digest: str
    account: Account | None = None

    def keys(self, chain: Sequence[Named]) -> list[str]:
        """What the call is known by, for the model that is asked and for each of its fallbacks: a model that
        is asked in place of another does not give the answer it gave for itself."""
        models = [_identity(named) for named in chain]
        return [self._key(models[0], self.ordinal)] + [
            self._key(model, f"{self.ordinal} for={models[0]}") for model in models[1:]
        ]

    def _key(self, model: str, ordinal: str) -> str:
        return compose("call", model, self.digest, self.scope, _text(self.place), ordinal)


_Written = list[tuple[Op, "asyncio.Future[Outcome]"]]


class Quill:
    """Writes ops of one event loop: those of one moment go to the store together, and come back together.
    Each turn of a busy loop takes its time: there is one on the way there, and one on the way back."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._gathered: _Written = []
        self._back: Mailbox[tuple[_Written, Future[list[Outcome]]]] | None = None

    def write(self, op: Op) -> asyncio.Future[Outcome]:
        loop = asyncio.get_running_loop()
        written: asyncio.Future[Outcome] = loop.create_future()
        self._gathered.append((op, written))
        if len(self._gathered) == 1:
            loop.call_soon(self._hand_over, loop)
        return written

    def _hand_over(self, loop: asyncio.AbstractEventLoop) -> None:
        gathered, self._gathered = self._gathered, []
        box = self._back = self._back or Mailbox(loop, _come_back)
        try:
            committed = self._journal.send([op for op, _ in gathered])
        except Exception as problem:
            committed = Future()
            committed.set_exception(problem)
        committed.add_done_callback(lambda done: _send_back(box, gathered, done))


def _send_back(
    box: Mailbox[tuple[_Written, Future[list[Outcome]]]], gathered: _Written, done: Future[list[Outcome]]
) -> None:
    with suppress(RuntimeError):  # the loop was closed: nobody waits any more
        box.post((gathered, done))


def _come_back(what: tuple[_Written, Future[list[Outcome]]]) -> None:
    gathered, done = what
    problem = done.exception()
    outcomes = [] if problem else done.result()[-len(gathered) :]
    for nth, (_, written) in enumerate(gathered):
        if written.done():  # nobody waits any more
            continue
        if problem:
            written.set_exception(problem)
        else:
            written.set_result(outcomes[nth])


class Buyer:
    """All methods run on the ledger's loop."""

    def __init__(
        self, run: str, journal: Journal, policy: Policy, reserve: Reserve, halt: Callable[[str], None]
    ) -> None:
        self._run, self._quill, self._policy = run, Quill(journal), policy
        self._reserve, self._halt = reserve, halt
        self._spent: dict[str, Spent] = {}

    def spent(self) -> tuple[Spent, ...]:
        return tuple(spent for _, spent in sorted(self._spent.items()))

    async def buy(self, named: Named, gate: Gate, asked: Asked, key: str, sends: int) -> Reply:
        """Send until there is an answer, or a failure that another send would not mend."""
        tried = busy = 0
        while True:
            problem = await self._once(named, gate, asked, key, sends + tried + busy + 1)
            if isinstance(problem, Reply):
                return problem
            busy += problem.busy
            tried += not problem.busy
            await self._bear(problem, tried, busy)

    async def _once(self, named: Named, gate: Gate, asked: Asked, key: str, send: int) -> Reply | CallFailed:
        """One send, from setting aside what it may cost to settling what it did."""
        expected = self._expected(named, asked)
        share = await self._set_aside(named, asked, expected)
        took: Share | None = None
        try:
            sent_at = await gate.enter(expected.total)
            try:
                await self._write(self._intent(named, asked, key, send, share), (asked.body,))
                reach("ledger.after_intent")
                took = share  # from here on it may be billed, whatever comes
                outcome = await self._send(named, asked, key, share)
                if isinstance(outcome, CallFailed):
                    gate.failed(outcome, sent_at)
                    took = share if outcome.doubt else None
                    return outcome
                task, size = asked.attempt.spec.id, len(asked.body)
                reply, usage, cost = await self.record(named, task, key, size, outcome)
                self.tell(*asked.attempt.key, named, key, reply)
                tokens = usage.total
                took = Share(share.money if cost is None else cost, tokens)
                gate.answered(tokens - expected.total, outcome.wait)
            finally:
                gate.leave()
        finally:
            self._reserve.settle(named, asked.account, share, took)
        if isinstance(reply, CallFailed):
            raise reply
        return reply

    def _expected(self, named: Named, asked: Asked) -> Usage:
        if not self._reserve.counts(named):
            return UNCOUNTED
        return self._reserve.expected(named, len(asked.body), asked.request)

    async def _set_aside(self, named: Named, asked: Asked, expected: Usage) -> Share:
        try:
            return await self._reserve.reserve(named, expected, asked.account)
        except Exhausted:
            self.exhausted()
            raise

    def exhausted(self) -> None:
        """Whoever begins new work is told, if it is the whole study that may spend no more."""
        if self._reserve.used_up:
            self._halt(self._reserve.used_up)

    def _intent(self, named: Named, asked: Asked, key: str, send: int, share: Share) -> CallIntended:
        """What is set aside for it is kept with it only if a later run will count it."""
        (task, epoch), name = asked.attempt.key, named.model.name
        aside = (share.tokens, share.money) if self._reserve.kept else ()
        return CallIntended(task, epoch, key, name, asked.digest, asked.place, send, "", *aside)

    async def _send(self, named: Named, asked: Asked, key: str, share: Share) -> Answer | CallFailed:
        (task, epoch), name = asked.attempt.key, named.model.name
        if registry.listening:
            facts = {"run": self._run, "task": task, "epoch": epoch, "key": key, "model": name}
            registry.call("call_began", request=asked.request, batch="", **facts)
        try:
            return await named.model.send(asked.request)
        except CallFailed as problem:
            reach("ledger.after_loss")
            self.tell(task, epoch, named, key, problem)
            may = self._may_cost(named, asked, share) if problem.doubt else NOTHING
            await self._write(CallLost(task, key, str(problem), problem.doubt, may.tokens, may.money))
            if problem.doubt:
                self.doubted(named, may)
            return problem
        except BaseException:  # cut off, or broken: nobody will know whether it was billed
            self.doubted(named, self._may_cost(named, asked, share))
            raise

    def _may_cost(self, named: Named, asked: Asked, share: Share) -> Share:
        return may_cost(named, self._reserve.expected(named, len(asked.body), asked.request), share)

    async def record(
        self, named: Named, task: str, key: str, size: int, answer: Answer, share: float = 1.0
    ) -> tuple[Reply | CallFailed, Usage, float | None]:
        """Keep the answer as it came, with what could be read of it; `share` of the price was paid."""
        reach("ledger.before_answer")
        reply = _read(named, answer)
        usage = reply.usage if isinstance(reply, Reply) else Usage()
        full = named.price.cost(usage) if named.price is not None and isinstance(reply, Reply) else None
        cost = None if full is None else full * share
        inline, blob, blobs = payload(encode(answer))
        event = CallAnswered(
            task,
            key,
            inline,
            blob,
            input=-1 if usage.input is None else usage.input,
            output=-1 if usage.output is None else usage.output,
            cost=-1.0 if cost is None else cost,
            served=reply.model if isinstance(reply, Reply) else "",
        )
        await self._write(event, blobs)
        reach("ledger.after_answer")
        if self._reserve.counts(named):
            self._reserve.experience(named.name).learn(size, usage)
        self._add(event.bill(named.model.name))
        if isinstance(reply, Reply):
            reply = msgspec.structs.replace(reply, cost=cost, served=named.name, call=key)
        return reply, usage, cost

    def doubted(self, named: Named, may: Share) -> None:
        """A send brought no answer, and may have been billed for so much."""
        self._add(Spent.in_doubt(named.model.name, may.tokens, may.money))

    def _add(self, more: Spent) -> None:
        self._spent[more.model] = self._spent.get(more.model, Spent(more.model)).plus(more)

    def tell(
        self, task: str, epoch: int, named: Named, key: str, outcome: Reply | CallFailed, batch: str = ""
    ) -> None:
        """Whoever listens is told how a call ended."""
        if registry.listening:
            failed = isinstance(outcome, CallFailed)
            registry.call(
                "call_ended",
                run=self._run,
                task=task,
                epoch=epoch,
                key=key,
                model=named.model.name,
                reply=None if failed else outcome,
                problem=str(outcome) if failed else "",
                status=outcome.status if isinstance(outcome, CallFailed) else 0,
                batch=batch,
            )

    async def _bear(self, problem: CallFailed, tried: int, busy: int) -> None:
        """Wait before the next send, or raise: what will not help, what is held, what was tried enough."""
        if problem.doubt and self._policy.in_doubt == "hold":
            raise InDoubt(str(problem)) from problem
        if not (problem.free or problem.doubt) or tried >= self._policy.call_tries or busy >= MOST_BUSY:
            raise problem
        if problem.busy:
            return  # the gate knows how long to wait
        wait = FIRST_WAIT * 2 ** (tried - 1) if problem.retry_after is None else problem.retry_after
        await asyncio.sleep(min(wait, LONGEST_WAIT))

    async def _write(self, event: AnyEvent, blobs: tuple[bytes, ...] = ()) -> None:
        """Durable when it returns; Abandoned if the attempt may write no more."""
        refusal = await self._quill.write(Op(self._run, (event,), blobs))
        if refusal is not None:
            raise Abandoned(str(refusal))

    def write(self, op: Op) -> asyncio.Future[Outcome]:
        return self._quill.write(op)


def _read(named: Named, answer: Answer) -> Reply | CallFailed:
    try:
        return named.model.read(answer)
    except CallFailed as problem:
        return problem
