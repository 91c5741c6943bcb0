"""The command line that confines another: bubblewrap around it, and a user of its own within.

A confined process sees the system's programs and this interpreter, read only, and one private folder in
memory. It has no network, no other processes, none of this machine's users, and none of this environment.
When its first process ends, or this process does, all of its processes end.

Started by root, it becomes a user that exists nowhere else: the number of processes is counted by user, and
never for root. Started by anyone else, it lives in a user namespace, which counts for itself.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from peira.errors import Invalid
from peira.sandbox.limits import Limits

FOLDER = "/tmp"
"""The private folder as the confined process sees it, its working directory."""

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": FOLDER, "TMPDIR": FOLDER, "LANG": "C.UTF-8"}
SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SOURCES = "/usr/src"
"""Not shown: in many containers it is where the project lies."""

DEVICES = ("null", "zero", "full", "random", "urandom")
FIRST_USER, USERS = 1_000_000_000, 1_000_000_000
INSTALL = "install it (apt-get install bubblewrap util-linux), or allow code to run unconfined"
ALLOWED = "PEIRA_ALLOW_UNCONFINED"
"""Set to 1, it allows what `allow_unconfined` does, in this process and those it starts."""


@dataclass(frozen=True)
class Passed:
    """The descriptors that bubblewrap reads and writes, and the files it puts into the private folder."""

    status: int
    block: int | None = None
    seccomp: int | None = None
    files: tuple[tuple[int, str], ...] = ()
    folders: tuple[str, ...] = ()

    @property
    def every(self) -> list[int]:
        own = [fd for fd in (self.status, self.block, self.seccomp) if fd is not None]
        return [*own, *(descriptor for descriptor, _ in self.files)]


@dataclass(frozen=True)
class Confinement:
    """The programs that confine; `setpriv` where this process is root."""

    bwrap: str
    setpriv: str | None

    def command(self, argv: Sequence[str], limits: Limits, passed: Passed) -> list[str]:
        return [
            self.bwrap,
            *self._namespaces(),
            *["--perms", "1777", "--size", str(limits.disk), "--tmpfs", FOLDER],
            *_view(),
            *_contents(passed),
            *["--remount-ro", "/", "--chdir", FOLDER],
            *["--json-status-fd", str(passed.status)],
            *([] if passed.block is None else ["--block-fd", str(passed.block)]),
            *([] if passed.seccomp is None else ["--seccomp", str(passed.seccomp)]),
            "--",
            *self._user(),
            *argv,
        ]

    def _namespaces(self) -> list[str]:
        apart = ["ipc", "pid", "net", "uts", "cgroup-try"]
        user = ["--unshare-user", "--uid", "65534", "--gid", "65534"]
        # What setpriv needs to become another user, and loses by becoming it.
        root = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        ends = ["--die-with-parent", "--new-session"]
        return [*(f"--unshare-{one}" for one in apart), *ends, *(root if self.setpriv else user)]

    def _user(self) -> list[str]:
        if self.setpriv is None:
            return ["/usr/bin/env"]  # a program that is not there is its failure, and not bubblewrap's
        # By chance, so that two at a time, here or in other processes, are not counted as one.
        user = str(FIRST_USER + int.from_bytes(os.urandom(8)) % USERS)
        return [self.setpriv, "--reuid", user, "--regid", user, "--clear-groups", "--inh-caps", "-all"]


@lru_cache(maxsize=1)
def _view() -> tuple[str, ...]:
    """What is seen of this machine."""
    prefix = os.path.realpath(sys.base_prefix)
    shown = ["--ro-bind", "/usr", "/usr"]
    if os.path.isdir(SOURCES):
        shown += ["--tmpfs", SOURCES, "--remount-ro", SOURCES]
    for path in filter(os.path.isdir, SYSTEM):
        shown += ["--symlink", os.readlink(path), path] if os.path.islink(path) else ["--ro-bind", path, path]
    shown += [*_folders(["/etc/ld.so.cache"]), "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]
    if not Path(prefix).is_relative_to("/usr"):
        shown += [*_folders([prefix]), "--ro-bind", prefix, prefix]
    shown += _folders(["/dev/null"])
    for device in DEVICES:
        shown += ["--dev-bind", f"/dev/{device}", f"/dev/{device}"]
    return (*shown, "--symlink", FOLDER, "/dev/shm")


def _folders(paths: Iterable[str]) -> list[str]:
    """The folders above these, open to all: those that bubblewrap makes by itself are its own user's."""
    above = [str(parent) for path in paths for parent in reversed(Path(path).parents) if str(parent) != "/"]
    return [word for folder in above for word in ("--perms", "0755", "--dir", folder)]


def _contents(passed: Passed) -> list[str]:
    folders = [w for folder in passed.folders for w in ("--perms", "0777", "--dir", f"{FOLDER}/{folder}")]
    files = [
        w for fd, name in passed.files for w in ("--perms", "0666", "--file", str(fd), f"{FOLDER}/{name}")
    ]
    return folders + files


@lru_cache(maxsize=1)
def confinement() -> Confinement | str:
    """What confines on this machine, tried once; or, in a line, why nothing does."""
    needed = ["bwrap", *(["setpriv"] if os.geteuid() == 0 else [])]
    found = {name: shutil.which(name) for name in needed}
    if missing := [name for name, path in found.items() if path is None]:
        return f"code runs under bubblewrap only; not found: {', '.join(missing)}; {INSTALL}"
    means = Confinement(str(found["bwrap"]), found.get("setpriv"))
    tried = means.command([interpreter(), "-S", "-c", "pass"], Limits(), Passed(status=2))
    done = subprocess.run(tried, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode == 0:
        return means
    said = [line for line in done.stderr.decode(errors="replace").splitlines() if not line.startswith("{")]
    return f"no sandbox can be made here ({' '.join(said[-1:])}); mend that, or allow code to run unconfined"


def needs_confinement(who: str, allow_unconfined: bool = False) -> Confinement | None:
    """What confines; None where nothing does and somebody or the environment allows that; else Invalid."""
    found = confinement()
    if isinstance(found, Confinement):
        return found
    if not (allow_unconfined or os.environ.get(ALLOWED) == "1"):
        raise Invalid(f"{who}: {found}")
    return None


def interpreter() -> str:
    """This Python itself, as a confined process finds it: not the virtual environment's link to it."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))
