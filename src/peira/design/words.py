"""Words: which effects of a two-level fraction cannot be told apart.

A word is a set of factors whose product is constant over the runs. Generators are words from which all
others, the defining relation, follow by multiplication; an effect times a word is its alias. Everything
here takes and gives words as sets of factor names, with the sign of the constant where there is one.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations

from peira.design.binary import kernel, reduced, remainder, span
from peira.errors import Invalid

Word = frozenset[str]
MOST_LISTED = 16
"""A defining relation of more generators is not listed: it would have over 65,536 words."""


def defining_relation(generators: Mapping[Word, int]) -> dict[Word, int]:
    """Every word with its sign, the shortest first, without the empty one."""
    if len(generators) > MOST_LISTED:
        raise Invalid(
            f"the defining relation of {len(generators)} generators has {2 ** len(generators) - 1} words, "
            "too many to list; ask for word_length_pattern or alias_sets"
        )
    names = sorted(frozenset().union(*generators))
    signed = [_bits(word, names) << 1 | (sign < 0) for word, sign in generators.items()]
    found = {_word(bits >> 1, names): -1 if bits & 1 else 1 for bits in span(signed) if bits}
    return dict(sorted(found.items(), key=lambda item: (len(item[0]), sorted(item[0]))))


def word_length_pattern(generators: Iterable[Word], factors: int) -> dict[int, int]:
    """How many words of the defining relation have each length."""
    words = list(generators)
    names = sorted(frozenset().union(*words))
    bits = [_bits(word, names) for word in words]
    if len(bits) <= MOST_LISTED:
        counts = _weights(bits, factors)
    elif factors - len(bits) <= MOST_LISTED:
        counts = _macwilliams(_weights(kernel(_transposed(bits, factors)), factors))
    else:
        raise Invalid(f"{factors} factors and {len(bits)} generators are too many to count the words")
    return {length: count for length, count in enumerate(counts) if length and count}


def resolution(generators: Iterable[Word], factors: int) -> int | None:
    """The length of the shortest word; None if there is none, as in a full factorial."""
    return min(word_length_pattern(generators, factors), default=None)


def alias_sets(names: Sequence[str], generators: Iterable[Word], order: int = 2) -> list[tuple[Word, ...]]:
    """The effects of up to `order` factors, those that cannot be told apart together.

    Effects that cannot be told from the mean come first, with the empty word that stands for it.
    """
    base = reduced(_bits(word, names) for word in generators)
    found: dict[int, list[Word]] = defaultdict(list)
    for size in range(order + 1):
        for chosen in combinations(names, size):
            found[remainder(_bits(chosen, names), base)].append(frozenset(chosen))
    return [tuple(together) for together in found.values()]


def _bits(word: Collection[str], names: Sequence[str]) -> int:
    return sum(1 << names.index(name) for name in word)


def _word(bits: int, names: Sequence[str]) -> Word:
    return frozenset(name for nth, name in enumerate(names) if bits >> nth & 1)


def _weights(vectors: Iterable[int], length: int) -> list[int]:
    counts = [0] * (length + 1)
    for vector in span(vectors):
        counts[vector.bit_count()] += 1
    return counts


def _transposed(vectors: Sequence[int], length: int) -> list[int]:
    return [sum((v >> place & 1) << nth for nth, v in enumerate(vectors)) for place in range(length)]


def _macwilliams(counts: Sequence[int]) -> list[int]:
    """How many vectors of each weight are orthogonal to a span with so many of each weight."""
    length, size = len(counts) - 1, sum(counts)
    return [
        sum(
            count * (-1) ** j * math.comb(weight, j) * math.comb(length - weight, degree - j)
            for weight, count in enumerate(counts)
            if count
            for j in range(degree + 1)
        )
        // size
        for degree in range(length + 1)
    ]
