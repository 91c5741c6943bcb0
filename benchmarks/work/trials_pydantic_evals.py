"""The common work in pydantic-evals: its equality evaluator, no progress bar. It stores nothing."""

from __future__ import annotations

import json
from importlib.metadata import version
from typing import Any

from meter import WARM_UP, arguments, measure, texts
from pydantic_evals import Case, Dataset  # type: ignore[import-not-found]
from pydantic_evals.evaluators import EqualsExpected  # type: ignore[import-not-found]


def echo(text: str) -> str:
    return text


async def echo_async(text: str) -> str:
    return text


def dataset(n: int) -> Any:
    """The data set of `n` cases."""
    cases = [Case(name=text, inputs=text, expected_output=text) for text in texts(n)]
    return Dataset(name="echo", cases=cases, evaluators=[EqualsExpected()])


def main() -> None:
    parser = arguments()
    parser.add_argument("--agent", choices=("def", "async"), default="def")
    parser.add_argument("--parallel", type=int, default=8)
    args = parser.parse_args()
    task = echo if args.agent == "def" else echo_async

    def evaluate(cases: Any) -> Any:
        return cases.evaluate_sync(task, max_concurrency=args.parallel, progress=False)

    evaluate(dataset(WARM_UP))
    cases = dataset(args.n)
    row, report = measure(args.n, args.folder, lambda: evaluate(cases))
    if report.failures or report.averages().assertions != 1.0:
        raise SystemExit("not every case passed")
    print(json.dumps({"name": "pydantic-evals", "version": version("pydantic-evals"), **row}))


if __name__ == "__main__":
    main()
