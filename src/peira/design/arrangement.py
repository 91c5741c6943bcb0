"""Which factor takes which column of a two-level fraction, so that the effects that matter are clear.

The columns of a fraction are not alike: some pairs of them are clear of everything, others are not. Here the
factors are put on columns so that the wanted effects are; then the fraction is said by its generators.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import combinations

from peira.design.binary import kernel

TRIES = 50_000
Wanted = Collection[frozenset[str]]


def arranged(
    names: Sequence[str], columns: Sequence[int], wanted: Wanted, *, clear: bool
) -> list[int] | None:
    """The columns for the factors in their order; None if no order of them was found that will do.

    `wanted` are effects of one or two factors. With `clear` they are apart from all main effects and two-way
    interactions, else from main effects and from each other.
    """
    sums = Counter(columns) + Counter(a ^ b for a, b in combinations(columns, 2))
    apart = {vector for vector, times in sums.items() if times == 1} if clear else sums.keys() - {*columns}
    singles = [name for name in names if frozenset([name]) in wanted]
    pairs = [tuple(pair) for pair in wanted if len(pair) == 2]
    heeded = sorted(names, key=lambda name: -sum(name in pair for pair in wanted))
    search = _Search(heeded, columns, pairs, singles if clear else [], apart)
    found = next(search.extend({}), None)
    return [found[name] for name in names] if found else None


class _Search:
    def __init__(
        self,
        names: Sequence[str],
        columns: Sequence[int],
        pairs: Sequence[tuple[str, ...]],
        singles: Collection[str],
        apart: Collection[int],
    ) -> None:
        self.names, self.columns, self.pairs, self.singles = names, columns, pairs, singles
        self.apart, self.tries = frozenset(apart), 0

    def extend(self, taken: Mapping[str, int]) -> Iterator[Mapping[str, int]]:
        """Every arrangement that begins so, as long as the tries last."""
        if len(taken) == len(self.names):
            yield taken
            return
        name = self.names[len(taken)]
        for column in self.columns:
            self.tries += 1
            if column not in taken.values() and self.tries < TRIES:
                more = {**taken, name: column}
                if self._fits(more, name):
                    yield from self.extend(more)

    def _fits(self, taken: Mapping[str, int], name: str) -> bool:
        if name in self.singles and taken[name] not in self.apart:
            return False
        sums = [taken[a] ^ taken[b] for a, b in self.pairs if a in taken and b in taken]
        return len(set(sums)) == len(sums) and all(one in self.apart for one in sums)


def generators(names: Sequence[str], columns: Sequence[int]) -> list[str]:
    """How the fraction with these columns is written, as `style = model*length`."""
    found = []
    for word in kernel(columns):
        *rest, made = (name for nth, name in enumerate(names) if word >> nth & 1)
        found.append(f"{made} = {'*'.join(rest)}")
    return found
