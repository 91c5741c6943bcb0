"""Starts Python for generated code, two at a time: confined as `code_tests` does it, or bare."""

from __future__ import annotations

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

from meter import arguments, measure

from peira.core.context import SeenCase
from peira.evaluators.code import PYTHON, code_tests
from peira.sandbox.run import run_confined

try:
    from peira.sandbox.confinement import interpreter
except ImportError:  # a former commit, where it had another name
    from peira.sandbox.confine import interpreter  # type: ignore[import-not-found, no-redef]

CASE = SeenCase("double", "1")
CODE, TESTS = "def double(x: int) -> int:\n    return 2 * x\n", "assert double(21) == 42"


def bare() -> bool:
    """Start the interpreter without a sandbox."""
    return subprocess.run([interpreter(), *PYTHON, "-c", "pass"], capture_output=True).returncode == 0


def confined() -> bool:
    """Start the interpreter in the sandbox."""
    return run_confined([interpreter(), *PYTHON, "-c", "pass"]).exit == 0


def judged() -> bool:
    """Run `code_tests` on a small function."""
    return code_tests().judge({"output": CODE, "expected": TESTS, "case": CASE})["passed"] is True


WORKS = {"bare": bare, "confined": confined, "judged": judged}


def main() -> None:
    parser = arguments()
    parser.add_argument("--what", choices=tuple(WORKS), required=True)
    args = parser.parse_args()
    work = WORKS[args.what]
    if not work():
        raise SystemExit(f"{args.what}: it did not succeed")
    with ThreadPoolExecutor(2) as pool:
        row, fine = measure(args.n, args.folder, lambda: sum(pool.map(lambda _: work(), range(args.n))))
    if fine != args.n:
        raise SystemExit(f"{fine} of {args.n} succeeded")
    print(json.dumps({"name": args.what, "version": version("peira"), **row}))


if __name__ == "__main__":
    main()
