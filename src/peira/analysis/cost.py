"""The cost of trials when their calls were bought, and the spending of a run.

The cost of a trial is what its calls cost when they were bought, in whichever run; the spending of a run is
what was paid in it, including retries and judges. Calls of unknown price are counted separately, never taken
as free.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import reduce

from peira.core.log.events import Spent
from peira.core.text.result_value import ResultValue
from peira.plan.estimate.value import UNKNOWN, dollars
from peira.results.trials import TrialResult


@dataclass(frozen=True)
class Bill(ResultValue):
    """Calls, tokens and US dollars.

    `unpriced` calls have no known price. `doubtful` calls have no recorded answer and may have been billed;
    `doubtful_tokens` and `doubtful_money` estimate them.
    """

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
        """Whether `money` is the complete amount."""
        return not self.unpriced and not self.doubtful

    @property
    def sentence(self) -> str:
        """Calls, tokens and money, as text."""
        if not self.calls:
            return f"no calls, {dollars(self.money)} reported" if self.money else "no calls"
        calls = "1 call" if self.calls == 1 else f"{self.calls:,} calls"
        parts = [calls, f"{self.input + self.output:,} tokens", self.price]
        return ", ".join(parts)

    @property
    def price(self) -> str:
        """The money as text, with calls of unknown price or in doubt."""
        missing = [f"{self.unpriced:,} of unknown price"] if self.unpriced else []
        missing += [in_doubt(self.doubtful, self.doubtful_money)] if self.doubtful else []
        if self.unpriced and self.unpriced + self.doubtful >= self.calls:
            return UNKNOWN
        return " and ".join([dollars(self.money), *missing])


def in_doubt(sends: int, money: float) -> str:
    """Calls without an answer and what they may have cost, as text."""
    return f"{sends:,} in doubt" + (f" (perhaps {dollars(money)} more)" if money else "")


def spent(entries: Iterable[Spent]) -> Bill:
    """The bill of what a run paid."""
    all = reduce(Spent.plus, entries, Spent(""))
    certain = all.sends, all.input, all.output, all.money, all.unpriced
    return Bill(*certain, all.doubtful, all.doubtful_tokens, all.doubtful_money)


def cost(trials: Iterable[TrialResult]) -> Bill:
    """The bill of what trials and their scores cost when their calls were bought."""
    calls = tokens_in = tokens_out = unpriced = 0
    money = 0.0
    for trial in trials:
        for metrics in (trial.metrics, *(score.metrics for score in trial.scores.values())):
            money += metrics.get("cost", 0.0)
            if made := int(metrics.get("calls", 0)):
                calls += made
                tokens_in += int(metrics.get("input_tokens", 0))
                tokens_out += int(metrics.get("output_tokens", 0))
                unpriced += 0 if "cost" in metrics else made
    return Bill(calls, tokens_in, tokens_out, money, unpriced)
