"""Budgets and reservations: limits on money, tokens and calls of a study, of a model and of a trial.

A call reserves the most that it can take before it is sent (`most_usage`); afterwards the reservation is
replaced by what it took.
"""

from __future__ import annotations

import asyncio
import math
import unicodedata
from bisect import bisect_left, insort
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol

import msgspec

from peira.core.chat.dialects import readable
from peira.core.contracts import PoolRequest
from peira.core.ids import Json
from peira.core.log.events import Spent
from peira.core.models import NamedModel, Price, Request, Usage
from peira.errors import Exhausted, Invalid
from peira.spec.limits import Allowance, Budget

ROUNDING = 1e-9
"""The relative tolerance of comparisons with a limit."""
REMEMBERED = 256
"""The number of calls per model from which input sizes are estimated."""
REMEMBERED_TRIALS = 100_000
"""The number of trials whose accounts are kept for their next attempts."""
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Parameters of requests that bound the number of output tokens."""
OVERHEAD, PER_MESSAGE = 16, 8
"""Tokens of a request, and of each message, part and tool in it, beside one for each byte of its text."""
INSTRUCTIONS = 600
"""Tokens that providers add to a request with tools or a schema: instructions for the model."""
IMAGE = 50_000
"""Tokens of an image at most, whatever its size (the highest known: 48,169)."""
ASSUMED_OUTPUT = 16_384
"""Output tokens reserved for a call of a model whose maximum nobody knows."""
MISFITS = 10
"""So many calls that did not fit into the budget of a study may end the run (see `Account.misfit`)."""
ELSEWHERE = frozenset(
    (
        "previous_response_id",
        "conversation",
        "prompt",
        "web_search_options",
        "mcp_servers",
        "plugins",
        "tools",
    )
)
"""Parameters that bring input from elsewhere, which the request does not show."""


class Reservation(msgspec.Struct, frozen=True):
    """An amount of money, tokens and calls: reserved for a call, or taken by it."""

    money: float = 0.0
    tokens: int = 0
    calls: int = 1


NOTHING = Reservation(calls=0)
NO_LEAST = Reservation(math.inf, 2**63, 2**63)
UNCOUNTED = Usage()


class PoolReservation(Protocol):
    """What was asked of a pool for a call, to be taken in the transaction of its intent."""

    @property
    def request(self) -> PoolRequest:
        """What is to be taken."""
        ...

    def granted(self) -> None:
        """The intent is committed."""
        ...

    def withdraw(self) -> None:
        """There is no intent."""
        ...

    def refused(self) -> None:
        """The pool has too little."""
        ...


class Account:
    """An allowance, and what was taken from it or is reserved.

    `aside` is the number of open reservations, `bounded` whether there is any limit; `counted` are the keys
    of a trial's calls whose answers are in it, so that a replay is not counted again.
    """

    def __init__(self, name: str, allowance: Allowance, before: Reservation = NOTHING) -> None:
        self.name, self._allowance, self._before = name, allowance, before
        self._money, self._tokens, self._calls = before.money, before.tokens, before.calls
        self.aside, self.bounded, self.counted = 0, allowance.bounded, set[str]()
        self.reserved = NOTHING
        """What is reserved, in all."""
        self._least = NO_LEAST  # the smallest reservation
        self._misfits = self._granted = 0  # calls that did not fit; reservations since the first of them

    @property
    def counts_money(self) -> bool:
        """Whether money is limited."""
        return self._allowance.money is not None

    def raise_limits(self, limits: Mapping[str, float]) -> None:
        """Raise those of these limits that there are."""
        more = {}
        for name, most in limits.items():
            now = getattr(self._allowance, name, None)
            if now is not None and most > now:
                more[name] = most
        self._allowance = self._allowance.model_copy(update=more)
        self._misfits = self._granted = 0

    @property
    def hopeful(self) -> bool:
        """Whether what is lacking may be given back by other processes: of a pooled account."""
        return False

    @property
    def undrawn(self) -> bool:
        """Whether what is lacking may be in a pool: of a pooled account."""
        return False

    async def draw(self, share: Reservation) -> None:
        """Take from the pools what is lacking for a reservation: of a pooled account."""

    def ask(self, share: Reservation) -> Sequence[PoolReservation] | None:
        """What is lacking of pools for a reservation, to be taken with its intent: of a pooled account."""
        return ()

    def used(self, limit: str) -> float:
        """What is taken or reserved of a limit."""
        return {"money": self._money, "tokens": self._tokens, "calls": self._calls}[limit]

    def lacks(self, share: Reservation) -> str:
        """The limit that forbids taking this much more, as a message; "" if none."""
        for limit, used, more in (
            ("money", self._money, share.money),
            ("tokens", self._tokens, share.tokens),
            ("calls", self._calls, share.calls),
        ):
            most = getattr(self._allowance, limit)
            if most is not None and (message := lacking_message(self.name, limit, most, used, more)):
                earlier = getattr(self._before, limit)
                return f"{message} ({_shown(limit, earlier)} of it by earlier runs)" if earlier else message
        return ""

    def reserve(self, share: Reservation) -> None:
        """Add a reservation."""
        self.take(share)
        self.hold(share)
        self._granted += self._misfits > 0
        least = self._least
        self._least = Reservation(
            min(least.money, share.money), min(least.tokens, share.tokens), min(least.calls, share.calls)
        )

    def hold(self, share: Reservation, sign: int = 1) -> None:
        """Count a reservation that is taken already; with `sign` -1, it is settled."""
        self.aside += sign
        held, money, tokens = self.reserved, sign * share.money, sign * share.tokens
        self.reserved = Reservation(held.money + money, held.tokens + tokens, held.calls + sign * share.calls)

    def misfit(self) -> bool:
        """Note a call that does not fit; returns whether there is no point in trying others.

        There is none if the smallest one so far does not fit either, or if many did not: MISFITS, and a third
        of the calls since. Trials whose later calls do not fit would pay for the earlier ones in vain.
        """
        self._misfits += 1
        least = self._least if self._least is not NO_LEAST else NOTHING
        many = self._misfits >= MISFITS and 2 * self._misfits >= self._granted
        return many or self.never_fits(least)

    def never_fits(self, share: Reservation) -> bool:
        """Whether there is no more for a reservation, once others that are open are settled as they are."""
        return bool(self.lacks(share))

    def take(self, share: Reservation, sign: int = 1) -> None:
        """Add an amount; with `sign` -1, give it back."""
        self._money += sign * share.money
        self._tokens += sign * share.tokens
        self._calls += sign * share.calls


def lacking_message(name: str, limit: str, most: float, used: float, more: float) -> str:
    """Why so much more does not fit into a limit; "" if it does."""
    if used >= most * (1 - ROUNDING):
        return f"{name}.{limit} of {_shown(limit, most)} is used up"
    if used + more > most * (1 + ROUNDING):
        left, may = _shown(limit, most - used), _shown(limit, more)
        return f"{name}.{limit} of {_shown(limit, most)} has {left} left, a call may take {may}"
    return ""


def may_cost(named: NamedModel, expected: Usage, share: Reservation, part: float = 1.0) -> Reservation:
    """The most that a call may cost, also where no limit asked for a reservation of it.

    `part` is the fraction of the price that is paid.
    """
    money = share.money or (named.price.cost(expected) or 0.0 if named.price else 0.0) * part
    return Reservation(money, share.tokens or expected.total)


def _shown(limit: str, most: float) -> str:
    return f"${most:.4g}" if limit == "money" else f"{most:,}"


def stated_output(parameters: Mapping[str, Json]) -> int | None:
    """The limit on output tokens in a request's parameters, the largest if there are several; or None."""
    if not parameters:
        return None
    stated = (parameters[name] for name in LIMITS if type(parameters.get(name)) is int)
    return max(stated, default=None)


def most_input(request: Request, defaults: Collection[str] = ()) -> int | None:
    """The most input tokens of a request; None if it refers to content that is not in it.

    A token stands for at least one byte of text, also after the normalisation that some tokenizers begin
    with. `defaults` are parameters of the model.
    """
    server_tools = any(tool.get("type", "function") != "function" for tool in request.tools)
    if server_tools or not ELSEWHERE.isdisjoint(request.parameters) or not ELSEWHERE.isdisjoint(defaults):
        return None
    size = OVERHEAD + (INSTRUCTIONS if request.tools or request.schema is not None else 0)
    for message in request.messages:
        tokens = _message_tokens(message)
        if tokens is None:
            return None
        size += tokens
    others = [value for value in request.parameters.values() if isinstance(value, (str, list, dict))]
    for value in (request.system, *request.tools, request.schema, *others):
        if value is not None:
            size += PER_MESSAGE + _bytes(value)
    return size


def _message_tokens(message: Mapping[str, Json]) -> int | None:
    """The most tokens of one message; None if it refers to content that is not in it."""
    content, rest = message.get("content"), {k: v for k, v in message.items() if k not in ("role", "content")}
    size = PER_MESSAGE + (_bytes(rest) if rest else 0)
    if not isinstance(content, list):
        return size + _bytes(content)
    for part in content:
        kind = part.get("type") if isinstance(part, dict) else None
        if kind == "image":
            size += IMAGE
        elif kind == "text":
            size += PER_MESSAGE + _bytes(part.get("text"))
        else:
            return None
    return size


def _bytes(value: Json) -> int:
    """The size of a text in UTF-8, or of another value as JSON; before or after NFKC normalisation."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    if text.isascii():
        return len(text)
    return max(
        len(text.encode(errors="replace")), len(unicodedata.normalize("NFKC", text).encode(errors="replace"))
    )


def most_usage(named: NamedModel, request: Request) -> tuple[Usage, bool]:
    """The most tokens that a call of this model can take, and whether its output has a limit.

    Input: a token a byte; the model's context window if the request refers to content elsewhere. Output: the
    limit in the request, in the model's parameters, or declared in `limits`; without one, the context window,
    or `ASSUMED_OUTPUT` where that is not known either.
    """
    request, defaults = readable(request), dict(named.defaults)
    seen = most_input(request, defaults)
    known = [most for most in (seen, named.limits.input) if most is not None]
    largest = named.window or ASSUMED_OUTPUT
    given = {**defaults, **request.parameters}
    limit = stated_output(given)
    if limit is None and named.output:  # Anthropic's limit is raised by what may be thought before
        thinking = given.get("reasoning")
        limit = named.output + (thinking if type(thinking) is int else 0)
    declared = [most for most in (limit, named.limits.output) if most]
    many = given.get("n")
    times = many if type(many) is int and many > 1 else 1
    output = min(declared) if declared else largest
    certain = bool(declared) and bool(known or named.window)
    return Usage(input=min(known) if known else largest, output=output * times), certain


class ModelUsage:
    """What calls of one model took so far: input tokens by size of request, and the longest output.

    `unseen` is by how much the input of a call exceeded what its request shows: providers may add their own.
    """

    def __init__(self) -> None:
        self._inputs: list[tuple[int, int]] = []
        self._longest = 0
        self.unseen = 0

    def learn(self, size: int, usage: Usage) -> None:
        """Add the usage of a call with a request of `size` bytes."""
        self._longest = max(self._longest, usage.output or 0)
        if usage.input is not None and len(self._inputs) < REMEMBERED:
            insort(self._inputs, (size, usage.input))

    def expected(self, size: int, request: Request, most: int | None = None) -> Usage:
        """The tokens that a request of `size` bytes is expected to take.

        Input: that of the call nearest in size so far; before there is one, a token per byte, which no call
        exceeds. Output: the limit stated in the request or else `most`; without either, the longest output so
        far.
        """
        stated, many = stated_output(request.parameters) or most, request.parameters.get("n")
        times = many if type(many) is int and many > 1 else 1
        return Usage(input=self._nearest(size), output=stated * times if stated else self._longest)

    def likely(self, most: Usage) -> Usage:
        """The tokens to allow for at least, where the output of a call has no limit."""
        return Usage(input=most.input, output=min(self._longest, most.output or 0))

    def _nearest(self, size: int) -> int:
        """The input tokens of the call nearest in size; one per byte before there is any."""
        if not self._inputs:
            return size + OVERHEAD
        at = bisect_left(self._inputs, (size, 0))
        return min(self._inputs[max(0, at - 1) : at + 1], key=lambda seen: abs(seen[0] - size))[1]


MakeAccount = Callable[[str, Allowance, Reservation], Account]
HOPE = 0.5
"""Seconds after which who waits for other processes to give something back looks again."""


class RunAccounts:
    """All accounts of a run.

    State changes only on the ledger's loop, so there is no lock; `trial` may be called on any thread.
    """

    def __init__(
        self,
        budget: Budget,
        before: Iterable[Spent] = (),
        make: MakeAccount | None = None,
        name: str = "budget",
    ) -> None:
        """`before` is what earlier runs spent. Models have their full names here, not aliases. With `make`,
        limits of the study and of models are shared with other processes. `name` is how messages call it."""
        spent, made = list(before), make or Account
        self._pooled = make is not None
        self._run = made(name, budget, _shares(spent))
        self._models = {
            model: made(f"{name}.per_model.{model}", allowance, _shares(s for s in spent if s.model == model))
            for model, allowance in budget.per_model.items()
        }
        self._name, self._trial, self._trials = name, budget.per_trial, dict[str, Account]()
        self.kept = self._run.bounded or any(account.bounded for account in self._models.values())
        """Whether a limit counts across runs."""
        self._bounded = self.kept or budget.per_trial.bounded
        self._experience: dict[str, ModelUsage] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self.used_up = ""
        """The limit of the whole study that was reached, as a message; "" if none."""
        self._reached: dict[str, str] = {}  # messages by account

    @property
    def reached(self) -> list[str]:
        """The limits of the study and of models that were reached, as messages."""
        return list(self._reached.values())

    def trial(self, task: str, own: Allowance | None = None) -> Account | None:
        """The account of a trial, the same for all its attempts in this run; None if trials are not limited.

        `own` are limits of this task alone. Accounts of the last REMEMBERED_TRIALS are kept: a retry follows
        soon. The caller holds a lock.
        """
        if own is None and not self._trial.bounded:
            return None
        name, limits = (f"{self._name}.per_trial", self._trial) if own is None else ("its limits", own)
        self._bounded = True
        account = self._trials.pop(task, None) or Account(name, limits)
        self._trials[task] = account
        if len(self._trials) > REMEMBERED_TRIALS:
            del self._trials[next(iter(self._trials))]
        return account

    def expected(self, named: NamedModel, size: int, request: Request) -> Usage:
        """The tokens that a call of this model is expected to take."""
        return self.experience(named.name).expected(size, request, named.output)

    def experience(self, name: str) -> ModelUsage:
        """What calls of this model took so far."""
        return self._experience.setdefault(name, ModelUsage())

    def counts(self, named: NamedModel) -> bool:
        """Whether any limit depends on what a call of this model takes."""
        return self._bounded or named.limits.tokens is not None

    def _accounts(self, named: NamedModel, trial: Account | None) -> list[Account]:
        """The limited accounts that a call draws on."""
        if not self._bounded:
            return []
        found = (self._run, self._models.get(named.model.name), trial)
        return [account for account in found if account is not None and account.bounded]

    def most(self, named: NamedModel, request: Request) -> tuple[Usage, Usage | None]:
        """The most tokens that a call can take.

        Where its output has no limit also what to allow for at least: then it may go alone (see `fit`).
        """
        if not self._bounded:
            return UNCOUNTED, None
        (usage, certain), experience = most_usage(named, request), self.experience(named.name)
        most = Usage(input=(usage.input or 0) + experience.unseen, output=usage.output)
        return most, None if certain else experience.likely(most)

    def exceeded(self, named: NamedModel, most: Usage, usage: Usage) -> bool:
        """Learn from a call that took more than it could take by its request; returns whether it did so."""
        if not self._bounded:
            return False
        unseen = (usage.input or 0) - (most.input or 0)
        if unseen > 0:
            self.experience(named.name).unseen += unseen
        return unseen > 0 or (usage.output or 0) > (most.output or 0)

    async def reserve(
        self,
        named: NamedModel,
        most: Usage,
        trial: Account | None,
        likely: Usage | None = None,
        asked: list[PoolReservation] | None = None,
    ) -> Reservation:
        """Reserve the most that a call can take; waits for others to settle if need be (see `fit`).

        What is lacking of pools is added to `asked`, to be taken with the call's intent, if that is given;
        else it is taken here.
        """
        if not self._bounded:
            return Reservation(0.0, most.total)
        share = self.share(named, most, trial)
        least = None if likely is None else self.share(named, likely, trial)
        while True:
            shares: list[PoolReservation] | None = None
            if self._pooled:
                shares = None if asked is None else self._ask(self._accounts(named, trial), share)
                if shares is None:
                    await self._draw(self._accounts(named, trial), share, least)
            if self.fit(named, share, trial, least, likely is not None):
                if asked is not None:
                    asked += shares or ()
                return share
            for one in shares or ():
                one.withdraw()
            if self._pooled and any(account.undrawn for account in self._accounts(named, trial)):
                continue  # another call has used what was drawn for this one
            await asyncio.wait([self.change()], timeout=HOPE if self._pooled else None)

    def _ask(self, accounts: Iterable[Account], share: Reservation) -> list[PoolReservation] | None:
        """What these accounts lack of pools for a reservation; None if a pool is to be looked at first."""
        shares: list[PoolReservation] = []
        for account in accounts:
            more = account.ask(share)
            if more is None:
                for one in shares:
                    one.withdraw()
                return None
            shares += more
        return shares

    async def _draw(self, accounts: Iterable[Account], share: Reservation, least: Reservation | None) -> None:
        """Take from the pools what these accounts lack for a reservation, or else for its least size."""
        for account in accounts:
            await account.draw(share)
            if least is not None and account.lacks(share):
                await account.draw(least)

    def share(self, named: NamedModel, most: Usage, trial: Account | None, part: float = 1.0) -> Reservation:
        """The reservation for so many tokens, at `part` of the price.

        Raises Invalid if money is limited and the price is unknown.
        """
        if not any(account.counts_money for account in self._accounts(named, trial)):
            return Reservation(0.0, most.total)
        if named.price is None:
            raise Invalid(
                f"{named.name}: its price is unknown, so budget.money cannot be kept; "
                f'say it in peira.toml: [models."{named.name}"] price = {{input = ..., output = ...}}'
            )
        return Reservation(_most_cost(named.price, most) * part, most.total)

    def fit(
        self,
        named: NamedModel,
        share: Reservation,
        trial: Account | None,
        least: Reservation | None = None,
        unlimited: bool = False,
    ) -> bool:
        """Make a reservation without waiting; whether it was made.

        It may fit later if not; Exhausted is raised if it will not. A call whose output is `unlimited` is
        made alone where `share` does not fit and `least`, if given, does: nothing else is reserved until it
        is settled.
        """
        accounts = self._accounts(named, trial)
        lacking = [(account, why) for account in accounts if (why := account.lacks(share))]
        if any(account.aside or account.hopeful for account, _ in lacking):
            return False
        for account, why in lacking:
            if least is None or account.lacks(least):
                why += "; with max_tokens less is set aside" if unlimited and "left" in why else ""
                self._note(account, why)
                raise Exhausted(why)
        for account in accounts:
            account.reserve(share)
        return True

    def hold(self, named: NamedModel, share: Reservation, counted: bool) -> None:
        """Reserve for a call of an earlier run; `counted`: it is part of `before` already."""
        for account in self._accounts(named, None):
            account.hold(share)
            if not counted:
                account.take(share)

    def _note(self, account: Account, why: str) -> None:
        """Remember which limit was reached."""
        if account is self._run and account.misfit():
            self.used_up = self.used_up or why
        if account in (self._run, *self._models.values()):
            self._reached[account.name] = why

    def raise_limits(self, limits: Mapping[str, float]) -> None:
        """Raise limits of the whole study; who waits for money, tokens or calls looks again."""
        self._run.raise_limits(limits)
        self.used_up = ""
        self._reached.pop(self._run.name, None)
        self._wake()

    def shared_accounts(self) -> list[Account]:
        """The limited accounts of the study and of models."""
        return [account for account in (self._run, *self._models.values()) if account.bounded]

    def change(self) -> asyncio.Future[None]:
        """A future that is done when the next reservation is settled."""
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(changed)
        return changed

    def settle(
        self, named: NamedModel, trial: Account | None, share: Reservation, took: Reservation | None
    ) -> None:
        """Replace a reservation by what the call took (None: nothing), and wake those who wait."""
        if not (self._bounded or self._waiting):
            return
        for account in self._accounts(named, trial):
            account.take(share, -1)
            account.hold(share, -1)
            if took is not None:
                account.take(took)
        self._wake()

    def _wake(self) -> None:
        """Let those look again who wait for a change."""
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for changed in waiting:
            if not changed.done():
                changed.set_result(None)


def _most_cost(price: Price, most: Usage) -> float:
    """The cost of so many tokens, whichever of them are written to the provider's cache."""
    costs = price.cost(most), price.cost(msgspec.structs.replace(most, written=most.input))
    return max(cost for cost in (*costs, 0.0) if cost is not None)


def _shares(spent: Iterable[Spent]) -> Reservation:
    """The sum of what was spent, as a reservation."""
    money, tokens, calls = 0.0, 0, 0
    for one in spent:
        money, tokens, calls = money + one.most_money, tokens + one.most_tokens, calls + one.sends
    return Reservation(money, tokens, calls)
