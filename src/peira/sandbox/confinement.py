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
from peira.sandbox.process_tree import LABEL

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """Limits of a process and everything it starts; exceeding one ends them, or fails the system call."""

    seconds: float = 10.0
    """Wall-clock seconds from start to end."""

    cores: int = 1
    """A process may use this many times as many CPU seconds, rounded up."""

    memory: int = 512 * MIB
    """Bytes: the private memory of each process, and the resident memory of all together."""

    address_space: int | None = None
    """Bytes of address space of each process; None: as many as `memory`.

    Some runtimes reserve much more than they use (node: tens of GiB).
    """

    processes: int = 32
    """Processes and threads at the same time.

    Not enforced without confinement, where all processes of the user would count.
    """

    disk: int = 64 * MIB
    """Bytes in the private folder; also the maximum size of a file."""

    entries: int = 10_000
    """Files, folders and links in the private folder."""

    descriptors: int = 256
    """Open files of each process."""

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
        if name == "address_space" and value is None:
            return ""
        fine = type(value) is int and value > 0
        return "" if fine else f"limits: {name}={value!r} is not a whole number above 0"

    @property
    def cpu(self) -> int:
        """CPU seconds of a process."""
        return math.ceil(self.seconds * self.cores)


FOLDER = "/tmp"
"""The private folder of generated code as it sees it; its working directory."""
WORK, SCRATCH = "/work", "/tmp"
"""The private folder of a command, its working directory, and its folder for temporary files and its home."""

ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": FOLDER, "TMPDIR": FOLDER, "LANG": "C.UTF-8"}
COMMAND_PATH = "/usr/local/bin:/usr/bin:/bin"
SYSTEM = ("/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
SOURCES = "/usr/src"
"""Hidden: in many containers the project is there."""

DEVICES = ("null", "zero", "full", "random", "urandom")
NOBODY = 65534
FIRST_USER, USERS = 1_000_000_000, 1_000_000_000
INSTALL = "install it (apt-get install bubblewrap util-linux), or allow code to run unconfined"
MEND = "mend that, or allow code to run unconfined"
ALLOWED = "PEIRA_ALLOW_UNCONFINED"
"""Set to 1, it allows what `allow_unconfined` does, in this process and its children."""


@dataclass(frozen=True)
class SandboxView:
    """What a confined process sees beside its private folder and the system's programs, which are read-only.

    `folder` is where its private folder is. `whole`: it is a program of its own rather than a piece of
    generated code: it also has /proc (of its own processes), /etc/passwd, /etc/hosts, and a second private
    folder for temporary files. `mounts` are files and folders of this machine that it may read, `sockets`
    Unix sockets (path here, path there) that it may connect to. `open`: it sees and may change everything
    that this user may, also the network: only its processes are kept together. `base` is a folder of this
    machine that it has, read-only, instead of a private folder; `readable` and `writable` are files and
    folders (path here, path there) that it may read or change, also inside the base.
    """

    folder: str = FOLDER
    whole: bool = False
    mounts: tuple[str, ...] = ()
    sockets: tuple[tuple[str, str], ...] = ()
    open: bool = False
    base: str = ""
    readable: tuple[tuple[str, str], ...] = ()
    writable: tuple[tuple[str, str], ...] = ()


PLAIN = SandboxView()


@dataclass(frozen=True)
class PassedFiles:
    """The descriptors that bubblewrap reads and writes, and the files it puts into the private folder."""

    status: int
    block: int | None = None
    seccomp: int | None = None
    files: tuple[tuple[int, str], ...] = ()
    folders: tuple[str, ...] = ()
    system: tuple[tuple[int, str], ...] = ()
    """Files elsewhere, by their absolute paths."""
    executable: frozenset[int] = frozenset()
    """Those that may be executed."""

    @property
    def every(self) -> list[int]:
        """All descriptors."""
        own = [fd for fd in (self.status, self.block, self.seccomp) if fd is not None]
        return [*own, *(descriptor for descriptor, _ in (*self.files, *self.system))]


TOGETHER = ("--dev-bind", "/", "/", "--unshare-pid", "--proc", "/proc", "--die-with-parent")
"""What keeps the processes of a program together that may do all that the user may."""


@dataclass(frozen=True)
class Confinement:
    """The programs that confine; `setpriv` only if this process is root."""

    bwrap: str
    setpriv: str | None

    def new_user(self) -> int:
        """The user id of one sandbox: random, so that the kernel's limits per user do not add up those of
        concurrent sandboxes; the same for all without root, where each has a user namespace."""
        if self.setpriv is None:
            return NOBODY
        return FIRST_USER + int.from_bytes(os.urandom(8)) % USERS

    def command(
        self,
        argv: Sequence[str],
        limits: Limits,
        passed: PassedFiles,
        view: SandboxView = PLAIN,
        user: int | None = None,
    ) -> list[str]:
        """The command line that runs `argv` confined."""
        status = ["--json-status-fd", str(passed.status)]
        block = [] if passed.block is None else ["--block-fd", str(passed.block)]
        if view.open:
            start = ["--chdir", view.folder, *status, *block]
            return [self.bwrap, *TOGETHER, "--new-session", *start, "--", *argv]
        private = [*([] if view.base else [view.folder]), *([SCRATCH] if view.whole else [])]
        return [
            self.bwrap,
            *self._namespaces(),
            *[
                w
                for path in private
                for w in ("--perms", "0777", "--size", str(limits.disk), "--tmpfs", path)
            ],
            *_view(view.folder),
            *(_whole(view, passed) if view.whole else []),
            *(_bound(view) if view.whole else []),
            *_contents(passed, view.folder),
            *["--remount-ro", "/", "--chdir", view.folder, "--unsetenv", LABEL],
            *status,
            *block,
            *([] if passed.seccomp is None else ["--seccomp", str(passed.seccomp)]),
            "--",
            *self._as_user(self.new_user() if user is None else user),
            *argv,
        ]

    def together(self, argv: Sequence[str]) -> list[str]:
        """The command line that runs `argv` unconfined, and ends all its processes with the one that started
        it, however that ends."""
        return [self.bwrap, *TOGETHER, "--", *argv]

    def _namespaces(self) -> list[str]:
        """The options for namespaces and capabilities."""
        apart = ["ipc", "pid", "net", "uts", "cgroup-try"]
        user = ["--unshare-user", "--uid", str(NOBODY), "--gid", str(NOBODY)]
        # The capabilities that setpriv needs to change the user, and loses by doing so.
        root = ["--cap-drop", "ALL", "--cap-add", "CAP_SETUID", "--cap-add", "CAP_SETGID"]
        ends = ["--die-with-parent", "--new-session"]
        return [*(f"--unshare-{one}" for one in apart), *ends, *(root if self.setpriv else user)]

    def _as_user(self, user: int) -> list[str]:
        """The command that changes to another user, or just executes."""
        if self.setpriv is None:
            return ["/usr/bin/env"]  # so that a missing program is the command's failure, not bubblewrap's
        name = str(user)
        return [self.setpriv, "--reuid", name, "--regid", name, "--clear-groups", "--inh-caps", "-all"]


@lru_cache(maxsize=8)
def _view(folder: str) -> tuple[str, ...]:
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
    return (*shown, "--symlink", folder, "/dev/shm")


def _whole(view: SandboxView, passed: PassedFiles) -> list[str]:
    """The options for what a program of its own sees more than generated code."""
    shown = [*_folders(["/proc/self"]), "--proc", "/proc"]
    for descriptor, path in passed.system:
        shown += [*_folders([path]), "--perms", "0644", "--file", str(descriptor), path]
    for here, there in view.sockets:
        shown += [*_folders([there]), "--bind", here, there]
    return shown


def _bound(view: SandboxView) -> list[str]:
    """The options for what is bound from this machine: the base, and what may be read or changed of it."""
    shown = [*_folders([view.folder]), "--ro-bind", view.base, view.folder] if view.base else []
    for option, places in (("--ro-bind", view.readable), ("--bind", view.writable)):
        for here, there in places:
            inside = view.base and Path(there).is_relative_to(view.folder)
            shown += [*([] if inside else _folders([there])), option, here, there]
    for path in view.mounts:  # last: one may lie where the base is, and has a place there
        shown += [*_folders([path]), "--ro-bind", path, path]
    return shown


def _folders(paths: Iterable[str]) -> list[str]:
    """The folders above these, readable by all: those that bubblewrap creates itself belong to its user."""
    above = [str(parent) for path in paths for parent in reversed(Path(path).parents) if str(parent) != "/"]
    return [word for folder in above for word in ("--perms", "0755", "--dir", folder)]


def _contents(passed: PassedFiles, root: str) -> list[str]:
    """The options for the contents of the private folder."""
    folders = [w for folder in passed.folders for w in ("--perms", "0777", "--dir", f"{root}/{folder}")]
    files = [w for fd, name in passed.files for w in _file(fd, f"{root}/{name}", passed)]
    return folders + files


def _file(descriptor: int, path: str, passed: PassedFiles) -> list[str]:
    """The options for one file."""
    mode = "0777" if descriptor in passed.executable else "0666"
    return ["--perms", mode, "--file", str(descriptor), path]


@lru_cache(maxsize=1)
def confinement() -> Confinement | str:
    """What confines on this machine, tested once; or, in one line, why nothing does."""
    needed = ["bwrap", *(["setpriv"] if os.geteuid() == 0 else [])]
    found = {name: shutil.which(name) for name in needed}
    if missing := [name for name, path in found.items() if path is None]:
        return f"code runs under bubblewrap only; not found: {', '.join(missing)}; {INSTALL}"
    means = Confinement(str(found["bwrap"]), found.get("setpriv"))
    problem = _problem_of(means, PLAIN)
    return f"no sandbox can be made here ({problem}); {MEND}" if problem else means


@lru_cache(maxsize=1)
def program_confinement() -> Confinement | str:
    """The same for programs of their own, which need more than generated code does."""
    means = confinement()
    if isinstance(means, str):
        return means
    problem = _problem_of(means, SandboxView(WORK, whole=True))
    return f"no sandbox for programs can be made here ({problem}); {MEND}" if problem else means


@lru_cache(maxsize=1)
def process_namespace() -> Confinement | None:
    """What keeps the processes of an unconfined program together; None if nothing does here."""
    means = confinement()
    usable = isinstance(means, Confinement) and not _problem_of(means, SandboxView("/", open=True))
    return means if isinstance(means, Confinement) and usable else None


def _problem_of(means: Confinement, view: SandboxView) -> str:
    """Why nothing runs in such a sandbox; "" if it does."""
    tried = means.command([interpreter(), "-S", "-c", "pass"], Limits(), PassedFiles(status=2), view)
    done = subprocess.run(tried, env=ENVIRONMENT, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode == 0:
        return ""
    lines = [line for line in done.stderr.decode(errors="replace").splitlines() if not line.startswith("{")]
    return " ".join(lines[-1:]) or "it says nothing"


def needs_confinement(who: str, allow_unconfined: bool = False) -> Confinement | None:
    """What confines; None if nothing does and that is allowed by argument or environment; else Invalid."""
    found = confinement()
    if isinstance(found, Confinement):
        return found
    if not (allow_unconfined or unconfined_allowed()):
        raise Invalid(f"{who}: {found}")
    return None


def unconfined_allowed() -> bool:
    """Whether the environment allows code to run unconfined where there is no sandbox."""
    return os.environ.get(ALLOWED) == "1"


def interpreter() -> str:
    """The real path of this Python, not the virtual environment's link to it."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))
