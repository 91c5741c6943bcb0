"""The common form of an output recorded elsewhere."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from peira.core.ids import Json
from peira.errors import Invalid

Absent = msgspec.UnsetType
ABSENT = msgspec.UNSET
MOST_REPEATS = 100_000
"""Repeats of a case among outputs that were made elsewhere."""


class RecordedOutput(msgspec.Struct, frozen=True, kw_only=True):
    """One output (or its error), the case it answers, and its condition.

    A case is identified by its id, its input, or both.
    """

    file: str
    number: int
    """The row or sample number in the file."""
    output: Json | Absent = ABSENT
    """The output; absent if the trial failed."""
    error: str = ""
    """The error message; "" if there is an output."""
    case: str | None = None
    """The id of the case; None if it is identified by its input."""
    input: Json | Absent = ABSENT
    expected: Json = None
    cluster: str | None = None
    slice: str | None = None
    metadata: dict[str, Json] = {}
    agent: str = ""
    condition: dict[str, Json] = {}
    """Factor levels, which must match a condition of the study."""
    facts: dict[str, Json] = {}
    """Further facts (task, model), used if the study has a factor of that name."""
    repeat: int | None = None
    """The repeat number, counted from 0; None if not recorded."""
    took: float = 0.0
    """Seconds."""
    metrics: dict[str, float] = {}
    written: bool = False
    """Whether all values are texts, as in a CSV file."""

    @property
    def where(self) -> str:
        """File and row number."""
        return f"{self.file}:{self.number}"


def metrics_of(
    measured: Mapping[str, Json], usage: Mapping[str, Json] | None, cost: Json = None
) -> dict[str, float]:
    """The metrics of an output, with tokens and cost as a trial of a study reports them."""
    found = {str(name): _number(str(name), value) for name, value in measured.items() if value is not None}
    given = usage or {}
    tokens = {kind: given.get(f"{kind}_tokens", given.get(kind)) for kind in ("input", "output")}
    if cost is None and not any(value is not None for value in tokens.values()):
        return found
    counts = {f"{kind}_tokens": _number(f"{kind} tokens", value or 0) for kind, value in tokens.items()}
    return {**found, "calls": 1.0, **counts, **({} if cost is None else {"cost": _number("cost", cost)})}


def _number(name: str, value: Json) -> float:
    """A finite number; raises `Invalid` for anything else."""
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise Invalid(f"{name}: must be a number, not {value!r}") from None
    if (isinstance(value, str) and not value.strip()) or not math.isfinite(number):
        raise Invalid(f"{name}: must be a number, not {value!r}")
    return number


def checked_repeat(number: int) -> int:
    """The number of a repeat; Invalid if there cannot be so many: all up to it are planned."""
    if not 0 <= number < MOST_REPEATS:
        raise Invalid(f"repeat: must be at least 0 and below {MOST_REPEATS:,}, not {number}")
    return number


def seconds_of(value: Json) -> float:
    """A duration in seconds; 0 if missing. Raises `Invalid` if it is negative."""
    took = 0.0 if value in (None, "") else _number("latency", value)
    if took < 0:
        raise Invalid(f"latency: must be 0 or more, not {value!r}")
    return took
