"""An output that somebody recorded, whatever file it stands in."""

from __future__ import annotations

import math
from collections.abc import Mapping

import msgspec

from peira.core.ids import Json
from peira.errors import Invalid

Absent = msgspec.UnsetType
ABSENT = msgspec.UNSET


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """One output (or why there is none), the case it answers and what it was made under.

    A case is known by its id, by its input, or by both. `condition` must be met; `facts` are known besides
    (the task, the model of a log), and count where a study has a factor of that name. In a table everything
    is `written`: 1 is the text "1" there."""

    file: str
    number: int
    output: Json | Absent = ABSENT
    error: str = ""
    case: str | None = None
    input: Json | Absent = ABSENT
    expected: Json = None
    cluster: str | None = None
    slice: str | None = None
    metadata: dict[str, Json] = {}
    agent: str = ""
    condition: dict[str, Json] = {}
    facts: dict[str, Json] = {}
    repeat: int | None = None
    took: float = 0.0
    metrics: dict[str, float] = {}
    written: bool = False

    @property
    def where(self) -> str:
        return f"{self.file}:{self.number}"


def metrics_of(
    said: Mapping[str, Json], usage: Mapping[str, Json] | None, cost: Json = None
) -> dict[str, float]:
    """What was measured beside an output, as a trial of our own would report it: tokens and cost of a
    call."""
    found = {str(name): _number(str(name), value) for name, value in said.items() if value is not None}
    given = usage or {}
    tokens = {kind: given.get(f"{kind}_tokens", given.get(kind)) for kind in ("input", "output")}
    if cost is None and not any(value is not None for value in tokens.values()):
        return found
    counts = {f"{kind}_tokens": _number(f"{kind} tokens", value or 0) for kind, value in tokens.items()}
    return {**found, "calls": 1.0, **counts, **({} if cost is None else {"cost": _number("cost", cost)})}


def _number(name: str, value: Json) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        raise Invalid(f"{name}: must be a number, not {value!r}") from None
    if (isinstance(value, str) and not value.strip()) or not math.isfinite(number):
        raise Invalid(f"{name}: must be a number, not {value!r}")
    return number


def seconds_of(value: Json) -> float:
    took = 0.0 if value in (None, "") else _number("latency", value)
    if took < 0:
        raise Invalid(f"latency: must be 0 or more, not {value!r}")
    return took
