"""`ask` and `ask_async`: call a model from inside an agent or an evaluator.

Every call goes through the ledger, so that it is recorded before it is used and never paid for twice.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

import msgspec

from peira.core.chat.messages import read_messages
from peira.core.chat.schemas import schema_of, schema_problems
from peira.core.chat.tools import tool_schema
from peira.core.context import Channel, current_account, current_branch, current_channel
from peira.core.ids import Json, digest, normalise
from peira.core.mailbox import future_result
from peira.core.models import Reply, Request
from peira.errors import Unfit

Prompt = str | Sequence[Mapping[str, Json] | Any]
"""A text, or messages: {"role": ..., "content": ...}, replies, or the forms of OpenAI and Anthropic."""
FENCE = "```"


def ask(
    model: str,
    prompt: Prompt,
    *,
    system: str | None = None,
    key: str = "",
    schema: Any = None,
    repairs: int = 2,
    **parameters: Any,
) -> Reply:
    """Ask a model and wait for its reply.

    A resumed trial gets the recorded reply and pays nothing. Equal requests in one trial are distinguished by
    their order, or by `key`. Messages may be written as OpenAI or Anthropic write them, and `reply.message`
    can be appended to them as it is. `tools` (Python functions, or their schemas) and the provider's
    parameters are passed by name. With a `schema` (a JSON schema, or a pydantic model) the reply's `parsed`
    matches it; a reply that does not match is sent back with its problems at most `repairs` times, then Unfit
    is raised. Raises NotInTrial outside a trial and CallFailed if the model cannot answer.

    In an `async def` agent use `ask_async`: this function blocks the event loop that all agents share, and
    warns.
    """
    _warn_in_a_loop()
    exchange = _exchange(model, prompt, system, key, schema, repairs, parameters)
    advance = _in_a_thread if _in_a_loop() else _here
    pending = advance(exchange.__next__)
    while True:
        try:
            pending = advance(exchange.send, pending.result())
        except StopIteration as over:
            return over.value  # type: ignore[no-any-return]


def _here(advance: Callable[..., Future[Reply]], *given: Reply) -> Future[Reply]:
    """Advance an exchange in this thread."""
    return advance(*given)


def _in_a_thread(advance: Callable[..., Future[Reply]], *given: Reply) -> Future[Reply]:
    """Advance an exchange in a thread of its own, in the same context.

    What is posted from the thread of an event loop leaves when that loop is idle, which it is not while it is
    blocked by `ask`.
    """
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(copy_context().run, advance, *given).result()


async def ask_async(
    model: str,
    prompt: Prompt,
    *,
    system: str | None = None,
    key: str = "",
    schema: Any = None,
    repairs: int = 2,
    **parameters: Any,
) -> Reply:
    """`ask` for `async def` agents: awaits the reply and does not block the event loop."""
    exchange = _exchange(model, prompt, system, key, schema, repairs, parameters)
    pending = next(exchange)
    while True:
        try:
            pending = exchange.send(await future_result(pending))
        except StopIteration as over:
            return over.value  # type: ignore[no-any-return]
        except asyncio.CancelledError:
            pending.cancel()  # nobody waits for it any more: others may have its place
            raise


def _in_a_loop() -> bool:
    """Whether this thread is running an event loop."""
    try:
        return asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


def _warn_in_a_loop() -> None:
    """Warn the caller of `ask` if it is blocking an event loop."""
    if _in_a_loop():
        notice = "ask() in an async def agent stops all others while it waits: use `await ask_async(...)`"
        warnings.warn(notice, RuntimeWarning, stacklevel=3)


def _exchange(
    model: str,
    prompt: Prompt,
    system: str | None,
    key: str,
    schema: Any,
    repairs: int,
    parameters: dict[str, Any],
) -> Generator[Future[Reply], Reply, Reply]:
    """The model calls that lead to the reply: yields each future and is sent its result."""
    channel, wanted = current_channel(), schema_of(schema)
    request = _request(prompt, system, wanted, parameters)
    reply = yield _call(channel, model, request, key)
    if wanted is None:
        return reply
    for nth in range(1, repairs + 1):
        parsed, problems = _fit(reply.text, wanted)
        if not problems:
            return msgspec.structs.replace(reply, parsed=parsed)
        request = _repair(request, reply.text, problems)
        reply = yield _call(channel, model, request, key and f"{key} repair {nth}")
    parsed, problems = _fit(reply.text, wanted)
    if problems:
        raise Unfit(f"{model}: its reply does not fit the schema after {repairs} repairs: {problems[0]}")
    return msgspec.structs.replace(reply, parsed=parsed)


def _call(channel: Channel, model: str, request: Request, key: str) -> Future[Reply]:
    """Ask through the channel, in the name of whoever is asking."""
    account, branch = current_account(), current_branch()
    if branch is not None:
        key = branch.key(f"{model} {digest(msgspec.to_builtins(request))} {key}") + (f" {key}" if key else "")
    return channel.call(model, request, key, account) if account else channel.call(model, request, key)


def _request(
    prompt: Prompt, system: str | None, schema: dict[str, Json] | None, parameters: dict[str, Any]
) -> Request:
    """The provider-independent request, normalised to JSON."""
    tools = [tool_schema(tool) for tool in parameters.pop("tools", None) or ()]
    if isinstance(prompt, str):
        messages = [{"role": "user", "content": normalise(prompt, "messages[0].content")}]
    else:
        messages = normalise(read_messages(prompt), "messages")
    return Request(
        messages=tuple(messages),
        system=system,
        tools=tuple(normalise(tools, "tools")) if tools else (),
        schema=schema,
        parameters=normalise(parameters, "parameters") if parameters else {},
    )


def _fit(text: str, schema: dict[str, Json]) -> tuple[Json, list[str]]:
    """The JSON value in a reply, and the problems that keep it from matching the schema."""
    try:
        value = normalise(json.loads(_bare(text)), "reply")
    except (ValueError, RecursionError) as problem:
        return None, [f"it is no JSON ({problem})"]
    return value, schema_problems(value, schema)


def _bare(text: str) -> str:
    """The text without a Markdown code fence around it."""
    text = text.strip()
    if text.startswith(FENCE) and text.endswith(FENCE) and "\n" in text:
        return text[text.index("\n") + 1 : -len(FENCE)]
    return text


def _repair(request: Request, text: str, problems: list[str]) -> Request:
    """The request, followed by the reply and a message that lists what is wrong with it."""
    wrong = "\n".join(f"- {problem}" for problem in problems)
    correction: tuple[dict[str, Json], ...] = (
        {"role": "assistant", "content": text},
        {"role": "user", "content": f"That does not fit the schema:\n{wrong}\nAnswer again, with JSON only."},
    )
    return msgspec.structs.replace(request, messages=(*request.messages, *correction))
