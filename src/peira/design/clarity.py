"""For each effect, what it is clear of: the confoundings of a design, gathered."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import msgspec

from peira.design.alias import BLOCKS, Confounding, Effect, compared


class Clarity(msgspec.Struct, frozen=True):
    """An effect of `order` factors. `lost` is how many of its parameters the runs do not show.

    It cannot be told from those `confounded_with`. Of others it is more or less clear: the largest
    correlations with effects of one factor, of more (and squares), and with the blocks; 0 is clear.
    """

    effect: str
    order: int
    lost: int
    confounded_with: tuple[str, ...]
    with_main: float
    with_interactions: float
    with_blocks: float

    @property
    def clear(self) -> bool:
        """Of everything that was looked at."""
        largest = max(self.with_main, self.with_interactions, self.with_blocks)
        return not self.lost and largest == 0


def clarities(found: Sequence[Effect], confounded: Iterable[Confounding]) -> tuple[Clarity, ...]:
    """Of every effect that was compared with all others, in their order."""
    kind = {one.label: 0 if one.label == BLOCKS else min(2, one.order) for one in found}
    full: dict[str, list[str]] = defaultdict(list)
    largest: dict[tuple[str, int], float] = defaultdict(float)
    for pair in confounded:
        if pair.full and pair.other != BLOCKS:
            full[pair.effect].append(pair.other)
        at = pair.effect, kind[pair.other]
        largest[at] = max(largest[at], abs(pair.correlation))
    for one in found:
        for part in one.parts if one.seen < one.wide else ():  # what it does not show, it adds to its parts
            largest[part, 2] = 1.0
    return tuple(
        Clarity(
            effect=one.label,
            order=one.order,
            lost=one.wide - one.seen,
            confounded_with=tuple(full[one.label]),
            with_main=largest[one.label, 1],
            with_interactions=largest[one.label, 2],
            with_blocks=largest[one.label, 0],
        )
        for one in compared(found)
        if one.label != BLOCKS
    )
