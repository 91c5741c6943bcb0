"""Validation and preparation of array inputs.

Each function raises ValueError that says what is wrong.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Hashable, Iterable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.intp]
"""Group labels as integers from 0."""

# Beyond this, squares overflow; any NaN or infinity fails the same comparison.
_LARGEST = 1e150
# A standard deviation this small, relative to the values, is floating-point rounding error.
_ROUNDING = 2.0**-48


def flat(values: ArrayLike) -> Floats:
    """Convert to a one-dimensional float array of at least one finite number.

    Raises ValueError for any other shape, no values, or values that are not finite.
    """
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1 or data.size == 0:
        raise ValueError("need a flat list of at least one value")
    return finite(data)


def finite(data: Floats) -> Floats:
    """The array unchanged; raises ValueError if any value is NaN, infinite or too large to square."""
    if not bool((np.abs(data) < _LARGEST).all()):
        raise ValueError("every value must be a finite number")
    return data


def pairs(one: ArrayLike, two: ArrayLike) -> tuple[Floats, Floats]:
    """Convert to two float arrays of equal length, in which equal positions form a pair."""
    first, second = flat(one), flat(two)
    if first.size != second.size:
        raise ValueError(f"need pairs, but there are {first.size} values and {second.size} values")
    return first, second


def coded(labels: Iterable[Hashable] | None, n: int) -> tuple[Codes, int]:
    """Labels as integers from 0 in order of first appearance, and the number of labels.

    None as `labels` gives every value a label of its own.
    """
    if labels is None:
        return np.arange(n), n
    if isinstance(labels, array):
        labels = np.asarray(labels)
    if isinstance(labels, np.ndarray) and labels.dtype.kind == "i" and labels.shape == (n,):
        _, first, codes = np.unique(labels, return_index=True, return_inverse=True)
        places = np.empty(len(first), dtype=np.intp)
        places[np.argsort(first)] = np.arange(len(first))
        return places[codes.reshape(-1)], len(first)
    seen: dict[Hashable, int] = {}
    codes = np.array([seen.setdefault(label, len(seen)) for label in labels], dtype=np.intp)
    if codes.size != n:
        raise ValueError(f"{n} values, but {codes.size} cluster labels")
    return codes, len(seen)


def hashed(labels: Iterable[Hashable]) -> array[int]:
    """Labels for `coded` in 8 bytes each, however many and however long they are.

    The chance that any two of a million labels have the same hash is 3 in 100 million.
    """
    return array("q", map(hash, labels))


def totals(codes: Codes, data: Floats) -> Floats:
    """The sum of the values under each label code."""
    return np.bincount(codes, weights=data).astype(np.float64, copy=False)


def sizes(codes: Codes) -> Floats:
    """The number of values under each label code."""
    return np.bincount(codes).astype(np.float64)


def counts(**given: int) -> None:
    """Check that every keyword argument is a whole number of at least 0."""
    for name, value in given.items():
        if value < 0 or value != int(value):
            raise ValueError(f"need a count of at least 0 as {name}, not {value}")


def known(what: str, value: str, allowed: Collection[str]) -> None:
    """Check that `value` is one of `allowed`; `what` names it in the error message.

    Raises ValueError with all allowed values.
    """
    if value not in allowed:
        raise ValueError(f"need {what} as one of {', '.join(allowed)}, not {value!r}")


def share(successes: int, n: int) -> float:
    """The proportion of successes among `n`, after checking both counts.

    Raises ValueError unless 0 <= successes <= n and n >= 1.
    """
    if not 0 <= successes <= n or n == 0:
        raise ValueError(f"need 0 <= successes <= n and n >= 1, not {successes} of {n}")
    return successes / n


def upper(level: float) -> float:
    """The upper quantile probability of a two-sided confidence level: 0.975 for 0.95.

    Raises ValueError for a level outside (0, 1); some callers use it only for this check.
    """
    if not 0 < level < 1:
        raise ValueError(f"the level of confidence must lie between 0 and 1, not {level}")
    return 0.5 + level / 2


def is_binary(data: Floats) -> bool:
    """Whether every value is 0 or 1."""
    return bool(((data == 0) | (data == 1)).all())


def is_rounding(spread: float, data: Floats) -> bool:
    """Whether a standard deviation or error is only rounding error, given the data."""
    return spread <= _ROUNDING * max(float(data.max()), -float(data.min()))
