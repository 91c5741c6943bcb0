"""Executes a random work plan whose units do nothing."""

from __future__ import annotations

import json
import os
import random
import time
from importlib.metadata import version
from pathlib import Path

from meter import arguments, measure, warm_up_folder

from peira import fanout, unit
from peira.spec.work.plan import WorkUnit

AT_ONCE = 4


def nothing() -> None:
    """The work of a unit."""


def units(n: int, what: str) -> list[WorkUnit]:
    """Units with up to three needs among the fifty before them."""
    rng, made = random.Random(1), []
    for i in range(n):
        few = min(i, rng.randint(0, 3))
        needs = [f"u{j}" for j in rng.sample(range(max(0, i - 50), i), few)] if i else []
        if what == "function":
            made.append(unit(f"u{i}", nothing, needs))
        else:
            made.append(unit(f"u{i}", ["true"], needs, confine=what == "confined"))
    return made


def execute(plan: list[WorkUnit], folder: Path) -> bool:
    """Execute a plan on a base of one file."""
    base = folder / "base"
    base.mkdir(parents=True, exist_ok=True)
    (base / "file").write_text("a file\n")
    given = {"base": str(base), "parallel": AT_ONCE, "units": plan}
    return fanout(given, store=folder / "work.db", progress=False).succeeded


def first(folder: Path) -> bool:
    """How long it takes until the first unit begins, as the time of the whole measurement."""
    stamp = folder / "began"
    plan = [unit("first", ["sh", "-c", f"date +%s.%N > {stamp}"], confine=False)]
    began = time.time()
    fine = execute(plan, folder)
    passed = time.time() - began
    took = float(stamp.read_text()) - began
    return fine and 0 < took <= passed and _note(took)


_taken: list[float] = []


def _note(seconds: float) -> bool:
    _taken.append(seconds)
    return True


def main() -> None:
    parser = arguments()
    parser.add_argument("--what", choices=("function", "open", "confined", "first", "output"), required=True)
    args = parser.parse_args()
    warm = "function" if args.what == "function" else "open" if args.what in ("open", "first") else "confined"
    execute(units(5, warm), warm_up_folder(args.folder))
    if args.what == "first":
        row, fine = measure(1, args.folder, lambda: first(args.folder))
        row["seconds"] = _taken[0]
    elif args.what == "output":
        code = "import os\nfor _ in range(128): os.write(1, b'y' * (1 << 20))"
        plan = [unit("prints", ["python3", "-c", code])]
        row, fine = measure(1, args.folder, lambda: execute(plan, args.folder))
    else:
        plan = units(args.n, args.what)
        row, fine = measure(args.n, args.folder, lambda: execute(plan, args.folder))
    if not fine:
        raise SystemExit(f"{args.what}: not all units succeeded")
    print(json.dumps({"name": args.what, "version": version("peira"), **row}))


if __name__ == "__main__":
    os.umask(0o022)
    main()
