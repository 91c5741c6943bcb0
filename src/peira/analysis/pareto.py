"""Quality against cost and latency: which entries nothing else beats on all of them, and how sure that is.

Cases are drawn again (whole units of evidence, the same for every entry), and the front is found anew each
time: the share of draws in which an entry is on it is the chance shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from peira.analysis.leaderboard import Entry
from peira.analysis.measures import Observation
from peira.stats.inputs import Codes, Floats, coded

DRAWS = 1000
CHUNK = 50
Seen = Sequence[Observation]


def front(entries: Sequence[Entry], seen: Sequence[Seen], sign: int, seed: int = 0) -> tuple[Entry, ...]:
    """The entries with their mean cost and seconds, and their chance to be on the front.

    Cost counts only where every entry's is known, and seconds where any were taken.
    """
    costs, times = _means(seen, "cost"), _means(seen, "took")
    told = [replace(e, cost=c, took=t) for e, c, t in zip(entries, costs, times, strict=True)]
    axes = ["value"]
    axes += ["cost"] if all(c is not None for c in costs) and any(costs) else []
    axes += ["took"] if all(t is not None for t in times) and any(times) else []
    if len(axes) < 2 or any(entry.mean is None for entry in entries):
        return tuple(told)
    chances = _chances(seen, axes, sign, seed)
    return tuple(replace(entry, on_front=chance) for entry, chance in zip(told, chances, strict=True))


def _means(seen: Sequence[Seen], axis: str) -> list[float | None]:
    found = [[_read(one, axis) for one in known if one.value is not None] for known in seen]
    return [
        None if not values or None in values else float(np.mean([v for v in values if v is not None]))
        for values in found
    ]


def _read(one: Observation, axis: str) -> float | None:
    return one.value if axis == "value" else one.trial.cost if axis == "cost" else one.trial.took


def _chances(seen: Sequence[Seen], axes: Sequence[str], sign: int, seed: int) -> list[float]:
    known = [[one for one in observations if one.value is not None] for observations in seen]
    labels = [one.trial.unit for observations in known for one in observations]
    codes, units = coded(labels, len(labels))
    ends = np.cumsum([0, *map(len, known)])
    tables = [
        _sums(observations, codes[ends[i] : ends[i + 1]], units, axes, sign)
        for i, observations in enumerate(known)
    ]
    rng = np.random.default_rng(seed)
    parts = [_drawn(tables, rng, min(CHUNK, DRAWS - done)) for done in range(0, DRAWS, CHUNK)]
    return _undominated(np.concatenate(parts, axis=1))


def _sums(known: Seen, codes: Codes, units: int, axes: Sequence[str], sign: int) -> Floats:
    """For each unit the sum of every axis, turned so that more is better, and last the number of trials."""
    columns = [
        (sign if axis == "value" else -1)
        * np.bincount(codes, np.array([_read(one, axis) for one in known], dtype=np.float64), units)
        for axis in axes
    ]
    return np.stack([*columns, np.bincount(codes, minlength=units)], axis=1).astype(np.float64)


def _drawn(tables: Sequence[Floats], rng: np.random.Generator, draws: int) -> Floats:
    """Means by entry, draw and axis; NaN where a draw has nothing of an entry."""
    units = len(tables[0])
    drawn = rng.integers(0, units, (draws, units))
    times = np.stack([np.bincount(row, minlength=units) for row in drawn]).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        sums = np.stack([times @ table for table in tables])
        found: Floats = sums[:, :, :-1] / sums[:, :, -1:]
    return found


def _undominated(draws: Floats) -> list[float]:
    """The share of draws in which each entry is beaten by no other."""
    chances = []
    for i in range(len(draws)):
        beaten = np.zeros(draws.shape[1], dtype=bool)
        for j in range(len(draws)):
            if i != j:
                no_worse = (draws[j] >= draws[i]).all(axis=1)
                beaten |= no_worse & (draws[j] > draws[i]).any(axis=1)
        chances.append(float(1 - beaten.mean()))
    return chances
