"""A model in a process of its own that calls tools, and writes down each request that it bills.

    python agent_server.py FILE

Stateless: to a request with n replies of its own so far it answers with two calls of the tool `work`, three
times; then it says how many results it was told. It prints its port, and ends when its standard input does.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from typing import Any

from aiohttp import web

TURNS = 3


def replied(messages: list[dict[str, Any]]) -> dict[str, Any]:
    """The next message of the model."""
    n = sum(message["role"] == "assistant" for message in messages)
    if n >= TURNS:
        results = [message["content"] for message in messages if message["role"] == "tool"]
        return {"role": "assistant", "content": " ".join(results)}
    calls = [
        {
            "id": f"call_{n}_{i}",
            "type": "function",
            "function": {
                "name": "work",
                "arguments": json.dumps({"case": messages[0]["content"], "n": 2 * n + i}),
            },
        }
        for i in range(2)
    ]
    return {"role": "assistant", "content": None, "tool_calls": calls}


async def answer(request: web.Request) -> web.Response:
    body = await request.json()
    line = hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
    with open(sys.argv[1], "a") as file:
        file.write(f"{line}\n")
        file.flush()
        os.fsync(file.fileno())
    await asyncio.sleep(0.01)
    usage = {"prompt_tokens": 1, "completion_tokens": 1}
    choice = {"message": replied(body["messages"]), "finish_reason": "stop"}
    return web.json_response({"model": body["model"], "choices": [choice], "usage": usage})


async def main() -> None:
    app = web.Application()
    app.add_routes([web.post("/v1/chat/completions", answer)])
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(main())
