"""What trials cost, and what a run spent: two different numbers, both honest about what is not known.

The cost of a trial is what its calls cost when they were bought, whichever run that was; what a run spent
is what was paid in it, retries and judges included. An unknown price is counted, never taken for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from peira.analysis.trials import TrialResult
from peira.core.events import Spent
from peira.plan.amounts import dollars


@dataclass(frozen=True)
class Bill:
    """Calls, tokens and US dollars; `unpriced` of the calls have no known price, `doubtful` no answer: those
    may have been billed for what is said apart."""

    calls: int = 0
    input: int = 0
    output: int = 0
    money: float = 0.0
    unpriced: int = 0
    doubtful: int = 0
    doubtful_tokens: int = 0
    doubtful_money: float = 0.0

    @property
    def known(self) -> bool:
        """Whether `money` is all of it."""
        return not self.unpriced and not self.doubtful

    def __str__(self) -> str:
        if not self.calls:
            return "no calls"
        calls = "1 call" if self.calls == 1 else f"{self.calls:,} calls"
        parts = [calls, f"{self.input + self.output:,} tokens", self.price]
        return ", ".join(parts)

    @property
    def price(self) -> str:
        """The money in words."""
        missing = [f"{self.unpriced:,} of unknown price"] if self.unpriced else []
        missing += [in_doubt(self.doubtful, self.doubtful_money)] if self.doubtful else []
        if self.unpriced and self.unpriced + self.doubtful >= self.calls:
            return "cost unknown"
        return " and ".join([dollars(self.money), *missing])


def in_doubt(sends: int, money: float) -> str:
    """Sends without an answer, and what they may have cost, where that is known."""
    return f"{sends:,} in doubt" + (f" (perhaps {dollars(money)} more)" if money else "")


def spent(entries: Iterable[Spent]) -> Bill:
    """What a run paid."""
    all = reduce(Spent.plus, entries, Spent(""))
    certain = all.sends, all.input, all.output, all.money, all.unpriced
    return Bill(*certain, all.doubtful, all.doubtful_tokens, all.doubtful_money)


def cost(trials: Iterable[TrialResult]) -> Bill:
    """What trials and their scores cost when their calls were bought."""
    calls = tokens_in = tokens_out = unpriced = 0
    money = 0.0
    for trial in trials:
        for metrics in (trial.metrics, *(score.metrics for score in trial.scores.values())):
            if made := int(metrics.get("calls", 0)):
                calls += made
                tokens_in += int(metrics.get("input_tokens", 0))
                tokens_out += int(metrics.get("output_tokens", 0))
                money += metrics.get("cost", 0.0)
                unpriced += 0 if "cost" in metrics else made
    return Bill(calls, tokens_in, tokens_out, money, unpriced)
