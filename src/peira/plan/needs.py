"""What pieces of work of one kind will take together: as such work took before, else as is assumed.

What is not known stays unknown (None), and why is said: it is never 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from peira.core.models import Named, Usage
from peira.plan.amounts import NOTHING, Range, predicted
from peira.plan.assumptions import (
    ASSUMED_OF_TIME,
    OUTPUT,
    Assumptions,
    assumed_of_calls,
    guessed_seconds,
    guessed_tokens,
)
from peira.plan.batched import WAITS
from peira.plan.experience import Did

UNSEEN = "no model is named, and no finished trial shows any calls"
NO_MODEL = "which model is asked is not known"
NO_TIME = "no finished trial shows how long one takes"
FEWEST = 1e-6
"""Tokens are priced by the call: by how many, must be something to divide by."""


class Need(msgspec.Struct, frozen=True):
    """What `pieces` of work (trials or scores) take in all; `seconds` are those of one after another."""

    pieces: float
    model: str
    calls: Range | None = None
    input: Range | None = None
    output: Range | None = None
    cost: Range | None = None
    seconds: Range | None = None
    unknown: tuple[str, ...] = ()
    basis: tuple[str, ...] = ()


def no_calls(n: float, seconds: Range, *basis: str) -> Need:
    """Of work that asks no model."""
    return Need(n, "", NOTHING, NOTHING, NOTHING, NOTHING, seconds, basis=basis)


def as_before(
    n: float,
    seen: Sequence[Did],
    models: Sequence[Named],
    alike: bool,
    said: Assumptions,
    batch: bool = False,
) -> Need:
    """As much as finished work took. It tells what the work costs only if it asked the same models (`alike`)
    in the same way (in batches, or not), and if nothing else is said of its calls; and how long it takes only
    if it did not sleep while a batch was answered."""
    awake = [one.seconds for one in seen if not one.batched]
    usual = Need(
        n,
        label(model.name for model in models) or label(name for one in seen for name in one.served),
        calls=predicted([one.calls for one in seen], n),
        input=predicted([one.input for one in seen], n),
        output=predicted([one.output for one in seen], n),
        seconds=predicted(awake, n) if awake else None,
    )
    way = [one.cost for one in seen if one.batched == float(batch) or not one.calls]
    costs = [cost for cost in way if cost is not None]
    if len(costs) == len(seen) and alike and not said.of_calls:
        return _timed(msgspec.structs.replace(usual, cost=predicted(costs, n)), said, batch)
    return _timed(_priced(_with_calls(usual, said), models, batch), said, batch)


def as_assumed(
    n: float, characters: float, models: Sequence[Named], said: Assumptions, batch: bool = False
) -> Need:
    """One call to each model, of the characters of the case and the levels."""
    calls = Range.of(n * len(models)) if models else None
    asked = calls or Range.of(n)
    usual = Need(
        n,
        label(model.name for model in models),
        calls=calls,
        input=guessed_tokens(characters).times(asked),
        output=OUTPUT.times(asked),
        basis=(f"assumed: {assumed}",) if (assumed := assumed_of_calls(said)) else (),
    )
    usual = _with_calls(usual, said)
    if usual.calls is None:
        return _timed(Need(n, "", unknown=(UNSEEN,)), said)
    return _timed(_priced(usual, models, batch), said, batch)


def label(names: Iterable[str]) -> str:
    """Models that work of one kind asks, as one name."""
    return " + ".join(dict.fromkeys(names))


def _with_calls(need: Need, said: Assumptions) -> Need:
    """With as many calls as is said, of as many tokens; what is not said stays in proportion."""
    calls = need.calls if said.calls is None else Range.of(said.calls * need.pieces)
    if calls is None or need.input is None or need.output is None:
        return need
    before = need.calls.expected if need.calls else need.pieces
    more = calls.expected / before if before else 1.0
    inputs = calls.times(said.input_tokens) if said.input_tokens is not None else need.input.times(more)
    outputs = calls.times(said.output_tokens) if said.output_tokens is not None else need.output.times(more)
    seconds = need.seconds and need.seconds.times(more)
    return msgspec.structs.replace(need, calls=calls, input=inputs, output=outputs, seconds=seconds)


def _timed(need: Need, said: Assumptions, batch: bool = False) -> Need:
    """With its time: as is said, as it was, or as calls are assumed to take; of batches nobody knows."""
    if said.seconds is not None:
        return msgspec.structs.replace(need, seconds=Range.of(said.seconds * need.pieces))
    if batch and not (need.calls and not need.calls.high):
        return msgspec.structs.replace(need, seconds=None, unknown=(*need.unknown, WAITS))
    if need.seconds is not None:
        return need
    if need.calls is None or need.output is None:
        return msgspec.structs.replace(need, unknown=(*need.unknown, NO_TIME))
    seconds = guessed_seconds(need.calls, need.output)
    return msgspec.structs.replace(need, seconds=seconds, basis=(*need.basis, ASSUMED_OF_TIME))


def _priced(need: Need, models: Sequence[Named], batch: bool) -> Need:
    """With its cost at the prices of now, calls shared evenly between the models."""
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


def _cost(need: Need, models: Sequence[Named], side: str, batch: bool) -> float | None:
    """Of as many calls as are expected, with the tokens of this side."""
    assert need.calls is not None
    calls = max(need.calls.expected, FEWEST)
    usage = Usage(*(round(getattr(tokens, side) / calls) for tokens in (need.input, need.output)))
    prices = [model.price for model in models if model.price]
    costs = [(price.cost(usage), price.batch if batch else 1.0) for price in prices]
    known = [cost * part for cost, part in costs if cost is not None]
    return sum(known) * calls / len(models) if len(known) == len(models) else None
