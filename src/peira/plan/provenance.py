"""Where a run came from: versions, packages, platform, the state of the user's project, who and when."""

from __future__ import annotations

import getpass
import platform
import subprocess
import sys
from pathlib import Path

import msgspec

from peira.core.clock import stamp
from peira.plan.estimate import Estimate


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """`estimate` is what the run was expected to take when it was opened."""

    study: str
    plan: str
    seed: int
    generation: int
    peira: str
    python: str
    platform: str
    packages: dict[str, str]
    who: str
    when: str
    command: list[str]
    git_commit: str = ""
    git_dirty: bool | None = None
    estimate: Estimate | None = None


def provenance(
    study: str,
    plan: str,
    seed: int,
    generation: int,
    folder: Path,
    now: float,
    estimate: Estimate | None = None,
) -> Provenance:
    """`study` and `plan` are digests. Nothing of the environment's values is kept, only what is installed."""
    packages = installed()
    commit = _git(folder, "rev-parse", "HEAD")
    return Provenance(
        study=study,
        plan=plan,
        seed=seed,
        generation=generation,
        peira=packages.get("peira", "unknown"),
        python=platform.python_version(),
        platform=platform.platform(),
        packages=packages,
        who=_user(),
        when=stamp(now),
        command=[Path(sys.argv[0]).name] if sys.argv else [],
        git_commit=commit,
        git_dirty=bool(_git(folder, "status", "--porcelain")) if commit else None,
        estimate=estimate,
    )


def installed() -> dict[str, str]:
    """Every installed package and its version.

    From the names of their folders: reading what each package says of itself takes a quarter of a second."""
    found: dict[str, str] = {}
    for folder in reversed(sys.path):
        for info in Path(folder or ".").glob("*.dist-info"):
            name, _, version = info.name.removesuffix(".dist-info").partition("-")
            found[name] = version
    return dict(sorted(found.items()))


read_provenance = msgspec.json.Decoder(Provenance).decode


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return "unknown"


def _git(folder: Path, *arguments: str) -> str:
    """What git says of the folder; nothing where there is no git or no repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
