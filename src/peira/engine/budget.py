"""What may be spent: money, tokens and calls, of the study, of a model, of a trial.

Before a call is sent, what it can cost is set aside in every account that it touches, so that parallel
workers together never spend more than is there. A call that does not fit waits for those under way, which
may turn out cheaper than what was set aside; if it still does not fit, the budget is exhausted. Where a
call's cost has no bound (no limit on its output), the dearest one so far is set aside: the overshoot is then
at most the calls in flight.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping

import msgspec

from peira.core.events import Spent
from peira.core.ids import Json
from peira.core.models import Named, Request, Usage
from peira.errors import Exhausted, Invalid
from peira.spec.limits import Allowance, Budget

ROUNDING = 1e-9
REMEMBERED = 256
LIMITS = ("max_tokens", "max_completion_tokens", "max_output_tokens")
OVERHEAD = 16
"""Tokens that wrap a message, beside those of its text."""


class Share(msgspec.Struct, frozen=True):
    """What is set aside for one call, or what it took."""

    money: float = 0.0
    tokens: int = 0
    calls: int = 1


NOTHING = Share(calls=0)
UNCOUNTED = Usage()


class Account:
    """An allowance, what was taken from it, and what is set aside."""

    def __init__(self, name: str, allowance: Allowance, before: Share = NOTHING) -> None:
        self.name, self._allowance = name, allowance
        self._money, self._tokens, self._calls = before.money, before.tokens, before.calls
        self.aside, self.bounded = 0, allowance.bounded

    @property
    def counts_money(self) -> bool:
        return self._allowance.money is not None

    def lacks(self, share: Share) -> str:
        """Which limit stands in the way of taking this much more; "" if none."""
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

    def take(self, share: Share, sign: int = 1) -> None:
        self._money += sign * share.money
        self._tokens += sign * share.tokens
        self._calls += sign * share.calls


def may_cost(named: Named, expected: Usage, share: Share, part: float = 1.0) -> Share:
    """What is set aside for a call, with its tokens, and its price at `part`, also where no limit asked."""
    money = share.money or (named.price.cost(expected) or 0.0 if named.price else 0.0) * part
    return Share(money, share.tokens or expected.total)


def _shown(limit: str, most: float) -> str:
    return f"${most:.4g}" if limit == "money" else f"{most:,}"


def stated_output(parameters: Mapping[str, Json]) -> int | None:
    """The limit on output tokens that parameters state."""
    if not parameters:
        return None
    return next((parameters[name] for name in LIMITS if type(parameters.get(name)) is int), None)


class Experience:
    """What calls of one model took so far: tokens of input by the size of the request, the longest output."""

    def __init__(self) -> None:
        self._inputs: list[tuple[int, int]] = []
        self._longest = 0

    def learn(self, size: int, usage: Usage) -> None:
        self._longest = max(self._longest, usage.output or 0)
        if usage.input is not None and len(self._inputs) < REMEMBERED:
            insort(self._inputs, (size, usage.input))

    def expected(self, size: int, request: Request, most: int | None = None) -> Usage:
        """The tokens of a request of this size: the input of the nearest in size seen so far (before that, a
        token a byte, which none exceeds), the output as far as it may go (by default `most`)."""
        stated = stated_output(request.parameters) or most
        output = stated * int(request.parameters.get("n") or 1) if stated else self._longest
        return Usage(input=self._nearest(size), output=output)

    def _nearest(self, size: int) -> int:
        if not self._inputs:
            return size + OVERHEAD
        at = bisect_left(self._inputs, (size, 0))
        return min(self._inputs[max(0, at - 1) : at + 1], key=lambda seen: abs(seen[0] - size))[1]


class Reserve:
    """All accounts of a run. Lives on the ledger's loop."""

    def __init__(self, budget: Budget, before: Iterable[Spent] = ()) -> None:
        """`before` is what earlier runs spent. Models are known by their full names here, not by aliases."""
        spent = list(before)
        self._run = Account("budget", budget, _shares(spent))
        self._models = {
            name: Account(f"budget.per_model.{name}", allowance, _shares(s for s in spent if s.model == name))
            for name, allowance in budget.per_model.items()
        }
        self._trial = budget.per_trial
        self.kept = self._run.bounded or any(account.bounded for account in self._models.values())
        """Whether anything is counted from one run to the next."""
        self._bounded = self.kept or budget.per_trial.bounded
        self._experience: dict[str, Experience] = {}
        self._waiting: list[asyncio.Future[None]] = []
        self.used_up = ""
        """Which limit of the whole study was reached."""
        self.reached: list[str] = []
        """Which limits were reached, of the study and of models."""

    def trial(self) -> Account | None:
        """An account for one attempt of a trial; None if trials are not limited."""
        return Account("budget.per_trial", self._trial) if self._trial.bounded else None

    def expected(self, named: Named, size: int, request: Request) -> Usage:
        """The tokens that a call of this model is expected to take."""
        return self.experience(named.name).expected(size, request, named.output)

    def experience(self, name: str) -> Experience:
        return self._experience.setdefault(name, Experience())

    def counts(self, named: Named) -> bool:
        """Whether it matters to anybody what a call of this model will take."""
        return self._bounded or named.limits.tokens is not None

    def _accounts(self, named: Named, trial: Account | None) -> list[Account]:
        """Those that a call touches; one without any limit need not be asked or told."""
        if not self._bounded:
            return []
        found = (self._run, self._models.get(named.model.name), trial)
        return [account for account in found if account is not None and account.bounded]

    async def reserve(self, named: Named, expected: Usage, trial: Account | None) -> Share:
        """Set aside what a call is expected to take; Exhausted if that is not there."""
        while (share := self.fit(named, expected, trial)) is None:
            await self.change()
        return share

    def fit(self, named: Named, expected: Usage, trial: Account | None, part: float = 1.0) -> Share | None:
        """Set aside what a call is expected to take, for `part` of the price; None if it may fit once others
        that are under way are settled, Exhausted if it will not."""
        accounts = self._accounts(named, trial)
        if not accounts:
            return Share(0.0, expected.total)
        counted = any(account.counts_money for account in accounts)
        if counted and named.price is None:
            raise Invalid(
                f"{named.name}: its price is unknown, so budget.money cannot be kept; "
                f'say it in peira.toml: [models."{named.name}"] price = {{input = ..., output = ...}}'
            )
        money = named.price.cost(expected) if counted and named.price else None
        share = Share((money or 0.0) * part, expected.total)
        for account, why in ((a, why) for a in accounts if (why := a.lacks(share))):
            if account.aside:
                return None
            self._note(account, why)
            raise Exhausted(why)
        for account in accounts:
            account.take(share)
            account.aside += 1
        return share

    def hold(self, named: Named, share: Share, counted: bool) -> None:
        """Set aside what an earlier run sent; `counted` says that it was in what was spent before."""
        for account in self._accounts(named, None):
            account.aside += 1
            if not counted:
                account.take(share)

    def _note(self, account: Account, why: str) -> None:
        if account is self._run:
            self.used_up = self.used_up or why
        if account in (self._run, *self._models.values()) and why not in self.reached:
            self.reached.append(why)

    def change(self) -> asyncio.Future[None]:
        """Done once something is settled, from this moment on."""
        changed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(changed)
        return changed

    def settle(self, named: Named, trial: Account | None, share: Share, took: Share | None) -> None:
        """The call took this much in the end; None if nothing."""
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


def _shares(spent: Iterable[Spent]) -> Share:
    money, tokens, calls = 0.0, 0, 0
    for one in spent:
        money, tokens, calls = money + one.most_money, tokens + one.most_tokens, calls + one.sends
    return Share(money, tokens, calls)
