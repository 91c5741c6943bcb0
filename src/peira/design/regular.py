"""Whether the runs are a regular fraction of a two-level factorial, found by looking at them.

They are if, as vectors of bits, they are a linear space (or one moved aside), each run equally often. Then
every two effects are either clear of each other or wholly confounded, and the defining relation says which.
Runs with every factor at its centre confound nothing, and are not looked at.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from peira.core.ids import Json
from peira.core.space import Dimension
from peira.design.binary import kernel, reduced
from peira.design.dimensions import coded, key, numeric
from peira.design.laid import Laid
from peira.design.words import MOST_LISTED, Word, alias_sets, defining_relation, resolution

MOST_WORDS = 31


class Regular(msgspec.Struct, frozen=True):
    """A fraction 2^(k-p). `words` of the defining relation, each with its sign, the shortest first.

    All of them if they are few, else those that generate the others. Without a word it is the full
    factorial, which has no `resolution`. `aliases` are the effects of up to two factors that cannot be told
    apart, those of a set together.
    """

    factors: int
    generators: int
    resolution: int | None
    words: tuple[tuple[tuple[str, ...], int], ...]
    aliases: tuple[tuple[str, ...], ...]


def regular(laid: Laid) -> Regular | None:
    """The fraction that the runs are; None if they are none, or not of two levels."""
    corners = _corners(laid)
    found = _vectors(laid, corners) if corners else None
    if not found or len(set(found.values())) != 1:
        return None
    first, *rest = found
    base = list(reduced(run ^ first for run in rest).values())
    if len(found) != 1 << len(base):
        return None
    names = laid.space.names
    columns = [sum((run >> nth & 1) << at for at, run in enumerate(base)) for nth in range(len(names))]
    signed = {word: _sign(word, first) for word in kernel(columns)}
    return _described(names, {_named(word, names): sign for word, sign in signed.items()})


def _described(names: Sequence[str], generators: Mapping[Word, int]) -> Regular:
    few = len(generators) <= MOST_LISTED and 1 << len(generators) <= MOST_WORDS + 1
    words = defining_relation(generators) if few else generators
    order = {name: place for place, name in enumerate(names)}
    sets = alias_sets(names, generators)
    return Regular(
        factors=len(names),
        generators=len(generators),
        resolution=resolution(generators, len(names)) if generators else None,
        words=tuple((tuple(sorted(word, key=order.__getitem__)), sign) for word, sign in words.items()),
        aliases=tuple(
            tuple(":".join(sorted(word, key=order.__getitem__)) or "mean" for word in together)
            for together in sets
            if len(together) > 1
        ),
    )


def _corners(laid: Laid) -> list[int]:
    """The places of the runs that are not at the centre."""
    return [nth for nth, row in enumerate(laid.rows) if not all(_central(laid, row))]


def _central(laid: Laid, row: Mapping[str, Json]) -> Iterator[bool]:
    for dimension in laid.space.dimensions:
        yield abs(_place(dimension, row[dimension.name])) < 1e-9


def _place(dimension: Dimension, value: Json) -> float:
    """Where a value lies between -1 and 1; a category is never at the centre."""
    if numeric(dimension):
        return coded(dimension, value)
    at = [key(level) for level in dimension.levels].index(key(value))
    middle = 2 * at == len(dimension.levels) - 1 and dimension.scale == "ordinal"
    return 0.0 if middle else -1.0 if 2 * at < len(dimension.levels) else 1.0


def _vectors(laid: Laid, corners: Sequence[int]) -> dict[int, int] | None:
    """The runs as bits, a bit for each factor, and how often each comes; None if not of two levels."""
    bits = []
    for dimension in laid.space.dimensions:
        values = {key(laid.rows[nth][dimension.name]): laid.rows[nth][dimension.name] for nth in corners}
        if len(values) != 2:
            return None
        low, high = sorted(values, key=lambda one: _rank(dimension, values[one]))
        bits.append({low: 0, high: 1})
    found: dict[int, int] = defaultdict(int)
    for nth in corners:
        row = laid.rows[nth]
        run = sum(
            own[key(row[name])] << at
            for at, (name, own) in enumerate(zip(laid.space.names, bits, strict=True))
        )
        found[run] += laid.times[nth]
    return dict(found)


def _rank(dimension: Dimension, value: Json) -> float:
    if numeric(dimension):
        return float(value)
    return [key(level) for level in dimension.levels].index(key(value))


def _sign(word: int, run: int) -> int:
    """The product of the factors of a word, each -1 where it is low, at one run and so at all."""
    return -1 if (word & ~run).bit_count() % 2 else 1


def _named(word: int, names: Sequence[str]) -> Word:
    return frozenset(name for nth, name in enumerate(names) if word >> nth & 1)
