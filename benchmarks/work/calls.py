"""N calls of a chat-completions endpoint: by peira (one per trial, ledger, durable) or a bare client."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path

import aiohttp
from meter import WARM_UP, arguments, measure, texts, warm_up_folder

import peira

MILLISECONDS = 50
"""The delay of the endpoint."""


@contextmanager
def endpoint() -> Iterator[str]:
    """A running endpoint; yields its base URL."""
    script = Path(__file__).with_name("endpoint.py")
    process = subprocess.Popen(
        [sys.executable, str(script), str(MILLISECONDS)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert process.stdin is not None
    assert process.stdout is not None
    yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1"
    process.stdin.close()
    process.wait()


async def bare(base: str, asked: list[str], at_once: int) -> int:
    """Send the same requests with a pool of workers over one session; returns the number of right answers."""
    queue = iter(asked)
    answered = 0

    async def worker(session: aiohttp.ClientSession) -> None:
        nonlocal answered
        for text in queue:
            body = json.dumps({"model": "bench", "messages": [{"role": "user", "content": text}]})
            headers = {"content-type": "application/json", "authorization": "Bearer none"}
            async with session.post(f"{base}/chat/completions", data=body, headers=headers) as response:
                said = json.loads(await response.read())
            answered += said["choices"][0]["message"]["content"] == "the answer"

    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session:
        await asyncio.gather(*(worker(session) for _ in range(at_once)))
    return answered


def ours(
    asked: list[str], store: Path, at_once: int, agent: str, evaluators: int, edition: str = "1"
) -> peira.Results:
    """Run a study with one call per trial; another `edition` has new trials and the same calls."""
    cases = [peira.Case(text, expected=text) for text in asked]
    judges = ["exact", "match", "includes", "edit_similarity"][:evaluators]
    if agent == "async":

        @peira.study(cases=cases, evaluators=judges, version=edition)
        async def calls(case: peira.Case) -> peira.Reply:
            return await peira.ask_async("openai:bench", case.input)

    else:

        @peira.study(cases=cases, evaluators=judges, version=edition)
        def calls(case: peira.Case) -> peira.Reply:
            return peira.ask("openai:bench", case.input)

    return peira.run(calls, store=str(store), parallel=at_once, progress=False)


def main() -> None:
    parser = arguments()
    parser.add_argument("--who", choices=("peira", "bare"), default="peira")
    parser.add_argument("--agent", choices=("async", "def"), default="async")
    parser.add_argument("--at-once", type=int, default=200)
    parser.add_argument("--evaluators", type=int, default=1, help="how many plain ones judge each trial")
    parser.add_argument("--again", action="store_true", help="measure it again with an edited agent")
    args = parser.parse_args()
    asked, store = texts(args.n), args.folder / "store.db"
    with endpoint() as base:
        os.environ |= {"OPENAI_BASE_URL": base, "OPENAI_API_KEY": "none"}
        asyncio.run(bare(base, texts(WARM_UP), WARM_UP))
        if args.who == "bare":
            row, answered = measure(args.n, args.folder, lambda: asyncio.run(bare(base, asked, args.at_once)))
        else:
            how = args.agent, args.evaluators
            ours(texts(WARM_UP), warm_up_folder(args.folder) / "store.db", WARM_UP, *how)
            if args.again:
                ours(asked, store, args.at_once, *how)
            edition = "2" if args.again else "1"
            row, results = measure(
                args.n, args.folder, lambda: ours(asked, store, args.at_once, *how, edition)
            )
            if args.again and results.spent.calls:
                raise SystemExit(f"{results.spent.calls} calls were bought again")
            answered = sum(trial.output == "the answer" for trial in results.trials)
    if answered != args.n:
        raise SystemExit(f"{answered} of {args.n} calls were answered")
    print(json.dumps({"name": args.who, "version": version("aiohttp"), **row}))


if __name__ == "__main__":
    main()
