"""The estimate of a run as a value: ranges, their text, and comparison with a budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import msgspec

from peira.core.log.events import Spent
from peira.core.text.result_value import ResultValue, TextGrid
from peira.core.text.words import counted, lasting
from peira.spec.limits import Budget

FEW = 5
"""With fewer observations, their own spread is not trusted."""
UNKNOWN = "cost unknown"
"""The text of an amount of money that is not known."""


class Range(msgspec.Struct, frozen=True, gc=False):
    """An estimated amount with bounds: 0 <= low <= expected <= high."""

    low: float
    expected: float
    high: float

    @classmethod
    def of(cls, amount: float) -> Range:
        """An exactly known amount."""
        return cls(amount, amount, amount)

    def __add__(self, other: Range) -> Range:
        """The sum; ends are added, because errors of estimates are likely correlated."""
        return Range(self.low + other.low, self.expected + other.expected, self.high + other.high)

    def times(self, n: float | Range) -> Range:
        """The product with a number or a range, end by end."""
        other = n if isinstance(n, Range) else Range.of(n)
        return Range(self.low * other.low, self.expected * other.expected, self.high * other.high)

    def or_more(self, other: Range) -> Range:
        """The maximum at each end."""
        return Range(max(self.low, other.low), max(self.expected, other.expected), max(self.high, other.high))

    def or_nothing(self) -> Range:
        """The same range with a low end of 0."""
        return Range(0.0, self.expected, self.high)


NOTHING = Range(0.0, 0.0, 0.0)


def total(amounts: Iterable[Range | None]) -> Range | None:
    """The sum of the amounts; None if any of them is unknown."""
    result = NOTHING
    for amount in amounts:
        if amount is None:
            return None
        result = result + amount
    return result


def predicted(seen: Sequence[float], n: float) -> Range:
    """The sum of `n` further values like those seen, with two standard errors of prediction.

    With fewer than `FEW` values the margin is at least half the mean.
    """
    known = len(seen)
    mean = sum(seen) / known
    squares = sum((value - mean) ** 2 for value in seen)
    deviation = math.sqrt(squares / (known - 1)) if known > 1 else 0.0
    margin = 2 * deviation * math.sqrt(1 / known + 1 / max(n, 1.0))
    margin = max(margin, mean / 2) if known < FEW else margin
    return Range(max(0.0, mean - margin), mean, mean + margin).times(n)


def ends(amount: Range, text: Callable[[float], str]) -> str:
    """The range as text, from the low to the high end."""
    low, high = text(amount.low), text(amount.high)
    return low if low == high else f"{low} to {high}"


def range_text(amount: Range, text: Callable[[float], str]) -> str:
    """The expected amount as text, with the range if there is any."""
    expected, span = text(amount.expected), ends(amount, text)
    return expected if span == expected else f"{expected} ({span})"


def dollars(amount: float) -> str:
    """An amount of money as text: cents, or two significant digits below ten cents."""
    digits = 2 if not 0 < amount < 0.1 else min(6, 1 - math.floor(math.log10(amount)))
    return f"${amount:,.{digits}f}"


def whole(amount: float) -> str:
    """A number as text, without decimals."""
    return f"{amount:,.0f}"


class EstimatePart(msgspec.Struct, frozen=True):
    """The work of one stage that calls one model, or the same models together."""

    stage: str
    """"generate" or "evaluate"."""
    model: str
    """The models that are called, as one name."""
    pieces: int
    """The number of trials or scores."""
    calls: Range | None
    input_tokens: Range | None
    output_tokens: Range | None
    cost: Range | None
    seconds: Range | None
    """Serial time."""
    unknown: tuple[str, ...]

    def __str__(self) -> str:
        who = f"{self.stage}, {self.model}" if self.model else self.stage
        return f"  {who}: {self._work}, {_asked(self.calls, self._tokens, self.cost)}"

    @property
    def _work(self) -> str:
        """The number of pieces with their noun."""
        return counted(self.pieces, "trial" if self.stage == "generate" else "score")

    @property
    def _tokens(self) -> Range | None:
        """Input and output tokens together."""
        return _both(self.input_tokens, self.output_tokens)

    @property
    def cells(self) -> list[str]:
        """The row of a table: stage, model, work, calls, tokens, cost."""
        amounts = (self.calls, whole), (self._tokens, whole), (self.cost, dollars)
        known = ["unknown" if amount is None else range_text(amount, text) for amount, text in amounts]
        return [self.stage, self.model or "-", self._work, *known]


class RunEstimate(ResultValue, msgspec.Struct, frozen=True):
    """What a run is expected to need: the sum of its parts, each amount None if unknown."""

    new: int
    """Trials to generate."""
    reused: int
    """Trials whose output is reused."""
    scores: int
    """Scores to compute."""
    parallel: int
    """Pieces of work at once."""
    parts: tuple[EstimatePart, ...]
    """The work by stage and model."""
    calls: Range | None
    input_tokens: Range | None
    output_tokens: Range | None
    cost: Range | None
    """In US dollars; None if unknown."""
    seconds: Range | None
    """Elapsed time from start to end; None if unknown."""
    unknown: tuple[str, ...]
    """The reasons why amounts are None."""
    basis: tuple[str, ...]
    """Lines that state what the estimate is based on."""
    batch: bool = False
    """Whether calls are sent, and priced, as batches."""

    @property
    def asks(self) -> bool:
        """Whether model calls are expected; False if unknown."""
        return any(part.calls is not None and part.calls.high > 0 for part in self.parts)

    @property
    def tokens(self) -> Range | None:
        """Input and output tokens together."""
        return _both(self.input_tokens, self.output_tokens)

    @property
    def summary(self) -> str:
        """Calls, tokens, cost and time in one line, with the reasons for unknown amounts."""
        if not (self.new or self.scores):
            return "nothing to do, nothing to pay"
        time = (
            f"{range_text(self.seconds, lasting)} with {self.parallel} at once"
            if self.seconds
            else "time unknown"
        )
        why = f" ({'; '.join(self.unknown)})" if self.unknown else ""
        return f"{_asked(self.calls, self.tokens, self.cost)}, {time}{why}"

    @property
    def title(self) -> str:
        """The summary, and the trials that it is about."""
        return f"{self.summary}\n{counted(self.new, 'new trial')}, {self.reused:,} reused"

    def grids(self) -> list[TextGrid]:
        """A row for each part of the work."""
        header = ["stage", "model", "work", "calls", "tokens", "cost"]
        return [TextGrid(header, [part.cells for part in self.parts])] if self.parts else []

    def plain_tables(self, width: int | None = None) -> str:
        """A line for each part of the work."""
        return "\n".join(map(str, self.parts))

    @property
    def remarks(self) -> tuple[str, ...]:
        """What the estimate is based on."""
        return self.basis


def _both(some: Range | None, others: Range | None) -> Range | None:
    """The sum; None if either is unknown."""
    return None if some is None or others is None else some + others


def _asked(calls: Range | None, tokens: Range | None, cost: Range | None) -> str:
    """Calls, tokens and cost as text."""
    if calls is not None and not calls.high:
        return "no model is asked"
    words = [_some(range_text(calls, whole), "call") if calls else "calls unknown"]
    words += [f"{range_text(tokens, whole)} tokens"] if tokens else []
    return ", ".join([*words, range_text(cost, dollars) if cost else UNKNOWN])


def _some(n: str, what: str) -> str:
    return f"{n} {what}{'' if n == '1' else 's'}"


def against(estimate: RunEstimate | None, spent: str) -> str:
    """What was estimated, if anything, and what was spent, as text."""
    spent = "an unknown amount" if spent == UNKNOWN else spent
    if estimate is None:
        return f"spent {spent}"
    cost = ends(estimate.cost, dollars) if estimate.cost else "an unknown cost"
    return f"estimated {cost}, spent {spent}"


def over_budget(estimate: RunEstimate, budget: Budget, before: Iterable[Spent]) -> list[str]:
    """A line for each budget limit expected to be reached, after what earlier runs used."""
    earlier = list(before)
    used = {
        "money": sum(one.most_money for one in earlier),
        "tokens": sum(one.most_tokens for one in earlier),
        "calls": sum(one.sends for one in earlier),
    }
    expected = {"money": estimate.cost, "tokens": estimate.tokens, "calls": estimate.calls}
    lines = []
    for limit, amount in expected.items():
        most, text = getattr(budget, limit), dollars if limit == "money" else whole
        if most is not None and amount is not None and amount.expected > most - used[limit]:
            left = f"{text(max(0.0, most - used[limit]))} left of budget.{limit}"
            lines.append(f"{text(amount.expected)} expected and {left}: the run will stop when it is used up")
    return lines
