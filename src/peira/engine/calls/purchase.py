"""The purchase of one answer: reserve, rate limit, commit the intent, send, record the answer, settle."""

from __future__ import annotations

import asyncio
import math
import sys
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from functools import lru_cache
from typing import NoReturn, Protocol

import msgspec

from peira.core.chat.dialects import readable, spoken, with_native
from peira.core.codec import encode
from peira.core.contracts import Attempt, Op, Outcome
from peira.core.failpoints import reach
from peira.core.ids import compose, digest
from peira.core.log.events import (
    AnyEvent,
    CallAnswered,
    CallBilled,
    CallIntended,
    CallLost,
    CallRead,
    CallSettled,
    Spent,
)
from peira.core.log.state import Call
from peira.core.mailbox import Mailbox
from peira.core.models import Answer, NamedModel, Reply, Request, Usage, text_listener, token_count
from peira.engine.calls._senders import ELSEWHERE, LOOK, OtherSenders
from peira.engine.calls.budget import (
    NOTHING,
    UNCOUNTED,
    Account,
    PoolReservation,
    Reservation,
    RunAccounts,
    may_cost,
)
from peira.engine.calls.live_text import TextSink
from peira.engine.calls.open_calls import CallState, OpenSend
from peira.engine.calls.rate_limit import RateLimiter
from peira.engine.context import RunCallbacks, RunContext
from peira.engine.journal import INLINE, Journal, payload
from peira.errors import Abandoned, CallFailed, Exhausted, InDoubt, NotGranted, Parked, Unwritable

FIRST_WAIT, LONGEST_WAIT = 0.5, 30.0
"""The first and the longest wait before a failed call is sent again, in seconds."""
MOST_BUSY = 100
"""How often a provider may say that it is busy, for one call: it costs nothing, but it must end."""
LINE = 300
UNREAD = "its answer cannot be read"
read_answer = msgspec.json.Decoder(Answer).decode


@lru_cache(1024)
def _model_digest(named: NamedModel) -> str:
    """The digest of a model's identity, cached."""
    return digest(named.model.identity)


@lru_cache(1024)
def _text_digest(text: str) -> str:
    """The digest of a text, cached."""
    return digest(text)


class CallRequest(msgspec.Struct, frozen=True):
    """A request with what identifies its call: attempt, scope, place (stage) and ordinal.

    `body` is the request's canonical form and `digest` the digest of that; `state` is where the call is now,
    `account` what its trial may still spend.
    """

    attempt: Attempt
    scope: str
    place: str
    ordinal: str
    request: Request
    body: bytes
    digest: str
    state: CallState = msgspec.field(default_factory=CallState)
    account: Account | None = None

    def keys(self, chain: Sequence[NamedModel]) -> list[str]:
        """The call's key for the model that is asked and for each fallback.

        A fallback's key names the model it stands in for, so that its answer is not used as its own.
        """
        models = [_model_digest(named) for named in chain]
        return [self._key(models[0], self.ordinal)] + [
            self._key(model, f"{self.ordinal} for={models[0]}") for model in models[1:]
        ]

    def _key(self, model: str, ordinal: str) -> str:
        return compose("call", model, self.digest, self.scope, _text_digest(self.place), ordinal)


_Written = list[tuple[Op, "asyncio.Future[Outcome]"]]


class LoopWriter:
    """Writes ops from an event loop; ops of one loop iteration go to the store in one commit.

    Results come back through a mailbox, so that a commit costs the loop one callback each way.
    """

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._gathered: _Written = []
        self._mailbox: Mailbox[tuple[_Written, Future[list[Outcome]]]] | None = None

    def write(self, op: Op) -> asyncio.Future[Outcome]:
        """Queue an op; the future has its outcome once it is durable. On the loop."""
        loop = asyncio.get_running_loop()
        written: asyncio.Future[Outcome] = loop.create_future()
        self._gathered.append((op, written))
        if len(self._gathered) == 1:
            loop.call_soon(self._commit_gathered, loop)
        return written

    def _commit_gathered(self, loop: asyncio.AbstractEventLoop) -> None:
        """Commit the gathered ops; their futures complete on the loop."""
        gathered, self._gathered = self._gathered, []
        mailbox = self._mailbox = self._mailbox or Mailbox(loop, _complete_futures)
        try:
            committed = self._journal.send([op for op, _ in gathered])
        except Exception as problem:
            committed = Future()
            committed.set_exception(problem)
        committed.add_done_callback(lambda done: _post_outcomes(mailbox, gathered, done))


def _post_outcomes(
    mailbox: Mailbox[tuple[_Written, Future[list[Outcome]]]], gathered: _Written, done: Future[list[Outcome]]
) -> None:
    """Post a finished commit to the loop; called on the thread that completed the commit."""
    with suppress(RuntimeError):  # the loop was closed: no one waits any more
        mailbox.post((gathered, done))


def _complete_futures(finished: tuple[_Written, Future[list[Outcome]]]) -> None:
    """Complete the futures of a finished commit; runs on the loop."""
    gathered, done = finished
    problem = done.exception()
    outcomes = [] if problem else done.result()[-len(gathered) :]
    for nth, (_, written) in enumerate(gathered):
        if written.done():  # cancelled
            continue
        if problem:
            written.set_exception(problem)
        else:
            written.set_result(outcomes[nth])


class AnsweredCalls(Protocol):
    """A callback for answered calls."""

    def note(self, key: str, call: CallRequest, reply: Reply) -> None:
        """A call was answered."""
        ...


class TextRelay:
    """Passes the text of one send on to live text: in pieces, or at its end if the model does not stream."""

    def __init__(self, live: TextSink, task: str, key: str) -> None:
        self._live, self._task, self._key, self._heard = live, task, key, False

    def __call__(self, text: str) -> None:
        """Called for each piece of the answer."""
        self._heard = True
        self._live.add(self._task, self._key, text)

    def end(self, named: NamedModel, answer: Answer, request: Request) -> None:
        """Called with the whole answer; its text is passed on now if it was not streamed."""
        if self._heard or answer.exposed:
            return
        reply = read_reply(named, answer, request)
        if isinstance(reply, Reply) and reply.text:
            self(reply.text)


class Buyer:
    """Buys answers and adds up what was spent. All methods run on the ledger's loop."""

    def __init__(
        self,
        context: RunContext,
        reserve: RunAccounts,
        callbacks: RunCallbacks,
        listing: AnsweredCalls | None = None,
        account: str = "",
    ) -> None:
        """`listing` is called for every answered call; `account` pays for them."""
        self._listing, self._account = listing, account
        self._run, self._writer, self._policy = context.run, LoopWriter(context.journal), context.policy
        self._journal = context.journal
        self._inline = -1 if context.answers_apart else INLINE
        self._exposed: set[str] = set()
        self._exceeding: set[str] = set()
        self._hooks, self._reserve, self._callbacks = context.hooks, reserve, callbacks
        self._live = context.live
        self._spent: dict[str, Spent] = {}
        self._open: dict[int, OpenSend] = {}  # with their models now, by identity
        self._latest: dict[str, OpenSend] = {}  # by key, of calls of which a send was given up
        self._answered_once: dict[str, bool] = {}  # of calls that were sent again meanwhile: any answer yet?

        self.others: OtherSenders | None = None
        if context.sharing is not None:
            self.others = OtherSenders(context.store, context.sharing, context.owner, context.clock)

    def spent(self) -> tuple[Spent, ...]:
        """What was spent so far, by model."""
        return tuple(spent for _, spent in sorted(self._spent.items()))

    def open_sends(self) -> list[OpenSend]:
        """The sends that are with their models now; may be called on any thread."""
        return list(self._open.values())

    async def buy(
        self, named: NamedModel, limiter: RateLimiter, call: CallRequest, key: str, sends: int
    ) -> Reply | None:
        """Send until there is an answer, or a failure that another send would not cure.

        `sends` is how often the call was sent in earlier attempts or runs. None if an earlier send, which
        nobody waited for any more, was answered meanwhile: that answer is the recorded one.
        """
        tried = busy = 0
        while True:
            try:
                problem = await self._send_once(named, limiter, call, key, sends + tried + busy + 1)
            except NotGranted:  # nothing was recorded: what is left of the budget is looked at
                continue
            if not isinstance(problem, CallFailed):
                return problem
            busy += problem.busy
            tried += not problem.busy
            await self._wait_or_raise(problem, call.state, tried, busy)

    async def _send_once(
        self, named: NamedModel, limiter: RateLimiter, call: CallRequest, key: str, number: int
    ) -> Reply | CallFailed | None:
        """One send, from the reservation of its cost to its settlement; `number` counts sends from 1."""
        expected, state = self._expected(named, call), call.state
        most, likely = self._reserve.most(named, call.request)
        state.waits = True
        asked: list[PoolReservation] = []
        share = await self._reserve_cost(named, call, most, likely, asked)
        try:
            sent_at = await limiter.enter(expected.total)
        except BaseException:
            self._reserve.settle(named, call.account, share, None)
            for one in asked:
                one.withdraw()
            raise
        finally:
            state.waits = False
        send = OpenSend(named, key, limiter, self._reserve, call.account, share, sent_at)
        took: Reservation | None = None
        try:
            intent = self._intent(named, call, key, number, share)
            await self._write_intent(intent, call.body, asked)
            reach("ledger.after_intent")
            if self.others is not None:
                try:
                    self.others.check_time(named, intent.until)
                except CallFailed as problem:
                    await self._write(CallLost(call.attempt.spec.id, key, str(problem), send=number))
                    return problem
            if state.abandoned:
                await self._write(CallLost(call.attempt.spec.id, key, "not sent: nobody waits for it"))
                raise Abandoned("nobody waits for this call")
            took = share  # from here on it may be billed, whatever happens
            outcome = await self._send(named, call, send, number)
            if outcome is None or isinstance(outcome, CallFailed):
                if outcome is not None:
                    limiter.failed(outcome, sent_at)
                    took = share if outcome.doubt else None
                return outcome
            task, size = call.attempt.spec.id, len(call.body)
            reply, usage, cost = await self.record(named, task, key, size, outcome, request=call.request)
            self.tell(*call.attempt.key, named, key, reply)
            if self._listing is not None and isinstance(reply, Reply) and not outcome.exposed:
                self._listing.note(key, call, reply)
            took = self.taken(share, usage, cost, named)
            if call.account is not None:
                call.account.counted.add(key)
            self._check_bound(named, most, usage)
            limiter.answered(usage.total - expected.total, outcome.wait)
        finally:
            send.end(took)
        if isinstance(reply, CallFailed):
            raise unread(reply, key, number)
        return reply

    def _expected(self, named: NamedModel, call: CallRequest) -> Usage:
        """The tokens the call is expected to take; zero if no limit counts them."""
        if not self._reserve.counts(named):
            return UNCOUNTED
        return self._reserve.expected(named, len(call.body), call.request)

    async def _write_intent(
        self, intent: CallIntended, body: bytes, asked: Sequence[PoolReservation]
    ) -> None:
        """Record an intent, with what it takes from pools; NotGranted if one of them has too little."""
        takes = tuple([one.request for one in asked]) if asked else ()
        try:
            refusal = await self._writer.write(Op(self._run, (intent,), (body,), takes))
        except BaseException:
            for one in asked:
                one.withdraw()
            raise
        for one in asked:
            if refusal is None:
                one.granted()
            elif isinstance(refusal, NotGranted):
                one.refused()
            else:
                one.withdraw()
        if refusal is not None:
            await self._refuse(intent, refusal)

    async def _reserve_cost(
        self,
        named: NamedModel,
        call: CallRequest,
        most: Usage,
        likely: Usage | None,
        asked: list[PoolReservation],
    ) -> Reservation:
        """Reserve the most it can cost; Exhausted (reported to the run) if the budget is used up."""
        try:
            return await self._reserve.reserve(named, most, call.account, likely, asked)
        except Exhausted:
            self.exhausted()
            raise

    def taken(
        self, share: Reservation, usage: Usage, cost: float | None, bought: NamedModel | None = None
    ) -> Reservation:
        """What an answered call took; what its answer does not say counts as it was reserved.

        If it was `bought` now, from that model, this is in doubt for later runs, too.
        """
        known = usage.input is not None and usage.output is not None
        took = Reservation(
            share.money if cost is None else cost, usage.total if known else max(usage.total, share.tokens)
        )
        doubtful_money, doubtful_tokens = took.money - (cost or 0.0), took.tokens - usage.total
        if bought is not None and self._reserve.kept and (doubtful_money or doubtful_tokens):
            model = bought.model.name
            self._add(Spent(model, doubtful_tokens=doubtful_tokens, doubtful_money=doubtful_money))
        return took

    def _check_bound(self, named: NamedModel, most: Usage, usage: Usage) -> None:
        """Say once for each model if a call took more than was reserved for it."""
        if self._reserve.exceeded(named, most, usage) and named.name not in self._exceeding:
            self._exceeding.add(named.name)
            self._callbacks.say(
                f"{named.name}: a call took {usage.input or 0:,} + {usage.output or 0:,} tokens, "
                f"more than the {most.input or 0:,} + {most.output or 0:,} that its request allows for: "
                "the budget may be exceeded by calls under way"
            )

    def exhausted(self) -> None:
        """Tell the run if the budget of the whole study is used up."""
        if self._reserve.used_up:
            self._callbacks.starve(self._reserve.used_up)

    def _intent(
        self, named: NamedModel, call: CallRequest, key: str, send: int, share: Reservation
    ) -> CallIntended:
        """The event that is durable before a send.

        The reservation is recorded with it only if a limit counts across runs.
        """
        (task, epoch), name = call.attempt.key, named.model.name
        reserved = (share.tokens, share.money) if self._reserve.kept else ()
        intent = CallIntended(task, epoch, key, name, call.digest, call.place, send, "", *reserved)
        if self._account:
            intent = msgspec.structs.replace(intent, account=self._account)
        if self.others is None:
            return intent
        return msgspec.structs.replace(intent, owner=self.others.owner, until=self.others.until(named))

    async def _send(
        self, named: NamedModel, call: CallRequest, send: OpenSend, number: int
    ) -> Answer | CallFailed | None:
        """Send the request; a failure is recorded and returned. None if another send was answered first."""
        (task, epoch), key, share = call.attempt.key, send.key, send.share
        if self._hooks.listening:
            asked = readable(call.request)
            self._hooks.call_began((task, epoch), key, named.model.name, asked, "", named.model)
        if self._latest.get(key) is not None:  # sent before, unanswered, and nobody waits for that any more
            self._answered_once.setdefault(key, False)
            self._latest[key] = send
        self._open[id(send)] = send
        call.state.leave(send)
        try:
            heard = TextRelay(self._live, task, key) if self._live is not None else None
            if heard is not None:
                text_listener.set(heard)
            answer = await named.model.send(spoken(call.request, named.model))
            if heard is not None:
                heard.end(named, answer, call.request)
        except CallFailed as problem:
            reach("ledger.after_loss")
            self.tell(task, epoch, named, key, problem)
            may = self._may_cost(named, call, share) if problem.doubt else NOTHING
            if self._latest.get(key, send) is send and not self._answered_once.get(key):
                lost = CallLost(task, key, str(problem), problem.doubt, may.tokens, may.money)
                if self.others is not None:
                    lost = msgspec.structs.replace(lost, send=number)
                await self._write(lost)
            if problem.doubt:
                self.doubted(named, may)
            return problem
        except BaseException:  # cancelled or broken: whether it was billed is unknown
            self.doubted(named, self._may_cost(named, call, share))
            raise
        finally:
            call.state.come_back()
            del self._open[id(send)]
        if self._answered_once.get(key):
            self.doubted(named, self._may_cost(named, call, share))
            return None
        if key in self._answered_once:
            self._answered_once[key] = True
        return answer

    async def void(self, call: CallRequest, row: Call) -> Call:
        """Let a call be asked again whose recorded answer cannot be read; the record of it stays."""
        event = CallSettled(call.attempt.spec.id, row.key, "discard", by=f"peira: {UNREAD}")
        await self._write(event)
        self._latest.pop(row.key, None)
        self._answered_once.pop(row.key, None)
        return msgspec.structs.replace(row, state="void")

    def give_up(self, send: OpenSend) -> None:
        """Nobody waits for this send any more: others may have its place. Its answer is still recorded."""
        send.give_up()
        self._latest[send.key] = send

    def _may_cost(self, named: NamedModel, call: CallRequest, share: Reservation) -> Reservation:
        """What a send without an answer may have cost."""
        return may_cost(named, self._reserve.expected(named, len(call.body), call.request), share)

    async def record(
        self,
        named: NamedModel,
        task: str,
        key: str,
        size: int,
        answer: Answer,
        share: float = 1.0,
        request: Request | None = None,
    ) -> tuple[Reply | CallFailed, Usage, float | None]:
        """Keep the answer as it came; once it is durable, read it, and note what it says of itself. `share`
        of the price was paid."""
        reach("ledger.before_answer")
        inline, blob, blobs = payload(encode(answer), self._inline)
        event = CallAnswered(task, key, inline, blob)
        if self.others is None:
            await self._write(event, blobs)
        elif not await self._is_first(self.others, event, blobs):
            self._bill(named, task, key, read_reply(named, answer, request), share)
            raise Parked(LOOK, ELSEWHERE)
        reach("ledger.after_answer")
        self._add(event.bill(named.model.name))
        if answer.exposed and named.name not in self._exposed:
            self._exposed.add(named.name)
            self._callbacks.say(f"{named.name}: an answer holds the key that was sent: kept, and not shown")
        reply = read_reply(named, answer, request)
        if isinstance(reply, CallFailed):
            return reply, Usage(), None
        cost = self.note(named, task, key, reply, share)
        if self._reserve.counts(named):
            self._reserve.experience(named.name).learn(size, reply.usage)
        return msgspec.structs.replace(reply, cost=cost, served=named.name, call=key), reply.usage, cost

    async def _is_first(self, others: OtherSenders, event: CallAnswered, blobs: tuple[bytes, ...]) -> bool:
        """Record an answer; False if another process has recorded one already."""
        refusal = await self._writer.write(Op(self._run, (event,), blobs))
        if isinstance(refusal, Unwritable) or (
            refusal is not None and not await others.sent_by_another(event.key, sys.maxsize)
        ):
            raise refusal if isinstance(refusal, Unwritable) else Abandoned(str(refusal))
        return refusal is None

    def _bill(self, named: NamedModel, task: str, key: str, reply: Reply | CallFailed, share: float) -> None:
        """Record what a second answer to a call costs: it is paid, too, and not used."""
        usage = Usage() if isinstance(reply, CallFailed) else reply.usage
        cost = None if isinstance(reply, CallFailed) else _cost(named, usage, share)
        event = CallBilled(
            task,
            key,
            named.model.name,
            input=-1 if usage.input is None else usage.input,
            output=-1 if usage.output is None else usage.output,
            cost=-1.0 if cost is None else cost,
        )
        self._journal.queue([Op(self._run, (event,))])
        self._add(event.bill())

    def note(self, named: NamedModel, task: str, key: str, reply: Reply, share: float = 1.0) -> float | None:
        """Record the usage and the cost of an answer that was read; returns the cost, if it is known.

        The event is queued, not waited for: before the caller gets the reply, so that whatever uses the reply
        is recorded after it.
        """
        usage, cost = reply.usage, _cost(named, reply.usage, share)
        event = CallRead(
            task,
            key,
            input=-1 if usage.input is None else usage.input,
            output=-1 if usage.output is None else usage.output,
            cost=-1.0 if cost is None else cost,
            served=reply.model,
        )
        if event != CallRead(task, key):
            self._journal.queue([Op(self._run, (event,))])
            self._add(event.bill(named.model.name))
        return cost

    def doubted(self, named: NamedModel, may: Reservation) -> None:
        """Count a send without an answer that may have been billed for this much."""
        self._add(Spent.in_doubt(named.model.name, may.tokens, may.money))

    def _add(self, more: Spent) -> None:
        before = self._spent.get(more.model) or Spent(more.model, account=self._account)
        self._spent[more.model] = before.plus(more)

    def tell(
        self, task: str, epoch: int, named: NamedModel, key: str, outcome: Reply | CallFailed, batch: str = ""
    ) -> None:
        """Report the end of a call to the hooks."""
        if self._hooks.listening:
            self._hooks.call_ended((task, epoch), key, named.model.name, outcome, batch)

    async def _wait_or_raise(self, problem: CallFailed, state: CallState, tried: int, busy: int) -> None:
        """Wait before the next send, or raise if none may follow.

        Raises InDoubt if calls in doubt are held, the problem itself if a send will not help or was tried
        enough.
        """
        if state.abandoned:
            raise Abandoned("nobody waits for this call")
        if problem.doubt and self._policy.in_doubt == "hold":
            raise InDoubt(str(problem)) from problem
        if not (problem.free or problem.doubt) or tried >= self._policy.call_tries or busy >= MOST_BUSY:
            raise problem
        if problem.busy:
            return  # the rate limiter waits
        wait = FIRST_WAIT * 2 ** (tried - 1) if problem.retry_after is None else problem.retry_after
        state.waits = True
        await asyncio.sleep(min(wait, LONGEST_WAIT))
        state.waits = False

    async def _write(self, event: AnyEvent, blobs: tuple[bytes, ...] = ()) -> None:
        """Durable when it returns; Abandoned if the attempt may write no more.

        Parked if another process has sent the call, or its answer: then it is looked up again.
        """
        refusal = await self._writer.write(Op(self._run, (event,), blobs))
        if refusal is not None:
            await self._refuse(event, refusal)

    async def _refuse(self, event: AnyEvent, refusal: Exception) -> NoReturn:
        """Raise what follows from a refused event."""
        if isinstance(refusal, (Unwritable, NotGranted)):
            raise refusal
        send = getattr(event, "send", 0)
        if self.others is not None and send and await self.others.sent_by_another(event.key, send):  # type: ignore[union-attr]
            raise Parked(LOOK, ELSEWHERE)
        raise Abandoned(str(refusal))

    def write(self, op: Op) -> asyncio.Future[Outcome]:
        """Queue an op; the future has its outcome once it is durable."""
        return self._writer.write(op)


def unread(problem: CallFailed, key: str, sends: int) -> CallFailed:
    """The failure of a call whose answer cannot be read: how often it was sent, and what can be done."""
    times = "once" if sends == 1 else f"{sends} times"
    return CallFailed(
        f"{problem} (sent {times}; the answer is recorded, see `peira calls {key[:12]}`; "
        "each of policy.retries and each later run asks again)",
        status=problem.status,
    )


def read_reply(named: NamedModel, answer: Answer, request: Request | None = None) -> Reply | CallFailed:
    """The reply in a recorded answer, of the right types throughout. A model's own code reads it, and may
    meet anything: whatever goes wrong there is a failure of this call."""
    try:
        reply = _typed(named.model.read(answer))
        return reply if request is None else with_native(reply, request, named.model, answer.body)
    except CallFailed as problem:
        return problem
    except Exception as problem:
        said = " ".join(f"{type(problem).__name__}: {problem}".split())[:LINE]
        return CallFailed(f"{named.name}: its answer is recorded, and cannot be read: {said}")


def _typed(reply: Reply) -> Reply:
    """The reply, its counts being counts and its texts texts; TypeError if there is no text in it."""
    text, model, usage = reply.text, reply.model, reply.usage
    if type(text) is not str:
        raise TypeError("there is no text in it")
    said = usage.input, usage.output, usage.cached, usage.reasoning, usage.written
    counts = tuple(map(token_count, said))
    if counts == said and type(model) is str:
        return reply
    return msgspec.structs.replace(reply, usage=Usage(*counts), model=model if type(model) is str else "")


def _cost(named: NamedModel, usage: Usage, share: float) -> float | None:
    """The cost of these tokens; None if the price is unknown, or the numbers of tokens are impossible."""
    if named.price is None:
        return None
    try:
        cost = named.price.cost(usage)
    except (ValueError, ArithmeticError):  # more of them from the cache than there were
        return None
    return cost * share if cost is not None and 0 <= cost < math.inf else None
