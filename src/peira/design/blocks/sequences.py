"""Designs with restricted order: split plots, crossover, repeated measures.

A split plot sets hard-to-change factors once for a whole plot of runs. In a crossover and in repeated
measures each subject receives every treatment in sequence; counterbalancing keeps period effects and
carry-over effects from being confounded with treatments:

- `williams`: each treatment once in each period, and after each other treatment equally often. Needs t
  subjects for an even number t of treatments, 2t for an odd one, or a multiple;
- `latin_square`: each treatment once in each period only, always after the same other one. Needs t subjects;
- `all_orders`: every permutation. Needs t! subjects;
- `random`: an independent random order for each subject: balanced in expectation only, for any number of
  subjects.

Constraints are not applied: excluded runs stay in the plan, and are not run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import permutations
from random import Random
from typing import Literal

from peira.core.registry import Registry
from peira.core.space import Dimension, Point, Space
from peira.design.dimensions import (
    choice_problems,
    combinations,
    count_problems,
    in_order,
    name_problems,
    ranges,
    require,
    space_problems,
)

Counterbalance = Literal["williams", "latin_square", "all_orders", "random"]
KINDS = ("williams", "latin_square", "all_orders", "random")
MOST_ORDERED = 8
"""Maximum number of treatments for `all_orders`."""
MOST_TREATMENTS = 500


class SplitPlot:
    """All combinations, in whole plots: each whole-plot combination has `plots` whole plots.

    Whole-plot factors are those named in `whole`, or else those marked as hard to change. With one plot for
    each combination, whole-plot error is confounded with the effects of the whole-plot factors.
    """

    name = "split_plot"

    def __init__(self, *, whole: Sequence[str] = (), plots: int = 1) -> None:
        require(_names("whole", whole), count_problems("plots", plots, 1))
        self.whole, self.plots = tuple(whole), plots

    def size(self, space: Space) -> int:
        """The number of runs; raises `Invalid` if no factor, or every factor, is a whole-plot factor."""
        self._split(space)
        return math.prod(len(d.levels) for d in space.dimensions) * self.plots

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """The runs, plot by plot; raises `Invalid` if no factor, or every factor, is a whole-plot factor."""
        outer, inner = self._split(space)
        return self._points(space, outer, inner)

    def _points(
        self, space: Space, outer: Sequence[Dimension], inner: Sequence[Dimension]
    ) -> Iterator[Point]:
        """The runs, plot by plot."""
        plots = (whole_values for _ in range(self.plots) for whole_values in combinations(outer))
        for plot, whole_values in enumerate(plots, start=1):
            for subplot_values in combinations(inner):
                yield Point(in_order(space, whole_values | subplot_values), plot=str(plot))

    def _split(self, space: Space) -> tuple[list[Dimension], list[Dimension]]:
        """The whole-plot factors and the subplot factors."""
        require(space_problems(space), ranges(space, self.name), name_problems("whole", self.whole, space))
        whole = set(self.whole) or {d.name for d in space.dimensions if d.dear}
        outer = [d for d in space.dimensions if d.name in whole]
        inner = [d for d in space.dimensions if d.name not in whole]
        if not outer:
            require(['no factor is dear to change; say which in whole = ["..."], or take full_factorial'])
        if not inner:
            require(["every factor is set for whole plots; leave one out of whole, or take full_factorial"])
        return outer, inner


class RepeatedMeasures:
    """Every subject (a block) receives every treatment, one in each period.

    A treatment is a combination of the factors `within` subjects (all factors if none is named); every
    combination of the others has its own `subjects`. By default there are as many subjects as the
    counterbalancing needs. Treatments are assigned to positions, and subjects to sequences, at random.
    """

    name = "repeated_measures"

    def __init__(
        self, *, subjects: int = 0, within: Sequence[str] = (), counterbalance: Counterbalance = "williams"
    ) -> None:
        require(
            count_problems("subjects", subjects, 1) if subjects != 0 else (),
            _names("within", within),
            choice_problems("counterbalance", counterbalance, KINDS),
            ["subjects: say how many get random orders"]
            if counterbalance == "random" and not subjects
            else (),
        )
        self.subjects, self.within, self.counterbalance = subjects, tuple(within), counterbalance

    def size(self, space: Space) -> int:
        """The number of runs; raises `Invalid` if the number of subjects does not fit."""
        self._checked(space)
        return math.prod(len(d.levels) for d in space.dimensions) * self._subjects(space)

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """The runs, subject by subject in period order; raises `Invalid` for unfit subjects."""
        self._checked(space)
        return self._points(space, Random(f"{self.name} {seed}"))

    def _points(self, space: Space, random: Random) -> Iterator[Point]:
        """The runs of every subject, in the order of its sequence."""
        treatments = list(combinations([d for d in space.dimensions if self._varies(d)]))
        between = combinations([d for d in space.dimensions if not self._varies(d)])
        subject = 0
        for between_values in between:
            random.shuffle(treatments)
            for order in self._orders(len(treatments), self._subjects(space), random):
                subject += 1
                for period, place in enumerate(order, start=1):
                    factors = in_order(space, between_values | treatments[place])
                    yield Point(factors, block=str(subject), period=period)

    def _orders(self, t: int, subjects: int, random: Random) -> Iterator[Sequence[int]]:
        """A sequence of treatment indices for each subject."""
        if self.counterbalance == "random":
            yield from (random.sample(range(t), t) for _ in range(subjects))
            return
        orders = {"williams": williams, "latin_square": cyclic, "all_orders": _all_orders}[
            self.counterbalance
        ](t)
        for _ in range(subjects // len(orders)):
            yield from random.sample(orders, len(orders))

    def _varies(self, dimension: Dimension) -> bool:
        """Whether a factor varies within subjects."""
        return not self.within or dimension.name in self.within

    def _treatments(self, space: Space) -> int:
        """The number of treatments of each subject."""
        return math.prod(len(d.levels) for d in space.dimensions if self._varies(d))

    def _subjects(self, space: Space) -> int:
        """The number of subjects for each combination of the other factors."""
        return self.subjects or _needed(self.counterbalance, self._treatments(space))

    def _checked(self, space: Space) -> None:
        require(space_problems(space), ranges(space, self.name), name_problems("within", self.within, space))
        require(self._count_problems(self._treatments(space)))

    def _count_problems(self, t: int) -> Iterator[str]:
        """Problems with the number of treatments or of subjects."""
        if t > MOST_TREATMENTS:
            yield f"{t} treatments are too many for one subject; name fewer factors in within"
        elif self.counterbalance == "all_orders" and t > MOST_ORDERED:
            yield f'counterbalance: {t} treatments have too many orders to take them all; say "williams"'
        elif self.subjects and self.subjects % (needed := _needed(self.counterbalance, t)):
            near = needed * max(1, round(self.subjects / needed))
            yield (
                f"subjects: {self.counterbalance} orders of {t} treatments need a multiple of {needed}, "
                f"not {self.subjects}; say {near}"
            )


class Crossover(RepeatedMeasures):
    """Repeated measures in Williams squares: first-order carry-over effects are balanced."""

    name = "crossover"

    def __init__(self, *, subjects: int = 0, within: Sequence[str] = ()) -> None:
        super().__init__(subjects=subjects, within=within)


def cyclic(t: int) -> list[tuple[int, ...]]:
    """The t cyclic sequences of t treatments."""
    return [tuple((start + place) % t for place in range(t)) for start in range(t)]


def williams(t: int) -> list[tuple[int, ...]]:
    """Williams sequences, t (2t for odd t): balanced for position and for the preceding treatment."""
    first = [place // 2 + 1 if place % 2 else -place // 2 for place in range(t)]
    orders = [tuple((treatment + shift) % t for treatment in first) for shift in range(t)]
    return orders + [order[::-1] for order in orders] if t % 2 else orders


def _all_orders(t: int) -> list[tuple[int, ...]]:
    return list(permutations(range(t)))


def _needed(counterbalance: Counterbalance, t: int) -> int:
    """The number that the number of subjects must be a multiple of."""
    if counterbalance == "all_orders":
        return math.factorial(t)
    return {"williams": t * (1 + t % 2), "latin_square": t, "random": 1}[counterbalance]


def _names(parameter: str, value: object) -> Iterator[str]:
    if not isinstance(value, (list, tuple)) or not all(isinstance(name, str) for name in value):
        yield f"{parameter}: must be a list of names of factors, not {value!r}"


def register(registry: Registry) -> None:
    """Register the designs `split_plot`, `repeated_measures` and `crossover`."""
    for design in (SplitPlot, RepeatedMeasures, Crossover):
        registry.add("design", design.name, design)
