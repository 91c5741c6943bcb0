"""`ask`: a model, from inside an agent or an evaluator. Every call goes through the ledger.

With a schema the reply is JSON that fits it: one that does not is told what is wrong with it and asked
again, a bounded number of times. Each of these is a call of its own, recorded and paid as such.
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
from peira.core.mailbox import arrival
from peira.core.models import Reply, Request, Unfit
from peira.errors import Invalid

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

    A resumed trial gets the recorded reply and pays nothing. Equal requests in one trial are told apart
    by their order, or by `key`. `tools` and the provider's parameters go by name. With a `schema` (a JSON
    schema, or a pydantic model) the reply's `parsed` fits it, or Unfit after so many `repairs`.

    In an `async def` agent use `ask_async`: waiting here stops all others of the loop they share, and warns.
    """
    _warn_in_a_loop()
    talk = _talk(model, prompt, system, key, schema, repairs, parameters)
    asked = next(talk)
    while True:
        try:
            asked = talk.send(asked.result())
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
    """`ask` for `async def` agents: awaits, and blocks nothing."""
    talk = _talk(model, prompt, system, key, schema, repairs, parameters)
    asked = next(talk)
    while True:
        try:
            asked = talk.send(await arrival(asked))
        except StopIteration as over:
            return over.value  # type: ignore[no-any-return]


def _in_a_loop() -> bool:
    try:
        return asyncio.get_running_loop() is not None
    except RuntimeError:
        return False


def _warn_in_a_loop() -> None:
    if _in_a_loop():
        said = "ask() in an async def agent stops all others while it waits: use `await ask_async(...)`"
        warnings.warn(said, RuntimeWarning, stacklevel=3)


def _talk(
    model: str,
    prompt: Prompt,
    system: str | None,
    key: str,
    schema: Any,
    repairs: int,
    parameters: dict[str, Any],
) -> Generator[Future[Reply], Reply, Reply]:
    """The calls that lead to the reply, one after another."""
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
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(m) for m in prompt]
    tools = list(parameters.pop("tools", ()))
    return Request(
        messages=tuple(normalise(messages, "messages")),
        system=system,
        tools=tuple(normalise(tools, "tools")) if tools else (),
        schema=schema,
        parameters=normalise(parameters, "parameters") if parameters else {},
    )


def _schema(given: Any) -> dict[str, Json] | None:
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
    """The value in a reply, and what is wrong with it."""
    try:
        value = normalise(json.loads(_bare(text)), "reply")
    except (ValueError, RecursionError) as problem:
        return None, [f"it is no JSON ({problem})"]
    return value, _wrong(value, schema)


def _wrong(value: Json, schema: dict[str, Json]) -> list[str]:
    """Where the value does not fit. Nothing is fetched: what a schema refers to must be in it."""
    from jsonschema import validators
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import EMPTY_REGISTRY

    found = validators.validator_for(schema)(schema, registry=EMPTY_REGISTRY).iter_errors(value)
    try:
        return [f"{error.json_path}: {error.message}" for error in islice(found, MOST_PROBLEMS)]
    except Unresolvable as problem:
        raise Invalid(f"schema: {problem}") from None


def _bare(text: str) -> str:
    """The JSON without the fence that models like to put around it."""
    text = text.strip()
    if text.startswith(FENCE) and text.endswith(FENCE) and "\n" in text:
        return text[text.index("\n") + 1 : -len(FENCE)]
    return text


def _repair(request: Request, text: str, problems: list[str]) -> Request:
    wrong = "\n".join(f"- {problem}" for problem in problems)
    said: tuple[dict[str, Json], ...] = (
        {"role": "assistant", "content": text},
        {"role": "user", "content": f"That does not fit the schema:\n{wrong}\nAnswer again, with JSON only."},
    )
    return msgspec.structs.replace(request, messages=(*request.messages, *said))
