"""Normalisation of scores: a bool, a number, a text, or a dict of those."""

from __future__ import annotations

from collections.abc import Mapping

from peira.core.ids import Json, normalise
from peira.core.verdicts import KEY, NoVerdict, to_json
from peira.errors import Invalid

ALLOWED = "a score is a bool, a number, a text, or a dict of those"
LARGEST = 1e150
"""Squares of larger numbers overflow, and no interval could be computed."""


def score_value(raw: object, name: str = "the evaluator") -> Json:
    """The score as plain JSON, to be stored; raises `Invalid` if it is not a valid score.

    NaN is rejected, because it would turn every mean into NaN. So is None: an evaluator that returned nothing
    has not judged; one that cannot judge returns a `NoVerdict`. Subclasses and numpy scalars are converted to
    the plain value they hold.
    """
    if type(raw) is bool:  # as most are
        return raw
    if isinstance(raw, NoVerdict):
        return to_json(NoVerdict(_text(raw.reason, name)))
    if not isinstance(raw, Mapping):
        return _plain(raw, f"{name} returned")
    if not raw:
        raise Invalid(f"{name} returned an empty dict; {ALLOWED}")
    return {_key(key, name): _plain(value, f"{name} returned, under {key!r},") for key, value in raw.items()}


def _key(key: object, name: str) -> str:
    if not isinstance(key, str) or not key:
        raise Invalid(f"{name} returned a dict with the key {key!r}; the keys of a score are texts")
    if key == KEY:
        raise Invalid(f"{name} returned a dict with the key {KEY!r}; return NoVerdict(reason) for that")
    return str.__str__(key)


def _text(reason: object, name: str) -> str:
    if not isinstance(reason, str):
        raise Invalid(f"{name} came to no verdict for the reason {reason!r}, which is no text")
    return str(normalise(str.__str__(reason), name))


def _plain(raw: object, returned: str) -> Json:
    value = raw.item() if hasattr(raw, "dtype") and getattr(raw, "ndim", 1) == 0 else raw  # type: ignore[attr-defined]
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return normalise(str.__str__(value), returned)
    if isinstance(value, int):
        return normalise(int(value), returned)
    if isinstance(value, float):
        if not abs(value) < LARGEST:
            raise Invalid(f"{returned} {float(value)}; a score is a finite number (below {LARGEST:g})")
        return normalise(float(value), returned)
    if value is None:
        raise Invalid(f"{returned} None: it judged nothing; {ALLOWED}")
    raise Invalid(f"{returned} a value of type {type(value).__name__}; {ALLOWED}")
