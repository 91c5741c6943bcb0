"""Response surfaces: designs that can tell curvature, for factors that have places between their ends.

`central_composite` is a two-level cube, two runs on the axis of each factor, and centre runs.
`box_behnken` has no run in a corner: in turn a few factors are varied, while all others stay at their
centre.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, product
from typing import Literal

from peira.core.registry import Registry
from peira.core.space import Space
from peira.design.boxes import BOXES, CENTRES, HALVED
from peira.design.dimensions import chosen, is_number, require
from peira.design.fraction import Fraction
from peira.design.fractional import by_resolution, by_runs
from peira.design.runs import Coded, Run, Sheet, between, merged
from peira.errors import Invalid

VARIANTS = ("circumscribed", "inscribed", "faced")
MOST_CUBE = 20


class CentralComposite(Coded):
    """A cube, its axes and its centre.

    - `faced` (the default): the axis runs lie on the faces of the cube; three places of each factor.
    - `inscribed`: the axis runs lie at the ends of the factors, the cube inside; five places.
    - `circumscribed`: the cube has its corners at the ends of the factors, and the axis runs lie *beyond*
      them, outside the ranges that were given; five places.

    `alpha` is how far out the axis runs lie, measured by the cube: "rotatable" (the precision of a
    prediction depends on the distance from the centre only), "orthogonal" (squares are estimated free of
    each other), or a number. `core` is the cube: "full", or "fraction", the smallest that keeps all
    two-factor interactions apart.
    """

    name = "central_composite"
    instead = 'say variant = "faced" with a range or three evenly spaced levels'

    def __init__(
        self,
        *,
        variant: Literal["circumscribed", "inscribed", "faced"] = "faced",
        alpha: Literal["rotatable", "orthogonal"] | float | None = None,
        core: Literal["full", "fraction"] = "full",
        center: int = 1,
        replicates: int = 1,
    ) -> None:
        super().__init__(
            chosen("variant", variant, VARIANTS),
            _alpha_problems(alpha, variant),
            chosen("core", core, ("full", "fraction")),
            center=center,
            replicates=replicates,
        )
        self.variant, self.core = variant, core
        self.alpha: str | float = 1.0 if variant == "faced" else "rotatable" if alpha is None else alpha

    def _sheet(self, space: Space) -> Sheet:
        factors = len(space.dimensions)
        cube = self._cube(factors)
        corner, axis = self._reach(factors)
        runs = chain(_scaled(cube.runs(), corner), _axis_runs(factors, axis))
        return Sheet(runs, cube.size + 2 * factors)

    def _places(self, space: Space) -> tuple[float, ...]:
        require(between(space, self.name, 2, MOST_CUBE, "leave some out, or use definitive_screening"))
        corner, axis = self._reach(len(space.dimensions))
        return (-axis, -corner, 0.0, corner, axis)

    def _cube(self, factors: int) -> Fraction:
        if self.core == "full":
            return by_runs(1 << factors, factors)
        if factors < 5:
            raise Invalid(f'core: {factors} factors have no fraction of resolution 5; say core = "full"')
        return by_resolution(5, factors)

    def _reach(self, factors: int) -> tuple[float, float]:
        """How far out the corners of the cube lie in each factor, and the axis runs."""
        axis = self._distance(factors, self._cube(factors).size)
        return (1.0 / max(1.0, axis), min(1.0, axis)) if self.variant == "inscribed" else (1.0, axis)

    def _distance(self, factors: int, cube: int) -> float:
        """How far out the axis runs lie, if the corners of the cube are at 1."""
        if self.alpha == "rotatable":
            return float(cube**0.25)
        if isinstance(self.alpha, str):  # orthogonal, from the counts of all runs
            corners, axes = cube * self.replicates, 2 * factors * self.replicates
            squares = (corners * (corners + axes + self.center)) ** 0.5
            return float(((squares - corners) / (2 * self.replicates)) ** 0.5)
        return float(self.alpha)


class BoxBehnken(Coded):
    """Two to five factors at a time at their ends, all others at the centre: 3 to 12 factors, or 16.

    `center` is by default the number of centre runs that the design was published with.
    """

    name = "box_behnken"
    places = (-1.0, 0.0, 1.0)
    instead = "give a range or three evenly spaced levels, or use orthogonal_array or space_filling"

    def __init__(self, *, center: int | None = None, replicates: int = 1) -> None:
        super().__init__(center=0 if center is None else center, replicates=replicates)
        self.as_published = center is None

    def _sheet(self, space: Space) -> Sheet:
        factors = len(space.dimensions)
        if factors not in BOXES:
            raise Invalid(f"{self.name} takes 3 to 12 factors, or 16, not {factors}; use central_composite")
        found = merged(chain.from_iterable(_box_runs(factors, box) for box in BOXES[factors]))
        return Sheet(found, len(found))

    def _centres(self, space: Space) -> int:
        return CENTRES.get(len(space.dimensions), 0) if self.as_published else self.center


def _scaled(runs: Iterable[Run], corner: float) -> Iterator[Run]:
    return (Run(tuple(place * corner for place in run.places)) for run in runs)


def _axis_runs(factors: int, distance: float) -> Iterator[Run]:
    for nth, place in product(range(factors), (-distance, distance)):
        yield Run(tuple(place if other == nth else 0.0 for other in range(factors)))


def _box_runs(factors: int, box: Sequence[int]) -> Iterator[tuple[float, ...]]:
    """All ends of the factors in the box, or the half of them whose product is high."""
    for ends in product((-1.0, 1.0), repeat=len(box)):
        if factors not in HALVED or math.prod(ends) > 0:
            at = dict(zip(box, ends, strict=True))
            yield tuple(at.get(nth, 0.0) for nth in range(1, factors + 1))


def _alpha_problems(alpha: object, variant: object) -> Iterator[str]:
    if variant == "faced" and alpha is not None:
        yield 'alpha: axis runs of the faced variant lie at 1; leave alpha out, or say variant = "inscribed"'
    named = alpha in (None, "rotatable", "orthogonal")
    if not named and not (isinstance(alpha, (int, float)) and is_number(alpha) and 1 <= alpha < math.inf):
        yield f"alpha: must be rotatable, orthogonal or a number of at least 1, not {alpha!r}"


def register(registry: Registry) -> None:
    for design in (CentralComposite, BoxBehnken):
        registry.add("design", design.name, design)
