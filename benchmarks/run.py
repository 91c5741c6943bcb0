"""`make bench`: measures peira against bare SQLite and other packages, and prints tables with ratios.

Nothing is asserted: absolute speeds depend on the machine and the moment; ratios measured in one run depend
on the software.
"""

from __future__ import annotations

import argparse
import compileall
import json
import os
import platform
import tempfile
import tomllib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from sections.calls import calls
from sections.designs import designs
from sections.fanout import fanout
from sections.figures import Section
from sections.growth import growth, rerun
from sections.hello import hello
from sections.large import large
from sections.postgres import postgres
from sections.postgres_limits import postgres_limits
from sections.processes import ROOT, Bench, finish
from sections.sandbox import sandbox
from sections.scoring import scoring
from sections.shared_runs import shared_runs
from sections.startup import startup
from sections.streams import streams
from sections.throughput import throughput

QUICK = 2_000
"""Number of trials with `--quick`."""
SECTIONS: dict[str, Callable[[Bench], Section]] = {
    "throughput": throughput,
    "growth": growth,
    "rerun": rerun,
    "large": large,
    "startup": startup,
    "hello": hello,
    "calls": calls,
    "designs": designs,
    "scoring": scoring,
    "sandbox": sandbox,
    "work": fanout,
    "postgres": postgres,
    "postgres_limits": postgres_limits,
    "shared_runs": shared_runs,
    "streams": streams,
}


def options() -> argparse.Namespace:
    """The command-line options."""
    parser = argparse.ArgumentParser(description="Measure peira beside bare SQLite and its neighbours.")
    parser.add_argument(
        "--trials", type=int, default=20_000, help="of one run; growth goes from 1/20 to 10 x"
    )
    parser.add_argument("--quick", action="store_true", help=f"{QUICK:,} trials")
    parser.add_argument(
        "--large", type=int, default=0, help="trials of the section large (5 x), such as 1000000"
    )
    parser.add_argument("--rounds", type=int, default=3, help="how often each thing is measured, in turns")
    parser.add_argument("--only", choices=tuple(SECTIONS), help="one section")
    parser.add_argument("--cache", type=Path, default=default_cache(), help="environments, scratch stores")
    parser.add_argument("--against", metavar="COMMIT", help="measure this former commit beside it, in turns")
    parser.add_argument("--json", action="store_true", help="one JSON document instead of tables")
    return parser.parse_args()


def default_cache() -> Path:
    """The user's cache folder; the temporary folder is often in memory, where durability is free."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "peira-benchmarks"


def machine() -> dict[str, object]:
    """The Python version, platform and number of cores."""
    return {"python": platform.python_version(), "system": platform.platform(), "cores": os.cpu_count()}


def measure(name: str, args: argparse.Namespace, former: Path | None) -> Section:
    """Measure one section in an empty scratch folder."""
    with tempfile.TemporaryDirectory(dir=args.cache, prefix="scratch-") as scratch:
        trials = QUICK if args.quick else args.trials
        large = args.large or trials * 5
        return SECTIONS[name](Bench(trials, args.rounds, args.cache, Path(scratch), former, large))


@contextmanager
def checked_out(commit: str | None) -> Iterator[Path | None]:
    """The sources of a commit, unpacked into a temporary folder for as long as they are needed.

    An archive, not a worktree: nothing stays registered in the repository if this process is killed.
    """
    if commit is None:
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="former-") as folder:
        archive = Path(folder) / "src.tar"
        git = ["git", "-C", str(ROOT), "archive", "-o", str(archive), commit, "src", "pyproject.toml"]
        finish(f"--against {commit}", git)
        finish(f"--against {commit}", ["tar", "-xf", str(archive), "-C", folder])
        _write_metadata(Path(folder))
        for sources in (ROOT / "src", Path(folder) / "src"):  # a fair start: neither compiles
            compileall.compile_dir(sources, quiet=1)
        yield Path(folder) / "src"


def _write_metadata(folder: Path) -> None:
    """Describe the package beside its sources: its registry reads the entry points of what is installed.

    Without this the former sources would look for the modules that the present package names.
    """
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    described = folder / "src" / f"{project['name']}-0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0\n")
    lines = []
    for group, points in project.get("entry-points", {}).items():
        lines += [f"[{group}]", *(f"{name} = {value}" for name, value in points.items())]
    (described / "entry_points.txt").write_text("\n".join([*lines, ""]))


def main() -> int:
    """Return 0, or 1 if something of this project could not be measured.

    A missing other package is only reported.
    """
    args = options()
    args.cache = args.cache.resolve()
    args.cache.mkdir(parents=True, exist_ok=True)
    document: dict[str, object] = {"machine": machine()}
    failed = False
    with checked_out(args.against) as former:
        for name in [args.only] if args.only else SECTIONS:
            section = measure(name, args, former)
            document[name] = {**section.data, "failed": section.failed, "skipped": section.skipped}
            failed = failed or bool(section.failed)
            if not args.json:
                print(section, end="\n\n", flush=True)
    if args.json:
        print(json.dumps(document, indent=1))
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
