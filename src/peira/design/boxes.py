"""Which factors the published Box-Behnken designs vary together.

From Box and Behnken (1960), Technometrics 2, 455-475: balanced, or partially balanced, incomplete blocks.
For 9 factors three of the boxes come twice. The design for 8 factors is of later date: its boxes are the
planes of the affine space of 8 points, each in half.
"""

from __future__ import annotations

from itertools import combinations

Box = tuple[int, ...]

# The number of centre runs published with each design.
CENTRES = {3: 3, 4: 3, 5: 6, 6: 6, 7: 6, 8: 8, 9: 10, 10: 10, 11: 12, 12: 12, 16: 12}

HALVED = frozenset({8, 11})
"""Of the ends of the factors in a box, only the half with an even number of low ones is run."""

# Boxes of up to nine factors, one digit for each factor; a plane of AG(3, 2) is four points that add to zero.
_DIGITS = {
    6: "124 235 346 145 256 136",
    7: "456 167 257 124 347 135 236",
    9: "147 258 369 123 456 789 159 348 267 168 249 357 147 258 369",
}


def _shifted(first: Box, factors: int) -> tuple[Box, ...]:
    """A box and its shifts round the circle of factors."""
    return tuple(
        tuple(sorted((place - 1 + shift) % factors + 1 for place in first)) for shift in range(factors)
    )


BOXES: dict[int, tuple[Box, ...]] = {
    **{factors: tuple(combinations(range(1, factors + 1), 2)) for factors in (3, 4, 5)},
    **{factors: tuple(tuple(map(int, box)) for box in text.split()) for factors, text in _DIGITS.items()},
    8: tuple(
        tuple(point + 1 for point in box)
        for box in combinations(range(8), 4)
        if box[0] ^ box[1] ^ box[2] ^ box[3] == 0
    ),
    10: (
        (2, 6, 7, 10), (1, 2, 5, 10), (2, 3, 7, 8), (2, 4, 6, 9), (1, 8, 9, 10),
        (3, 4, 5, 10), (1, 4, 7, 8), (3, 5, 7, 9), (1, 3, 6, 9), (4, 5, 6, 8),
    ),
    11: _shifted((1, 2, 3, 5, 8), 11),
    12: _shifted((1, 2, 5, 7), 12),
    16: (
        (1, 2, 6, 9), (3, 4, 8, 11), (5, 10, 13, 14), (7, 12, 15, 16), (2, 3, 7, 10), (1, 4, 5, 12),
        (6, 11, 14, 15), (8, 9, 13, 16), (2, 5, 6, 13), (4, 7, 8, 15), (1, 9, 10, 14), (3, 11, 12, 16),
        (3, 6, 7, 14), (1, 5, 8, 16), (2, 10, 11, 15), (4, 9, 12, 13), (1, 3, 13, 15), (2, 4, 14, 16),
        (5, 7, 9, 11), (6, 8, 10, 12), (4, 6, 10, 16), (3, 5, 9, 15), (1, 7, 11, 13), (2, 8, 12, 14),
    ),
}  # fmt: skip
