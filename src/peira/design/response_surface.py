"""Response surface designs: central composite and Box-Behnken.

`central_composite` is a two-level cube, two axial runs for each factor, and centre runs. `box_behnken` has no
runs at the corners of the cube: each block varies a few factors at their ends while all others stay at their
centre.

The Box-Behnken designs are those of Box and Behnken (1960), Technometrics 2, 455-475, built on balanced or
partially balanced incomplete blocks. For 9 factors three of the blocks occur twice. The design for 8 factors
was published later: its blocks are the planes of the affine geometry AG(3, 2), with a half fraction in each.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, combinations, product
from typing import Literal

from peira.core.registry import Registry
from peira.core.space import Space
from peira.design.coded_runs import CodedDesign, CodedRun, RunSheet, between, merged
from peira.design.dimensions import choice_problems, is_number, require
from peira.design.factorial.fraction import Fraction
from peira.design.factorial.fractional import by_generators, by_resolution, by_runs
from peira.errors import Invalid

# Box-Behnken tables


Box = tuple[int, ...]

# Number of centre runs published with each Box-Behnken design, by number of factors.
CENTRES = {3: 3, 4: 3, 5: 6, 6: 6, 7: 6, 8: 8, 9: 10, 10: 10, 11: 12, 12: 12, 16: 12}

HALVED = frozenset({8, 11})
"""Numbers of factors with half fractions as blocks: an even number of factors at the low end."""

# Blocks of factors varied together, one digit per factor.
_DIGITS = {
    6: "124 235 346 145 256 136",
    7: "456 167 257 124 347 135 236",
    9: "147 258 369 123 456 789 159 348 267 168 249 357 147 258 369",
}


def _shifted(first: Box, factors: int) -> tuple[Box, ...]:
    """A block of factors and all its cyclic shifts."""
    return tuple(
        tuple(sorted((place - 1 + shift) % factors + 1 for place in first)) for shift in range(factors)
    )


BOXES: dict[int, tuple[Box, ...]] = {
    **{factors: tuple(combinations(range(1, factors + 1), 2)) for factors in (3, 4, 5)},
    **{factors: tuple(tuple(map(int, box)) for box in text.split()) for factors, text in _DIGITS.items()},
    8: tuple(  # planes of AG(3, 2): four points that sum to zero
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


# The designs


VARIANTS = ("circumscribed", "inscribed", "faced")
MOST_CUBE = 20
"""Maximum number of factors of a central composite design."""
SMALL: dict[int, tuple[str, ...]] = {3: ("C=AB",), 4: ("D=AB",), 6: ("C=AB", "F=DE")}
"""Generators of the cubes of small composite designs, by number of factors.

Hartley (1959), Biometrics 15, 611-624: no word of length four, so that two interactions of two factors are
never confounded; main effects, which are with some, are estimated by the axial runs.
"""


class CentralComposite(CodedDesign):
    """A factorial cube, axial runs and centre runs, to fit a quadratic model.

    - `faced` (the default): the axial runs lie on the faces of the cube; three levels of each factor.
    - `inscribed`: the axial runs lie at the ends of the factors, the cube inside them; five levels.
    - `circumscribed`: the corners of the cube lie at the ends of the factors, and the axial runs *beyond*
      them, outside the given ranges; five levels.

    `alpha` is the axial distance relative to the cube: "rotatable" (the prediction variance depends only on
    the distance from the centre), "orthogonal" (quadratic effects are estimated independently), or a number.
    `core` is the cube: "full"; "fraction", the smallest fraction of resolution V, which keeps all
    interactions of two apart; or "small", the fraction of a small composite design (Hartley) of 3, 4 or 6
    factors, in which main effects are told from interactions by the axial runs alone.
    """

    name = "central_composite"
    instead = 'say variant = "faced" with a range or three evenly spaced levels'

    def __init__(
        self,
        *,
        variant: Literal["circumscribed", "inscribed", "faced"] = "faced",
        alpha: Literal["rotatable", "orthogonal"] | float | None = None,
        core: Literal["full", "fraction", "small"] = "full",
        center: int = 1,
        replicates: int = 1,
    ) -> None:
        super().__init__(
            choice_problems("variant", variant, VARIANTS),
            _alpha_problems(alpha, variant),
            choice_problems("core", core, ("full", "fraction", "small")),
            center=center,
            replicates=replicates,
        )
        self.variant, self.core = variant, core
        self.alpha: str | float = 1.0 if variant == "faced" else "rotatable" if alpha is None else alpha

    def _sheet(self, space: Space) -> RunSheet:
        """The scaled cube, then the axial runs."""
        factors = len(space.dimensions)
        cube = self._cube(factors)
        corner, axis = self._reach(factors)
        runs = chain(_scaled(cube.runs(), corner), _axis_runs(factors, axis))
        return RunSheet(runs, cube.size + 2 * factors)

    def _places(self, space: Space) -> tuple[float, ...]:
        """The coded values of axial runs, cube and centre."""
        require(between(space, self.name, 2, MOST_CUBE, "leave some out, or use definitive_screening"))
        corner, axis = self._reach(len(space.dimensions))
        return (-axis, -corner, 0.0, corner, axis)

    def _cube(self, factors: int) -> Fraction:
        """The two-level factorial: full, the smallest fraction of resolution V, or Hartley's."""
        if self.core == "full":
            return by_runs(1 << factors, factors)
        if self.core == "small":
            if factors not in SMALL:
                known = ", ".join(map(str, SMALL))
                raise Invalid(
                    f"core: small composite designs have {known} factors, not {factors}; say core = "
                    f'"{"fraction" if factors > 4 else "full"}"'
                )
            return by_generators(SMALL[factors], list("ABCDEF"[:factors]))
        if factors < 5:
            less = ', or core = "small"' if factors in SMALL else ""
            raise Invalid(
                f'core: {factors} factors have no fraction of resolution 5; say core = "full"{less}'
            )
        return by_resolution(5, factors)

    def _reach(self, factors: int) -> tuple[float, float]:
        """The coded distances of the cube corners (in each factor) and of the axial runs."""
        axis = self._distance(factors, self._cube(factors).size)
        return (1.0 / max(1.0, axis), min(1.0, axis)) if self.variant == "inscribed" else (1.0, axis)

    def _distance(self, factors: int, cube: int) -> float:
        """The axial distance if the corners of the cube are at 1."""
        if self.alpha == "rotatable":
            return float(cube**0.25)
        if isinstance(self.alpha, str):  # orthogonal: depends on the number of all runs
            corners, axes = cube * self.replicates, 2 * factors * self.replicates
            squares = (corners * (corners + axes + self.center)) ** 0.5
            return float(((squares - corners) / (2 * self.replicates)) ** 0.5)
        return float(self.alpha)


class BoxBehnken(CodedDesign):
    """Two to five factors at a time at their ends, the others at the centre: 3 to 12 factors, or 16.

    `center` defaults to the number of centre runs that the design was published with.
    """

    name = "box_behnken"
    places = (-1.0, 0.0, 1.0)
    instead = "give a range or three evenly spaced levels, or use orthogonal_array or space_filling"

    def __init__(self, *, center: int | None = None, replicates: int = 1) -> None:
        super().__init__(center=0 if center is None else center, replicates=replicates)
        self.as_published = center is None

    def _sheet(self, space: Space) -> RunSheet:
        """The runs of every block of factors; raises `Invalid` for other numbers of factors."""
        factors = len(space.dimensions)
        if factors not in BOXES:
            raise Invalid(f"{self.name} takes 3 to 12 factors, or 16, not {factors}; use central_composite")
        found = merged(chain.from_iterable(_box_runs(factors, box) for box in BOXES[factors]))
        return RunSheet(found, len(found))

    def _centres(self, space: Space) -> int:
        return CENTRES.get(len(space.dimensions), 0) if self.as_published else self.center


def _scaled(runs: Iterable[CodedRun], corner: float) -> Iterator[CodedRun]:
    return (CodedRun(tuple(place * corner for place in run.places)) for run in runs)


def _axis_runs(factors: int, distance: float) -> Iterator[CodedRun]:
    """Two runs on the axis of each factor."""
    for nth, place in product(range(factors), (-distance, distance)):
        yield CodedRun(tuple(place if other == nth else 0.0 for other in range(factors)))


def _box_runs(factors: int, box: Sequence[int]) -> Iterator[tuple[float, ...]]:
    """All combinations of the ends of the factors in the block, or the half with a positive product."""
    for ends in product((-1.0, 1.0), repeat=len(box)):
        if factors not in HALVED or math.prod(ends) > 0:
            at = dict(zip(box, ends, strict=True))
            yield tuple(at.get(nth, 0.0) for nth in range(1, factors + 1))


def _alpha_problems(alpha: object, variant: object) -> Iterator[str]:
    """Problems with `alpha`, which depend on the variant."""
    if variant == "faced" and alpha is not None:
        yield 'alpha: axis runs of the faced variant lie at 1; leave alpha out, or say variant = "inscribed"'
    named = alpha in (None, "rotatable", "orthogonal")
    if not named and not (isinstance(alpha, (int, float)) and is_number(alpha) and 1 <= alpha < math.inf):
        yield f"alpha: must be rotatable, orthogonal or a number of at least 1, not {alpha!r}"


def register(registry: Registry) -> None:
    """Register the designs `central_composite` and `box_behnken`."""
    for design in (CentralComposite, BoxBehnken):
        registry.add("design", design.name, design)
