"""One attempt of a command: its workspace and sandbox, its endpoint, its output and artifacts."""

from __future__ import annotations

import json
import mimetypes
import os
from contextlib import AbstractContextManager, closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peira.agents.command.endpoint_access import EndpointAccess, bridged, endpoint_access
from peira.agents.command.placeholders import filled, values_of
from peira.core.context import Trial
from peira.core.ids import Json, digest
from peira.core.text.words import counted, duration
from peira.endpoint.session import ModelRoutes
from peira.errors import Abandoned, CommandFailed, Invalid, TimedOut, TooLarge, carried
from peira.sandbox.confinement import (
    COMMAND_PATH,
    MIB,
    WORK,
    Confinement,
    Limits,
    SandboxView,
    process_namespace,
    program_confinement,
    unconfined_allowed,
)
from peira.sandbox.process import Launch
from peira.sandbox.run import held, signal_of, started
from peira.sandbox.streams import SpilledOutput, StreamExchange, never

if TYPE_CHECKING:
    from peira.agents.command.agent import CommandAgent

MOST_OUTPUT = 64 * MIB
"""The bytes that are kept of standard output, and of standard error; more end the command."""
UNBOUNDED = 1 << 62
DESCRIPTORS, ENTRIES = 4096, 200_000
ALL_RECORDED, THROUGH_ENDPOINT, NOT_RECORDED = "all recorded", "through the endpoint", "not recorded"
"""How the calls of a command are known: it could make no others, it may have made others, or it was given no
endpoint."""
LINE = 300
STOPPED = "stopped"


class CommandAttempt:
    """Runs the command of an agent once, for a trial."""

    def __init__(self, agent: CommandAgent, trial: Trial) -> None:
        self._agent, self._trial, self._channel = agent, trial, trial.channel
        self._options, self._values = agent.options, values_of(trial)
        self._means = self._confinement()
        self._confined = self._options.confine and self._means is not None

    def _confinement(self) -> Confinement | None:
        """What confines it, or only keeps its processes together; None if there is nothing here."""
        if not self._options.confine:
            return process_namespace()
        found = program_confinement()
        if isinstance(found, Confinement):
            return found
        if not unconfined_allowed():
            raise Invalid(f"command: {found}, with confine = false")
        return None

    def run(self) -> Any:
        """The output of the trial; raises the failure of the command, or what ended the attempt."""
        folder = self._channel.workdir()
        with (
            self._endpoint(folder) as access,
            closing(SpilledOutput(folder / "stdout")) as stdout,
            closing(SpilledOutput(folder / "stderr")) as stderr,
        ):
            launch = self._launch(folder, access)
            self._describe(access)
            exchange = StreamExchange(
                self._limits(),
                _nothing,
                never,
                stdout,
                stderr,
                partial(self._stop_reason, access),
                lambda: float(getattr(self._channel, "queued", 0.0)),
            )
            with closing(started(self._means, launch)) as process:
                given = filled(self._options.given, self._values).encode()
                status = held(process, exchange, given, stderr.tail)
                self._raise_signal(access)
                kept = process.files()
        ended_by = exchange.ended_by or signal_of(status)
        failed = bool(status or exchange.ended_by)
        self._attach(stdout, stderr, kept, failed)
        if failed:
            raise self._failure(status, ended_by, stderr)
        if access is not None and access.session.tools and access.session.tools.has_result:
            return access.session.tools.result
        return self._parsed(stdout)

    # Before

    def _endpoint(self, folder: Path) -> AbstractContextManager[EndpointAccess | None]:
        """The endpoint of this attempt while it lasts."""
        named = {name: filled(model, self._values) for name, model in self._options.models.items()}
        given = self._trial.condition.get("model")
        routes = ModelRoutes(named, given if isinstance(given, str) else "")
        token = self._token() if self._confined else ""
        return endpoint_access(self._channel, routes, self._options.tools, folder, token)

    def _token(self) -> str:
        """The token of a confined command, which reaches only its own socket: the same in every attempt, also
        of another version, so that a command that says it to a model asks the same again."""
        trial = self._trial
        return digest(["endpoint", trial.case.id, dict(trial.condition), trial.repeat])[:32]

    def _describe(self, access: EndpointAccess | None) -> None:
        """Record how it runs, and how its calls are known."""
        known = ALL_RECORDED if self._confined else THROUGH_ENDPOINT if access else NOT_RECORDED
        about = {"calls_known": known, "confined": "yes" if self._confined else "no"}
        if self._agent.program.digest:
            about["program"] = f"{Path(self._agent.program.path).name} {self._agent.program.digest[:16]}"
        self._channel.report({}, about)

    def _limits(self) -> Limits:
        said = self._options
        return Limits(
            seconds=said.timeout,
            cores=os.cpu_count() or 1,
            memory=said.memory * MIB,
            address_space=UNBOUNDED,
            processes=said.processes,
            disk=said.disk * MIB,
            entries=ENTRIES,
            descriptors=DESCRIPTORS,
            output=MOST_OUTPUT,
        )

    def _launch(self, folder: Path, access: EndpointAccess | None) -> Launch:
        """What is started."""
        words = [filled(word, self._values) for word in self._options.command]
        program, env = self._agent.program, self._env(access)
        usual = COMMAND_PATH.split(":")
        if program.folder and (program.folder not in usual or not self._confined):
            words[0] = program.path
        if not self._confined:
            place = folder / "work"
            place.mkdir()
            view = SandboxView(folder=str(place), open=True)
            return self._launched(words, env, view, place)
        if program.folder and program.folder not in usual:
            env = {"PATH": f"{program.folder}:{COMMAND_PATH}", **env}
        sockets = access.sockets if access else ()
        mounts = (*program.mounts, *self._options.mounts)
        if access:
            words = bridged(words)
        return self._launched(words, env, SandboxView(WORK, True, mounts, sockets))

    def _launched(
        self, words: list[str], env: dict[str, str], view: SandboxView, place: Path | None = None
    ) -> Launch:
        agent, channel = self._agent, self._channel
        return Launch(
            tuple(words),
            agent.files,
            self._limits(),
            env,
            self._options.keep,
            agent.executable,
            view,
            channel.label,
            place,
        )

    def _env(self, access: EndpointAccess | None) -> dict[str, str]:
        """The variables that it is given."""
        found = {}
        for name, value in self._options.env.items():
            if value.startswith("$"):
                if value[1:] not in os.environ:
                    raise Invalid(f"env: the variable {value[1:]} is not set")
                found[name] = os.environ[value[1:]]
            else:
                found[name] = filled(value, self._values)
        return {**found, **(access.env if access else {})}

    # Meanwhile

    def _stop_reason(self, access: EndpointAccess | None) -> str:
        """Why the command has to be ended; "" if it may go on."""
        signal = access.session.signal if access else None
        return STOPPED if signal is not None or self._channel.closed else ""

    def _raise_signal(self, access: EndpointAccess | None) -> None:
        """Raise what ended the attempt, if anything did."""
        if access and access.session.signal is not None:
            raise access.session.signal
        if self._channel.closed:
            raise Abandoned("this attempt was abandoned: its command was ended")

    # Afterwards

    def _attach(
        self, stdout: SpilledOutput, stderr: SpilledOutput, kept: dict[str, bytes], failed: bool
    ) -> None:
        """Keep the files that were asked for, and what was printed and is not the output itself."""
        for name, data in kept.items():
            self._channel.attach(name, data, mimetypes.guess_type(name)[0] or "")
        whole = self._options.parse == "text" and not failed and stdout.shown() == _text(stdout.whole)
        if stdout.size and not whole:
            self._channel.attach("stdout.txt", stdout.whole, "text/plain")
        if stderr.size:
            self._channel.attach("stderr.txt", stderr.whole, "text/plain")

    def _failure(self, status: int | None, ended_by: str, stderr: SpilledOutput) -> Exception:
        """Why there is no output."""
        name, limits = self._options.command[0], self._limits()
        if ended_by in ("time", "cpu"):
            return TimedOut(f"{name}: not over after {duration(limits.seconds)}")
        if ended_by == "output":
            return TooLarge(f"{name}: printed more than {MOST_OUTPUT // MIB} MiB")
        if ended_by in ("memory", "files"):
            most = {
                "memory": f"{self._options.memory} MiB of memory",
                "files": counted(ENTRIES, "file"),
            }[ended_by]
            return CommandFailed(f"{name}: used more than {most}, and was ended")
        lines = [line for line in stderr.tail.decode(errors="replace").splitlines() if line.strip()]
        said = f": {lines[-1].strip()[:LINE]}" if lines else ""
        by = f" ({ended_by})" if ended_by else ""
        return CommandFailed(carried(f"{name}: exit code {status}{by}{said}"))

    def _parsed(self, stdout: SpilledOutput) -> Json:
        """The output in what was printed."""
        if self._options.parse == "text":
            return stdout.shown().removesuffix("\n")
        text = _text(stdout.whole)
        if self._options.parse == "last_line":
            lines = [line for line in text.splitlines() if line.strip()]
            return lines[-1].strip() if lines else ""
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as problem:
            name = self._options.command[0]
            raise CommandFailed(f"{name}: what it printed is no JSON: {problem}") from None


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _nothing() -> None:
    """Replaced by the process's own when it has started."""
