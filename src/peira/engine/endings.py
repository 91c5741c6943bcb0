"""How attempts end: values into results, exceptions into failures, failures into another try or not."""

from __future__ import annotations

import random
import traceback

import msgspec

from peira.core.contracts import Ended
from peira.core.events import Failure, Result, State
from peira.core.ids import canonical, digest_bytes, normalise
from peira.engine.channel import AttemptChannel, payload
from peira.errors import Abandoned, Invalid, TooLarge
from peira.spec.limits import Policy

MOST_MESSAGE = 2000
MOST_TRACE = 8000


def ended(
    channel: AttemptChannel, took: float, outcome: object, problem: BaseException | None, limit: int
) -> tuple[Ended, tuple[bytes, ...]]:
    """How the attempt ended, and the blobs its result names."""
    if problem is None:
        try:
            return _succeeded(channel, took, outcome, limit)
        except (Invalid, TooLarge) as refusal:
            problem = refusal
    state = State.cancelled if isinstance(problem, Abandoned) else State.failed
    return Ended(state, _result(channel, took, failure=failure(problem))), ()


def _succeeded(
    channel: AttemptChannel, took: float, outcome: object, limit: int
) -> tuple[Ended, tuple[bytes, ...]]:
    value = normalise(outcome, "output")
    body = canonical(value)
    if len(body) > limit:
        raise TooLarge(f"output: {len(body)} bytes, more than the limit of {limit} (policy.output_limit)")
    inline, blobs = payload(body)
    blob = "" if inline else digest_bytes(body)
    return Ended(State.succeeded, _result(channel, took, output=msgspec.Raw(inline), blob=blob), value), blobs


def _result(channel: AttemptChannel, took: float, **fields: object) -> Result:
    return Result(
        took=round(took, 6),
        metrics=channel.metrics,
        about=channel.about,
        artifacts=channel.artifacts,
        **fields,  # type: ignore[arg-type]
    )


def failure(problem: BaseException) -> Failure:
    """An exception as it is kept: its type, its message, and the user's part of the way there."""
    frames = traceback.extract_tb(problem.__traceback__)
    shown = [f for f in frames if "/peira/" not in f.filename.replace("\\", "/")] or frames
    trace = getattr(problem, "trace", "") or "".join(traceback.format_list(shown))
    return Failure(type(problem).__name__, _carry(str(problem))[:MOST_MESSAGE], _carry(trace)[-MOST_TRACE:])


def _carry(text: str) -> str:
    """Text that UTF-8 can carry."""
    return text.encode("utf-8", "backslashreplace").decode()


def permanent(problem: BaseException) -> bool:
    """Trying again would not help: the value is wrong in kind, or the attempt was stopped on purpose."""
    return isinstance(problem, (Invalid, Abandoned))


def back_off(policy: Policy, tries: int, task: str) -> float:
    """Seconds before the next try: doubling, bounded, with jitter that is the task's own."""
    delay: float = min(policy.backoff * 2 ** (tries - 1), policy.max_backoff)
    return delay * random.Random(f"{task} {tries}").uniform(0.5, 1.0) if policy.jitter else delay
