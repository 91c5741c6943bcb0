"""How attempts end: values into results, exceptions into failures, failures into another try or not."""

from __future__ import annotations

import random
import traceback
from pathlib import Path

import msgspec

from peira.core.contracts import Ended
from peira.core.events import NOTHING, Failure, Result, State
from peira.core.ids import canonical, normalise
from peira.core.models import output_of
from peira.engine.channel import AttemptChannel
from peira.engine.payload import payload
from peira.errors import (
    Abandoned,
    Exhausted,
    InDoubt,
    Invalid,
    ProcessDied,
    TimedOut,
    TooLarge,
    carried,
    message_of,
)
from peira.spec.limits import Policy

OWN_FOLDER = str(Path(__file__).resolve().parents[1])
MOST_MESSAGE = 2000
MOST_TRACE = 8000


def ended(
    channel: AttemptChannel,
    took: float,
    outcome: object,
    problem: BaseException | None,
    limit: int,
    redraw: bool = False,
) -> tuple[Ended, tuple[bytes, ...], bool]:
    """How the attempt ended, the blobs its result names, and whether trying again could help: not if it
    was refused, and not if it had only recorded answers to work with, unless they are drawn again."""
    channel.settle()
    if problem is None:
        try:
            return (*_succeeded(channel, took, outcome, limit), False)
        except (Invalid, TooLarge) as refusal:
            problem = refusal
    end = Ended(_state(problem), _result(channel, took, NOTHING, "", failure(problem)))
    helps = not isinstance(problem, (Invalid, TooLarge, Abandoned, InDoubt))
    same = channel.only_replayed and not redraw and not isinstance(problem, (TimedOut, ProcessDied))
    return end, (), helps and not same


def _state(problem: BaseException) -> State:
    if isinstance(problem, Exhausted):
        return State.exhausted
    if isinstance(problem, InDoubt):
        return State.in_doubt
    return State.cancelled if isinstance(problem, Abandoned) else State.failed


def _succeeded(
    channel: AttemptChannel, took: float, outcome: object, limit: int
) -> tuple[Ended, tuple[bytes, ...]]:
    value = normalise(output_of(outcome), "output")
    body = canonical(value)
    if len(body) > limit:
        raise TooLarge(f"output: {len(body)} bytes, more than the limit of {limit} (policy.output_limit)")
    inline, blob, blobs = payload(body, channel.inline)
    return Ended(State.succeeded, _result(channel, took, inline, blob), value), blobs


def _result(
    channel: AttemptChannel, took: float, output: msgspec.Raw, blob: str, why: Failure | None = None
) -> Result:
    """What is kept of an attempt, with all that was reported during it."""
    metrics, about = dict(channel.metrics), dict(channel.about)
    took = round(took, 6)
    return Result(took, output, blob, why, metrics, channel.artifacts, about, calls=channel.calls)


def failure(problem: BaseException) -> Failure:
    """An exception as it is kept: its type, its message, and the user's part of the way there."""
    frames = traceback.extract_tb(problem.__traceback__)
    shown = [f for f in frames if not f.filename.startswith(OWN_FOLDER)] or frames
    trace = getattr(problem, "trace", "") or "".join(traceback.format_list(shown))
    return Failure(type(problem).__name__, message_of(problem)[:MOST_MESSAGE], carried(trace)[-MOST_TRACE:])


def back_off(policy: Policy, tries: int, task: str) -> float:
    """Seconds before the next try: doubling, bounded, with jitter that is the task's own."""
    delay: float = min(policy.backoff * 2 ** (tries - 1), policy.max_backoff)
    return delay * random.Random(f"{task} {tries}").uniform(0.5, 1.0) if policy.jitter else delay
