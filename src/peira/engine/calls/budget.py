"""Budgets and reservations: limits on money, tokens and calls of a study, of a model and of a trial.

A call reserves what it is expected to take before it is sent; afterwards the reservation is replaced by what
it took.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping

import msgspec

from peira.core.ids import Json
from peira.core.log.events import Spent
from peira.core.models import NamedModel, Request, Usage
from peira.errors import Exhausted, Invalid
from peira.spec.limits import Allowance, Budget

ROUNDING = 1e-9
"""The relative tolerance of comparisons with a limit."""
REMEMBERED = 256
"""The number of calls per model from which input sizes are estimated."""
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
"""Parameters of requests that bound the number of output tokens."""
OVERHEAD = 16
"""Tokens of a message beside those of its text."""


class Reservation(msgspec.Struct, frozen=True):
    """An amount of money, tokens and calls: reserved for a call, or taken by it."""

    money: float = 0.0
    tokens: int = 0
    calls: int = 1


NOTHING = Reservation(calls=0)
UNCOUNTED = Usage()


class Account:
    """An allowance, and what was taken from it or is reserved.

    `aside` is the number of open reservations, `bounded` whether there is any limit.
    """

    def __init__(self, name: str, allowance: Allowance, before: Reservation = NOTHING) -> None:
        self.name, self._allowance = name, allowance
        self._money, self._tokens, self._calls = before.money, before.tokens, before.calls
        self.aside, self.bounded = 0, allowance.bounded

    @property
    def counts_money(self) -> bool:
        """Whether money is limited."""
        return self._allowance.money is not None

    def lacks(self, share: Reservation) -> str:
        """The limit that forbids taking this much more, as a message; "" if none."""
        for limit, used, more in (
            ("money", self._money, share.money),
            ("tokens", self._tokens, share.tokens),
            ("calls", self._calls, share.calls),
        ):
            most = getattr(self._allowance, limit)
            if most is not None and used >= most * (1 - ROUNDING):
                return f"{self.name}.{limit} of {_shown(limit, most)} is used up"
            if most is not None and used + more > most * (1 + ROUNDING):
                left, may = _shown(limit, most - used), _shown(limit, more)
                return f"{self.name}.{limit} of {_shown(limit, most)} has {left} left, a call may take {may}"
        return ""

    def take(self, share: Reservation, sign: int = 1) -> None:
        """Add an amount; with `sign` -1, give it back."""
        self._money += sign * share.money
        self._tokens += sign * share.tokens
        self._calls += sign * share.calls


def may_cost(named: NamedModel, expected: Usage, share: Reservation, part: float = 1.0) -> Reservation:
    """The most that a call may cost, also where no limit asked for a reservation of it.

    `part` is the fraction of the price that is paid.
    """
    money = share.money or (named.price.cost(expected) or 0.0 if named.price else 0.0) * part
    return Reservation(money, share.tokens or expected.total)


def _shown(limit: str, most: float) -> str:
    return f"${most:.4g}" if limit == "money" else f"{most:,}"


def stated_output(parameters: Mapping[str, Json]) -> int | None:
    """The limit on output tokens in a request's parameters; None if there is none."""
    if not parameters:
        return None
    return next((parameters[name] for name in LIMITS if type(parameters.get(name)) is int), None)


class ModelUsage:
    """What calls of one model took so far: input tokens by size of request, and the longest output."""

    def __init__(self) -> None:
        self._inputs: list[tuple[int, int]] = []
        self._longest = 0

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
        stated = stated_output(request.parameters) or most
        output = stated * int(request.parameters.get("n") or 1) if stated else self._longest
        return Usage(input=self._nearest(size), output=output)

    def _nearest(self, size: int) -> int:
        """The input tokens of the call nearest in size; one per byte before there is any."""
        if not self._inputs:
            return size + OVERHEAD
        at = bisect_left(self._inputs, (size, 0))
        return min(self._inputs[max(0, at - 1) : at + 1], key=lambda seen: abs(seen[0] - size))[1]


class RunAccounts:
    """All accounts of a run.

    State changes only on the ledger's loop, so there is no lock; `trial` may be called on any thread.
    """

    def __init__(self, budget: Budget, before: Iterable[Spent] = ()) -> None:
        """`before` is what earlier runs spent. Models have their full names here, not aliases."""
        spent = list(before)
        self._run = Account("budget", budget, _shares(spent))
        self._models = {
            name: Account(f"budget.per_model.{name}", allowance, _shares(s for s in spent if s.model == name))
            for name, allowance in budget.per_model.items()
        }
        self._trial = budget.per_trial
        self.kept = self._run.bounded or any(account.bounded for account in self._models.values())
        """Whether a limit counts across runs."""
        self._bounded = self.kept or budget.per_trial.bounded
        self._experience: dict[str, ModelUsage] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self.used_up = ""
        """The limit of the whole study that was reached, as a message; "" if none."""
        self.reached: list[str] = []
        """The limits of the study and of models that were reached, as messages."""

    def trial(self) -> Account | None:
        """An account for one attempt of a trial; None if trials are not limited."""
        return Account("budget.per_trial", self._trial) if self._trial.bounded else None

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

    async def reserve(self, named: NamedModel, expected: Usage, trial: Account | None) -> Reservation:
        """Reserve what a call is expected to take; waits for others to settle if need be.

        Raises Exhausted if it does not fit, and Invalid if money is limited and the price is unknown.
        """
        while (share := self.fit(named, expected, trial)) is None:
            await self.change()
        return share

    def fit(
        self, named: NamedModel, expected: Usage, trial: Account | None, part: float = 1.0
    ) -> Reservation | None:
        """Reserve what a call is expected to take, at `part` of the price, without waiting.

        Returns None if it may fit once open reservations are settled; raises Exhausted if it will not fit.
        """
        accounts = self._accounts(named, trial)
        if not accounts:
            return Reservation(0.0, expected.total)
        counted = any(account.counts_money for account in accounts)
        if counted and named.price is None:
            raise Invalid(
                f"{named.name}: its price is unknown, so budget.money cannot be kept; "
                f'say it in peira.toml: [models."{named.name}"] price = {{input = ..., output = ...}}'
            )
        money = named.price.cost(expected) if counted and named.price else None
        share = Reservation((money or 0.0) * part, expected.total)
        for account, why in ((a, why) for a in accounts if (why := a.lacks(share))):
            if account.aside:
                return None
            self._note(account, why)
            raise Exhausted(why)
        for account in accounts:
            account.take(share)
            account.aside += 1
        return share

    def hold(self, named: NamedModel, share: Reservation, counted: bool) -> None:
        """Reserve for a call of an earlier run; `counted`: it is part of `before` already."""
        for account in self._accounts(named, None):
            account.aside += 1
            if not counted:
                account.take(share)

    def _note(self, account: Account, why: str) -> None:
        """Remember which limit was reached."""
        if account is self._run:
            self.used_up = self.used_up or why
        if account in (self._run, *self._models.values()) and why not in self.reached:
            self.reached.append(why)

    def change(self) -> asyncio.Future[None]:
        """A future that is done when the next reservation is settled."""
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(changed)
        return changed

    def settle(
        self, named: NamedModel, trial: Account | None, share: Reservation, took: Reservation | None
    ) -> None:
        """Replace a reservation by what the call took (None: nothing), and wake those who wait."""
        for account in self._accounts(named, trial):
            account.take(share, -1)
            account.aside -= 1
            if took is not None:
                account.take(took)
        if not self._waiting:
            return
        waiting, self._waiting = self._waiting, []
        for changed in waiting:
            if not changed.done():
                changed.set_result(None)


def _shares(spent: Iterable[Spent]) -> Reservation:
    """The sum of what was spent, as a reservation."""
    money, tokens, calls = 0.0, 0, 0
    for one in spent:
        money, tokens, calls = money + one.most_money, tokens + one.most_tokens, calls + one.sends
    return Reservation(money, tokens, calls)
