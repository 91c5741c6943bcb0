"""A regular fraction of a two-level factorial, as a value: its runs, its words, its blocks.

Run x of 2^bits is low in a factor if x shares an odd number of bits with the factor's column (and high if
even); the factors in `flipped` the other way round. `blocks` are vectors that tell the blocks apart in
the same way.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from peira.design.binary import kernel, reduced, span
from peira.design.runs import Run
from peira.design.words import Word


@dataclass(frozen=True)
class Fraction:
    bits: int
    columns: tuple[int, ...]
    flipped: frozenset[int] = frozenset()
    blocks: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        return 1 << self.bits

    @property
    def labels(self) -> tuple[str, ...]:
        """The names of the blocks."""
        return tuple(str(nth + 1) for nth in range(1 << len(self.blocks))) if self.blocks else ("",)

    def runs(self) -> Iterator[Run]:
        """In standard order: the first factor changes from run to run."""
        labels = self.labels
        for x in reversed(range(self.size)):
            places = tuple(
                1.0 - 2 * ((column & x).bit_count() + (nth in self.flipped) & 1)
                for nth, column in enumerate(self.columns)
            )
            yield Run(places, labels[_block(x, self.blocks)])

    def generators(self, names: Sequence[str]) -> dict[Word, int]:
        """Words from which all others follow, with their signs."""
        return {
            frozenset(names[nth] for nth in range(len(names)) if word >> nth & 1): self._sign(word)
            for word in kernel(self.columns)
        }

    def confounded(self, names: Sequence[str]) -> list[Word]:
        """For every effect that blocks are confounded with, the shortest word that stands for it."""
        return [self._shortest(vector, names) for vector in span(self.blocks) if vector]

    def folded(self, factors: Collection[int], *, blocks: bool) -> Fraction | None:
        """With as many runs again, these factors turned round in them; None if they would be the same runs.

        With `blocks`, the second half is a block of its own.
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
        for size in range(1, len(names) + 1):
            for chosen in combinations(range(len(names)), size):
                total = 0
                for nth in chosen:
                    total ^= self.columns[nth]
                if total == vector:
                    return frozenset(names[nth] for nth in chosen)
        raise AssertionError("the columns of a fraction span its runs")


def generated(words: Mapping[Word, int], names: Sequence[str]) -> Fraction | None:
    """The fraction with these words; None if they contradict each other, or one follows from the others."""
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
    return sum((vector & x).bit_count() % 2 << nth for nth, vector in enumerate(blocks))
