"""Durable trials per second, against bare inserts of the same bytes and other packages."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

from sections.figures import COST, Rows, Section, cost, data, rate, ratio, times
from sections.processes import Bench, Failed, Work, alternate, finish, say

OURS = "peira, def"
PARALLEL = ("--parallel", "64")
"""As many at a time everywhere: the fastest for the others, of those tried."""
INSPECT_SHARE = 40
"""inspect-ai runs this fraction of the trials, because it is slow."""


def throughput(bench: Bench) -> Section:
    """The same no-op trials in every package; inspect-ai runs a fraction of them."""
    failed: list[str] = []
    skipped: list[str] = []
    works = [*_ours(bench, failed), *_neighbours(bench, skipped)]
    rows, broke = alternate(works, bench)
    ours = rows.get(OURS)
    ratios = {label: ratio(ours, theirs, rate) for label, theirs in rows.items()} if ours else {}
    return Section(
        f"throughput: no-op agent, exact, full durability; median (best) of {bench.rounds} rounds in turns",
        ("", *COST, f"{OURS} / this"),
        [(label, *cost(kept), times(ratios.get(label))) for label, kept in rows.items()],
        data(rows, ratios),
        _versions(rows),
        failed + [why for work, why in broke.items() if not work.is_neighbour],
        skipped + [why for work, why in broke.items() if work.is_neighbour],
    )


def _ours(bench: Bench, failed: list[str]) -> Iterator[Work]:
    """peira, and bare inserts of rows of the size that peira stores per trial, measured in one run."""
    ours = Work(OURS, "trials_peira.py", bench.trials, PARALLEL)
    try:
        say(f"sizing: {OURS} ({bench.trials:,})")
        sized = ours.once(bench.scratch / "sizing" / "work")
    except Failed as failure:
        failed.append(f"{failure} (so no bare inserts of the same bytes either)")
        return
    yield ours
    yield Work("peira, async def", "trials_peira.py", bench.trials, ("--agent", "async", *PARALLEL))
    same_bytes = ("--row-bytes", str(sized.bytes // sized.n))
    yield Work("raw apsw, groups of 100", "trials_apsw.py", bench.trials, same_bytes)


def _neighbours(bench: Bench, skipped: list[str]) -> Iterator[Work]:
    """The other packages that could be installed; pydantic-evals stores nothing on disk."""
    n, few = bench.trials, max(1, bench.trials // INSPECT_SHARE)
    try:
        python = environment(bench.cache, "pydantic-evals")
        yield Work("pydantic-evals, def", "trials_pydantic_evals.py", n, PARALLEL, python)
        options = ("--agent", "async", *PARALLEL)
        yield Work("pydantic-evals, async def", "trials_pydantic_evals.py", n, options, python)
    except Failed as failure:
        skipped.append(str(failure))
    try:
        python = environment(bench.cache, "inspect-ai")
        yield Work(f"inspect-ai, mock model (n/{INSPECT_SHARE})", "trials_inspect.py", few, (), python)
    except Failed as failure:
        skipped.append(str(failure))


def environment(cache: Path, package: str) -> Path:
    """The Python of a virtual environment with `package`, created once and then reused."""
    folder = cache / f"{package}-{sys.implementation.cache_tag}"
    python, ready = folder / "bin" / "python", folder / "ready"
    if not ready.exists():
        say(f"installing {package} into {folder} (once)")
        if folder.exists():
            shutil.rmtree(folder)
        finish(f"{package}: no environment", [sys.executable, "-m", "venv", str(folder)])
        pip = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package]
        finish(f"{package}: could not be installed", pip)
        ready.touch()
    return python


def _versions(rows: Rows) -> list[str]:
    versions = {f"{row.name} {row.version}" for kept in rows.values() for row in kept}
    return [f"versions: {', '.join(sorted(versions))}"] if versions else []
