"""Recorded steps: computed once, replayed when a trial is resumed or retried.

A step is identified by its trial, its name, the fingerprint of its function, its arguments, and its ordinal
among equal ones, so that editing the function or changing an argument makes a new step and never returns a
stale value.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from contextlib import nullcontext
from typing import Any, ParamSpec, TypeVar, overload

from peira.core.code.fingerprint import fingerprint
from peira.core.codec import decode
from peira.core.context import Channel, Trial, current_branch, current_trial
from peira.core.failpoints import reach
from peira.core.ids import Json, canonical, compose, digest, normalise
from peira.core.registry import registry

P = ParamSpec("P")
T = TypeVar("T")


@overload
def step(
    name: str, fn: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs
) -> Coroutine[Any, Any, T]: ...
@overload
def step(name: str, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> T: ...
def step(name: str, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
    """Run `fn(*args, **kwargs)` once and record its value; a resumed trial gets the recorded value.

    The value is durable before it is returned; it and the arguments must be JSON, else NotJson is raised.
    With a coroutine function, await the step: `await step("search", look_up, query)`. Raises NotInTrial
    outside an agent.
    """
    trial = current_trial()
    key = _key(trial, name, fn, args, kwargs)
    if inspect.iscoroutinefunction(fn):
        return _step_async(trial.channel, key, name, fn(*args, **kwargs))
    if (known := trial.channel.recall(key)) is not None:
        return decode(known)
    with registry.surrounded("step", name) if registry.surrounding else nullcontext():
        value = normalise(fn(*args, **kwargs), f"step {name!r}")
    reach("step.before_record")
    trial.channel.record(key, name, canonical(value)).result()
    reach("step.after_record")
    return value


async def _step_async(channel: Channel, key: str, name: str, pending: Coroutine[Any, Any, Any]) -> Any:
    """The step for a coroutine, which is closed without being awaited if the value is recorded."""
    try:
        known = await asyncio.to_thread(channel.recall, key)
        with registry.surrounded("step", name) if registry.surrounding and known is None else nullcontext():
            value = normalise(await pending, f"step {name!r}") if known is None else decode(known)
    finally:
        pending.close()
    if known is not None:
        return value
    await asyncio.wrap_future(channel.record(key, name, canonical(value)))
    return value


def recorded(trial: Trial, name: str, code: Json, given: Json, compute: Callable[[], Any]) -> Any:
    """The value of a step whose code and arguments are known as values: computed once, then replayed.

    For agents that execute others' code by themselves; users call `step`.
    """
    key = step_key(trial, name, digest(code), digest(given))
    if (known := trial.channel.recall(key)) is not None:
        return decode(known)
    with registry.surrounded("step", name) if registry.surrounding else nullcontext():
        value = normalise(compute(), f"step {name!r}")
    reach("step.before_record")
    trial.channel.record(key, name, canonical(value)).result()
    reach("step.after_record")
    return value


def _key(
    trial: Trial, name: str, fn: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> str:
    """The id of this step, with its ordinal among equal steps of the attempt."""
    given = digest(normalise([list(args), kwargs], f"arguments of step {name!r}"))
    return step_key(trial, name, fingerprint(fn).digest, given)


def step_key(trial: Trial, name: str, code: str, given: str) -> str:
    """The id of a step of this name, code and arguments (digests), with its ordinal among equal ones."""
    same = compose("step", trial.id, digest(name), code, given)
    if (branch := current_branch()) is not None:
        return compose("step", same, digest(branch.key(same)))
    trial.ordinals[same] += 1
    return compose("step", same, trial.ordinals[same])
