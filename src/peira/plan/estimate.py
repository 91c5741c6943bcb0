"""What a run is expected to take: calls, tokens, money and time, each with a low and a high end, in words."""

from __future__ import annotations

import msgspec

from peira.core.words import counted, lasting
from peira.plan.amounts import Range, dollars, spoken, whole


class Part(msgspec.Struct, frozen=True):
    """The work of one stage that asks one model (or the same ones together): `pieces` are trials or scores,
    `seconds` those of one after another."""

    stage: str
    model: str
    pieces: int
    calls: Range | None
    input_tokens: Range | None
    output_tokens: Range | None
    cost: Range | None
    seconds: Range | None
    unknown: tuple[str, ...]

    def __str__(self) -> str:
        who = f"{self.stage}, {self.model}" if self.model else self.stage
        what = counted(self.pieces, "trial" if self.stage == "generate" else "score")
        tokens = _both(self.input_tokens, self.output_tokens)
        return f"  {who}: {what}, {_asked(self.calls, tokens, self.cost)}"


class Estimate(msgspec.Struct, frozen=True):
    """What a run will take: `new` trials (those that failed before among them) and `scores`, and all parts
    together. `cost` is in US dollars, `seconds` go from beginning to end with `parallel` at once. `batch`
    says that calls are handed in as batches, and priced so."""

    new: int
    reused: int
    scores: int
    parallel: int
    parts: tuple[Part, ...]
    calls: Range | None
    input_tokens: Range | None
    output_tokens: Range | None
    cost: Range | None
    seconds: Range | None
    unknown: tuple[str, ...]
    basis: tuple[str, ...]
    batch: bool = False

    @property
    def asks(self) -> bool:
        """Whether models are expected to be asked; not if that is unknown."""
        return any(part.calls is not None and part.calls.high > 0 for part in self.parts)

    @property
    def tokens(self) -> Range | None:
        """Input and output together."""
        return _both(self.input_tokens, self.output_tokens)

    @property
    def summary(self) -> str:
        """Calls, tokens, cost and time in a line, and why what is unknown is so."""
        if not (self.new or self.scores):
            return "nothing to do, nothing to pay"
        time = (
            f"{spoken(self.seconds, lasting)} with {self.parallel} at once"
            if self.seconds
            else "time unknown"
        )
        why = f" ({'; '.join(self.unknown)})" if self.unknown else ""
        return f"{_asked(self.calls, self.tokens, self.cost)}, {time}{why}"

    def __str__(self) -> str:
        lines = [self.summary, f"{counted(self.new, 'new trial')}, {self.reused:,} reused"]
        lines += map(str, self.parts)
        return "\n".join([*lines, *self.basis])


def _both(some: Range | None, others: Range | None) -> Range | None:
    return None if some is None or others is None else some + others


def _asked(calls: Range | None, tokens: Range | None, cost: Range | None) -> str:
    if calls is not None and not calls.high:
        return "no model is asked"
    words = [_some(spoken(calls, whole), "call") if calls else "calls unknown"]
    words += [f"{spoken(tokens, whole)} tokens"] if tokens else []
    return ", ".join([*words, spoken(cost, dollars) if cost else "cost unknown"])


def _some(n: str, what: str) -> str:
    return f"{n} {what}{'' if n == '1' else 's'}"
