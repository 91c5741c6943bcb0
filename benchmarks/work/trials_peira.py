"""The common work in peira: a no-op function agent, `exact`, a store (a SQLite file) with full durability.

`--mode run` starts from an empty store; `rerun` repeats it on the store that `run` left in the same folder
and counts the agent's calls; `plan` only plans, and renders the plan as text.
"""

from __future__ import annotations

import json
import os
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from meter import WARM_UP, arguments, measure, texts, warm_up_folder

from peira import Case, exact, plan, run, study


# An audit event counts calls without a global in the agent's code (which would be part of its identity)
# and costs almost nothing without a hook.
def echo(case: Case) -> object:
    sys.audit("benchmark.call")
    return case.input


async def echo_async(case: Case) -> object:
    sys.audit("benchmark.call")
    return case.input


def echo_study(n: int, agent: str) -> Any:
    """The study of `n` cases."""
    cases = [Case(text, expected=text) for text in texts(n)]
    return study(cases=cases, evaluators=[exact()])(echo if agent == "def" else echo_async)


def calls_from_now() -> list[str]:
    """A list that grows by one with every call of an agent in this process (audit hook)."""
    calls: list[str] = []
    sys.addaudithook(lambda event, _: calls.append(event) if event == "benchmark.call" else None)
    return calls


def store_of(args: Any, name: str, file: Path) -> Path | str:
    """The store to use: the file, or a new schema of the database."""
    return f"{args.address}&schema={name}_{os.getpid()}" if args.address else file


def main() -> None:
    parser = arguments()
    parser.add_argument("--mode", choices=("run", "rerun", "plan"), default="run")
    parser.add_argument("--agent", choices=("def", "async"), default="def")
    parser.add_argument("--parallel", type=int, default=8)
    parser.add_argument("--address", help="of a database to use instead of a file")
    args = parser.parse_args()
    if args.mode == "run":
        warm_up = store_of(args, "warm_up", warm_up_folder(args.folder) / "store.db")
        run(echo_study(WARM_UP, args.agent), store=warm_up, parallel=args.parallel)
    start = time.perf_counter()
    work = echo_study(args.n, args.agent)
    extra: dict[str, float] = {"build_seconds": time.perf_counter() - start}
    if args.mode == "plan":
        row, _ = measure(args.n, args.folder, lambda: str(plan(work)))
    else:
        calls = calls_from_now() if args.mode == "rerun" else None
        store = store_of(args, "measured", args.folder / "store.db")
        row, results = measure(args.n, args.folder, lambda: run(work, store=store, parallel=args.parallel))
        if len(results.trials) != args.n or results.failures:
            raise SystemExit("not every trial succeeded")
        extra["new"] = args.n if calls is None else len(calls)
    print(json.dumps({"name": "peira", "version": version("peira"), **row, **extra}))


if __name__ == "__main__":
    main()
