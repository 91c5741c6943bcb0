"""Scoring: outputs are generated and stored first; only `evaluate` is measured."""

from __future__ import annotations

import json
from importlib.metadata import version

from meter import arguments, measure

from peira import Case, evaluate, generate, study


def main() -> None:
    parser = arguments()
    parser.add_argument("--evaluator", required=True)
    args = parser.parse_args()
    cases = [Case(n, expected=n if n % 3 else n + 1) for n in range(args.n)]
    work = study(cases=cases, evaluators=[args.evaluator])(lambda case: case.input)
    store = args.folder / "store.db"
    generate(work, store=store, progress=False)
    row, results = measure(args.n, args.folder, lambda: evaluate(work, store=store, progress=False))
    if results.counts.get("scores") != args.n or not results.ok:
        raise SystemExit(f"not every output was judged: {dict(results.counts)}")
    print(json.dumps({"name": args.evaluator, "version": version("peira"), **row}))


if __name__ == "__main__":
    main()
