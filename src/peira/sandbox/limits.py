"""How much a confined process may take. Every limit is enforced; none can be switched off."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from peira.errors import Invalid

MIB = 1 << 20


@dataclass(frozen=True)
class Limits:
    """What a process and all that it starts may take; beyond it, they are ended or refused."""

    seconds: float = 10.0
    """From start to end by the clock. A process may also use no more processor time than this, rounded up."""

    memory: int = 512 * MIB
    """Bytes: the address space of each process, and what all of them together hold."""

    processes: int = 32
    """At the same time, threads included. Not enforced without confinement: it would count all the user's."""

    disk: int = 64 * MIB
    """Bytes in the private folder; no single file is larger."""

    entries: int = 10_000
    """Files, folders and links in the private folder."""

    output: int = MIB
    """Bytes that are kept of standard output, and as many of standard error; more end the process."""

    def __post_init__(self) -> None:
        if problems := [problem for field in fields(self) if (problem := self._problem(field.name))]:
            raise Invalid(problems)

    def _problem(self, name: str) -> str:
        value = getattr(self, name)
        if name == "seconds":
            fine = isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < math.inf
            return "" if fine else f"limits: seconds={value!r} is not a number above 0"
        fine = type(value) is int and value > 0
        return "" if fine else f"limits: {name}={value!r} is not a whole number above 0"

    @property
    def cpu(self) -> int:
        return math.ceil(self.seconds)
