"""The ledger of model calls: each is recorded as intended, sent, recorded as answered, then used."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress

import msgspec

from peira.core.contracts import ListsPlans
from peira.core.ids import short
from peira.core.log.events import Spent
from peira.core.log.state import Call
from peira.core.models import Answer, NamedModel, Reply
from peira.core.text.words import counted
from peira.engine.batch.batcher import Batcher, in_batch
from peira.engine.calls.background import find_calls
from peira.engine.calls.budget import MakeAccount, Reservation, RunAccounts
from peira.engine.calls.listing import CallListing
from peira.engine.calls.open_calls import unanswered
from peira.engine.calls.pools import PooledAccount
from peira.engine.calls.purchase import Buyer, CallRequest, read_answer, read_reply, unread
from peira.engine.calls.rate_limit import RateLimiter
from peira.engine.calls.service import OVER, FoundCalls, RoutedRequest, enter_service, leave_service
from peira.engine.calls.shared_rate_limit import SharedRateLimiter
from peira.engine.context import CallSettings, RunCallbacks, RunContext
from peira.errors import Abandoned, CallFailed, InDoubt, NotKept, StoreDamaged

LAST_WAIT = 5.0
"""Seconds that calls under way may take to be answered when the run ends."""
NOBODY = "nobody waits for this call any more"


class Ledger:
    """The model calls of one run, made on the loop of the store's `CallService`.

    `ask`, `hand_in`, `close` and `spent` are called from other threads; requests are served on the loop.
    Reads of a local store block the loop; those of a store on a server, and all writes, are awaited.
    """

    def __init__(self, context: RunContext, calls: CallSettings, callbacks: RunCallbacks) -> None:
        self._store, self._policy, self._callbacks = context.store, context.policy, callbacks
        self._sharing = context.sharing
        self._find_model, self._batch = calls.models, calls.batch
        self._limiters: dict[str, RateLimiter] = {}  # of the models that this run asked
        self._reported_fallbacks: set[tuple[str, str]] = set()
        self._asked_again = 0  # answers that could not be read, in the place of which others were asked for
        self._under_way: set[RoutedRequest] = set()  # being served
        self._closed, self._closing = False, threading.Lock()
        self._meeting: Future[None] | None = None  # with other processes, about limits
        name = f"{calls.account}.budget" if calls.account else "budget"
        self.reserve = RunAccounts(calls.budget, calls.before, _pooling(context), name)
        store = context.store
        self._listing = CallListing(store) if calls.listed and isinstance(store, ListsPlans) else None
        self._buyer = Buyer(context, self.reserve, callbacks, self._listing, calls.account)
        self._batcher = Batcher(context, self._buyer, self.reserve, self._model, callbacks)
        self._service = enter_service(context.store, self)

    @property
    def spent(self) -> tuple[Spent, ...]:
        """What this run spent so far, by model."""
        return self._buyer.spent()

    def ask(self, name: str, asked: CallRequest) -> Future[Reply]:
        """The reply to a request: replayed if it is recorded, bought otherwise. Any thread.

        Returns at once, except that a model is made and checked on its first use.
        """
        named = self._model(name)
        routed = RoutedRequest(self, (named, *map(self._model, named.fallbacks)), asked)
        asked.state.begin()
        self._service.post(routed)
        return routed.reply

    def _model(self, name: str) -> NamedModel:
        """The model of this name, made and checked on first use. Any thread, the loop included."""
        return self._service.model(self._find_model, name)

    def begin(self, routed: RoutedRequest, found: FoundCalls | None) -> None:
        """Start to serve a request, unless nobody waits for it any more."""
        # An attempt that sleeps for its batch wants everything that it has asked to be in that batch.
        wanted = self._batch and not routed.asked.state.abandoned
        if self._closed or (routed.reply.done() and not wanted):
            routed.settle(Abandoned(OVER if self._closed else NOBODY))
            return
        self._under_way.add(routed)
        routed.task = asyncio.get_running_loop().create_task(self._serve(routed, found))

    async def _serve(self, routed: RoutedRequest, rows: FoundCalls | None) -> None:
        """Serve one request as a task of the loop: wait for equal ones, then answer it."""
        try:
            known = await self._wait_for_turn(routed, rows)
            try:
                reply = await self._ask(routed, known)
            finally:
                self._service.release_key(routed)
            routed.settle(reply)
            if routed.asked.state.abandoned:
                self._share(routed, reply)
        except asyncio.CancelledError:
            routed.settle(Abandoned(NOBODY if routed.asked.state.abandoned else OVER))
        except BaseException as problem:  # raised for the caller
            routed.settle(problem)
        finally:
            self._under_way.discard(routed)

    async def _wait_for_turn(self, routed: RoutedRequest, rows: FoundCalls | None) -> FoundCalls:
        """Wait until no other request with the same key is being served; returns the recorded rows.

        Rows that were read before such a wait are outdated and read again (`rows` is None: not read yet).
        """
        key, state = routed.keys[0], routed.asked.state
        while (other := self._service.serving.get(key)) is not None and other.task is not None:
            state.waits, patience = True, self._patience(other)
            await asyncio.wait([other.task], timeout=patience)
            rows, state.waits = None, False
            if patience is not None:  # sent for an attempt that was abandoned, and still not answered
                self._service.release_key(other)
        self._service.serving[key] = routed
        try:
            return await find_calls(self._store, routed.keys) if rows is None else rows
        except BaseException:
            self._service.release_key(routed)
            raise

    def _patience(self, other: RoutedRequest) -> float | None:
        """How long to wait for an equal request; None: until it ends.

        One that was sent for an abandoned attempt may be answered soon, and is paid for; but it may also
        hang: it is waited for as long as an attempt may take, then sent again if the policy allows that.
        """
        abandoned = other.asked.state.abandoned and self._policy.in_doubt == "resend"
        return self._policy.timeout if abandoned else None

    def abandon(self, replies: Sequence[Future[Reply]]) -> None:
        """Nobody waits for these replies any more: they free their places in every queue and limit, at once.

        What has not been sent is not sent; an answer to what was sent is still recorded. Any thread.
        """
        loop = self._service.loop
        if replies and loop is not None:
            with suppress(RuntimeError):  # the loop was closed: nothing is under way
                loop.call_soon_threadsafe(self._abandon, frozenset(replies))

    def _share(self, late: RoutedRequest, reply: Reply) -> None:
        """Give an answer that came after its caller had given up to the call that was sent again for it."""
        again = self._service.serving.get(late.keys[0])
        if again is not None and again.asked.state.send is not None:
            again.ledger.answer_late(again, reply)

    def answer_late(self, routed: RoutedRequest, reply: Reply) -> None:
        """Give a request the answer to an equal one that nobody waited for any more."""
        send = routed.asked.state.send
        routed.settle(msgspec.structs.replace(reply, replayed=True))
        routed.asked.state.abandoned = True
        if send is not None:
            self._buyer.give_up(send)

    def _abandon(self, replies: frozenset[Future[Reply]]) -> None:
        for routed in self._service.arrived(self):
            routed.asked.state.abandoned |= routed.reply in replies
        for routed in [one for one in self._under_way if one.reply in replies]:
            state = routed.asked.state
            state.abandoned = True
            if state.send is not None:
                self._buyer.give_up(state.send)
            elif state.waits and routed.task is not None:
                routed.task.cancel()

    @property
    def refusals(self) -> list[str]:
        """Which models refuse their calls, and why; nothing more is sent to them. Any thread."""
        return [limiter.refused for limiter in list(self._limiters.values()) if limiter.refused]

    @property
    def all_refused(self) -> bool:
        """Whether every model that was asked refuses its calls, and none has answered. Any thread."""
        limiters = list(self._limiters.values())
        return all(one.refused and not one.has_answered for one in limiters) and bool(limiters)

    def waits(self) -> list[str]:
        """Why nothing may move: models that have not answered for long, or are paused. Any thread."""
        if self._service.loop is None:
            return []
        now = self._service.loop.time()
        paused = (limiter.pause(now) for limiter in list(self._limiters.values()))
        return [*unanswered(self._buyer.open_sends(), now), *filter(None, paused)]

    async def _ask(self, routed: RoutedRequest, rows: FoundCalls) -> Reply:
        """The recorded reply, or the first one that a model of the chain gives."""
        chain, keys, asked = routed.chain, routed.keys, routed.asked
        if rows and any(key in rows for key in keys):
            reply = await self._recorded_reply(chain, keys, asked, rows)
            if reply is not None:
                return reply
        for named, after, key in zip(chain, [*chain[1:], None], keys, strict=True):
            row = rows.get(key)
            try:
                if self._batch:
                    await self._batcher.ask(named, asked, key, row)
                sends = row.sends if row else 0
                reply = await self._buyer.buy(named, self._limiter(named), asked, key, sends)
                if reply is not None:
                    return reply
                row = (await find_calls(self._store, [key]))[key]
                recorded = await self._replay(named, row, asked)
                if isinstance(recorded, CallFailed):
                    raise recorded
                return recorded
            except CallFailed as problem:
                problem.call = key
                if after is None:
                    raise
                self._report_fallback(named.name, after.name, problem)
        raise AssertionError("unreachable: the last one answers, or raises")

    async def _recorded_reply(
        self, chain: Sequence[NamedModel], keys: Sequence[str], asked: CallRequest, rows: FoundCalls
    ) -> Reply | None:
        """The recorded answer of any model of the chain; None if there is none and one may be bought.

        An answer that cannot be read stays on record, and one is bought in its place: this is another attempt
        than the one that failed with it.
        Raises InDoubt for a call that is held, and Parked for one that waits in a batch.
        """
        if (others := self._buyer.others) is not None:
            for key in [key for key in keys if key in rows]:
                rows[key] = await others.wait(rows[key], asked.state)
        for named, key in zip(chain, keys, strict=True):
            if key in rows and rows[key].state == "answered":
                reply = await self._replay(named, rows[key], asked)
                if isinstance(reply, Reply):
                    return reply
                if self._batcher.bought.get(key) == asked.attempt.spec.id:
                    del self._batcher.bought[key]  # what this attempt slept for: the next one asks again
                    raise unread(reply, key, rows[key].sends)
                rows[key] = await self._buyer.void(asked, rows[key])
                self._asked_again += 1
        for named, key in zip(chain, keys, strict=True):
            self._raise_if_held(named, rows.get(key))
        for named, key in zip(chain, keys, strict=True):
            if in_batch(rows.get(key)):
                await self._batcher.ask(named, asked, key, rows[key])
        return None

    def raise_budget(self, limits: Mapping[str, float]) -> None:
        """Raise limits of the study's budget while calls are made."""
        loop = self._service.loop
        if loop is None:
            self.reserve.raise_limits(limits)
        else:
            loop.call_soon_threadsafe(self.reserve.raise_limits, dict(limits))

    def exchange_limits(self) -> None:
        """Exchange rate limits and budgets with the other processes of a shared run, without waiting.

        What they want and this process does not need is given back. Any thread; an error is raised at the
        next call.
        """
        with self._closing:
            if self._closed or self._service.loop is None:
                return
            if self._meeting is None or self._meeting.done():
                if self._meeting is not None:
                    self._meeting.result()
                self._meeting = asyncio.run_coroutine_threadsafe(self._exchange_limits(), self._service.loop)

    async def _exchange_limits(self, last: bool = False) -> None:
        for account in self.reserve.shared_accounts():
            if isinstance(account, PooledAccount):
                await account.give_back(everything=last)
        for limiter in list(self._limiters.values()):
            if isinstance(limiter, SharedRateLimiter):
                await limiter.refresh()

    def hand_in(self) -> None:
        """Submit gathered batches now: no further calls will come before some are answered."""
        loop = self._service.loop
        if loop is not None and self._batcher.gathering:
            loop.call_soon_threadsafe(self._hand_in)

    def _hand_in(self) -> None:
        """Submit gathered batches, unless requests that arrived together are still being served."""
        if not (self._under_way or self._service.arrived(self)):
            self._batcher.hand_in()

    def _raise_if_held(self, named: NamedModel, row: Call | None) -> None:
        """Raise InDoubt if the call may have been billed before and the policy holds such calls."""
        doubtful = row is not None and row.state in ("intended", "in_doubt") and not in_batch(row)
        if row is not None and doubtful and self._policy.in_doubt == "hold":
            raise InDoubt(
                f"a call of {named.name} may have been billed and its answer is unknown: it is held "
                f"(peira resolve {row.key[:12]})"
            )

    async def _replay(self, named: NamedModel, row: Call, asked: CallRequest) -> Reply | CallFailed:
        """The reply from a recorded answer; the trial's account is charged for it. CallFailed if it cannot
        be read."""
        apart = row.blob and getattr(self._store, "remote", False)
        raw = await asyncio.to_thread(self._raw_answer, row) if apart else self._raw_answer(row)
        cost = None if row.cost < 0 else row.cost
        read = read_reply(named, _recorded(raw, row.key), asked.request)
        if isinstance(read, CallFailed):
            return read
        if not row.known:  # whoever recorded it did not come to that
            part = named.price.batch if row.batch and named.price else 1.0
            cost = self._buyer.note(named, row.task, row.key, read, part)
        reply = msgspec.structs.replace(
            read,
            cost=cost,
            served=named.name,
            replayed=self._batcher.bought.get(row.key) != asked.attempt.spec.id,
            call=row.key,
        )
        if asked.account is not None and row.key not in asked.account.counted:
            asked.account.counted.add(row.key)
            most, _ = self.reserve.most(named, asked.request)
            share = self.reserve.share(named, most, asked.account) if named.price else Reservation()
            asked.account.take(self._buyer.taken(share, reply.usage, cost))
        return reply

    def _raw_answer(self, row: Call) -> bytes:
        """The recorded answer; NotKept says how to go on without it."""
        try:
            return self._store.get(row.blob) if row.blob else bytes(row.value)
        except NotKept:
            raise NotKept(
                f"call {short(row.key)} is answered, and its answer was not kept (storage.responses): it "
                f"cannot be replayed. To ask again, and pay again: peira resolve --discard {short(row.key)}"
            ) from None

    def _limiter(self, named: NamedModel) -> RateLimiter:
        """The rate limiter of a model, which all runs of the process share."""
        found = self._limiters[named.name] = self._service.limiter(named, self._sharing)
        return found

    def say(self, model: str, text: str) -> None:
        """Show a notice about a model, if this run has asked it."""
        if model in self._limiters:
            self._callbacks.say(text)

    def _report_fallback(self, name: str, instead: str, problem: CallFailed) -> None:
        """Report a fallback to another model, once per pair of models."""
        if (name, instead) not in self._reported_fallbacks:
            self._reported_fallbacks.add((name, instead))
            self._callbacks.say(f"{name} cannot answer, {instead} is asked instead: {problem}")

    def close(self) -> None:
        """End the calls of this run; answers that arrive within LAST_WAIT are still recorded."""
        with self._closing:
            was_closed, self._closed = self._closed, True
        if not was_closed:
            if self._service.loop is not None:
                self._service.finish(self._end())
                self._service.finish(self._exchange_limits(last=True))
            leave_service(self._service, self)

    async def _end(self) -> None:
        """Abandon requests that wait, wait for sent ones, close batches."""
        self._abandon_unsent()
        if self._under_way:
            tasks = {routed.task for routed in self._under_way if routed.task is not None}
            _, late = await asyncio.wait(tasks, timeout=LAST_WAIT)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        if self._asked_again:
            answers = counted(self._asked_again, "recorded answer")
            self._callbacks.say(f"{answers} could not be read: asked again, each send counted (peira calls)")
        if self._listing is not None:
            self._listing.close()
        await self._batcher.close()

    def _abandon_unsent(self) -> None:
        """What has not been sent is not sent."""
        self._service.withdraw(self)
        for routed in list(self._under_way):
            if routed.asked.state.waits and routed.task is not None:
                routed.task.cancel()


def _pooling(context: RunContext) -> MakeAccount | None:
    """What makes the accounts of a shared run; None if this process has the run alone."""
    sharing, run = context.sharing, context.run
    if sharing is None:
        return None
    return lambda name, allowance, before: PooledAccount(name, allowance, before, sharing, run)


def _recorded(raw: bytes, key: str) -> Answer:
    try:
        return read_answer(raw)
    except msgspec.MsgspecError as problem:
        raise StoreDamaged(f"the recorded answer of call {key[:12]} cannot be read: {problem}") from None
