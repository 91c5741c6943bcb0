"""A regular two-level fraction as a value: runs, defining words, resolution, aliases and blocks.

A word is a set of factors whose product is constant over the runs. Generators are words from which all
others, the defining relation, follow by multiplication; an effect times a word is an alias of the effect.
Words are sets of factor names, with the sign of the constant where it matters.

Run x of 2^bits has a factor at its low level if x shares an odd number of bits with the factor's column, else
at its high level; for factors in `flipped` it is the reverse. `blocks` are vectors that determine the block
of a run in the same way.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from peira.design.algebra.finite_fields import kernel, reduced, remainder, span
from peira.design.coded_runs import CodedRun
from peira.errors import Invalid

Word = frozenset[str]
"""A set of factors whose product is constant over the runs."""
MOST_LISTED = 16
"""Maximum number of generators whose defining relation is listed; beyond it has over 65,536 words."""


# The defining relation and aliases


def defining_relation(generators: Mapping[Word, int]) -> dict[Word, int]:
    """Every word with its sign, shortest first, without the identity; `Invalid` if too many."""
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
    """The number of words of the defining relation by length; raises `Invalid` if too many."""
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
    """The effects of up to `order` factors, grouped into sets of aliases.

    Effects aliased with the mean come first, together with the empty word that denotes the mean.
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
    """The number of vectors of each weight in the span."""
    counts = [0] * (length + 1)
    for vector in span(vectors):
        counts[vector.bit_count()] += 1
    return counts


def _transposed(vectors: Sequence[int], length: int) -> list[int]:
    return [sum((v >> place & 1) << nth for nth, v in enumerate(vectors)) for place in range(length)]


def _macwilliams(counts: Sequence[int]) -> list[int]:
    """The weight distribution of the dual code (MacWilliams identity)."""
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


# The fraction


@dataclass(frozen=True)
class Fraction:
    """A regular fraction of 2^bits runs: the column of each factor, flipped factors, block vectors."""

    bits: int
    """The base-2 logarithm of the number of runs."""
    columns: tuple[int, ...]
    """The column of each factor: a vector of bits."""
    flipped: frozenset[int] = frozenset()
    """The factors whose levels are reversed."""
    blocks: tuple[int, ...] = ()
    """The vectors that define the blocks; empty without blocks."""

    @property
    def size(self) -> int:
        """The number of runs."""
        return 1 << self.bits

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the blocks; one empty name if there are none."""
        return tuple(str(nth + 1) for nth in range(1 << len(self.blocks))) if self.blocks else ("",)

    def runs(self) -> Iterator[CodedRun]:
        """The runs in standard (Yates) order: the first factor changes fastest."""
        labels = self.labels
        for x in reversed(range(self.size)):
            places = tuple(
                1.0 - 2 * ((column & x).bit_count() + (nth in self.flipped) & 1)
                for nth, column in enumerate(self.columns)
            )
            yield CodedRun(places, labels[_block(x, self.blocks)])

    def generators(self, names: Sequence[str]) -> dict[Word, int]:
        """A generating set of words of the defining relation, with their signs."""
        return {
            frozenset(names[nth] for nth in range(len(names)) if word >> nth & 1): self._sign(word)
            for word in kernel(self.columns)
        }

    def confounded(self, names: Sequence[str]) -> list[Word]:
        """For every effect confounded with blocks, the shortest word among its aliases."""
        return [self._shortest(vector, names) for vector in span(self.blocks) if vector]

    def folded(self, factors: Collection[int], *, blocks: bool) -> Fraction | None:
        """The fraction with its foldover on `factors` added; None if that repeats the same runs.

        With `blocks`, the foldover is a block of its own.
        """
        fold = 1 << self.bits
        columns = tuple(c | fold if nth in factors else c for nth, c in enumerate(self.columns))
        if len(kernel(columns)) == len(kernel(self.columns)):
            return None
        return replace(
            self, bits=self.bits + 1, columns=columns, blocks=(*self.blocks, fold) if blocks else self.blocks
        )

    def _sign(self, word: int) -> int:
        return -1 if sum(word >> nth & 1 for nth in self.flipped) % 2 else 1

    def _shortest(self, vector: int, names: Sequence[str]) -> Word:
        """The shortest word whose columns sum to the vector."""
        for size in range(1, len(names) + 1):
            for chosen in combinations(range(len(names)), size):
                total = 0
                for nth in chosen:
                    total ^= self.columns[nth]
                if total == vector:
                    return frozenset(names[nth] for nth in chosen)
        raise AssertionError("the columns of a fraction span its runs")


def generated(words: Mapping[Word, int], names: Sequence[str]) -> Fraction | None:
    """The fraction with these defining words; None if they are dependent or contradictory."""
    place = {name: 1 << nth + 1 for nth, name in enumerate(names)}
    base = reduced(sum(place[n] for n in word) | (sign < 0) for word, sign in words.items())
    if len(base) < len(words) or 1 in base:
        return None
    free = [nth for nth in range(len(names)) if nth + 2 not in base]
    bit = {nth: 1 << i for i, nth in enumerate(free)}
    columns = tuple(
        bit[nth] if nth in bit else sum(b for n, b in bit.items() if base[nth + 2] >> n + 1 & 1)
        for nth in range(len(names))
    )
    flipped = frozenset(nth for nth in range(len(names)) if nth not in bit and base[nth + 2] & 1)
    return Fraction(len(free), columns, flipped)


def _block(x: int, blocks: Sequence[int]) -> int:
    """The index of the block of run x."""
    return sum((vector & x).bit_count() % 2 << nth for nth, vector in enumerate(blocks))
