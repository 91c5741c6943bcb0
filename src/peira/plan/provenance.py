"""The provenance of a run: versions, packages, platform, git state, user and time."""

from __future__ import annotations

import getpass
import platform
import subprocess
import sys
from pathlib import Path

import msgspec

from peira.core.clock import stamp
from peira.plan.estimate.value import RunEstimate


class Provenance(msgspec.Struct, frozen=True, omit_defaults=True):
    """Where, when, by whom and with which software a run was made."""

    study: str
    """The digest of the study."""
    plan: str
    """The digest of the manifest."""
    seed: int
    generation: int
    peira: str
    python: str
    platform: str
    packages: dict[str, str]
    """Installed packages with their versions."""
    who: str
    when: str
    command: list[str]
    git_commit: str = ""
    """The commit of the project folder; "" without git."""
    git_dirty: bool | None = None
    """Whether there were uncommitted changes; None without git."""
    estimate: RunEstimate | None = None
    """What the run was expected to take when it was opened."""


def provenance(
    study: str,
    plan: str,
    seed: int,
    generation: int,
    folder: Path,
    now: float,
    estimate: RunEstimate | None = None,
) -> Provenance:
    """The provenance of a run started now; `study` and `plan` are digests.

    Records installed packages, but no values of environment variables.
    """
    packages = installed()
    commit = _git(folder, "rev-parse", "HEAD")
    try:
        who = getpass.getuser()
    except (KeyError, OSError):
        who = "unknown"
    return Provenance(
        study=study,
        plan=plan,
        seed=seed,
        generation=generation,
        peira=packages.get("peira", "unknown"),
        python=platform.python_version(),
        platform=platform.platform(),
        packages=packages,
        who=who,
        when=stamp(now),
        command=[Path(sys.argv[0]).name] if sys.argv else [],
        git_commit=commit,
        git_dirty=bool(_git(folder, "status", "--porcelain")) if commit else None,
        estimate=estimate,
    )


def installed() -> dict[str, str]:
    """Every installed package with its version.

    Taken from the names of the `.dist-info` folders, because reading the metadata takes a quarter of a
    second.
    """
    found: dict[str, str] = {}
    for folder in reversed(sys.path):
        for info in Path(folder or ".").glob("*.dist-info"):
            name, _, version = info.name.removesuffix(".dist-info").partition("-")
            found[name] = version
    return dict(sorted(found.items()))


def read_provenance(stored: bytes) -> Provenance:
    """Decode a stored provenance."""
    return msgspec.json.decode(stored, type=Provenance)


def _git(folder: Path, *arguments: str) -> str:
    """The output of a git command in the folder; "" without git or a repository."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), *arguments], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
