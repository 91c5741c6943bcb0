"""How long work takes that is done so many pieces at once, and no faster than its models may be asked."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from peira.core.models import Named
from peira.plan.amounts import NOTHING, Range, total
from peira.plan.needs import Need


class Load(NamedTuple):
    """Work of one kind, and the models it is known to ask."""

    stage: str
    need: Need
    models: Sequence[Named]


def wall_time(loads: Sequence[Load], parallel: int, overhead: float = 0.0) -> Range | None:
    """From the beginning to the end. Stages overlap: at best the longest of them is all there is to wait for,
    at worst each waits for the other. `overhead` is what each piece takes on top, and is not shared."""
    stages: dict[str, list[Need]] = defaultdict(list)
    for load in loads:
        stages[load.stage].append(load.need)
    times = [_stage_time(needs, parallel) for needs in stages.values()]
    together = total(times)
    if together is None:
        return None
    longest = _longest(time for time in times if time)
    least = Range.of(overhead * sum(load.need.pieces for load in loads))
    return _longest([Range(longest.low, longest.expected, together.high), least, *_floors(loads, parallel)])


def _stage_time(needs: Sequence[Need], parallel: int) -> Range | None:
    seconds, pieces = total(need.seconds for need in needs), sum(need.pieces for need in needs)
    return seconds and seconds.times(1 / min(parallel, max(1.0, pieces)))


def _floors(loads: Iterable[Load], parallel: int) -> list[Range]:
    """For each model with limits: how long its calls take at the least."""
    shares: dict[str, list[tuple[Need, float]]] = defaultdict(list)
    known = {model.name: model for load in loads for model in load.models}
    for load in loads:
        for model in load.models:
            shares[model.name].append((load.need, 1 / len(load.models)))
    return [_floor(known[name], needs, parallel) for name, needs in shares.items()]


def _floor(model: Named, shares: Iterable[tuple[Need, float]], parallel: int) -> Range:
    calls = tokens = seconds = NOTHING
    for need, share in shares:
        calls = calls + (need.calls or NOTHING).times(share)
        tokens = tokens + ((need.input or NOTHING) + (need.output or NOTHING)).times(share)
        seconds = seconds + (need.seconds or NOTHING).times(share)
    limits, floors = model.limits, [NOTHING]
    if limits.requests:
        floors.append(calls.times(60 / limits.requests))
    if limits.tokens:
        floors.append(tokens.times(60 / limits.tokens))
    if limits.concurrency:
        floors.append(seconds.times(1 / min(limits.concurrency, parallel)))
    return _longest(floors)


def _longest(times: Iterable[Range]) -> Range:
    longest = NOTHING
    for time in times:
        longest = longest.or_more(time)
    return longest
