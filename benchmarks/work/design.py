"""Planning: a full factorial of ten million runs up to its first 1,000 trials, or a D-optimal design."""

from __future__ import annotations

import json
from importlib.metadata import version
from itertools import islice

from meter import arguments, measure

import peira
from peira.plan.expansion import expand

FACTORS = 7
MIXED = {
    **{name: ["a", "b"] for name in ("style", "role", "format")},
    **{name: ["a", "b", "c"] for name in ("model", "language")},
    **{name: {"low": 0.0, "high": 1.0} for name in ("temperature", "share", "weight")},
}


def agent(case: peira.Case, **factors: object) -> int:
    return 1


def large() -> int:
    """Plan the full factorial and take the ids of its first 1,000 trials."""
    factors = {f"f{i}": list(range(10)) for i in range(FACTORS)}
    plan = expand(peira.study(agent=agent, cases=["x"], factors=factors))
    ids = {plan.layout.trial_id(plan.layout.place(i)) for i in islice(plan.layout.in_run_order(), 1000)}
    return len(plan) if len(ids) == 1000 else 0


def optimal(runs: int) -> int:
    """Plan a D-optimal design of mixed factors."""
    design = {"name": "d_optimal", "runs": runs, "formula": "main"}
    return len(expand(peira.study(agent=agent, cases=["x"], factors=MIXED, design=design)))


def main() -> None:
    parser = arguments()
    parser.add_argument("--what", choices=("large", "optimal"), default="large")
    args = parser.parse_args()
    work = large if args.what == "large" else lambda: optimal(args.n)
    row, trials = measure(args.n, args.folder, work)
    if trials != args.n:
        raise SystemExit(f"{trials} trials were planned, not {args.n}")
    print(json.dumps({"name": args.what, "version": version("peira"), **row}))


if __name__ == "__main__":
    main()
