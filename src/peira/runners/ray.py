"""The Ray runner: attempts in child processes on the machines of a Ray cluster.

Each worker is a task of Ray that holds a place with the resources that the agents need; the children that it
starts there speak with this process through sockets, as those of the process runner do. So the store has
one writer, calls are made here, and Ray neither retries anything nor sees what attempts do.
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import socket
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import msgspec

from peira.core.contracts import AttemptQueue
from peira.errors import Invalid, ProcessDied
from peira.runners.process import ChildHost, ChildProcess, ProcessRunner, death_by
from peira.runners.ray_host import (
    ChildEnded,
    KillChild,
    StartChild,
    decode_ended,
    encode_message,
    prove,
    serve,
)

LOOK = 0.5
"""Seconds between two looks at whether a place was found, or the runner is being stopped."""
PATIENCE = 60.0
"""Seconds in which a child has to connect, or to be killed."""
NAMES = {"cpu": "num_cpus", "gpu": "num_gpus", "memory": "memory"}
"""Ray's own names of these resources; others are resources that a cluster defines."""
QUIET = {"RAY_BACKEND_LOG_LEVEL": "error", "RAY_IGNORE_UNHANDLED_ERRORS": "1"}
"""Ray's own messages: what matters of them is said by the attempts that it happened to."""
NAMESPACE = "peira"
LOST = "its process was lost with its place in the Ray cluster"
OPTIONS = {"address", "resources", "agents", "autoscale"}

Resources = dict[str, float]


class RaySettings(msgspec.Struct, frozen=True):
    """The table [runners.ray] of a project file.

    `address` is that of the cluster, by default what RAY_ADDRESS says, or the one that runs on this machine.
    `resources` are what each child is given; `agents` says by label which of them need more. With
    `autoscale`, machines that have these resources may come later.
    """

    address: str = "auto"
    resources: dict[str, float] = msgspec.field(default_factory=lambda: {"cpu": 1.0})
    agents: dict[str, dict[str, dict[str, float]]] = {}
    autoscale: bool = False

    @classmethod
    def read(cls, table: Mapping[str, Any], agents: Sequence[str] | None) -> RaySettings:
        """The settings of a table, or Invalid with all problems; `agents` are the known labels."""
        problems = [f"{key}: is not known here" for key in sorted(set(table) - OPTIONS)]
        known: dict[str, Any] = {key: value for key, value in table.items() if key in OPTIONS}
        for place, needs in (
            ("resources", known.get("resources", {})),
            *((f"agents.{name}.resources", one) for name, one in _of_agents(known.get("agents", {}))),
        ):
            problems += [f"{place}{problem}" for problem in _resource_problems(needs)]
        for name, one in dict(known.get("agents") or {}).items():
            if agents is not None and name not in agents:
                problems.append(f"agents.{name}: the study has no such agent ({', '.join(agents)})")
            if not isinstance(one, Mapping) or set(one) != {"resources"}:
                problems.append(f"agents.{name}: must be {{resources = {{gpu = 1}}}}")
        if not isinstance(known.get("address", ""), str):
            problems.append(f"address: must be a text, not {known['address']!r}")
        if not isinstance(known.get("autoscale", False), bool):
            problems.append(f"autoscale: must be true or false, not {known['autoscale']!r}")
        if problems:
            raise Invalid(f"runners.ray.{problem}" for problem in problems)
        known.setdefault("address", os.environ.get("RAY_ADDRESS") or "auto")
        return cls(**known)

    @property
    def needs(self) -> Resources:
        """What one child is given: it executes any agent of the study, so the most that one of them needs."""
        most = dict(self.resources)
        for _, needs in _of_agents(self.agents):
            most |= {name: max(value, most.get(name, 0.0)) for name, value in needs.items()}
        return most


def _of_agents(agents: Any) -> list[tuple[str, Any]]:
    if not isinstance(agents, Mapping):
        return [("?", agents)]
    return [(name, one.get("resources", {})) for name, one in agents.items() if isinstance(one, Mapping)]


def _resource_problems(needs: Any) -> list[str]:
    if not isinstance(needs, Mapping):
        return [f": must be a table like {{gpu = 1}}, not {needs!r}"]
    return [
        f".{name}: must be a number above 0, not {value!r}"
        for name, value in needs.items()
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not value > 0
    ]


class RayRunner(ProcessRunner):
    """Executes attempts in child processes that Ray places, one at a time in each."""

    name = "ray"
    batch = 1  # what a worker holds and has no place for would wait for it

    def __init__(
        self,
        agents: Mapping[str, str | dict[str, Any] | None],
        label: str,
        options: Mapping[str, Any] | None = None,
        plugins: Sequence[str] | None = None,
    ) -> None:
        """As for a ProcessRunner; `options` is the table [runners.ray] of the project file."""
        super().__init__(agents, label, plugins)
        if importlib.util.find_spec("ray") is None:
            raise Invalid("runner: ray: needs Ray, which is not installed: pip install 'peira[ray]'")
        self._settings = RaySettings.read(options or {}, list(agents))
        _check_cluster(self._settings.address)
        self._stopping = threading.Event()
        self._ours = False

    def start(self, queue: AttemptQueue, workers: int) -> None:
        """Connect to the cluster and start the workers; Invalid if it lacks the resources they need."""
        self._ours = connect(self._settings)
        try:
            check_fits(self._settings)
        except Invalid:
            self._disconnect()
            raise
        super().start(queue, workers)

    def place(self, number: int) -> ChildHost | None:
        """Wait until the cluster has a place; None if the runner is being stopped."""
        host = RayHost(self._settings.needs)
        return host if host.wait(self._stopping) else None

    def stop(self) -> None:
        """End all workers, also those that wait for a place."""
        self._stopping.set()
        super().stop()
        self._disconnect()

    def _disconnect(self) -> None:
        disconnect(self._ours)
        self._ours = False


def connect(settings: RaySettings) -> bool:
    """Connect to the cluster unless this process is connected; whether it was not.

    It is never started here, because Ray listens on all addresses. Invalid if it cannot be used.
    """
    _check_cluster(settings.address)
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    import ray

    if ray.is_initialized():
        return False
    try:
        ray.init(settings.address, log_to_driver=False, configure_logging=False, namespace=NAMESPACE)
    except (ConnectionError, RuntimeError, ValueError) as problem:
        line = " ".join(str(problem).split())[:200]
        raise Invalid(f"runner: ray: cannot use the cluster at {settings.address!r}: {line}") from None
    return True


def disconnect(ours: bool) -> None:
    """Disconnect, if the connection is `ours`."""
    if ours:
        import ray

        ray.shutdown()


def check_fits(settings: RaySettings) -> int:
    """The number of machines with the needed resources; Invalid if there are none and none can be added."""
    import ray

    needs = {_ray_name(name): value for name, value in settings.needs.items()}
    fits = sum(
        node["Alive"] and all(node["Resources"].get(name, 0) >= value for name, value in needs.items())
        for node in ray.nodes()
    )
    if not fits and not settings.autoscale:
        asked = ", ".join(f"{name} = {value:g}" for name, value in settings.needs.items())
        raise Invalid(
            f"runner: ray: no machine of the cluster has {asked}; if some will come, write "
            "autoscale = true in [runners.ray]"
        )
    return int(fits)


def options_of(needs: Resources) -> dict[str, Any]:
    """What Ray is asked for, by its own names."""
    given: dict[str, Any] = {NAMES[name]: value for name, value in needs.items() if name in NAMES}
    own = {name: value for name, value in needs.items() if name not in NAMES}
    return {"num_cpus": 0, **given, "resources": own}


def _check_cluster(address: str) -> None:
    """Invalid if nothing is there; connecting for good takes seconds."""
    if "://" in address:
        raise Invalid(
            f"runner: ray: {address} is an address for Ray's clients: give that of the cluster (host:6379)"
        )
    if address == "auto":
        known = Path(os.environ.get("RAY_TMPDIR") or "/tmp", "ray", "ray_current_cluster")
        address = known.read_text().strip() if known.is_file() else ""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=LOOK * 10).close()
    except (OSError, ValueError) as problem:
        where = f"no cluster at {address} ({problem})" if address else "no cluster runs on this machine"
        raise Invalid(
            f"runner: ray: {where}: start one (ray start --head), or name it by RAY_ADDRESS or as address in "
            "[runners.ray]"
        ) from None


def _ray_name(name: str) -> str:
    """The name of a resource in Ray's list of machines."""
    return {"cpu": "CPU", "gpu": "GPU"}.get(name, name)


class RayHost:
    """A place in the cluster, and the connection to the task of Ray that holds it."""

    def __init__(self, needs: Resources) -> None:
        import ray

        self._key = secrets.token_bytes(32)
        address = ray.util.get_node_ip_address()
        self._listener = socket.create_server((address, 0))
        self._listener.settimeout(LOOK)
        task = ray.remote(serve).options(**options_of(needs), max_retries=0, retry_exceptions=False)
        self._task = task.remote(address, self._listener.getsockname()[1], self._key)
        self._control: Connection | None = None
        self._lost = threading.Event()
        self._number = 0
        self._children: dict[int, RayChild] = {}
        self._using = threading.Lock()

    def wait(self, stopping: threading.Event) -> bool:
        """Wait for the place; False, with all resources released, if it was cancelled meanwhile.

        ProcessDied if Ray could not execute the task.
        """
        import ray

        while not stopping.is_set():
            if (link := self._accepted()) is not None:
                self._control = Connection(link.detach())
                self._thread = threading.Thread(target=self._listen, name="peira-ray", daemon=True)
                self._thread.start()
                return True
            if ray.wait([self._task], timeout=0)[0]:
                self.close()
                raise ProcessDied(f"Ray could not give it a place: {self._failure()}")
        with suppress(ray.exceptions.RayError):
            ray.cancel(self._task)
        self.close()
        return False

    def _failure(self) -> str:
        """Why the task ended."""
        import ray

        try:
            ray.get(self._task)
        except Exception as problem:  # whatever Ray or the other machine's Python says
            lines = [line.strip() for line in str(problem).splitlines() if line.strip()]
            return lines[-1] if lines else type(problem).__name__
        return "its task has ended"

    def _accepted(self) -> socket.socket | None:
        """A connection whose other end knows the key; None if none came for a while."""
        try:
            link, _ = self._listener.accept()
        except TimeoutError:
            return None
        link.settimeout(None)
        try:
            prove(link, self._key, first=True)
        except (OSError, AuthenticationError):  # a stranger
            link.close()
            return None
        return link

    @property
    def ready(self) -> bool:
        return not self._lost.is_set()

    def start(self, label: str) -> ChildProcess:
        self._number += 1
        child = self._children[self._number] = RayChild(self, self._number)
        self._send(StartChild(self._number, label, os.getcwd()))
        looks = PATIENCE / LOOK
        while not child.ended.is_set() and looks > 0:
            if (link := self._accepted()) is not None:
                child.take(link)
                return child
            looks -= 1
        self._lost.set()
        raise ProcessDied(child.why or LOST)

    def kill(self, number: int) -> None:
        """Kill a child."""
        self._send(KillChild(number))

    def _send(self, message: StartChild | KillChild) -> None:
        assert self._control is not None
        with self._using, suppress(OSError):  # if it is gone, `_listen` finds out
            self._control.send_bytes(encode_message(message))

    def _listen(self) -> None:
        """Learn which children have ended, until the connection is closed."""
        assert self._control is not None
        try:
            while True:
                ended: ChildEnded = decode_ended(self._control.recv_bytes())
                child = self._children.pop(ended.number)
                child.over(ended.why or death_by(ended.code), ended.why)
        except (EOFError, OSError):
            self._lost.set()
            for child in list(self._children.values()):
                child.over(LOST, LOST)

    def close(self) -> None:
        """Close the connection: the task then kills its remaining children and ends."""
        self._lost.set()
        self._listener.close()
        if self._control is not None:
            with suppress(OSError):
                socket.socket(fileno=os.dup(self._control.fileno())).shutdown(socket.SHUT_RDWR)
            self._thread.join()
            self._control.close()
            self._control = None


class RayChild:
    """A child on a machine of the cluster."""

    end: socket.socket

    def __init__(self, host: RayHost, number: int) -> None:
        self._host, self._number = host, number
        self.ended = threading.Event()
        self.why = self._death = ""
        self._spare: socket.socket | None = None

    def take(self, end: socket.socket) -> None:
        """Use this connection to it."""
        self.end, self._spare = end, end.dup()
        if self.ended.is_set():  # meanwhile
            self.over(self._death, self.why)

    def over(self, death: str, why: str = "") -> None:
        """Note that the child has ended, or cannot be reached any more (`why`)."""
        self._death, self.why = death, why
        self.ended.set()
        if self._spare is not None:
            with self._spare, suppress(OSError):
                if why:
                    self._spare.shutdown(socket.SHUT_RDWR)

    @property
    def alive(self) -> bool:
        return not self.ended.is_set()

    def kill(self) -> None:
        if not self.ended.is_set():
            self._host.kill(self._number)
            self.ended.wait(PATIENCE)

    def death(self) -> str:
        return self._death if self.ended.wait(PATIENCE) else LOST
