"""A private Postgres server in a folder, for people and tests that have none: reached by a socket only.

The programs are those of the pgserver package, or of an installed Postgres. Postgres refuses to run as root:
then it runs as the system's user `postgres`, or `nobody`.
"""

from __future__ import annotations

import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from urllib.parse import quote

from peira.core.ids import digest_bytes
from peira.errors import Invalid, StoreFault, Unknown

USER = "peira"
"""The database's superuser, whose name every client of the socket may use."""
DATABASE = "postgres"
LONGEST_SOCKET = 90
"""Bytes of a folder whose socket's path the kernel still takes."""
PATIENCE = 60
"""Seconds in which the server has to start or stop."""
SETTINGS = {
    "listen_addresses": "",
    "unix_socket_permissions": "0700",
    "max_connections": "200",
    # Right after a checkpoint, every first change of a page writes the whole page to the log.
    "checkpoint_timeout": "30min",
    "max_wal_size": "4GB",
}


def programs() -> Path:
    """The folder of Postgres's programs; Invalid if there is none."""
    for folder in _candidates():
        if (folder / "initdb").exists() and (folder / "pg_ctl").exists() and _usable(folder / "postgres"):
            return folder
    raise Invalid(
        "no Postgres is installed that this user can run: pip install 'peira[postgres-server]', or install "
        "your system's package"
    )


def _candidates() -> Iterator[Path]:
    """Where the programs may be."""
    wheel = importlib.util.find_spec("pgserver")
    for place in wheel.submodule_search_locations or () if wheel else ():
        yield Path(place) / "pginstall" / "bin"
    yield from sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    if found := shutil.which("pg_ctl"):
        yield Path(found).resolve().parent


def _version(folder: Path) -> int:
    return int(folder.parent.name) if folder.parent.name.isdigit() else 0


def _usable(program: Path) -> bool:
    """Whether the user that the server runs as can execute it."""
    try:
        done = subprocess.run(
            [program, "--version"],
            capture_output=True,
            check=False,
            **_as_user(),  # type: ignore[call-overload]
        )
    except OSError:
        return False
    return bool(done.returncode == 0)


def _user() -> pwd.struct_passwd | None:
    """The user that the server runs as, if that is another one than ours."""
    if os.geteuid() != 0:
        return None
    for name in ("postgres", "nobody"):
        try:
            return pwd.getpwnam(name)
        except KeyError:
            continue
    raise Invalid("Postgres does not run as root, and there is neither a user `postgres` nor `nobody`")


def _as_user() -> dict[str, object]:
    """The arguments with which `subprocess` starts a program as that user."""
    user = _user()
    if user is None:
        return {"cwd": "/"}
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": [], "cwd": "/"}


class PrivateServer:
    """A server whose data is in a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()
        self._data = self.folder / "data"
        self._log = self.folder / "server.log"

    @property
    def exists(self) -> bool:
        """Whether the folder holds a server's data."""
        return (self._data / "PG_VERSION").exists()

    @property
    def pid(self) -> int | None:
        """The process of the server; None if it is not running."""
        try:
            pid = int((self._data / "postmaster.pid").read_text().split()[0])
            command = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError, IndexError):
            return None
        return pid if str(self._data).encode() in command else None

    @property
    def socket(self) -> Path:
        """The folder of the socket: the server's own, or a short one if that path would be too long."""
        if len(os.fsencode(self.folder)) <= LONGEST_SOCKET:
            return self.folder
        return Path(tempfile.gettempdir()) / f"peira-db-{digest_bytes(os.fsencode(self.folder))[:16]}"

    @property
    def url(self) -> str:
        """The address of its database."""
        return f"postgresql://{USER}@/{DATABASE}?host={quote(str(self.socket))}"

    def start(self, settings: Mapping[str, str] | None = None) -> None:
        """Start the server, with a new database if there is none; returns when it accepts connections."""
        if self.pid is not None:
            return
        bin = programs()
        self._make_folders()
        if not self.exists:
            self._run(
                [bin / "initdb", "-D", self._data, "-U", USER, "-A", "trust", "-E", "UTF8", "--locale=C"],
                "a database cannot be created",
            )
        given = {**SETTINGS, "unix_socket_directories": str(self.socket), **(settings or {})}
        options = " ".join(f"-c {name}='{value}'" for name, value in given.items())
        start: list[str | Path] = [
            bin / "pg_ctl",
            "-D",
            self._data,
            "-w",
            "-t",
            str(PATIENCE),
            "-l",
            self._log,
            "-o",
            options,
        ]
        self._run([*start, "start"], f"the server does not start (see {self._log})")

    def _make_folders(self) -> None:
        """Create the folders of data and socket, which only the server's user can read."""
        user = _user()
        for folder in {self.folder: None, self.socket: None}:
            folder.mkdir(parents=True, exist_ok=True)
            folder.chmod(0o700)
            if user is not None:
                os.chown(folder, user.pw_uid, user.pw_gid)
        done = subprocess.run(["test", "-w", str(self.folder)], check=False, **_as_user())  # type: ignore[call-overload]
        if done.returncode:
            name = user.pw_name if user else "this user"
            raise Invalid(
                f"{self.folder}: user {name}, as which Postgres runs, cannot reach it: choose another folder"
            )

    def stop(self, how: str = "fast") -> None:
        """Stop the server: `fast` ends its connections, `immediate` is a crash. Unknown if none runs."""
        if self.pid is None:
            raise Unknown(f"no server is running in {self.folder}")
        stop: list[str | Path] = [
            programs() / "pg_ctl",
            "-D",
            self._data,
            "-w",
            "-t",
            str(PATIENCE),
            "-m",
            how,
            "stop",
        ]
        self._run(stop, "the server does not stop")

    def _run(self, command: Sequence[str | Path], problem: str) -> None:
        """Run a program of Postgres; StoreFault with its last line if it fails."""
        # To a file: the server that is started would keep a pipe open.
        with tempfile.TemporaryFile() as said:
            done = subprocess.run(
                list(map(str, command)),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                check=False,
                **_as_user(),  # type: ignore[call-overload]
            )
            said.seek(0)
            lines = said.read().decode(errors="replace").strip().splitlines()
        if done.returncode:
            raise StoreFault(f"{problem}: {lines[-1] if lines else f'exit code {done.returncode}'}")
