"""`ask` and `ask_async`: call a model from inside an agent or an evaluator.

Every call goes through the ledger, so that it is recorded before it is used and never paid for twice.
"""

from __future__ import annotations

import asyncio
import json
import warnings
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import Future
from itertools import islice
from typing import Any

import msgspec

from peira.core.context import current_channel
from peira.core.ids import Json, normalise
from peira.core.mailbox import future_result
from peira.core.models import Reply, Request
from peira.errors import Invalid, Unfit

Prompt = str | Sequence[Mapping[str, Json]]
"""A text, or messages as {"role": ..., "content": ...}."""
MOST_PROBLEMS = 3
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
    their order, or by `key`. `tools` and the provider's parameters are passed by name. With a `schema` (a
    JSON schema, or a pydantic model) the reply's `parsed` matches it; a reply that does not match is sent
    back with its problems at most `repairs` times, then Unfit is raised. Raises NotInTrial outside a trial
    and CallFailed if the model cannot answer.

    In an `async def` agent use `ask_async`: this function blocks the event loop that all agents share, and
    warns.
    """
    _warn_in_a_loop()
    exchange = _exchange(model, prompt, system, key, schema, repairs, parameters)
    pending = next(exchange)
    while True:
        try:
            pending = exchange.send(pending.result())
        except StopIteration as over:
            return over.value  # type: ignore[no-any-return]


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
    channel, wanted = current_channel(), _schema(schema)
    request = _request(prompt, system, wanted, parameters)
    reply = yield channel.call(model, request, key)
    if wanted is None:
        return reply
    for nth in range(1, repairs + 1):
        parsed, problems = _fit(reply.text, wanted)
        if not problems:
            return msgspec.structs.replace(reply, parsed=parsed)
        request = _repair(request, reply.text, problems)
        reply = yield channel.call(model, request, key and f"{key} repair {nth}")
    parsed, problems = _fit(reply.text, wanted)
    if problems:
        raise Unfit(f"{model}: its reply does not fit the schema after {repairs} repairs: {problems[0]}")
    return msgspec.structs.replace(reply, parsed=parsed)


def _request(
    prompt: Prompt, system: str | None, schema: dict[str, Json] | None, parameters: dict[str, Any]
) -> Request:
    """The provider-independent request, normalised to JSON."""
    messages = (
        [{"role": "user", "content": prompt}] if isinstance(prompt, str) else list(map(_message, prompt))
    )
    tools = list(parameters.pop("tools", ()))
    return Request(
        messages=tuple(normalise(messages, "messages")),
        system=system,
        tools=tuple(normalise(tools, "tools")) if tools else (),
        schema=schema,
        parameters=normalise(parameters, "parameters") if parameters else {},
    )


def _message(given: Any) -> dict[str, Any]:
    """A message in peira's form, from that, from a reply, or from OpenAI's form of tool calls and results."""
    message = given.message if isinstance(given, Reply) else dict(given)
    if message.get("role") == "tool" and "tool_call_id" in message:
        message.setdefault("id", message.pop("tool_call_id"))
    if message.get("tool_calls"):
        message["tool_calls"] = [_tool_call(call) for call in message["tool_calls"]]
    return message


def _tool_call(given: Any) -> Any:
    """A tool call in peira's form."""
    function = given.get("function") if isinstance(given, Mapping) else None
    if not isinstance(function, Mapping):
        return given
    said = function.get("arguments")
    arguments: Any = said
    if isinstance(said, str):
        try:
            arguments = json.loads(said) if said else {}
        except (ValueError, RecursionError):
            arguments = said
    return {"id": given.get("id", ""), "name": function.get("name", ""), "arguments": arguments}


def _schema(given: Any) -> dict[str, Json] | None:
    """The schema as a JSON schema; Invalid if it is not one, or refers to something outside itself."""
    if given is None:
        return None
    given = given.model_json_schema() if hasattr(given, "model_json_schema") else given
    schema = normalise(given, "schema")
    if not isinstance(schema, dict):
        raise Invalid(f"schema: must be a JSON schema or a pydantic model, not {given!r}")
    from jsonschema import SchemaError, validators  # slow, and seldom needed

    try:
        validators.validator_for(schema).check_schema(schema)
    except SchemaError as problem:
        raise Invalid(f"schema: {problem.message}") from None
    _wrong(None, schema)
    return schema


def _fit(text: str, schema: dict[str, Json]) -> tuple[Json, list[str]]:
    """The JSON value in a reply, and the problems that keep it from matching the schema."""
    try:
        value = normalise(json.loads(_bare(text)), "reply")
    except (ValueError, RecursionError) as problem:
        return None, [f"it is no JSON ({problem})"]
    return value, _wrong(value, schema)


def _wrong(value: Json, schema: dict[str, Json]) -> list[str]:
    """Where the value does not match the schema, the first few problems only.

    Nothing is fetched: every reference must be resolved inside the schema, else Invalid is raised.
    """
    from jsonschema import validators
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import EMPTY_REGISTRY

    found = validators.validator_for(schema)(schema, registry=EMPTY_REGISTRY).iter_errors(value)
    try:
        return [f"{error.json_path}: {error.message}" for error in islice(found, MOST_PROBLEMS)]
    except Unresolvable as problem:
        raise Invalid(f"schema: {problem}") from None


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
