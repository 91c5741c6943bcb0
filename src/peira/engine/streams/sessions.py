"""The state that the jobs of a session share: a customer, a conversation.

Each read is a recorded step. Each write is a compare-and-set in one commit with its step: a job that is
resumed reads what it read before, and never writes twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast, runtime_checkable

from peira.core.codec import decode
from peira.core.context import Trial, current_trial
from peira.core.failpoints import reach
from peira.core.ids import Json, canonical, digest, normalise, own_copy
from peira.core.steps import recorded, step_key
from peira.errors import Invalid

SessionTable = dict[str, Json]
_CODE = "session"


@runtime_checkable
class SessionChannel(Protocol):
    """What an attempt may request of the session of its job."""

    def read_session(self) -> tuple[int, bytes]:
        """The version of the state (0: there is none) and the state, as canonical JSON.

        Raises Invalid if the job has no session that it shares.
        """
        ...

    def write_session(self, version: int, state: bytes, key: str, name: str) -> bool:
        """Write this version and record the step, in one commit; False if another version was written
        meanwhile. Durable when it returns."""
        ...


class JobSession:
    """The session of the current job: a table of JSON values, shared by all jobs of the session."""

    def __init__(self, trial: Trial, channel: SessionChannel) -> None:
        self._trial, self._channel = trial, channel

    @property
    def id(self) -> str:
        """The name of the session."""
        return self._trial.case.cluster or ""

    def get(self, name: str | None = None, default: Json = None) -> Json:
        """The value of this name, or the default; without a name, the whole table."""
        given = [name, normalise(default, "default")]
        return recorded(self._trial, "session.get", _CODE, given, lambda: self._read(name, default))

    def _read(self, name: str | None, default: Json) -> Json:
        table = self._table()[1]
        return table if name is None else table.get(name, default)

    def _table(self) -> tuple[int, SessionTable]:
        version, state = self._channel.read_session()
        return version, cast(SessionTable, decode(state)) if version else {}

    def set(self, name: str, value: Json) -> None:
        """Set the value of a name, once; what others wrote meanwhile under other names stays."""
        value = normalise(value, f"session value {name!r}")
        self._write("session.set", [name, value], lambda table: {**table, name: value})

    def update(self, function: Callable[[SessionTable], SessionTable]) -> SessionTable:
        """Replace the table by what the function makes of it, once; returns the new one.

        If another job wrote meanwhile, the function is called again with what that wrote.
        """
        return self._write("session.update", None, function)

    def _write(self, name: str, given: Json, change: Callable[[SessionTable], SessionTable]) -> SessionTable:
        key = step_key(self._trial, name, digest(_CODE), digest(given))
        if (known := self._trial.channel.recall(key)) is not None:
            return cast(SessionTable, decode(known))
        while True:
            version, table = self._table()
            made = normalise(change(own_copy(table)), "session")
            if not isinstance(made, dict):
                raise Invalid(f"session: must be a table, not {made!r}")
            reach("step.before_record")
            if self._channel.write_session(version + 1, canonical(made), key, name):
                reach("step.after_record")
                return made


def session() -> JobSession:
    """The session of the job that this code is doing; Invalid where jobs share none."""
    trial = current_trial()
    if not isinstance(trial.channel, SessionChannel):
        raise Invalid("session(): works in jobs of a stream that peira serves")
    return JobSession(trial, trial.channel)
