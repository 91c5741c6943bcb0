"""One step with a very large run: a no-op agent, `exact`, a SQLite store that all steps share."""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from meter import arguments, measure, texts, warm_up_folder

import peira


def echo(case: peira.Case) -> object:
    return case.input


def echo_but_one(case: peira.Case) -> object:
    if case.input == "question 0000007":
        raise OSError("not this one")
    return case.input


def large_study(n: int, agent: Any, *more: Any) -> Any:
    """The study of `n` cases, with `exact` and more evaluators."""
    cases = [peira.Case(text, expected=text) for text in texts(n)]
    return peira.study(cases=cases, evaluators=[peira.exact(), *more], name=agent.__name__)(agent)


def streamed_study(n: int, folder: Path) -> Any:
    """The same of cases that are read from a file, which lies beside the folder."""
    file = warm_up_folder(folder) / "cases.jsonl"
    with file.open("w") as lines:
        for text in texts(n):
            lines.write(json.dumps({"input": text, "expected": text}) + "\n")
    return peira.study(cases=file, evaluators=[peira.exact()], name="echo")(echo)


def length(output: object) -> float:
    return float(len(str(output)))


def rescored(n: int, store: Path) -> Any:
    """The study with another evaluator, which is part of this module: other processes can have it."""
    from large import length as evaluator

    work = large_study(n, echo, evaluator)
    return lambda: peira.evaluate(work, store=store, progress=False)


def run(work: Any, store: Path) -> Any:
    policy = {"retries": 0}
    return lambda: peira.run(work, store=store, progress=False, parallel=16, policy=policy)


def planned(work: Any) -> Any:
    return lambda: str(peira.plan(work))


def opened(folder: Path) -> Any:
    return peira.open(folder / "store.db").results()


def exported(folder: Path, format: str) -> Any:
    return opened(folder).export(folder / f"all.{format}", format)


def main() -> None:
    parser = arguments()
    parser.add_argument("--step", required=True)
    args = parser.parse_args()
    store, failing = args.folder / "store.db", args.folder / "failing.db"
    streamed = args.folder / "streamed.db"
    start = time.perf_counter()
    steps: dict[str, Any] = {
        "plan": lambda: planned(large_study(args.n, echo)),
        "run": lambda: run(large_study(args.n, echo), store),
        "again": lambda: run(large_study(args.n, echo), store),
        "plan, from a file": lambda: planned(streamed_study(args.n, args.folder)),
        "run, from a file": lambda: run(streamed_study(args.n, args.folder), streamed),
        "again, from a file": lambda: run(streamed_study(args.n, args.folder), streamed),
        "table": lambda: lambda: str(opened(args.folder).table()),
        "show": lambda: lambda: str(opened(args.folder)),
        "one failed": lambda: run(large_study(args.n, echo_but_one), failing),
        "again, one failed": lambda: run(large_study(args.n, echo_but_one), failing),
        "count": lambda: lambda: len(opened(args.folder).trials),
        "report": lambda: lambda: opened(args.folder).report(args.folder / "all.html"),
        "csv": lambda: lambda: opened(args.folder).to_csv(args.folder / "all.csv"),
        "parquet": lambda: lambda: exported(args.folder, "parquet"),
        "artifact": lambda: lambda: exported(args.folder, "artifact"),
        "score again": lambda: rescored(args.n, store),
    }
    step = steps[args.step]()
    built = time.perf_counter() - start
    row, found = measure(args.n, args.folder, step)
    if args.step in ("run", "run, from a file") and not found.ok:
        raise SystemExit("not every trial succeeded")
    if args.step == "again, one failed" and found.counts["failed"] != 1:
        raise SystemExit(f"one trial should have failed: {dict(found.counts)}")
    print(json.dumps({"name": args.step, "version": version("peira"), **row, "build_seconds": built}))


if __name__ == "__main__":
    sys.exit(main())
