"""A provider in a process of its own that counts what it bills, whatever it says or fails to say.

    python billing_server.py

It prints its port, and ends when its standard input does. It takes chat completions whose last message is
JSON: {"out": tokens of output, "do": what happens, "pad": anything}. Input is billed by the byte of all
texts, times "ratio" (at most 1). "do" is a list, one for each time that this very request comes ("ok" beyond
its end): ok; silent (an answer without usage); late (after 0.2 s); busy (429) and refused (400), which are
not billed; broken (500 after it was billed), reset (the connection, after it was billed), and garbled (200
with a body that cannot be unpacked). GET /bill?model=NAME: {"input", "output", "calls"} that were billed.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import math
import sys
from collections import Counter, defaultdict
from typing import Any

from aiohttp import web

Body = dict[str, Any]
UNBILLED = {"busy": 429, "refused": 400}


class Provider:
    def __init__(self) -> None:
        self.bills: dict[str, Counter[str]] = defaultdict(Counter)
        self.came: Counter[tuple[str, str]] = Counter()

    async def bill(self, request: web.Request) -> web.Response:
        return web.json_response(dict(self.bills[request.query["model"]]))

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.json()
        text = "".join(texts(body))
        told = json.loads(body["messages"][-1]["content"])
        turn, key = told.get("do") or [], (body["model"], text)
        do = turn[self.came[key]] if self.came[key] < len(turn) else "ok"
        self.came[key] += 1
        if do in UNBILLED:
            return web.json_response({"error": {"message": do}}, status=UNBILLED[do])
        read = math.ceil(len(text.encode()) * told.get("ratio", 1))
        wrote = min(told["out"], body.get("max_tokens") or sys.maxsize) * body.get("n", 1)
        self.bills[body["model"]] += Counter(input=read, output=wrote, calls=1)
        return await self.reply(request, body, do, read, wrote)

    async def reply(
        self, request: web.Request, body: Body, do: str, read: int, wrote: int
    ) -> web.StreamResponse:
        await asyncio.sleep(0.2 if do == "late" else 0)
        if do == "reset":
            assert request.transport is not None
            request.transport.abort()
        if do == "broken":
            return web.json_response({"error": {"message": do}}, status=500)
        message = {"role": "assistant", "content": "so it is"}
        whole: Body = {"model": body["model"], "choices": [{"message": message, "finish_reason": "stop"}]}
        if do != "silent":
            whole["usage"] = {"prompt_tokens": read, "completion_tokens": wrote}
        if do == "garbled":
            packed = gzip.compress(json.dumps(whole).encode())
            return web.Response(body=packed[:12] + packed[20:], headers={"content-encoding": "gzip"})
        return web.json_response(whole)


def texts(body: Body) -> list[str]:
    """All that a model would read."""
    said = [message["content"] for message in body["messages"]]
    return [*said, *(json.dumps(body[name]) for name in ("tools", "response_format") if name in body)]


async def main() -> None:
    provider = Provider()
    app = web.Application(client_max_size=2**26)
    app.add_routes([web.get("/bill", provider.bill), web.post("/v1/chat/completions", provider.answer)])
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
