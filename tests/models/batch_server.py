"""An endpoint in a process of its own that takes batches, in OpenAI's form and in Anthropic's.

    python batch_server.py KEY [BILLS]

It prints its port, ends when its standard input does, turns away whoever does not have the key, and says the
last message back, in reverse. Results come as lines in a shuffled order. It bills for a request when it takes
its batch, by custom id: one line each in BILLS. What it does is told by POST /plan, for a "model":

    hold        its batches are not over before it is false
    slow        how many looks at a batch find it unfinished
    items       by what is said: {"error": status or type, "message"}, {"ends": "expired" or "cancelled"},
                or {"strange": true} for an answer that is none, the first "times" times that it is asked,
                or {"line": text} for what is in the place of its line, with its key for KEY
    whole       its batches fail or are cancelled as a whole: {"status", "code", "message"}, those with more
                than "above" requests
    turns       what happens at the next requests, by route (upload, submit, look, results, list): {"status",
                "message", "headers"}, or {"do": "reset" | "garbage"}, with "taken": after it was done

GET /log?model=NAME has its batches, what was billed, and what was asked, by route.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections import Counter, defaultdict, deque
from email import message_from_bytes
from itertools import count
from pathlib import Path
from typing import Any

from aiohttp import web

Plan = dict[str, Any]
ENDS = {"expired": "batch_expired", "cancelled": "batch_cancelled"}


class Refused(Exception):
    def __init__(self, response: web.StreamResponse) -> None:
        self.response = response


class Provider:
    def __init__(self, key: str, bills: Path | None) -> None:
        self.key = key
        self.file = bills.open("a") if bills else None
        self.plans: dict[str, Plan] = defaultdict(dict)
        self.turns: dict[tuple[str, str], deque[Plan]] = defaultdict(deque)
        self.batches: dict[str, Plan] = {}
        self.files: dict[str, Any] = {}
        self.billed: dict[str, list[tuple[str, str]]] = defaultdict(list)
        self.asked: dict[str, Counter[str]] = defaultdict(Counter)
        self.times: dict[str, Counter[str]] = defaultdict(Counter)
        self.headers: dict[str, list[dict[str, str]]] = defaultdict(list)
        self.numbers = count(1)
        self.dice = random.Random(7)

    # What a test tells and asks

    async def plan(self, request: web.Request) -> web.Response:
        told = await request.json()
        model = told.pop("model")
        for route, turns in told.pop("turns", {}).items():
            self.turns[model, route].extend(turns)
        self.plans[model].update(told)
        return web.json_response({})

    async def log(self, request: web.Request) -> web.Response:
        model = request.query["model"]
        return web.json_response(
            {
                "batches": [b for b in self.batches.values() if b["model"] == model],
                "billed": self.billed[model],
                "asked": self.asked[model],
                "headers": self.headers[model],
            }
        )

    # What happens at every request

    def guard(self, request: web.Request) -> None:
        given = (request.headers.get(name, "") for name in ("x-api-key", "api-key", "authorization"))
        key = next(filter(None, given), "").removeprefix("Bearer ")
        if key != self.key:
            raise Refused(error(401, f"no such key: {key}"))

    def turn(self, request: web.Request, route: str, model: str, taken: bool = False) -> None:
        """Do what is planned for this request: before it is heeded, or after it was (`taken`)."""
        if not taken:
            self.asked[model][route] += 1
            self.headers[model].append({name.lower(): value for name, value in request.headers.items()})
        turns = self.turns[model, route]
        if not turns or bool(turns[0].get("taken")) != taken:
            return
        turn = turns.popleft()
        if turn.get("do") == "reset":
            assert request.transport is not None
            request.transport.abort()
            raise Refused(web.Response())
        if turn.get("do") == "garbage":
            raise Refused(web.Response(text="<html>"))
        raise Refused(error(turn["status"], turn.get("message", "planned to fail"), turn.get("headers")))

    def bill(self, model: str, key: str, said: str) -> None:
        self.billed[model].append((key, said))
        if self.file:
            self.file.write(f"{key}\n")
            self.file.flush()

    def take(self, model: str, requests: list[tuple[str, Plan]], label: str, form: str) -> Plan:
        plan, whole = self.plans[model], self.plans[model].get("whole")
        id = f"{form}_{next(self.numbers)}"
        batch: Plan = {"id": id, "model": model, "label": label, "looks": 0, "items": []}
        batch["whole"] = whole if whole and len(requests) > whole.get("above", 0) else None
        for key, body in requests:
            said = last_words(body)
            self.times[model][said] += 1
            item = plan.get("items", {}).get(said, {})
            ends = item if self.times[model][said] <= item.get("times", sys.maxsize) else {}
            if not batch["whole"] and "error" not in ends and "ends" not in ends:
                self.bill(model, key, said)
            batch["items"].append({"key": key, "said": said, **ends})
        self.dice.shuffle(batch["items"])
        self.batches[id] = batch
        return batch

    def over(self, batch: Plan) -> bool:
        plan = self.plans[batch["model"]]
        return not plan.get("hold") and batch["looks"] > plan.get("slow", 0)

    def find(self, request: web.Request, route: str) -> Plan:
        batch = self.batches.get(request.match_info["id"])
        if batch is None:
            raise Refused(error(404, "no such batch"))
        self.turn(request, route, batch["model"])
        return batch

    # OpenAI's form

    async def upload(self, request: web.Request) -> web.Response:
        head = f"Content-Type: {request.headers['content-type']}\r\n\r\n".encode()
        parts = {p.get_param("name", header="content-disposition"): p
                 for p in message_from_bytes(head + await request.read()).get_payload()}  # fmt: skip
        assert parts["purpose"].get_payload() == "batch"
        lines = [json.loads(line) for line in parts["file"].get_payload(decode=True).split(b"\n")]
        self.turn(request, "upload", lines[0]["body"]["model"])
        id = f"file-{next(self.numbers)}"
        self.files[id] = lines
        return web.json_response({"id": id, "object": "file", "purpose": "batch"})

    async def create(self, request: web.Request) -> web.Response:
        body = await request.json()
        lines = self.files[body["input_file_id"]]
        model = lines[0]["body"]["model"]
        self.turn(request, "submit", model)
        assert body["completion_window"] == "24h"
        assert {(line["url"], line["method"]) for line in lines} == {(body["endpoint"], "POST")}
        requests = [(line["custom_id"], line["body"]) for line in lines]
        batch = self.take(model, requests, body["metadata"]["peira"], "batch")
        self.turn(request, "submit", model, taken=True)
        return web.json_response(self.shown(batch))

    def shown(self, batch: Plan) -> Plan:
        over, items, whole = self.over(batch), batch["items"], batch["whole"]
        done = [item for item in items if "error" not in item and "ends" not in item]
        status = "in_progress" if not over else whole["status"] if whole else "completed"
        if over and any(item.get("ends") == "expired" for item in items):
            status = "expired"
        found: Plan = {
            "id": batch["id"],
            "object": "batch",
            "status": status,
            "metadata": {"peira": batch["label"]},
            "request_counts": {"total": len(items), "completed": len(done) if over else 0, "failed": 0},
            "output_file_id": None,
            "error_file_id": None,
        }
        if over and whole:
            problem = {"code": whole.get("code"), "message": whole.get("message"), "line": None}
            return {**found, "errors": {"object": "list", "data": [problem]}}
        if over:
            found["output_file_id"] = f"out-{batch['id']}" if done else None
            found["error_file_id"] = f"err-{batch['id']}" if len(done) < len(items) else None
        return found

    async def look(self, request: web.Request) -> web.Response:
        batch = self.find(request, "look")
        batch["looks"] += 1
        return web.json_response(self.shown(batch))

    async def listed(self, request: web.Request) -> web.Response:
        ours = [batch for batch in self.batches.values() if batch["id"].startswith("batch")][::-1]
        if ours:
            self.turn(request, "list", ours[0]["model"])
        limit, after = int(request.query.get("limit", 20)), request.query.get("after")
        start = next((i + 1 for i, batch in enumerate(ours) if batch["id"] == after), 0)
        page = ours[start : start + min(limit, 3)]
        more = start + len(page) < len(ours)
        return web.json_response({"object": "list", "data": list(map(self.shown, page)), "has_more": more})

    async def content(self, request: web.Request) -> web.Response:
        which, _, id = request.match_info["file"].partition("-")
        batch = self.batches[id]
        self.turn(request, "results", batch["model"])
        items = [item for item in batch["items"] if ("error" in item or "ends" in item) == (which == "err")]
        lines = [written(openai_line, batch["model"], item) for item in items]
        return web.Response(text="\n".join(lines) + "\n", content_type="application/octet-stream")

    # Anthropic's form

    async def create_messages(self, request: web.Request) -> web.Response:
        requests = [(one["custom_id"], one["params"]) for one in (await request.json())["requests"]]
        model = requests[0][1]["model"]
        self.turn(request, "submit", model)
        assert all(len(key) <= 64 for key, _ in requests)
        batch = self.take(model, requests, "", "msgbatch")
        self.turn(request, "submit", model, taken=True)
        return web.json_response(self.shown_messages(batch))

    def shown_messages(self, batch: Plan) -> Plan:
        over, total = self.over(batch), len(batch["items"])
        counts = Counter(outcome(item) for item in batch["items"])
        named = {
            name: counts[name] if over else 0 for name in ("succeeded", "errored", "canceled", "expired")
        }
        return {
            "id": batch["id"],
            "type": "message_batch",
            "processing_status": "ended" if over else "in_progress",
            "request_counts": {"processing": 0 if over else total, **named},
            "results_url": f"http://localhost/v1/messages/batches/{batch['id']}/results" if over else None,
        }

    async def look_messages(self, request: web.Request) -> web.Response:
        batch = self.find(request, "look")
        batch["looks"] += 1
        return web.json_response(self.shown_messages(batch))

    async def results(self, request: web.Request) -> web.Response:
        batch = self.find(request, "results")
        lines = [written(messages_line, batch["model"], item) for item in batch["items"]]
        return web.Response(text="\n".join(lines) + "\n", content_type="application/x-jsonl")

    # One by one

    async def answer(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.turn(request, "direct", body["model"])
        said = last_words(body)
        self.bill(body["model"], "", said)
        whole = message if request.path.endswith("messages") else completion
        return web.json_response(whole(body["model"], said))


def last_words(body: Plan) -> str:
    said = (body.get("messages") or body["input"])[-1]["content"]
    return said if isinstance(said, str) else said[0]["text"]


def outcome(item: Plan) -> str:
    return {"expired": "expired", "cancelled": "canceled"}.get(
        item.get("ends", ""), "errored" if "error" in item else "succeeded"
    )


def written(line: Any, model: str, item: Plan) -> str:
    given = item.get("line")
    return json.dumps(line(model, item)) if given is None else given.replace("KEY", item["key"])


def openai_line(model: str, item: Plan) -> Plan:
    line: Plan = {"id": "r", "custom_id": item["key"], "response": None, "error": None}
    if "ends" in item:
        return {**line, "error": {"code": ENDS[item["ends"]], "message": f"it is {item['ends']}"}}
    if "error" in item:
        body = {"error": {"message": item.get("message", "planned to fail"), "type": "planned"}}
        return {**line, "response": {"status_code": item["error"], "request_id": "r", "body": body}}
    body = {"strange": 1} if "strange" in item else completion(model, item["said"])
    return {**line, "response": {"status_code": 200, "body": body}}


def messages_line(model: str, item: Plan) -> Plan:
    result: Plan = {"type": outcome(item)}
    if result["type"] == "succeeded":
        result["message"] = {"strange": 1} if "strange" in item else message(model, item["said"])
    elif result["type"] == "errored":
        inner = {"type": item["error"], "message": item.get("message", "planned to fail")}
        result["error"] = {"type": "error", "error": inner}
    return {"custom_id": item["key"], "result": result}


def completion(model: str, said: str) -> Plan:
    choice = {"index": 0, "message": {"role": "assistant", "content": said[::-1]}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
    return {"id": "c", "model": f"{model}-served", "choices": [choice], "usage": usage}


def message(model: str, said: str) -> Plan:
    return {
        "id": "m",
        "type": "message",
        "role": "assistant",
        "model": f"{model}-served",
        "content": [{"type": "text", "text": said[::-1]}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 10, "output_tokens": 5},
    }


def error(status: int, text: str, headers: Any = None) -> web.Response:
    return web.json_response({"error": {"message": text, "type": "planned"}}, status=status, headers=headers)


@web.middleware
async def refusing(request: web.Request, handler: Any) -> web.StreamResponse:
    provider: Provider = request.app[PROVIDER]
    try:
        if request.path not in ("/plan", "/log"):
            provider.guard(request)
        return await handler(request)
    except Refused as refusal:
        return refusal.response


PROVIDER = web.AppKey("provider", Provider)


async def serve(key: str, bills: Path | None) -> None:
    provider = Provider(key, bills)
    app = web.Application(client_max_size=2**28, middlewares=[refusing])
    app[PROVIDER] = provider
    app.add_routes(
        [
            web.post("/plan", provider.plan),
            web.get("/log", provider.log),
            web.post("/v1/files", provider.upload),
            web.get("/v1/files/{file}/content", provider.content),
            web.post("/v1/batches", provider.create),
            web.get("/v1/batches", provider.listed),
            web.get("/v1/batches/{id}", provider.look),
            web.post("/v1/messages/batches", provider.create_messages),
            web.get("/v1/messages/batches/{id}", provider.look_messages),
            web.get("/v1/messages/batches/{id}/results", provider.results),
            web.post("/v1/chat/completions", provider.answer),
            web.post("/v1/messages", provider.answer),
        ]
    )
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run(serve(sys.argv[1], Path(sys.argv[2]) if len(sys.argv) > 2 else None))
