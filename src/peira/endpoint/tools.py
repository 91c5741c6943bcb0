"""The tools of an attempt, offered to its command over MCP: attach, report, log, result.

A minimal server of the Model Context Protocol over HTTP: one JSON-RPC message in, one answer out.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from peira.core.ids import Json, normalise
from peira.errors import Invalid

VERSIONS = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
"""The versions of the protocol that this server speaks, newest first."""
PARSE_ERROR, BAD_REQUEST, NO_METHOD, BAD_ARGUMENTS = -32700, -32600, -32601, -32602
MOST_ATTACHED = 64 * 2**20
"""The most bytes of all files that one attempt attaches."""
MOST_CALLS = 10_000
"""The most calls of tools in one attempt."""


class ToolChannel(Protocol):
    """What the tools record through: the channel of an attempt."""

    def observe(self, name: str, data: Json) -> None: ...

    def report(self, metrics: Mapping[str, float], about: Mapping[str, str]) -> None: ...

    def attach(self, name: str, data: bytes, media: str) -> str: ...


def _object(required: Sequence[str], **properties: Json) -> Json:
    return {"type": "object", "properties": properties, "required": list(required)}


_TEXT = {"type": "string"}
TOOLS: Mapping[str, dict[str, Json]] = {
    "attach": {
        "description": "Keep a file with this trial: its content as text, or as base64 in data.",
        "inputSchema": _object(["name"], name=_TEXT, text=_TEXT, data=_TEXT, media=_TEXT),
    },
    "report": {
        "description": "Record numbers about this trial beside its output.",
        "inputSchema": _object(
            ["metrics"], metrics={"type": "object", "additionalProperties": {"type": "number"}}
        ),
    },
    "log": {
        "description": "Record an observation: a name, and any data.",
        "inputSchema": _object(["name"], name=_TEXT, data={"type": "object"}),
    },
    "result": {
        "description": "Give the output of this trial, instead of what is printed.",
        "inputSchema": _object(["value"], value={}),
    },
}


class AttemptTools:
    """Those of the tools that a command was given; what they record belongs to its attempt."""

    def __init__(self, names: Sequence[str], channel: ToolChannel) -> None:
        self.names, self._channel = tuple(names), channel
        self.result: Json = None
        self.has_result = False
        self._attached = self._calls = 0

    def answer(self, message: Any) -> Json | None:
        """The answer to a message of the protocol; None if it wants none."""
        if isinstance(message, list):  # a batch, in older versions
            answers = [answer for one in message if (answer := self.answer(one)) is not None]
            return answers or None
        if not isinstance(message, dict) or not isinstance(message.get("method"), str):
            return _error(None, BAD_REQUEST, "this is no request")
        if "id" not in message:
            return None
        number, method = message["id"], message["method"]
        given = message.get("params") or {}
        if method == "initialize":
            return _result(number, self._welcome(given))
        if method == "ping":
            return _result(number, {})
        if method == "tools/list":
            return _result(number, {"tools": [{"name": name, **TOOLS[name]} for name in self.names]})
        if method == "tools/call":
            return self._call(number, given)
        return _error(number, NO_METHOD, f"no method {method!r}")

    def _welcome(self, given: Mapping[str, Any]) -> Json:
        asked = given.get("protocolVersion")
        return {
            "protocolVersion": asked if asked in VERSIONS else VERSIONS[0],
            "capabilities": {"tools": {"listChanged": False}},
            "serverInfo": {"name": "peira", "version": "1"},
        }

    def _call(self, number: Json, given: Mapping[str, Any]) -> Json:
        name, arguments = given.get("name"), given.get("arguments") or {}
        if name not in self.names or not isinstance(arguments, dict):
            return _error(number, BAD_ARGUMENTS, f"no tool {name!r}")
        self._calls += 1
        if self._calls > MOST_CALLS:
            return _error(number, BAD_ARGUMENTS, f"more than {MOST_CALLS:,} calls of tools in one attempt")
        try:
            said = getattr(self, f"_{name}")(arguments)
        except (Invalid, ValueError, TypeError, binascii.Error) as problem:
            return _result(number, {"content": [{"type": "text", "text": str(problem)}], "isError": True})
        return _result(number, {"content": [{"type": "text", "text": said}], "isError": False})

    def _attach(self, given: Mapping[str, Any]) -> str:
        name, media = _text(given, "name"), str(given.get("media") or "")
        if "data" in given:
            data = base64.b64decode(_text(given, "data"), validate=True)
        else:
            data = _text(given, "text").encode()
        if self._attached + len(data) > MOST_ATTACHED:
            raise Invalid(f"{name}: more than {MOST_ATTACHED:,} bytes in all")
        self._attached += len(data)
        return self._channel.attach(name, data, media)

    def _report(self, given: Mapping[str, Any]) -> str:
        metrics = given.get("metrics")
        if not isinstance(metrics, dict) or not metrics:
            raise Invalid("metrics: must be a table of names and numbers")
        wrong = [n for n, v in metrics.items() if type(v) not in (int, float) or not math.isfinite(v)]
        if wrong:
            raise Invalid(f"{name}: is not a finite number" for name in wrong)
        own = [name for name in metrics if name in RESERVED or name.startswith("tool_calls")]
        if own:
            raise Invalid(f"{name}: is counted by peira, and not reported" for name in own)
        self._channel.report({str(name): float(value) for name, value in metrics.items()}, {})
        return "recorded"

    def _log(self, given: Mapping[str, Any]) -> str:
        self._channel.observe(_text(given, "name"), normalise(given.get("data") or {}, "data"))
        return "recorded"

    def _result(self, given: Mapping[str, Any]) -> str:
        if "value" not in given:
            raise Invalid("value: is missing")
        self.result, self.has_result = normalise(given["value"], "value"), True
        return "taken"


RESERVED = ("calls", "cost", "spent", "input_tokens", "output_tokens", "refusals", "redraws")
"""Metrics that the ledger counts: a command that reported them could make itself look cheaper."""


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    if not isinstance(value, str):
        raise Invalid(f"{name}: must be text")
    return value


def _result(number: Json, value: Json) -> Json:
    return {"jsonrpc": "2.0", "id": number, "result": value}


def _error(number: Json, code: int, message: str) -> Json:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": code, "message": message}}
