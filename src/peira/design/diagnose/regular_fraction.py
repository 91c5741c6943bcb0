"""Recognises a regular two-level fraction from its runs.

Runs are a regular fraction if, as bit vectors, they form a linear space over GF(2) or a coset of one, each
run equally often. Then any two effects are either orthogonal or fully aliased, as given by the defining
relation. Centre runs alias nothing and are ignored.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import msgspec

from peira.core.ids import Json
from peira.core.space import Dimension
from peira.design.algebra.finite_fields import kernel, reduced
from peira.design.diagnose.design_matrix import DesignMatrix
from peira.design.dimensions import coded, key, numeric
from peira.design.factorial.fraction import MOST_LISTED, Word, alias_sets, defining_relation, resolution

MOST_WORDS = 31
"""Longer defining relations are represented by their generators."""


class Regular(msgspec.Struct, frozen=True):
    """A regular two-level fraction 2^(k-p)."""

    factors: int
    """The number of factors, k."""
    generators: int
    """The number of generators, p."""
    resolution: int | None
    """The length of the shortest word; None for a full factorial."""
    words: tuple[tuple[tuple[str, ...], int], ...]
    """Words of the defining relation with their signs, shortest first; of many, the generators."""
    aliases: tuple[tuple[str, ...], ...]
    """The alias sets of the effects of up to two factors."""


def regular(design: DesignMatrix) -> Regular | None:
    """The regular fraction that the runs form; None if they form none, or not all factors have two levels."""
    corners = _corners(design)
    found = _vectors(design, corners) if corners else None
    if not found or len(set(found.values())) != 1:
        return None
    first, *rest = found
    base = list(reduced(run ^ first for run in rest).values())
    if len(found) != 1 << len(base):
        return None
    names = design.space.names
    columns = [sum((run >> nth & 1) << at for at, run in enumerate(base)) for nth in range(len(names))]
    signed = {word: _sign(word, first) for word in kernel(columns)}
    return _described(names, {_named(word, names): sign for word, sign in signed.items()})


def _described(names: Sequence[str], generators: Mapping[Word, int]) -> Regular:
    """The fraction with its words, resolution and alias sets."""
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


def _corners(design: DesignMatrix) -> list[int]:
    """The indices of the runs that are not centre runs."""
    return [nth for nth, row in enumerate(design.rows) if not all(_central(design, row))]


def _central(design: DesignMatrix, row: Mapping[str, Json]) -> Iterator[bool]:
    """For each factor, whether the run is at its centre."""
    for dimension in design.space.dimensions:
        yield abs(_place(dimension, row[dimension.name])) < 1e-9


def _place(dimension: Dimension, value: Json) -> float:
    """The coded value, from -1 to 1; a category is never at the centre."""
    if numeric(dimension):
        return coded(dimension, value)
    at = [key(level) for level in dimension.levels].index(key(value))
    middle = 2 * at == len(dimension.levels) - 1 and dimension.scale == "ordinal"
    return 0.0 if middle else -1.0 if 2 * at < len(dimension.levels) else 1.0


def _vectors(design: DesignMatrix, corners: Sequence[int]) -> dict[int, int] | None:
    """The runs as bit vectors, one bit per factor, with replicates; None unless all have two levels."""
    bits = []
    for dimension in design.space.dimensions:
        values = {key(design.rows[nth][dimension.name]): design.rows[nth][dimension.name] for nth in corners}
        if len(values) != 2:
            return None
        low, high = sorted(values, key=lambda one: _rank(dimension, values[one]))
        bits.append({low: 0, high: 1})
    found: dict[int, int] = defaultdict(int)
    for nth in corners:
        row = design.rows[nth]
        run = sum(
            own[key(row[name])] << at
            for at, (name, own) in enumerate(zip(design.space.names, bits, strict=True))
        )
        found[run] += design.times[nth]
    return dict(found)


def _rank(dimension: Dimension, value: Json) -> float:
    """The position of a value in the order of the factor's levels."""
    if numeric(dimension):
        return float(value)
    return [key(level) for level in dimension.levels].index(key(value))


def _sign(word: int, run: int) -> int:
    """The sign of a word: the product of its factors, -1 if low, at one run (the same at all)."""
    return -1 if (word & ~run).bit_count() % 2 else 1


def _named(word: int, names: Sequence[str]) -> Word:
    return frozenset(name for nth, name in enumerate(names) if word >> nth & 1)
