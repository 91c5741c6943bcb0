"""An endpoint in a process of its own that speaks chat completions, responses and messages.

    python server.py [BILLS]

It prints its port, ends when its standard input does, and appends one line to BILLS for each answer that a
provider would charge for. What it does at the next requests for a model is told by POST /script
{"model", "turns": [...]} ("always": a turn for all others); without that it says the last message back.
"most" is how many requests it takes at once: it answers 429 to the others. GET /log?model=NAME has what it
was sent, how many it had at once at the most, and what it billed.

A turn is what `scripted:` takes ({"text", ...} or {"fail", ...}), and: "status", "headers", "error" (a body),
"text_error" (a body as it is),
"echo" (the request's headers and URL in the error), "raw" (a body with "type" as content type), "first" (a
pause before the first words of a stream), "events" (a stream ends after so many), "error_event", and "do":
reset, cut (in the middle of the body), hang, trickle, huge.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections import defaultdict, deque
from pathlib import Path
from typing import Any

from aiohttp import web

Turn = dict[str, Any]
FAILS = {"free": 429, "doubt": 500, "permanent": 400}
UNBILLED = {400, 401, 402, 403, 404, 405, 409, 422, 425, 429, 503, 529, 307}
STOPS = {"stop": "end_turn", "length": "max_tokens", "tool_calls": "tool_use"}


class Endpoint:
    def __init__(self, bills: Path | None) -> None:
        self.turns: dict[str, deque[Turn]] = defaultdict(deque)
        self.always: dict[str, Turn] = {}
        self.seen: dict[str, list[Turn]] = defaultdict(list)
        self.billed: dict[str, list[str]] = defaultdict(list)
        self.most: dict[str, int] = {}
        self.at_once: dict[str, int] = defaultdict(int)
        self.peak: dict[str, int] = defaultdict(int)
        self.file = bills.open("a") if bills else None

    def bill(self, body: Turn) -> None:
        self.billed[body["model"]].append(said(body))
        if self.file:
            self.file.write(f"{body['model']}\n")
            self.file.flush()

    async def script(self, request: web.Request) -> web.Response:
        told = await request.json()
        self.turns[told["model"]].extend(told.get("turns", ()))
        if "always" in told:
            self.always[told["model"]] = told["always"]
        if "most" in told:
            self.most[told["model"]] = told["most"]
        return web.json_response({})

    async def log(self, request: web.Request) -> web.Response:
        model = request.query["model"]
        billed, peak = self.billed[model], self.peak[model]
        return web.json_response(
            {"seen": self.seen[model], "bills": len(billed), "billed": billed, "peak": peak}
        )

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        model = body["model"]
        headers = {name.lower(): value for name, value in request.headers.items()}
        now = asyncio.get_running_loop().time()
        self.seen[model].append({"path": request.path_qs, "headers": headers, "body": body, "at": now})
        turns = self.turns[model]
        turn = turns.popleft() if turns else {"text": said(body), **self.always.get(model, {})}
        self.at_once[model] += 1
        try:
            if self.at_once[model] > self.most.get(model, sys.maxsize):
                turn = {"status": 429}
            else:
                self.peak[model] = max(self.peak[model], self.at_once[model])
            return await self.act(request, body, turn)
        finally:
            self.at_once[model] -= 1

    async def act(self, request: web.Request, body: Turn, turn: Turn) -> web.StreamResponse:
        status = turn.get("status") or FAILS.get(turn.get("fail", ""), 200)
        if status not in UNBILLED and turn.get("bill", True):
            self.bill(body)
        await asyncio.sleep(turn.get("delay", 0))
        if status != 200:
            return refusal(request, status, turn)
        if "do" in turn:
            return await misbehave(request, turn["do"])
        if "raw" in turn:
            return web.Response(text=turn["raw"], content_type=turn.get("type", "application/json"))
        kind = request.path.rpartition("/")[2]
        whole = RENDER[kind](body, turn)
        if body.get("stream"):
            return await stream(request, kind, whole, turn)
        return web.json_response(whole, headers=turn.get("headers"))


def said(body: Turn) -> str:
    last = (body.get("messages") or body.get("input"))[-1]["content"]
    return last if isinstance(last, str) else "".join(part.get("text", "") for part in last)


def refusal(request: web.Request, status: int, turn: Turn) -> web.Response:
    message = turn.get("message", "scripted to fail")
    if turn.get("echo"):
        message += (
            f" headers {dict(request.headers)} url {request.url} token {request.headers.get('authorization')}"
        )
    headers = dict(turn.get("headers", {}))
    if "text_error" in turn:
        return web.Response(text=turn["text_error"], status=status)
    if "retry_after" in turn:
        headers["retry-after"] = str(turn["retry_after"])
    error = turn.get("error") or {"error": {"message": message, "type": turn.get("code", "scripted")}}
    return web.json_response(error, status=status, headers=headers)


async def misbehave(request: web.Request, what: str) -> web.StreamResponse:
    if what == "hang":
        await asyncio.sleep(60)
    response = web.StreamResponse(headers={"content-type": "application/json"})
    if what in ("cut", "trickle", "huge"):
        await response.prepare(request)
        await response.write(b'{"choices": [')
    if what == "trickle":
        for _ in range(600):
            await response.write(b" ")
            await asyncio.sleep(0.05)
    if what == "huge":
        for _ in range(80):
            await response.write(b" " * 2**20)
    assert request.transport is not None
    request.transport.abort()
    return response


def usage(turn: Turn) -> tuple[int, int]:
    told = turn.get("usage") or {}
    return told.get("input", 3), told.get("output", len(turn.get("text", "").split()))


def chat(body: Turn, turn: Turn) -> Turn:
    read, written = usage(turn)
    told = turn.get("usage") or {}
    message: Turn = {"role": "assistant", "content": turn.get("text", "")}
    if turn.get("tool_calls"):
        message["tool_calls"] = [
            {
                "id": call["id"],
                "type": "function",
                "function": {"name": call["name"], "arguments": json.dumps(call["arguments"])},
            }
            for call in turn["tool_calls"]
        ]
    if turn.get("reasoning"):
        message["reasoning_content"] = turn["reasoning"]
    choice: Turn = {"index": 0, "message": message, "finish_reason": turn.get("finish", "stop")}
    if body.get("logprobs"):
        tokens = [{"token": word, "logprob": -0.5, "top_logprobs": []} for word in turn["text"].split()]
        choice["logprobs"] = {"content": tokens}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "model": f"{body['model']}-served",
        "choices": [{**choice, "index": i} for i in range(body.get("n", 1))],
        "usage": {
            "prompt_tokens": read,
            "completion_tokens": written,
            "total_tokens": read + written,
            "prompt_tokens_details": {"cached_tokens": told.get("cached", 0)},
            "completion_tokens_details": {"reasoning_tokens": told.get("reasoning", 0)},
        },
    }


def responses(body: Turn, turn: Turn) -> Turn:
    read, written = usage(turn)
    told = turn.get("usage") or {}
    part = {"type": "output_text", "text": turn.get("text", ""), "annotations": []}
    output: list[Turn] = [{"type": "message", "role": "assistant", "content": [part]}]
    if turn.get("reasoning"):
        thought = {"type": "summary_text", "text": turn["reasoning"]}
        output.insert(0, {"type": "reasoning", "summary": [thought]})
    for call in turn.get("tool_calls") or ():
        said_args = json.dumps(call["arguments"])
        output.append(
            {"type": "function_call", "call_id": call["id"], "name": call["name"], "arguments": said_args}
        )
    cut = turn.get("finish") == "length"
    return {
        "id": "resp_1",
        "object": "response",
        "model": f"{body['model']}-served",
        "status": "incomplete" if cut else "completed",
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "error": None,
        "output": output,
        "usage": {
            "input_tokens": read,
            "output_tokens": written,
            "input_tokens_details": {"cached_tokens": told.get("cached", 0)},
            "output_tokens_details": {"reasoning_tokens": told.get("reasoning", 0)},
        },
    }


def messages(body: Turn, turn: Turn) -> Turn:
    read, written = usage(turn)
    told = turn.get("usage") or {}
    cached, stored = told.get("cached", 0), told.get("stored", 0)
    content: list[Turn] = [{"type": "text", "text": turn.get("text", "")}] if turn.get("text") else []
    if turn.get("reasoning"):
        content.insert(0, {"type": "thinking", "thinking": turn["reasoning"], "signature": "c2ln"})
    for call in turn.get("tool_calls") or ():
        content.append(
            {"type": "tool_use", "id": call["id"], "name": call["name"], "input": call["arguments"]}
        )
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": f"{body['model']}-served",
        "content": content,
        "stop_reason": STOPS[turn.get("finish", "stop")],
        "stop_sequence": None,
        "usage": {
            "input_tokens": read - cached - stored,
            "cache_read_input_tokens": cached,
            "cache_creation_input_tokens": stored,
            "output_tokens": written,
        },
    }


def chat_events(whole: Turn) -> list[Turn]:
    base = {"id": whole["id"], "object": "chat.completion.chunk", "model": whole["model"]}
    events: list[Turn] = []
    for choice in whole["choices"]:
        index, message = choice["index"], choice["message"]
        deltas: list[Turn] = [{"role": "assistant", "content": ""}]
        deltas += [{"reasoning_content": piece} for piece in pieces(message.get("reasoning_content", ""))]
        deltas += [{"content": piece} for piece in pieces(message["content"])]
        for i, call in enumerate(message.get("tool_calls", ())):
            named = {"name": call["function"]["name"], "arguments": ""}
            deltas.append({"tool_calls": [{**call, "index": i, "function": named}]})
            for piece in pieces(call["function"]["arguments"]):
                deltas.append({"tool_calls": [{"index": i, "function": {"arguments": piece}}]})
        events += [{**base, "choices": [{"index": index, "delta": d, "finish_reason": None}]} for d in deltas]
        logprobs = {"logprobs": choice["logprobs"]} if "logprobs" in choice else {}
        last = {"index": index, "delta": {}, "finish_reason": choice["finish_reason"], **logprobs}
        events.append({**base, "choices": [last]})
    return [*events, {**base, "choices": [], "usage": whole["usage"]}]


def responses_events(whole: Turn) -> list[Turn]:
    deltas = [
        {"type": "response.output_text.delta", "delta": piece}
        for item in whole["output"]
        if item["type"] == "message"
        for piece in pieces(item["content"][0]["text"])
    ]
    end = {"type": f"response.{whole['status']}", "response": whole}
    return [{"type": "response.created", "response": {**whole, "output": []}}, *deltas, end]


def messages_events(whole: Turn) -> list[Turn]:
    usage_before = {**whole["usage"], "output_tokens": 1}
    before = {**whole, "content": [], "stop_reason": None, "usage": usage_before}
    events: list[Turn] = [{"type": "message_start", "message": before}, {"type": "ping"}]
    for index, block in enumerate(whole["content"]):
        kind = block["type"]
        empty = {
            "text": {"text": ""},
            "thinking": {"thinking": "", "signature": ""},
            "tool_use": {"input": {}},
        }
        events.append(
            {"type": "content_block_start", "index": index, "content_block": {**block, **empty[kind]}}
        )
        for delta in block_deltas(block):
            events.append({"type": "content_block_delta", "index": index, "delta": delta})
        events.append({"type": "content_block_stop", "index": index})
    stop = {"stop_reason": whole["stop_reason"], "stop_sequence": None}
    used = {"output_tokens": whole["usage"]["output_tokens"]}
    return [*events, {"type": "message_delta", "delta": stop, "usage": used}, {"type": "message_stop"}]


def block_deltas(block: Turn) -> list[Turn]:
    if block["type"] == "tool_use":
        return [{"type": "input_json_delta", "partial_json": p} for p in pieces(json.dumps(block["input"]))]
    if block["type"] == "thinking":
        thoughts = [{"type": "thinking_delta", "thinking": p} for p in pieces(block["thinking"])]
        return [*thoughts, {"type": "signature_delta", "signature": block["signature"]}]
    return [{"type": "text_delta", "text": p} for p in pieces(block["text"])]


def pieces(text: str) -> list[str]:
    step = max(4, len(text) // 20)
    return [text[i : i + step] for i in range(0, len(text), step)]


RENDER = {"completions": chat, "responses": responses, "messages": messages}
EVENTS = {"completions": chat_events, "responses": responses_events, "messages": messages_events}


async def stream(request: web.Request, kind: str, whole: Turn, turn: Turn) -> web.StreamResponse:
    response = web.StreamResponse(headers={"content-type": "text/event-stream", **turn.get("headers", {})})
    await response.prepare(request)
    events = EVENTS[kind](whole)
    stop = turn.get("events", len(events))
    for number, event in enumerate(events[:stop]):
        if number == 1:
            await asyncio.sleep(turn.get("first", 0))
        named = f"event: {event['type']}\n" if "type" in event else ""
        await response.write(f"{named}data: {json.dumps(event)}\n\n".encode())
    if "error_event" in turn:
        await response.write(f"data: {json.dumps(turn['error_event'])}\n\n".encode())
    elif kind == "completions" and stop == len(events):
        await response.write(b"data: [DONE]\n\n")
    return response


async def serve(bills: Path | None) -> None:
    endpoint = Endpoint(bills)
    app = web.Application(client_max_size=2**26)
    app.add_routes([web.post("/script", endpoint.script), web.get("/log", endpoint.log)])
    app.add_routes([web.post("/{tail:.*}", endpoint.answer)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    # No farewell: whoever started this is gone, and answers under way may sleep for a minute.


if __name__ == "__main__":
    import os

    loop = asyncio.new_event_loop()
    loop.run_until_complete(serve(Path(sys.argv[1]) if len(sys.argv) > 1 else None))
    os._exit(0)
