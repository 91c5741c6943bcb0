"""What the scripts share: every script of this folder does one measurement and prints one JSON line.

Uses the standard library only, because the workers run in different environments. What is measured is the
work itself, after imports and a small warm-up: cases are built before it, stores are closed within it,
answers are checked after it.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

WARM_UP = 20
"""Number of trials of the warm-up."""

Value = TypeVar("Value")


def texts(n: int) -> list[str]:
    """The inputs of the common work; each is also its own expected answer."""
    return [f"question {i:07}" for i in range(n)]


def arguments() -> argparse.ArgumentParser:
    """The command-line arguments that all workers have."""
    parser = argparse.ArgumentParser()
    parser.add_argument("n", type=int)
    parser.add_argument("--folder", type=Path, required=True, help="what the work writes; made if missing")
    return parser


def warm_up_folder(folder: Path) -> Path:
    """A folder on the same disk as `folder`, not counted in its size."""
    beside = folder.with_name(folder.name + "-warm-up")
    beside.mkdir(parents=True, exist_ok=True)
    return beside


def measure(n: int, folder: Path, work: Callable[[], Value]) -> tuple[dict[str, float], Value]:
    """Call `work` once; return the measurements and its result.

    `bytes` is the size of all files in `folder` afterwards.
    """
    folder.mkdir(parents=True, exist_ok=True)
    cpu, start = _cpu_seconds(), time.perf_counter()
    value = work()
    seconds, cpu = time.perf_counter() - start, _cpu_seconds() - cpu
    row = {"n": n, "seconds": seconds, "cpu_seconds": cpu, "bytes": _size(folder), "rss_mb": _peak_mb()}
    return row, value


def _cpu_seconds() -> float:
    """User and system time of this process and its terminated children (finer than os.times)."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(usage.ru_utime + usage.ru_stime for usage in map(resource.getrusage, who))


def _peak_mb() -> float:
    """Peak resident memory of this process in MB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return float(peak / (2**20 if sys.platform == "darwin" else 2**10))


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
