"""Which interactions a two-level design gives up to its blocks.

Blocks are told apart by vectors of bits, as factors are (see `aberration`); every vector they span is an
effect confounded with blocks. None may be a main effect; of what is left, those are taken that confound
the fewest two-factor interactions, then the fewest of three factors, and so on.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING

from peira.design.aberration import countable, subsets
from peira.design.binary import span

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

STARTS = 20


def block_vectors(columns: Sequence[int], bits: int, count: int) -> tuple[int, ...] | None:
    """So many vectors that tell 2^count blocks apart; None if a main effect would have to be confounded."""
    counts = subsets(columns, bits, countable(len(columns), bits, 1))
    starts = [_exchanged(counts, bits, count, random.Random(start)) for start in range(STARTS)]
    found = [vectors for vectors in starts if vectors is not None]
    return min(found, key=lambda vectors: _given_up(counts, vectors)) if found else None


def _exchanged(
    counts: NDArray[np.int64], bits: int, count: int, rng: random.Random
) -> tuple[int, ...] | None:
    found: list[int] = []
    for _ in range(count):
        clear = _fewest(counts[:1], bits, found)
        if not clear:
            return None
        found.append(rng.choice(clear))
    changed = True
    while changed:
        changed = False
        for nth, vector in enumerate(found):
            best = _fewest(counts, bits, found[:nth] + found[nth + 1 :])
            if vector not in best:
                found[nth], changed = rng.choice(best), True
    return tuple(found)


def _fewest(counts: NDArray[np.int64], bits: int, vectors: Sequence[int]) -> list[int]:
    """The vectors that, beside those there are, confound no main effect and the fewest interactions."""
    import numpy as np

    spanned = np.fromiter(span(vectors), dtype=np.int64)
    free = np.setdiff1d(np.arange(1 << bits), spanned)
    together = [each[free[:, None] ^ spanned].sum(axis=1) for each in counts]
    kept = together[0] == 0
    for each in together[1:]:
        if kept.any():
            kept &= each == each[kept].min()
    found: list[int] = free[kept].tolist()
    return found


def _given_up(counts: NDArray[np.int64], vectors: Sequence[int]) -> list[int]:
    return [sum(int(each[vector]) for vector in span(vectors) if vector) for each in counts]
