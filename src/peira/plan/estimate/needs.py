"""What a number of similar trials or scores needs: from history, or from assumptions.

An unknown amount is None with a stated reason, never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from peira.core.models import NamedModel, Usage
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.plan.estimate.experience import WAITS, PastWork
from peira.plan.estimate.value import NOTHING, Range, predicted, whole

# Assumptions


CHARACTERS = Range(6.0, 4.0, 2.0)
"""Characters per token, from long to short: 4 in English, fewer in code and most other languages."""
OUTPUT = Range(64.0, 256.0, 1024.0)
"""Tokens of an answer."""
START, TOKENS_A_SECOND, SLOWER = 1.0, 50.0, 4.0
"""Latency of a call in seconds, output tokens per second, and the factor by which both may be off."""


class Assumptions(msgspec.Struct, frozen=True):
    """Assumptions about each trial; they take precedence over history.

    The number of calls, the tokens of each call, the duration of a trial, and the model it calls.
    """

    calls: float | None = None
    """Model calls of a trial."""
    input_tokens: float | None = None
    """Input tokens of a call."""
    output_tokens: float | None = None
    """Output tokens of a call."""
    seconds: float | None = None
    """Duration of a trial."""
    model: str | None = None
    """The model that trials call."""

    @property
    def of_calls(self) -> bool:
        """Whether anything is assumed about calls or their tokens."""
        return not (self.calls is None and self.input_tokens is None and self.output_tokens is None)

    def __str__(self) -> str:
        given = [(name, getattr(self, name)) for name in self.__struct_fields__]
        return ", ".join(f"{name} {value}" for name, value in given if value is not None)


def assumptions(given: Mapping[str, Any] | None) -> Assumptions:
    """Parse assumptions; raises `Invalid` with every problem."""
    given = given or {}
    known = Assumptions.__struct_fields__
    problems = [f"assume: no {name!r}{nearest(name, known)}" for name in given if name not in known]
    for name, value in given.items():
        if name == "model" and not (isinstance(value, str) and value):
            problems.append(f"assume: model must be the name of a model, not {value!r}")
        elif name != "model" and name in known and not _amount(value):
            problems.append(f"assume: {name} must be a number, 0 or above, not {value!r}")
    if problems:
        raise Invalid(problems)
    return Assumptions(**given)


def _amount(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and 0 <= value < float("inf")


def guessed_tokens(characters: float) -> Range:
    """The number of tokens of a text, without a tokenizer."""
    return Range(*(characters / each for each in msgspec.structs.astuple(CHARACTERS)))


def guessed_seconds(calls: Range, output: Range) -> Range:
    """The duration of these calls with this output in total."""
    expected = calls.expected * START + output.expected / TOKENS_A_SECOND
    return Range(expected / SLOWER, expected, expected * SLOWER)


def assumed_of_calls(stated: Assumptions) -> str:
    """A text of the default assumptions about calls that were not given explicitly."""
    defaults = {
        "calls": "one call to each model",
        "output_tokens": f"output {whole(OUTPUT.expected)} tokens",
        "input_tokens": f"input tokens guessed at {whole(CHARACTERS.expected)} characters each, no tokenizer",
    }
    return ", ".join(text for name, text in defaults.items() if getattr(stated, name) is None)


ASSUMED_OF_TIME = f"assumed: a call takes {START:g} s and {TOKENS_A_SECOND:g} output tokens a second"


# Needs


UNSEEN = "no model is named, and no finished trial shows any calls"
NO_MODEL = "which model is asked is not known"
NO_TIME = "no finished trial shows how long one takes"
FEWEST = 1e-6
"""Lower bound of the number of calls, to avoid division by zero."""


class Need(msgspec.Struct, frozen=True):
    """What `pieces` of work (trials or scores) need in total; `seconds` is the serial time."""

    pieces: float
    """The number of trials or scores."""
    model: str
    """The models that are called, as one name; "" if unknown or none."""
    calls: Range | None = None
    input: Range | None = None
    output: Range | None = None
    cost: Range | None = None
    seconds: Range | None = None
    unknown: tuple[str, ...] = ()
    """The reasons why amounts are None."""
    basis: tuple[str, ...] = ()
    """Lines that state what the amounts are based on."""


def no_calls(n: float, seconds: Range, *basis: str) -> Need:
    """The need of work that makes no model calls."""
    return Need(n, "", NOTHING, NOTHING, NOTHING, NOTHING, seconds, basis=basis)


def as_before(
    n: float,
    seen: Sequence[PastWork],
    models: Sequence[NamedModel],
    alike: bool,
    stated: Assumptions,
    batch: bool = False,
) -> Need:
    """The need according to finished work.

    Its cost is used only if it called the same models (`alike`) in the same way (batched or not) and no
    assumption about calls is given; its duration only if it did not wait for a batch.
    """
    unbatched = [one.seconds for one in seen if not one.batched]
    usual = Need(
        n,
        label(model.name for model in models) or label(name for one in seen for name in one.served),
        calls=predicted([one.calls for one in seen], n),
        input=predicted([one.input for one in seen], n),
        output=predicted([one.output for one in seen], n),
        seconds=predicted(unbatched, n) if unbatched else None,
    )
    comparable = [one.cost for one in seen if one.batched == float(batch) or not one.calls]
    costs = [cost for cost in comparable if cost is not None]
    if len(costs) == len(seen) and alike and not stated.of_calls:
        return _timed(msgspec.structs.replace(usual, cost=predicted(costs, n)), stated, batch)
    return _timed(_priced(_with_calls(usual, stated), models, batch), stated, batch)


def as_assumed(
    n: float, characters: float, models: Sequence[NamedModel], stated: Assumptions, batch: bool = False
) -> Need:
    """The need of one call to each model, with a prompt of this many characters."""
    calls = Range.of(n * len(models)) if models else None
    requests = calls or Range.of(n)
    usual = Need(
        n,
        label(model.name for model in models),
        calls=calls,
        input=guessed_tokens(characters).times(requests),
        output=OUTPUT.times(requests),
        basis=(f"assumed: {assumed}",) if (assumed := assumed_of_calls(stated)) else (),
    )
    usual = _with_calls(usual, stated)
    if usual.calls is None:
        return _timed(Need(n, "", unknown=(UNSEEN,)), stated)
    return _timed(_priced(usual, models, batch), stated, batch)


def label(names: Iterable[str]) -> str:
    """The models of one kind of work as one name."""
    return " + ".join(dict.fromkeys(names))


def _with_calls(need: Need, stated: Assumptions) -> Need:
    """The need with assumed calls and tokens; what is not assumed is scaled in proportion."""
    calls = need.calls if stated.calls is None else Range.of(stated.calls * need.pieces)
    if calls is None or need.input is None or need.output is None:
        return need
    before = need.calls.expected if need.calls else need.pieces
    more = calls.expected / max(before, FEWEST) if before else 1.0
    inputs = calls.times(stated.input_tokens) if stated.input_tokens is not None else need.input.times(more)
    outputs = (
        calls.times(stated.output_tokens) if stated.output_tokens is not None else need.output.times(more)
    )
    seconds = need.seconds and need.seconds.times(more)
    return msgspec.structs.replace(need, calls=calls, input=inputs, output=outputs, seconds=seconds)


def _timed(need: Need, stated: Assumptions, batch: bool = False) -> Need:
    """The need with its time: assumed, as before, or from the calls; unknown for batches."""
    if stated.seconds is not None:
        return msgspec.structs.replace(need, seconds=Range.of(stated.seconds * need.pieces))
    if batch and not (need.calls and not need.calls.high):
        return msgspec.structs.replace(need, seconds=None, unknown=(*need.unknown, WAITS))
    if need.seconds is not None:
        return need
    if need.calls is None or need.output is None:
        return msgspec.structs.replace(need, unknown=(*need.unknown, NO_TIME))
    seconds = guessed_seconds(need.calls, need.output)
    return msgspec.structs.replace(need, seconds=seconds, basis=(*need.basis, ASSUMED_OF_TIME))


def _priced(need: Need, models: Sequence[NamedModel], batch: bool) -> Need:
    """The need with its cost at current prices, calls shared evenly between the models."""
    if need.calls is not None and not need.calls.high:
        return msgspec.structs.replace(need, cost=NOTHING)
    unknown = [f"the price of {model.name} is unknown" for model in models if model.price is None]
    if not models:
        unknown = [NO_MODEL]
    if unknown:
        return msgspec.structs.replace(need, unknown=(*need.unknown, *unknown))
    sides = [_cost(need, models, side, batch) for side in ("low", "expected", "high")]
    if None in sides:
        return msgspec.structs.replace(need, unknown=(*need.unknown, f"the price of {need.model} is unknown"))
    sources = [f"price of {model.name}: {model.price.source}" for model in models if model.price]
    cost = Range(*(side for side in sides if side is not None))
    return msgspec.structs.replace(need, cost=cost, basis=(*need.basis, *sources))


def _cost(need: Need, models: Sequence[NamedModel], side: str, batch: bool) -> float | None:
    """The cost of the expected number of calls with the tokens of one end of the range."""
    assert need.calls is not None
    calls = max(need.calls.expected, FEWEST)
    usage = Usage(*(round(getattr(tokens, side) / calls) for tokens in (need.input, need.output)))
    prices = [model.price for model in models if model.price]
    costs = [(price.cost(usage), price.batch if batch else 1.0) for price in prices]
    known = [cost * part for cost, part in costs if cost is not None]
    return sum(known) * calls / len(models) if len(known) == len(models) else None
