"""The common work in inspect-ai: a mock model that echoes, the `exact` scorer, and its log.

Display, live log and recording of raw model calls are off, and 64 samples run concurrently: the fastest of
the settings tried. Usage is given with each answer, otherwise the mock model would download a tokenizer.
"""

from __future__ import annotations

import json
from importlib.metadata import version
from pathlib import Path
from typing import Any

import inspect_ai  # type: ignore[import-not-found]
from inspect_ai.dataset import MemoryDataset, Sample  # type: ignore[import-not-found]
from inspect_ai.model import ModelOutput, ModelUsage, get_model  # type: ignore[import-not-found]
from inspect_ai.scorer import exact  # type: ignore[import-not-found]
from meter import WARM_UP, arguments, measure, texts, warm_up_folder


def echo(messages: list[Any], *_: object) -> Any:
    output = ModelOutput.from_content("mockllm/model", messages[-1].text)
    output.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return output


def task(n: int) -> Any:
    """The task of `n` samples."""
    samples = [Sample(id=text, input=text, target=text) for text in texts(n)]
    return inspect_ai.Task(dataset=MemoryDataset(samples), scorer=exact())


def evaluate(work: Any, folder: Path, parallel: int) -> Any:
    """Evaluate the task and return its log."""
    (log,) = inspect_ai.eval(
        work,
        model=get_model("mockllm/model", custom_outputs=echo),
        display="none",
        log_level="error",
        log_dir=str(folder),
        log_realtime=False,
        log_model_api=False,
        max_samples=parallel,
        max_connections=parallel,
    )
    return log


def main() -> None:
    parser = arguments()
    parser.add_argument("--parallel", type=int, default=64)
    args = parser.parse_args()
    evaluate(task(WARM_UP), warm_up_folder(args.folder), args.parallel)
    work = task(args.n)
    row, log = measure(args.n, args.folder, lambda: evaluate(work, args.folder, args.parallel))
    if log.status != "success" or log.results.scores[0].metrics["mean"].value != 1.0:
        raise SystemExit(f"status {log.status}: not every sample passed")
    print(json.dumps({"name": "inspect-ai", "version": version("inspect-ai"), **row}))


if __name__ == "__main__":
    main()
