"""The limits of a confined process, and the command line that confines it with bubblewrap.

Every limit is enforced; none can be switched off. If this process is root, the command also runs as a user of
its own.
"""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from functools import lru_cache
from pathlib import Path

from peira.errors import Invalid

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Limits of a process and everything it starts; exceeding one ends them, or fails the system call."""

    seconds: float = 10.0
    """Wall-clock seconds from start to end; a process may also use no more CPU time than this, rounded up."""

    memory: int = 512 * MIB
    """Bytes: the address space of each process, and the resident memory of all together."""

    processes: int = 32
    """Processes and threads at the same time.

    Not enforced without confinement, where all processes of the user would count.
    """

    disk: int = 64 * MIB
    """Bytes in the private folder; also the maximum size of a file."""

    entries: int = 10_000
    """Files, folders and links in the private folder."""

    output: int = MIB
    """Bytes that are kept of standard output, and of standard error; more end the process."""

    def __post_init__(self) -> None:
        if problems := [problem for field in fields(self) if (problem := self._problem(field.name))]:
            raise Invalid(problems)

    def _problem(self, name: str) -> str:
        """What is wrong with a limit; "" if nothing is."""
        value = getattr(self, name)
        if name == "seconds":
            fine = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
            return "" if fine else f"limits: seconds={value!r} is not a number above 0"
        fine = type(value) is int and value > 0
        return "" if fine else f"limits: {name}={value!r} is not a whole number above 0"

    @property
    def cpu(self) -> int:
        """CPU seconds."""
        return math.ceil(self.seconds)


FOLDER = "/tmp"
"""The private folder as the confined process sees it; its working directory."""

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": FOLDER, "TMPDIR": FOLDER, "LANG": "C.UTF-8"}
SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SOURCES = "/usr/src"
"""Hidden: in many containers the project is there."""

DEVICES = ("null", "zero", "full", "random", "urandom")
FIRST_USER, USERS = 1_000_000_000, 1_000_000_000
INSTALL = "install it (apt-get install bubblewrap util-linux), or allow code to run unconfined"
ALLOWED = "PEIRA_ALLOW_UNCONFINED"
"""Set to 1, it allows what `allow_unconfined` does, in this process and its children."""


@dataclass(frozen=True)
class PassedFiles:
    """The descriptors that bubblewrap reads and writes, and the files it puts into the private folder."""

    status: int
    block: int | None = None
    seccomp: int | None = None
    files: tuple[tuple[int, str], ...] = ()
    folders: tuple[str, ...] = ()

    @property
    def every(self) -> list[int]:
        """All descriptors."""
        own = [fd for fd in (self.status, self.block, self.seccomp) if fd is not None]
        return [*own, *(descriptor for descriptor, _ in self.files)]


@dataclass(frozen=True)
class Confinement:
    """The programs that confine; `setpriv` only if this process is root."""

    bwrap: str
    setpriv: str | None

    def command(self, argv: Sequence[str], limits: Limits, passed: PassedFiles) -> list[str]:
        """The command line that runs `argv` confined."""
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
        """The options for namespaces and capabilities."""
        apart = ["ipc", "pid", "net", "uts", "cgroup-try"]
        user = ["--unshare-user", "--uid", "65534", "--gid", "65534"]
        # The capabilities that setpriv needs to change the user, and loses by doing so.
        root = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        ends = ["--die-with-parent", "--new-session"]
        return [*(f"--unshare-{one}" for one in apart), *ends, *(root if self.setpriv else user)]

    def _user(self) -> list[str]:
        """The command that changes to another user, or just executes."""
        if self.setpriv is None:
            return ["/usr/bin/env"]  # so that a missing program is the command's failure, not bubblewrap's
        # Random, so that the kernel's limits per user do not add up concurrent sandboxes.
        user = str(FIRST_USER + int.from_bytes(os.urandom(8)) % USERS)
        return [self.setpriv, "--reuid", user, "--regid", user, "--clear-groups", "--inh-caps", "-all"]


@lru_cache(maxsize=1)
def _view() -> tuple[str, ...]:
    """The options for what is visible of this machine."""
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
    """The folders above these, readable by all: those that bubblewrap creates itself belong to its user."""
    above = [str(parent) for path in paths for parent in reversed(Path(path).parents) if str(parent) != "/"]
    return [word for folder in above for word in ("--perms", "0755", "--dir", folder)]


def _contents(passed: PassedFiles) -> list[str]:
    """The options for the contents of the private folder."""
    folders = [w for folder in passed.folders for w in ("--perms", "0777", "--dir", f"{FOLDER}/{folder}")]
    files = [
        w for fd, name in passed.files for w in ("--perms", "0666", "--file", str(fd), f"{FOLDER}/{name}")
    ]
    return folders + files


@lru_cache(maxsize=1)
def confinement() -> Confinement | str:
    """What confines on this machine, tested once; or, in one line, why nothing does."""
    needed = ["bwrap", *(["setpriv"] if os.geteuid() == 0 else [])]
    found = {name: shutil.which(name) for name in needed}
    if missing := [name for name, path in found.items() if path is None]:
        return f"code runs under bubblewrap only; not found: {', '.join(missing)}; {INSTALL}"
    means = Confinement(str(found["bwrap"]), found.get("setpriv"))
    tried = means.command([interpreter(), "-S", "-c", "pass"], Limits(), PassedFiles(status=2))
    done = subprocess.run(tried, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode == 0:
        return means
    lines = [line for line in done.stderr.decode(errors="replace").splitlines() if not line.startswith("{")]
    return f"no sandbox can be made here ({' '.join(lines[-1:])}); mend that, or allow code to run unconfined"


def needs_confinement(who: str, allow_unconfined: bool = False) -> Confinement | None:
    """What confines; None if nothing does and that is allowed by argument or environment; else Invalid."""
    found = confinement()
    if isinstance(found, Confinement):
        return found
    if not (allow_unconfined or os.environ.get(ALLOWED) == "1"):
        raise Invalid(f"{who}: {found}")
    return None


def interpreter() -> str:
    """The real path of this Python, not the virtual environment's link to it."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))
