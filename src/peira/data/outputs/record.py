"""The common form of an output recorded elsewhere."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from peira.core.ids import Json, canonical, normalise
from peira.core.verdicts import KEY, REASON, VALUE, NoVerdict, to_json
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
    scores: dict[str, Json] = {}
    """Scores of the tool that made the output, by name, as `score_of` makes them."""
    offers: dict[str, str] = {}
    """Evaluators of peira that score as the tool's scorers did, as written on the command line, by score."""
    about: dict[str, str] = {}
    """Facts for people: the model that was asked, why it stopped."""
    attached: dict[str, bytes] = {}
    """Files to keep with the output: the whole record, as the tool wrote it."""
    trace: str = ""
    """The traceback of the error."""
    written: bool = False
    """Whether all values are texts, as in a CSV file."""

    @property
    def where(self) -> str:
        """File and row number."""
        return f"{self.file}:{self.number}"


def read_json(data: bytes | str) -> Any:
    """A JSON document, also with NaN and Infinity, which other tools write; `Invalid` if it is none."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        pass
    try:
        return json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Invalid(f"cannot be read: {error}") from None


def plain(value: Any) -> Json:
    """The value with NaN and infinite numbers, which JSON does not have, as their names."""
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    return [plain(item) for item in value] if isinstance(value, list) else value


def attachment(value: Any) -> bytes:
    """A record as the bytes of a JSON file."""
    try:
        return canonical(normalise(plain(value), "record"))
    except Invalid:  # numbers that canonical JSON does not have: kept as they are written
        return json.dumps(plain(value), ensure_ascii=False).encode(errors="replace")


def score_of(value: Any, reason: str | None = None) -> Json:
    """A score of another tool in the form in which scores are recorded.

    A missing value and NaN are no verdict. A list is a dict by position; parts that are no bool, number or
    text are kept as text, or left out if they are NaN. An explanation becomes the `reason`; it is "" where
    a tool that explains its scores did not, so that all of its scores have the same parts.
    """
    if isinstance(value, list | tuple):
        value = {str(position): part for position, part in enumerate(value)}
    if isinstance(value, Mapping):
        parts = {_part_name(str(key)): _part(part) for key, part in value.items()}
        known = {key: part for key, part in parts.items() if part is not None}
        if not known:
            return to_json(NoVerdict(reason or "it was not scored"))
        return {**({REASON: reason} if reason else {}), **known}
    part = _part(value)
    if part is None:
        return to_json(NoVerdict(reason or "it was not scored"))
    if reason is None:
        return part
    return {VALUE: part, REASON: reason} if reason else {VALUE: part}


def _part_name(name: str) -> str:
    """A key that a score may have."""
    return f"{name}_" if name in ("", KEY) else name


def _part(value: Any) -> Json:
    """A number, bool or text; None for NaN and missing values; any other value as JSON text."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, bool | str):
        return value
    if isinstance(value, int | float) and abs(value) < 1e150:
        return normalise(value, "score")
    return json.dumps(plain(value), ensure_ascii=False)


def numbers_of(scores: Mapping[str, Json]) -> dict[str, float]:
    """The scores that are numbers, by name, as metrics; parts are NAME.PART."""
    found: dict[str, float] = {}
    for name, score in scores.items():
        parts = score if isinstance(score, Mapping) else {VALUE: score}
        for key, part in parts.items():
            if isinstance(part, bool | int | float):
                found[name if key == VALUE else f"{name}.{key}"] = float(part)
    return found


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
    further = {name: _number(name, given[name]) for name in FURTHER_TOKENS if given.get(name) is not None}
    paid = {} if cost is None else {"cost": _number("cost", cost)}
    return {**found, "calls": 1.0, **counts, **further, **paid}


FURTHER_TOKENS = ("cached_tokens", "written_tokens", "reasoning_tokens")
"""Tokens that are part of the input (read from and written to a cache) and of the output."""


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
