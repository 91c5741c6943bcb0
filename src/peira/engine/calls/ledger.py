"""The ledger of model calls: each is recorded as intended, sent, recorded as answered, then used."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

import msgspec

from peira.core.ids import short
from peira.core.log.events import Spent
from peira.core.log.state import Call
from peira.core.mailbox import Mailbox
from peira.core.models import Answer, NamedModel, Reply
from peira.core.text.words import counted
from peira.engine.batch.batcher import Batcher, in_batch
from peira.engine.calls.budget import Reservation, RunAccounts
from peira.engine.calls.open_calls import unanswered
from peira.engine.calls.purchase import Buyer, CallRequest, read_answer, read_reply, unread
from peira.engine.calls.rate_limit import RateLimiter
from peira.engine.context import CallSettings, RunCallbacks, RunContext
from peira.errors import Abandoned, CallFailed, InDoubt, NotKept, StoreDamaged

LAST_WAIT = 5.0
"""Seconds that calls under way may take to be answered when the run ends."""


NOBODY = "nobody waits for this call any more"
MANY = 128
"""The number of calls that are looked up in the store at once, which blocks the loop meanwhile."""
_Rows = dict[str, Call]


class RoutedRequest:
    """A request, its chain of models (the one asked and its fallbacks), and its key for each.

    `reply` is the future that the caller waits for.
    """

    __slots__ = "asked", "chain", "keys", "reply"

    def __init__(self, chain: Sequence[NamedModel], asked: CallRequest) -> None:
        self.chain, self.asked, self.keys = chain, asked, asked.keys(chain)
        self.reply: Future[Reply] = Future()

    def settle(self, outcome: Reply | BaseException) -> None:
        """Complete the reply, once; nobody hears of it if its caller has given up."""
        self.asked.state.end()
        try:
            if isinstance(outcome, Reply):
                self.reply.set_result(outcome)
            else:
                self.reply.set_exception(outcome)
        except InvalidStateError:
            return  # the caller has given up on it


class Ledger:
    """The model calls of one run, made on an event loop in a thread of their own ("peira-calls").

    `ask`, `hand_in`, `close` and `spent` are called from other threads; requests are served on the loop.
    Reads of the store block the loop, writes are awaited. `_lock` guards only the start of the loop and the
    per-model locks.
    """

    def __init__(self, context: RunContext, calls: CallSettings, callbacks: RunCallbacks) -> None:
        self._store, self._policy, self._say = context.store, context.policy, callbacks.say
        self._find_model, self._batch = calls.models, calls.batch
        self._named: dict[str, NamedModel] = {}
        self._model_locks: dict[str, threading.Lock] = {}
        self._limiters: dict[str, RateLimiter] = {}
        self._reported_fallbacks: set[tuple[str, str]] = set()
        self._asked_again = 0  # answers that could not be read, in the place of which others were asked for
        self._serving: dict[str, RoutedRequest] = {}  # by key; equal requests wait for it
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._mailbox: Mailbox[RoutedRequest] | None = None
        self._arrived: deque[RoutedRequest] = deque()  # posted, not looked up yet
        self._under_way: dict[RoutedRequest, asyncio.Task[None]] = {}  # being served
        self._thread: threading.Thread | None = None
        self.reserve = RunAccounts(calls.budget, calls.before)
        self._buyer = Buyer(context, self.reserve, callbacks)
        self._batcher = Batcher(context, self._buyer, self.reserve, self._model, callbacks)

    @property
    def spent(self) -> tuple[Spent, ...]:
        """What this run spent so far, by model."""
        return self._buyer.spent()

    def ask(self, name: str, asked: CallRequest) -> Future[Reply]:
        """The reply to a request: replayed if it is recorded, bought otherwise. Any thread.

        Returns at once, except that a model is made and checked on its first use.
        """
        named = self._model(name)
        routed = RoutedRequest((named, *map(self._model, named.fallbacks)), asked)
        asked.state.begin()
        (self._mailbox or self._start_loop()).post(routed)
        return routed.reply

    def _model(self, name: str) -> NamedModel:
        """The model of this name, made and checked on first use. Any thread, the loop included."""
        if (known := self._named.get(name)) is not None:
            return known
        with self._lock:
            model_lock = self._model_locks.setdefault(name, threading.Lock())
        with model_lock:  # one lock per name: making a model runs foreign code, which may be slow
            if name not in self._named:
                found = self._find_model(name)
                found.model.check()
                self._named[name] = found
            return self._named[name]

    def _start_loop(self) -> Mailbox[RoutedRequest]:
        """The mailbox of the loop; starts the loop's thread on first use."""
        with self._lock:
            if self._mailbox is None:
                self._loop = asyncio.new_event_loop()
                self._mailbox = Mailbox(self._loop, self._arrived.append, self._look_up)
                self._thread = threading.Thread(
                    target=self._loop.run_forever, name="peira-calls", daemon=True
                )
                self._thread.start()
            return self._mailbox

    def _look_up(self) -> None:
        """Look up arrived requests in the store, many with one query, and start serving them."""
        arrived = [self._arrived.popleft() for _ in range(min(MANY, len(self._arrived)))]
        if self._arrived:
            asyncio.get_running_loop().call_soon(self._look_up)
        try:
            rows = self._store.find("call", [key for routed in arrived for key in routed.keys])
        except Exception as problem:  # raised for the callers
            for routed in arrived:
                routed.settle(problem)
            return
        for routed in arrived:
            # An attempt that sleeps for its batch wants everything that it has asked to be in that batch.
            wanted = self._batch and not routed.asked.state.abandoned
            if routed.reply.done() and not wanted:
                routed.settle(Abandoned(NOBODY))
            else:
                self._begin(routed, None if routed.keys[0] in self._serving else rows)

    def _begin(self, routed: RoutedRequest, rows: _Rows | None) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(routed, rows))
        self._under_way[routed] = task

    async def _serve(self, routed: RoutedRequest, rows: _Rows | None) -> None:
        """Serve one request as a task of the loop: wait for equal ones, then answer it."""
        try:
            known = await self._wait_for_turn(routed, rows)
            try:
                reply = await self._ask(routed, known)
            finally:
                self._release_key(routed)
            routed.settle(reply)
            if routed.asked.state.abandoned:
                self._share(routed, reply)
        except asyncio.CancelledError:
            routed.settle(Abandoned(NOBODY if routed.asked.state.abandoned else "the run is over"))
        except BaseException as problem:  # raised for the caller
            routed.settle(problem)
        finally:
            del self._under_way[routed]

    async def _wait_for_turn(self, routed: RoutedRequest, rows: _Rows | None) -> _Rows:
        """Wait until no other request with the same key is being served; returns the recorded rows.

        Rows that were read before such a wait are outdated and read again (`rows` is None: not read yet).
        """
        key, state = routed.keys[0], routed.asked.state
        while (other := self._serving.get(key)) is not None:
            state.waits, patience = True, self._patience(other)
            await asyncio.wait([self._under_way[other]], timeout=patience)
            rows, state.waits = None, False
            if patience is not None:  # sent for an attempt that was abandoned, and still not answered
                self._release_key(other)
        known = self._store.find("call", routed.keys) if rows is None else rows
        self._serving[key] = routed
        return known

    def _patience(self, other: RoutedRequest) -> float | None:
        """How long to wait for an equal request; None: until it ends.

        One that was sent for an abandoned attempt may be answered soon, and is paid for; but it may also
        hang: it is waited for as long as an attempt may take, then sent again if the policy allows that.
        """
        abandoned = other.asked.state.abandoned and self._policy.in_doubt == "resend"
        return self._policy.timeout if abandoned else None

    def _release_key(self, routed: RoutedRequest) -> None:
        """Equal requests need not wait for this one any more."""
        if self._serving.get(routed.keys[0]) is routed:
            del self._serving[routed.keys[0]]

    def abandon(self, replies: Sequence[Future[Reply]]) -> None:
        """Nobody waits for these replies any more: they free their places in every queue and limit, at once.

        What has not been sent is not sent; an answer to what was sent is still recorded. Any thread.
        """
        if replies and self._loop is not None:
            with suppress(RuntimeError):  # the loop was closed: nothing is under way
                self._loop.call_soon_threadsafe(self._abandon, frozenset(replies))

    def _share(self, late: RoutedRequest, reply: Reply) -> None:
        """An answer that nobody waited for any more has come: whoever has sent the call again gets it."""
        again = self._serving.get(late.keys[0])
        if again is not None and again.asked.state.send is not None:
            again.settle(msgspec.structs.replace(reply, replayed=True))
            again.asked.state.abandoned = True
            self._buyer.give_up(again.asked.state.send)

    def _abandon(self, replies: frozenset[Future[Reply]]) -> None:
        for routed in self._arrived:
            routed.asked.state.abandoned |= routed.reply in replies
        for routed in [one for one in self._under_way if one.reply in replies]:
            state = routed.asked.state
            state.abandoned = True
            if state.send is not None:
                self._buyer.give_up(state.send)
            elif state.waits:
                self._under_way[routed].cancel()

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
        if self._loop is None:
            return []
        now = self._loop.time()
        paused = (limiter.pause(now) for limiter in list(self._limiters.values()))
        return [*unanswered(self._buyer.open_sends(), now), *filter(None, paused)]

    async def _ask(self, routed: RoutedRequest, rows: _Rows) -> Reply:
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
                recorded = reply or self._replay(named, self._store.find("call", [key])[key], asked)
                if isinstance(recorded, CallFailed):
                    raise recorded
                return recorded
            except CallFailed as problem:
                if after is None:
                    raise
                self._report_fallback(named.name, after.name, problem)
        raise AssertionError("unreachable: the last one answers, or raises")

    async def _recorded_reply(
        self, chain: Sequence[NamedModel], keys: Sequence[str], asked: CallRequest, rows: _Rows
    ) -> Reply | None:
        """The recorded answer of any model of the chain; None if there is none and one may be bought.

        An answer that cannot be read stays on record, and one is bought in its place: this is another attempt
        than the one that failed with it.
        Raises InDoubt for a call that is held, and Parked for one that waits in a batch.
        """
        for named, key in zip(chain, keys, strict=True):
            if key in rows and rows[key].state == "answered":
                reply = self._replay(named, rows[key], asked)
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
        if self._loop is None:
            self.reserve.raise_limits(limits)
        else:
            self._loop.call_soon_threadsafe(self.reserve.raise_limits, dict(limits))

    def hand_in(self) -> None:
        """Submit gathered batches now: no further calls will come before some are answered."""
        if self._loop is not None and self._batcher.gathering:
            self._loop.call_soon_threadsafe(self._hand_in)

    def _hand_in(self) -> None:
        """Submit gathered batches, unless requests are still being served."""
        if not (self._under_way or self._arrived):  # requests that arrived together are still being served
            self._batcher.hand_in()

    def _raise_if_held(self, named: NamedModel, row: Call | None) -> None:
        """Raise InDoubt if the call may have been billed before and the policy holds such calls."""
        doubtful = row is not None and row.state in ("intended", "in_doubt") and not in_batch(row)
        if row is not None and doubtful and self._policy.in_doubt == "hold":
            raise InDoubt(
                f"a call of {named.name} may have been billed and its answer is unknown: it is held "
                f"(peira resolve {row.key[:12]})"
            )

    def _replay(self, named: NamedModel, row: Call, asked: CallRequest) -> Reply | CallFailed:
        """The reply from a recorded answer; the trial's account is charged for it. CallFailed if it cannot
        be read."""
        raw = self._raw_answer(row)
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
        """The rate limiter of a model, made on first use."""
        if named.name not in self._limiters:
            now = asyncio.get_running_loop().time
            self._limiters[named.name] = RateLimiter(named.name, named.limits, now, self._say)
        return self._limiters[named.name]

    def _report_fallback(self, name: str, instead: str, problem: CallFailed) -> None:
        """Report a fallback to another model, once per pair of models."""
        if (name, instead) not in self._reported_fallbacks:
            self._reported_fallbacks.add((name, instead))
            self._say(f"{name} cannot answer, {instead} is asked instead: {problem}")

    def close(self) -> None:
        """End the loop and its thread; answers that arrive within LAST_WAIT are still recorded."""
        if self._loop is None or self._thread is None:
            return
        asyncio.run_coroutine_threadsafe(self._end(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _end(self) -> None:
        """Abandon waiting requests, wait for sent ones, close batches and models."""
        while self._arrived:
            self._arrived.popleft().settle(Abandoned("the run is over"))
        for limiter in self._limiters.values():
            limiter.turn_away(lambda _: Abandoned("the run is over"))
        if self._under_way:
            _, late = await asyncio.wait(set(self._under_way.values()), timeout=LAST_WAIT)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        if self._asked_again:
            answers = counted(self._asked_again, "recorded answer")
            self._say(f"{answers} could not be read: asked again, each send counted (peira calls)")
        await self._batcher.close()
        for named in self._named.values():
            await named.model.close()


def _recorded(raw: bytes, key: str) -> Answer:
    try:
        return read_answer(raw)
    except msgspec.MsgspecError as problem:
        raise StoreDamaged(f"the recorded answer of call {key[:12]} cannot be read: {problem}") from None
