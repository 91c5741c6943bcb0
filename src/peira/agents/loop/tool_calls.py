"""The tool calls of a reply: checked, approved, executed together, and recorded in order as steps."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from peira.core.chat.tools import RestoringTool, Tool, ToolEffects
from peira.core.chat.transcript import TOOL_STEP, as_text
from peira.core.codec import decode
from peira.core.context import Trial, in_branch
from peira.core.failpoints import reach
from peira.core.ids import Json, canonical, digest, normalise
from peira.core.models import Reply, ToolCall
from peira.core.registry import nearest, registry
from peira.core.steps import step_key
from peira.errors import AttemptFailed, CallFailed, StoreFault, ToolRefused, message_of

MOST_RESULT = 60_000
"""The most characters of a result that a model is given; of a longer one, its beginning and its end."""
OURS = (CallFailed, AttemptFailed, StoreFault)
"""Failures that are not the tool's own: they end the attempt."""
Approval = Callable[[Sequence[ToolCall]], Sequence[str]]
"""Why each of some tool calls may not be executed; "" if it may."""


@dataclass(frozen=True)
class ToolOutcome:
    """What came of a tool call, as it is recorded: its result, or as `error` why there is none."""

    call: ToolCall
    result: Json
    error: bool
    seconds: float = 0.0
    changes: Json = None
    """What the tool changed beside its result, to be made again when the call is replayed."""

    def value(self, of: str) -> dict[str, Json]:
        """The value of the step; `of` is the key of the model's call in the ledger."""
        return {
            "tool": self.call.name,
            "call": self.call.id,
            "of": of,
            "arguments": self.call.arguments,
            "result": self.result,
            "error": self.error,
            "seconds": round(self.seconds, 3),
            **({} if self.changes is None else {"changes": self.changes}),
        }

    @property
    def message(self) -> dict[str, Json]:
        """The message with which the model gets it."""
        failed = {"error": True} if self.error else {}
        return {"role": "tool", "id": self.call.id, "content": _bounded(self.result), **failed}


def _bounded(result: Json) -> Json:
    """A result as a model gets it: parts (texts, images) as they are, anything else as text."""
    if _has_parts(result):
        return result
    text = as_text(result)
    if len(text) <= MOST_RESULT:
        return text
    half = MOST_RESULT // 2
    return f"{text[:half]}\n... ({len(text) - 2 * half:,} characters are left out)\n{text[-half:]}"


def _has_parts(result: Json) -> bool:
    return (
        isinstance(result, list)
        and bool(result)
        and all(isinstance(part, dict) and part.get("type") in ("text", "image") for part in result)
        and any(part.get("type") == "image" for part in result)
    )


def numbered(reply: Reply, turn: int) -> list[ToolCall]:
    """The tool calls of a reply, each with an id of its own, also if the provider gave none."""
    seen: set[str] = set()
    calls = []
    for number, call in enumerate(reply.tool_calls):
        id = call.id if call.id and call.id not in seen else f"call_{turn}_{number}"
        seen.add(id)
        calls.append(ToolCall(id, call.name, call.arguments))
    return calls


def execute_calls(
    trial: Trial,
    tools: Mapping[str, Tool],
    of: str,
    calls: Sequence[ToolCall],
    approval: Approval | None = None,
) -> list[ToolOutcome]:
    """Execute tool calls of one reply together; each is a step, recorded in their order.

    A recorded one is not executed again. `of` is the key of the model's call.
    """
    keys = [_key(trial, tools, call) for call in calls]
    known = [_recorded(trial, tools, key, call) for key, call in zip(keys, calls, strict=True)]
    fresh = [number for number, outcome in enumerate(known) if outcome is None]
    refusals = (
        dict(zip(fresh, approval([calls[n] for n in fresh]), strict=True)) if approval and fresh else {}
    )
    outcomes: list[ToolOutcome] = []
    with ThreadPoolExecutor(max(1, len(fresh)), "peira-tool") if len(fresh) > 1 else nullcontext() as pool:
        begun = {n: _begin(pool, tools, calls[n], keys[n], refusals.get(n, "")) for n in fresh}
        for number, call in enumerate(calls):
            outcome = known[number]
            if outcome is None:
                outcome = begun[number]()
                reach("tool.before_record")
                value = canonical(normalise(outcome.value(of), f"tool {call.name}"))
                trial.channel.record(keys[number], f"{TOOL_STEP}{call.name}", value).result()
                reach("tool.after_record")
            outcomes.append(outcome)
    return outcomes


def _key(trial: Trial, tools: Mapping[str, Tool], call: ToolCall) -> str:
    """The key of a tool call's step: of its trial, tool and arguments, and its ordinal among equal ones."""
    tool = tools.get(call.name)
    code = digest(None if tool is None else tool.identity)
    return step_key(trial, f"{TOOL_STEP}{call.name}", code, digest(normalise(call.arguments, "arguments")))


def _recorded(trial: Trial, tools: Mapping[str, Tool], key: str, call: ToolCall) -> ToolOutcome | None:
    """What was recorded of a tool call before; None if nothing was. Its changes are made again."""
    found = trial.channel.recall(key)
    if found is None:
        return None
    value: Any = decode(found)
    tool = tools.get(call.name)
    if value.get("changes") is not None and isinstance(tool, RestoringTool):
        tool.restore(value["changes"])
    return ToolOutcome(call, value["result"], value["error"], value["seconds"])


def _begin(
    pool: Any, tools: Mapping[str, Tool], call: ToolCall, key: str, refusal: str
) -> Callable[[], ToolOutcome]:
    """Start a tool call, in the pool if there is one; the function that waits for its outcome."""
    if not isinstance(pool, ThreadPoolExecutor):
        return lambda: _execute(tools, call, key, refusal)
    inside = contextvars.copy_context()
    pending: Future[ToolOutcome] = pool.submit(inside.run, _execute, tools, call, key, refusal)
    return pending.result


def _execute(tools: Mapping[str, Tool], call: ToolCall, key: str, refusal: str) -> ToolOutcome:
    """Execute one tool call; the tool's own failures are told to the model."""
    began = time.monotonic()
    try:
        if refusal:
            raise ToolRefused(refusal)
        if call.name not in tools:
            raise ToolRefused(f"there is no tool {call.name!r}{nearest(call.name, tools)}")
        around = (
            registry.surrounded("step", f"{TOOL_STEP}{call.name}") if registry.surrounding else nullcontext()
        )
        with in_branch(f"tool {key[:16]}"), around:
            result = tools[call.name].call(call.arguments)
            result = asyncio.run(_complete(result)) if inspect.isawaitable(result) else result
        found = result if isinstance(result, ToolEffects) else ToolEffects(result)
        took = time.monotonic() - began
        return ToolOutcome(call, normalise(found.result, "result"), False, took, found.changes)
    except OURS:
        raise
    except ToolRefused as problem:
        return ToolOutcome(call, message_of(problem), True, time.monotonic() - began)
    except Exception as problem:
        told = f"{type(problem).__name__}: {message_of(problem)}"
        return ToolOutcome(call, told, True, time.monotonic() - began)


async def _complete(pending: Any) -> Any:
    return await pending
